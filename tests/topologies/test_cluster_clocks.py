"""Slots that move between masters whose clocks differ."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import pytest

from aiolock import AcquireTimeout, LockLost, LockManager
from tests.support.cluster import Cluster, start_cluster
from tests.support.stepped_clock import POSSIBLE, SteppedClock

pytestmark = [
    pytest.mark.takes_long,
    pytest.mark.skipif(not POSSIBLE, reason="a clock of a server's own needs Linux and a C compiler"),
]

TTL = 3.0
ENOUGH = 20.0
AHEAD = 60.0
Kind = Callable[[LockManager, str], Any]
LOCKS: dict[str, Kind] = {
    "lock": LockManager.lock,
    "fair lock": LockManager.fair_lock,
    "multi lock": lambda manager, name: manager.multi_lock(name),
}
QUEUES: dict[str, Kind] = {
    "write lock": lambda manager, name: manager.rw_lock(name).write,
    "semaphore": lambda manager, name: manager.semaphore(name, 1),
}
KINDS = LOCKS | QUEUES


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Three masters; the clock of the last one is ahead."""
    clock = SteppedClock(tmp_path_factory.mktemp("clock"))
    clock.step(AHEAD)
    with start_cluster(masters=3, replicas=0, clock=clock) as started:
        yield started


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("back", [False, True], ids=["ahead", "behind"])
async def test_nobody_enters_beside_the_holder(cluster: Cluster, kind: str, back: bool) -> None:
    """Kept by clock.lua of the queue family, and by state.lua of locks."""
    near, far = cluster.masters[0], cluster.nodes[-1]
    source, target = (far, near) if back else (near, far)
    (name,) = cluster.names_on(source)
    inside: list[str] = []
    async with LockManager.cluster(cluster.urls, ttl=TTL) as one, LockManager.cluster(cluster.urls, ttl=TTL) as other:

        async def enter() -> None:
            async with KINDS[kind](other, name).acquire(timeout=ENOUGH):
                inside.append("other")

        async with asyncio.TaskGroup() as tasks, KINDS[kind](one, name):
            tasks.create_task(enter())
            await asyncio.sleep(0.2)
            await asyncio.to_thread(cluster.move_slot, cluster.slot(name), target)
            await asyncio.sleep(TTL)  # it was renewed, and the other has asked
            inside.append("one")
    assert inside == ["one", "other"]


@pytest.mark.parametrize(
    ("kind", "back"), [(kind, back) for kind in KINDS for back in (False, True) if not (back and kind in LOCKS)]
)
async def test_a_dead_holder_blocks_nobody_for_long(cluster: Cluster, kind: str, back: bool) -> None:
    """Whether the master that the name moves to is ahead or behind."""
    near, far = cluster.masters[0], cluster.nodes[-1]
    source, target = (far, near) if back else (near, far)
    (name,) = cluster.names_on(source)
    urls = cluster.urls
    async with LockManager.cluster(urls, ttl=TTL, renew=False) as one, LockManager.cluster(urls, ttl=TTL) as other:
        lease = await KINDS[kind](one, name).acquire()
        await asyncio.to_thread(cluster.move_slot, cluster.slot(name), target)
        async with KINDS[kind](other, name).acquire(timeout=ENOUGH):
            assert lease.lost
        with suppress(LockLost):
            await lease.release()


@pytest.mark.parametrize("kind", LOCKS)
async def test_a_dead_holder_of_a_lock_behind_is_ended_by_force(cluster: Cluster, kind: str) -> None:
    """As topologies.md says: it stays until that clock has caught up, or until you end it."""
    target, source = cluster.masters[0], cluster.nodes[-1]
    (name,) = cluster.names_on(source)
    urls = cluster.urls
    async with LockManager.cluster(urls, ttl=TTL, renew=False) as one, LockManager.cluster(urls, ttl=TTL) as other:
        lease = await KINDS[kind](one, name).acquire()
        await asyncio.to_thread(cluster.move_slot, cluster.slot(name), target)
        with pytest.raises(AcquireTimeout):
            await KINDS[kind](other, name).acquire(timeout=2 * TTL)
        assert await other.lock(name).force_release()
        async with KINDS[kind](other, name).acquire(timeout=ENOUGH):
            assert lease.lost
        with suppress(LockLost):
            await lease.release()
