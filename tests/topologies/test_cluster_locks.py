"""Locks on a real cluster, while it is changed under them."""

from __future__ import annotations

import asyncio
import contextlib
import functools
from collections.abc import AsyncIterator, Iterator
from typing import Unpack

import pytest

from aiolock import Lease, LockLost, LockManager
from aiolock.manager_options import ManagerOptions
from tests.support.cluster import Cluster

pytestmark = pytest.mark.slow

TTL = 6.0
ENOUGH = 30.0


class Crowd:
    """Tasks of several managers that take names again and again.

    Args:
        managers: theirs.
        names: what each manager takes.
        tasks: how many for each manager and name.
        lossy: locks may be lost.

    Attributes:
        entered: how often each name was entered.
        lost: how many locks were lost.
    """

    def __init__(self, managers: list[LockManager], names: list[str], tasks: int = 4, lossy: bool = False) -> None:
        self.entered = dict.fromkeys(names, 0)
        self.lost = 0
        self._lossy = lossy
        self._inside: dict[str, int] = dict.fromkeys(names, 0)
        self._fence: dict[str, int] = dict.fromkeys(names, 0)
        self._over = False
        self._tasks = [
            asyncio.create_task(self._enter(manager, name))
            for manager in managers
            for name in names
            for _ in range(tasks)
        ]

    async def more(self, times: int = 1, names: list[str] | None = None) -> None:
        """Wait until every name was entered so many times more."""
        wanted = {name: self.entered[name] + times for name in names or self.entered}
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
            try:
                async with manager.lock(name).acquire(timeout=ENOUGH) as lease:
                    self._note(name, lease)
                    try:
                        await asyncio.sleep(0.001)
                    finally:
                        self._inside[name] -= 1
            except LockLost:
                self.lost += 1
                if not self._lossy:
                    raise

    def _note(self, name: str, lease: Lease) -> None:
        self._inside[name] += 1
        assert self._lossy or self._inside[name] == 1
        assert self._lossy or lease.fence > self._fence[name]
        self._fence[name] = lease.fence
        self.entered[name] += 1


@contextlib.asynccontextmanager
async def managers(cluster: Cluster, count: int, **options: Unpack[ManagerOptions]) -> AsyncIterator[list[LockManager]]:
    """Open managers, each of which knows only one node."""
    async with contextlib.AsyncExitStack() as stack:
        yield [
            await stack.enter_async_context(LockManager.cluster([node.url], **options))
            for node in cluster.running[:count]
        ]


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
    await cluster.until(lambda: cluster.clients() == 3)


async def test_connections_are_opened_on_first_use(cluster: Cluster, locks: LockManager) -> None:
    """One to a master in use, and one that looks at the map while anything is held; another while that is slow."""

    def at_most(number: int) -> bool:
        return cluster.clients() <= number

    await cluster.until(lambda: cluster.clients() == 1)  # the one that brought the map is closing
    for number, master in enumerate(cluster.masters, 1):
        for name in cluster.names_on(master, 3):
            async with locks.lock(name):
                assert number <= cluster.clients()
                await cluster.until(functools.partial(at_most, number + 1))
    await cluster.until(lambda: cluster.clients() == 3)


def moves(cluster: Cluster, name: str, times: int) -> Iterator[str]:
    """The steps in which the slot of `name` goes round the masters."""
    slot = cluster.slot(name)
    for _ in range(times):
        masters = cluster.masters
        yield from cluster.moving(slot, masters[masters.index(cluster.master_of(name)) - 1])


async def test_a_busy_name_moves_back_and_forth(masters_only: Cluster) -> None:
    """No one notices: no error, one at a time, and fences rise. Kept by Transit."""
    names = [masters_only.names_on(master)[0] for master in masters_only.masters]
    async with managers(masters_only, 2, ttl=TTL) as both:
        crowd = Crowd(both, names)
        await crowd.more()
        for name in names:
            for step in moves(masters_only, name, 4):
                await asyncio.sleep(0.01 if step in ("importing", "migrating", "assigned") else 0)
                if step == "known":
                    await crowd.more(5)
        await crowd.end()
    assert {key.rpartition("}")[2] for key in masters_only.keys()} <= {"", ":alive"}  # noqa: SIM118
