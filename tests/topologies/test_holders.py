"""Holders whose lock a failover lost hear of it at once, and the others go on."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Literal

import pytest

from aiolock import Lease, LockManager, LossReason
from tests.support import redis_cli
from tests.support.cluster import Cluster

pytestmark = pytest.mark.takes_long

AT_ONCE = 1.0
"""Seconds after the new master is reachable."""
COUNT = 20


class Pauses:
    """Measures for how long this process could do nothing.

    Attributes:
        total: in seconds.
    """

    def __init__(self) -> None:
        self.total = 0.0

    @asynccontextmanager
    async def measured(self) -> AsyncIterator[None]:
        watching = asyncio.create_task(self._watch())
        try:
            yield
        finally:
            watching.cancel()

    async def _watch(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            began = loop.time()
            await asyncio.sleep(0.01)
            self.total += max(0.0, loop.time() - began - 0.02)


async def told_at_once(leases: list[Lease]) -> None:
    """All are lost within a second from now; what this process stood still does not count."""
    loop, pauses = asyncio.get_running_loop(), Pauses()
    began = loop.time()
    async with pauses.measured(), asyncio.timeout(20.0):
        for lease in leases:
            await lease.wait_lost()
    assert loop.time() - began <= AT_ONCE + pauses.total
    assert {lease.reason for lease in leases} == {LossReason.DELETED}


async def acquired(locks: LockManager, names: list[str]) -> list[Lease]:
    return list(await asyncio.gather(*(locks.lock(name).acquire() for name in names)))


@pytest.mark.parametrize("how", ["kill", "FORCE"])
async def test_in_a_cluster(own_cluster: Cluster, how: Literal["kill", "FORCE"]) -> None:
    """The locks on the other masters are not touched."""
    old, *others = own_cluster.masters
    if how == "FORCE" and redis_cli.version_of(old.link) < (7, 0):
        pytest.skip("it has no sharded channels")
    new = own_cluster.replica_of(old)
    async with (
        LockManager.cluster(own_cluster.urls[-1:], ttl=60.0) as locks,
        LockManager.cluster(own_cluster.urls[-1:]) as later,
    ):
        here = await acquired(locks, own_cluster.names_on(old, COUNT))
        elsewhere = await acquired(locks, [own_cluster.names_on(other)[0] for other in others])
        new.forget()
        if how == "kill":
            old.kill()
        else:
            own_cluster.failover(old, how)
        await own_cluster.until(lambda: new.role == "master" and "cluster_state:ok" in new.text("CLUSTER", "INFO"))
        await told_at_once(here)
        for lease in here:
            async with later.lock(lease.name).acquire(timeout=10.0) as next_one:
                assert next_one.fence > lease.fence
        for lease in elsewhere:
            await lease.renew()
            await lease.release()
