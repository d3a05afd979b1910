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
from tests.support.cluster_node import ClusterNode

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


def promoted(cluster: Cluster, new: ClusterNode) -> bool:
    return new.role == "master" and "cluster_state:ok" in new.text("CLUSTER", "INFO")


@pytest.mark.parametrize("replicated", [False, True])
async def test_a_master_falls_silent(own_cluster: Cluster, replicated: bool, caplog: pytest.LogCaptureFixture) -> None:
    """Without closing its connections, and long before `request_timeout` says so. Kept by Topology._due and
    Router._give_up: a renewal is on its way to it, and a request that waits. When it wakes, nobody connects to it.
    """
    old, other, _ = own_cluster.masters
    new = own_cluster.replica_of(old)
    names = own_cluster.names_on(old, COUNT + 2)
    async with LockManager.cluster(own_cluster.urls, ttl=60.0, request_timeout=5.0) as locks:
        here = await acquired(locks, names[:COUNT])
        elsewhere = await acquired(locks, own_cluster.names_on(other))
        if not replicated:
            new.forget()
        old.freeze()
        renewal = asyncio.create_task(here[0].renew())
        request = asyncio.create_task(locks.lock(names[COUNT]).acquire(timeout=30.0))
        await own_cluster.until(lambda: promoted(own_cluster, new))
        if not replicated:
            await told_at_once(here)
        async with asyncio.timeout(AT_ONCE + 2.0):
            [renewed] = await asyncio.gather(renewal, return_exceptions=True)
            await (await request).release()
        old.thaw()
        await own_cluster.until(own_cluster.ok)
        assert {lease.lost for lease in here} == {not replicated}
        assert replicated or renewed is not None  # otherwise it may have run or not
        for lease in [*elsewhere, *(here if replicated else [])]:
            await lease.renew()
            await lease.release()
    assert "is a replica" not in caplog.text


async def test_a_master_is_cut_off_from_the_others(splitting_cluster: Cluster) -> None:
    """It answers its clients, and has not heard that it was replaced; nobody asks it anything. Kept by Topology._due
    and Router.rank.
    """
    old, *_ = splitting_cluster.masters
    splitting_cluster.replica_of(old).forget()
    async with LockManager.cluster(splitting_cluster.urls, ttl=60.0) as locks:
        here = await acquired(locks, splitting_cluster.names_on(old, COUNT))
        splitting_cluster.replica_of(old).forget()
        new = splitting_cluster.isolate(old)
        await splitting_cluster.until(lambda: new.role == "master")
        await told_at_once(here)
        assert old.role == "master"
        assert (await locks.lock(here[0].name).acquire(timeout=10.0)).fence > here[0].fence
        splitting_cluster.rejoin(old)
        await splitting_cluster.until(splitting_cluster.ok)


async def test_what_it_costs(cluster: Cluster) -> None:
    """A manager that holds something asks for the map twice a second at most, and one that holds nothing never."""

    def asked() -> int:
        lines = [line for node in cluster.nodes for line in node.text("INFO", "COMMANDSTATS").splitlines()]
        stats = [line for line in lines if line.startswith(("cmdstat_cluster|nodes:", "cmdstat_cluster:"))]
        return sum(int(line.partition("calls=")[2].partition(",")[0]) for line in stats)

    if redis_cli.version_of(cluster.masters[0].link) < (7, 0):
        pytest.skip("it does not count subcommands")
    async with LockManager.cluster(cluster.urls) as locks:
        await asyncio.sleep(2.0)
        idle = asked()
        lease = await locks.lock("a").acquire()
        await asyncio.sleep(4.0)
        held = asked()
        await lease.release()
        await asyncio.sleep(1.5)
        released = asked()
        await asyncio.sleep(2.0)
        assert asked() == released
    assert 1 <= held - idle <= 8
