"""What a URL of etcd says."""

from __future__ import annotations

from pathlib import Path

import pytest

from aiolock import ConfigurationError, LockManager
from aiolock.backends.etcd import EtcdAddress
from aiolock.testing.server import _free_port


@pytest.mark.parametrize(
    ("url", "members"),
    [
        ("etcd://localhost", [("localhost", 2379)]),
        ("etcd://a:1,b:2,c", [("a", 1), ("b", 2), ("c", 2379)]),
        ("etcd://[::1]:9,[::2]", [("::1", 9), ("::2", 2379)]),
        ("etcd://me:p%40ss@a:1,b:2/", [("a", 1), ("b", 2)]),
    ],
)
def test_members(url: str, members: list[tuple[str, int]]) -> None:
    assert EtcdAddress(url).members == members


def test_a_user() -> None:
    """Its password is not shown."""
    address = EtcdAddress("etcd://me:p%40ss@a:1,b:2")
    assert (address.user, address.password) == ("me", "p@ss")
    assert address.shown == "a:1,b:2"


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("etcd://", "'' is not a member of etcd: write etcd://host:port"),
        ("etcd://a:x", "'a:x' is not a member of etcd"),
        ("etcd://a:70000", "'a:70000' is not a member"),
        ("etcd://a,,b", "'' is not a member"),
        ("etcd://me:secret@a/locks", r"'etcd://me:\*\*\*@a/locks' has a path, but etcd has none"),
        ("etcd://a?ca=x", "has 'ca': only etcds:// has options"),
        ("etcds://a?cafile=x", "has 'cafile': only etcds:// has options, which are ca, cert and key"),
        ("etcds://a?ca=/no/such/file", "the certificates for etcd cannot be read: "),
    ],
)
def test_what_cannot_work(url: str, why: str) -> None:
    """When the manager is made."""
    with pytest.raises(ConfigurationError, match=why) as caught:
        LockManager(url)
    assert "secret" not in str(caught.value)


async def test_nobody_there() -> None:
    unused_port = _free_port()
    with pytest.raises(Exception, match=rf"etcd at 127\.0\.0\.1:{unused_port} cannot be reached"):
        async with LockManager(f"etcd://127.0.0.1:{unused_port}"):
            pass


def test_min_replicas_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="min_replicas needs the URL of a server"):
        LockManager("etcd://a", min_replicas=1)
