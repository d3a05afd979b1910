"""What a URL of ZooKeeper says."""

from __future__ import annotations

import pytest

from aiolock import ConfigurationError
from aiolock.backends.zookeeper.address import ZooKeeperAddress


@pytest.mark.parametrize(
    ("url", "members", "root"),
    [
        ("zookeeper://localhost", [("localhost", 2181)], ""),
        ("zookeeper://a:1,b:2,c", [("a", 1), ("b", 2), ("c", 2181)], ""),
        ("zookeeper://[::1]:9,[::2]/", [("::1", 9), ("::2", 2181)], ""),
        ("zookeeper://a/team/locks", [("a", 2181)], "/team/locks"),
        ("zookeeper://a/a%20b/", [("a", 2181)], "/a b"),
    ],
)
def test_members(url: str, members: list[tuple[str, int]], root: str) -> None:
    address = ZooKeeperAddress(url)
    assert sorted(address.members) == sorted(members)
    assert address.root == root


def test_a_user() -> None:
    """Its password is not shown."""
    address = ZooKeeperAddress("zookeeper://me:p%40ss@a:1/x")
    assert (address.user, address.password, address.shown) == ("me", "p@ss", "a:1/x")


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("zookeeper://", "'' is not a server of ZooKeeper: write zookeeper://host:port"),
        ("zookeeper://a:x", "'a:x' is not a server of ZooKeeper"),
        ("zookeeper://a:70000", "'a:70000' is not a server"),
        ("zookeeper://a,,b", "'' is not a server"),
        (
            "zookeeper://me:secret@a/x?b=c",
            "ZooKeeper has 'b': only zookeepers:// has options, which are ca, cert and key",
        ),
        ("zookeepers://a?cafile=x", "ZooKeeper has 'cafile': only zookeepers://"),
        ("zookeepers://a?ca=/no/such/file", "the certificates for ZooKeeper cannot be read: "),
        ("zookeeper://a//b", "no folder '//b' for locks"),
        ("zookeeper://a/../b", "no folder '/../b' for locks"),
        ("zookeeper://a/zookeeper", "no folder '/zookeeper' for locks"),
    ],
)
def test_what_cannot_work(url: str, why: str) -> None:
    with pytest.raises(ConfigurationError, match=why) as caught:
        ZooKeeperAddress(url)
    assert "secret" not in str(caught.value)
