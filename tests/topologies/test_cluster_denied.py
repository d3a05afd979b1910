"""What the nodes of a cluster forbid: named, and said once."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator

import pytest

from aiolock import BackendError, LockManager
from tests.support import acl
from tests.support.cluster import Cluster
from tests.support.cluster_node import ClusterNode

USER = "denied"
Deny = Callable[[ClusterNode, str], None]


@pytest.fixture
def deny(masters_only: Cluster) -> Iterator[Deny]:
    """Denies a user a command on one node; on the others the user may do everything."""
    for node in masters_only.nodes:
        node.ask(*acl.setuser(node.link, USER, *acl.EVERYTHING))

    def on(node: ClusterNode, command: str) -> None:
        node.ask(*acl.setuser(node.link, USER, f"-{command}"))

    yield on
    for node in masters_only.nodes:
        node.ask("ACL", "DELUSER", USER)


def locks_of(cluster: Cluster, request_timeout: float) -> LockManager:
    urls = [node.url.replace("//", f"//{USER}:secret@") for node in cluster.nodes]
    return LockManager.cluster(urls, request_timeout=request_timeout)


def named(node: ClusterNode) -> str:
    return f"node {node.server.host}:{node.server.port}: "


def said(caplog: pytest.LogCaptureFixture, what: str) -> list[str]:
    messages = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    return [message for message in messages if what in message]


async def test_asking(masters_only: Cluster, deny: Deny, caplog: pytest.LogCaptureFixture) -> None:
    """A name that is being moved waits until it has moved; who cannot wait hears why. Kept by Asked."""
    source, target = masters_only.masters[:2]
    deny(target, "asking")
    name = masters_only.names_on(source, 2)[1]
    async with locks_of(masters_only, 2.0) as locks, locks_of(masters_only, 30.0) as patient:
        for step in masters_only.moving(masters_only.slot(name), target):
            if step == "migrating":
                with pytest.raises(BackendError, match="ASKING is refused") as caught:
                    await locks.lock(name).acquire()
                assert caught.value.transient
                (warning,) = said(caplog, "ASKING")
                assert warning.startswith(named(target))
                assert "+asking" in warning
                waiting = asyncio.ensure_future(patient.lock(name).acquire())
        await (await waiting).release()


async def test_several_nodes_lack_the_same(masters_only: Cluster, deny: Deny, caplog: pytest.LogCaptureFixture) -> None:
    """One warning, which names a node; another, if one of them lacks something else. Kept by Complaints.at."""
    first, second, third = masters_only.masters
    deny(first, "publish")
    deny(second, "publish")
    deny(third, "client")
    async with locks_of(masters_only, 10.0) as locks:
        for node in (first, second, third):
            async with locks.lock(*masters_only.names_on(node)):
                pass
    (shared,) = said(caplog, "PUBLISH refused")
    assert shared.startswith((named(first), named(second)))
    (other,) = said(caplog, "CLIENT INFO refused")
    assert other.startswith(named(third))
