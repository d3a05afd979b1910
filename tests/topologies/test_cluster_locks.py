"""Locks on a real cluster, while it is changed under them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator

import pytest

from aiolock import Lease, LockLost, LockManager
from tests.support.cluster import Cluster

TTL = 6.0
ENOUGH = 30.0


class Crowd:
    """Tasks of several managers that take names again and again.

    Attributes:
        entered: how often each name was entered.
    """

    def __init__(self, managers: list[LockManager], names: list[str], tasks: int = 4) -> None:
        self.entered = dict.fromkeys(names, 0)
        self._inside: dict[str, int] = dict.fromkeys(names, 0)
        self._fence: dict[str, int] = dict.fromkeys(names, 0)
        self._over = False
        self._tasks = [
            asyncio.create_task(self._enter(manager, name))
            for manager in managers
            for name in names
            for _ in range(tasks)
        ]

    async def more(self, times: int = 1) -> None:
        """Wait until every name was entered so many times more."""
        wanted = {name: entered + times for name, entered in self.entered.items()}
        async with asyncio.timeout(ENOUGH):
            while any(self.entered[name] < often for name, often in wanted.items()):
                for task in self._tasks:
                    if task.done():
                        task.result()
                await asyncio.sleep(0.005)

    async def end(self) -> None:
        """Raises what any of them met."""
        self._over = True
        async with asyncio.timeout(ENOUGH):
            await asyncio.gather(*self._tasks)

    async def _enter(self, manager: LockManager, name: str) -> None:
        while not self._over:
            async with manager.lock(name).acquire(timeout=ENOUGH) as lease:
                self._note(name, lease)
                await asyncio.sleep(0.001)
                self._inside[name] -= 1

    def _note(self, name: str, lease: Lease) -> None:
        self._inside[name] += 1
        assert self._inside[name] == 1
        assert lease.fence > self._fence[name]
        self._fence[name] = lease.fence
        self.entered[name] += 1


@pytest.fixture
async def locks(cluster: Cluster) -> AsyncIterator[LockManager]:
    async with LockManager.cluster(cluster.urls[:1], ttl=TTL) as locks:
        yield locks


async def test_every_primitive(cluster: Cluster, locks: LockManager) -> None:
    for master in cluster.masters:
        (name,) = cluster.names_on(master)
        async with locks.lock(name) as lease, locks.lock(name) as nested:
            assert nested.fence == lease.fence
            assert await locks.lock(name).is_locked()
        async with locks.fair_lock(name), locks.rw_lock(name).write, locks.semaphore(name, 2):
            pass
        latch = locks.latch(name, 1)
        waiting = asyncio.ensure_future(latch.wait(timeout=ENOUGH))
        await asyncio.sleep(0)
        await latch.count_down()
        await waiting
        detached = await (await locks.lock(name).acquire()).detach()
        await (await locks.resume(detached)).release()
        lease = await locks.lock(name).acquire()
        assert await locks.lock(name).force_release()
        await lease.wait_lost()
        with pytest.raises(LockLost, match="REVOKED"):
            await lease.release()
    assert cluster.clients() == 3


async def test_connections_are_opened_on_first_use(cluster: Cluster, locks: LockManager) -> None:
    """One to a master in use, and one for messages."""
    await cluster.until(lambda: cluster.clients() == 1)  # the one that brought the map is closing
    for number, master in enumerate(cluster.masters, 1):
        for name in cluster.names_on(master, 3):
            async with locks.lock(name):
                assert number <= cluster.clients() <= number + 1
    assert cluster.clients() == 3


def moves(cluster: Cluster, name: str, times: int) -> Iterator[str]:
    """The steps in which the slot of `name` goes round the masters."""
    slot = cluster.slot(name)
    for _ in range(times):
        masters = cluster.masters
        yield from cluster.moving(slot, masters[masters.index(cluster.master_of(name)) - 1])


async def test_a_busy_name_moves_back_and_forth(masters_only: Cluster) -> None:
    """No one notices: no error, one at a time, and fences rise. Kept by Transit."""
    names = [masters_only.names_on(master)[0] for master in masters_only.masters]
    async with (
        LockManager.cluster(masters_only.urls[:1], ttl=TTL) as one,
        LockManager.cluster(masters_only.urls[1:], ttl=TTL) as other,
    ):
        crowd = Crowd([one, other], names)
        await crowd.more()
        for name in names:
            for step in moves(masters_only, name, 4):
                await asyncio.sleep(0.01 if step in ("importing", "migrating", "assigned") else 0)
                if step == "known":
                    await crowd.more(5)
        await crowd.end()
    assert {key.rpartition("}")[2] for key in masters_only.keys()} <= {"", ":alive"}  # noqa: SIM118
