"""Invariant 3 for what queues on the server: one cancel or two, at every await, leave no key; the next one gets in."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import anyio
import pytest

from aiolock import AcquireTimeout, LockManager
from aiolock.redisson import Redisson
from tests.unit.world import Holder, settle

from .test_every_await import World, body, held_by_peer, nothing, run_every_way, run_once

STRIDE = 11
"""Of the 42 ways at each suspension: the lock's own tests take all of them, with the same acquire loop."""

Make = Callable[[LockManager], Any]
KINDS: dict[str, Make] = {
    "lock": lambda manager: manager.lock("a"),
    "fair": lambda manager: manager.fair_lock("a"),
    "ahead": lambda manager: manager.fair_lock("a", priority=1),
    "write": lambda manager: manager.rw_lock("a").write,
    "semaphore": lambda manager: manager.semaphore("a", 1),
    "redisson": lambda manager: Redisson(manager).lock("a"),
    "redisson write": lambda manager: Redisson(manager).rw_lock("a").write,
    "redisson fair": lambda manager: Redisson(manager).fair_lock("a"),
    "redisson permits": lambda manager: Redisson(manager).permit_expirable_semaphore("a"),
}


@pytest.fixture(params=KINDS)
def make(request: pytest.FixtureRequest) -> Callable[[], World]:
    """Makes worlds of each kind."""
    return of(KINDS[request.param])


def of(kind: Make) -> Callable[[], World]:
    class Queued(World):
        def __init__(self) -> None:
            super().__init__()
            if kind is KINDS["redisson permits"]:
                self.backend.store.incr("a")
                self.lasting = ("a",)

        def lock(self, manager: LockManager) -> Any:
            return kind(manager)

    return Queued


async def guarded(world: World) -> None:
    async with world.lock(world.locks):
        await body(world)


async def test_uncontended_acquire(make: Callable[[], World]) -> None:
    async def scenario(world: World) -> None:
        lease = await world.lock(world.locks).acquire()
        try:
            await body(world)
        finally:
            await lease.release()

    assert await run_every_way(scenario, make=make, stride=STRIDE) > 2


async def test_a_guarded_block(make: Callable[[], World]) -> None:
    assert await run_every_way(guarded, make=make, stride=STRIDE) > 2


async def test_try_acquire(make: Callable[[], World]) -> None:
    async def scenario(world: World) -> None:
        async with world.lock(world.locks).try_acquire() as lease:
            assert lease is not None
            await body(world)

    assert await run_every_way(scenario, make=make, stride=STRIDE) > 2


@pytest.mark.parametrize("turns", [0, 3])
async def test_try_acquire_that_is_refused(make: Callable[[], World], turns: int) -> None:
    async def scenario(world: World) -> None:
        async with held_by_peer(world, turns), world.lock(world.locks).try_acquire() as lease:
            if lease is not None:
                await body(world)

    assert await run_every_way(scenario, make=make, stride=STRIDE) > 2


@pytest.mark.parametrize("turns", [0, 4, 7])
async def test_a_wait_that_a_release_elsewhere_ends(make: Callable[[], World], turns: int) -> None:
    """The cancel meets the answer "queued", the message, the first renewal."""

    async def scenario(world: World) -> None:
        async with held_by_peer(world, turns):
            await guarded(world)

    assert await run_every_way(scenario, make=make, stride=STRIDE) > 2


@pytest.mark.parametrize("turns", [2, 5])
async def test_with_another_one_behind(make: Callable[[], World], turns: int) -> None:
    """A cancelled waiter, even one that was already granted the lock, lets the next one in at once."""

    async def behind(world: World) -> None:
        for _ in range(3):
            await asyncio.sleep(0)
        await guarded(world)

    async def elsewhere(world: World) -> None:
        for _ in range(4):
            await asyncio.sleep(0)
        async with world.lock(world.peer):
            await body(world)

    async def prepare(world: World) -> None:
        tasks = [world.crew.start(behind(world)), world.crew.start(elsewhere(world))]

        async def end() -> None:
            assert all(task.done() for task in tasks), "a task behind it is stuck"
            for task in tasks:
                await task

        world.after.append(end)

    async def scenario(world: World) -> None:
        async with held_by_peer(world, turns):
            await guarded(world)

    assert await run_every_way(scenario, prepare, make=make, stride=STRIDE) > 2


@pytest.mark.parametrize("timeout", [0, 1.0])
async def test_a_wait_that_times_out(make: Callable[[], World], timeout: float) -> None:
    async def prepare(world: World) -> None:
        lease = await world.lock(world.peer).acquire()
        world.soon(25, lambda: world.backend.clock.jump(timeout))

        async def release() -> None:
            await lease.release()

        world.after.append(release)

    async def scenario(world: World) -> None:
        with pytest.raises(AcquireTimeout):
            await world.lock(world.locks).acquire(timeout=timeout)

    assert await run_every_way(scenario, prepare, make=make, stride=STRIDE) > 2


@pytest.mark.parametrize("lost", ["request", "reply"])
@pytest.mark.parametrize("turns", [3, 7])
async def test_over_a_connection_that_dies(make: Callable[[], World], lost: Any, turns: int) -> None:
    """While queued, or while the grant is on its way: it is unknown what the server has seen."""

    async def scenario(world: World) -> None:
        world.soon(turns, lambda: world.backend.die(lost))
        async with held_by_peer(world, 6):
            await guarded(world)

    assert await run_every_way(scenario, make=make, stride=STRIDE) > 2


async def test_a_refresh_is_on_its_way(make: Callable[[], World]) -> None:
    """It brings the grant while the waiter is cancelled. Kept by `QueueEntry.judged`: the undo was written after it."""

    async def prepare(world: World) -> None:
        lease = await world.lock(world.peer).acquire()
        world.inside += 1

        def release() -> None:
            world.inside -= 1
            lease.release()

        world.soon(12, lambda: world.backend.clock.jump(1.1))
        world.soon(14, release)

    assert await run_every_way(guarded, prepare, make=make, stride=STRIDE) > 2


@pytest.mark.parametrize("kind", ["fair", "write", "redisson", "redisson write"])
async def test_nesting(kind: str) -> None:
    async def scenario(world: World) -> None:
        lock = world.lock(world.locks)
        async with lock as outer:
            try:
                async with lock:
                    await body(world)
            finally:
                assert (outer.depth, outer.lost) == (1, False)

    assert await run_every_way(scenario, make=of(KINDS[kind]), stride=STRIDE) > 2


async def test_a_downgrade() -> None:
    """Cancelled anywhere between writing and reading on: neither lease is left."""

    async def scenario(world: World) -> None:
        lock = world.locks.rw_lock("a")
        async with lock.write as writing, lock.read:
            await body(world)
            await writing.release()
            async with world.peer.rw_lock("a").read.acquire(timeout=0):
                await asyncio.sleep(0)

    assert await run_every_way(scenario, make=of(KINDS["write"]), stride=STRIDE) > 2


@pytest.mark.parametrize("turns", [4, 9])
async def test_readers_behind_a_writer_that_is_cancelled(turns: int) -> None:
    """The waiting writer keeps them out; when it is gone, they read beside the present readers."""

    async def prepare(world: World) -> None:
        reading = Holder(world.crew, world.peer.rw_lock("a").read)
        await reading.entered
        behind: list[Holder] = []

        def queue() -> None:
            behind.extend(Holder(world.crew, manager.rw_lock("a").read) for manager in (world.peer, world.locks))

        world.soon(turns, queue)

        async def end() -> None:
            writer_gone = all(holder.entered.done() for holder in behind)
            await reading.end()
            await settle(world.backend)
            assert all(holder.entered.done() for holder in behind) or not writer_gone
            for holder in behind:
                await holder.end()

        world.after.append(end)

    async def scenario(world: World) -> None:
        world.soon(30, lambda: world.backend.clock.jump(2.0))
        with pytest.raises(AcquireTimeout):
            await world.locks.rw_lock("a").write.acquire(timeout=2.0)

    assert await run_every_way(scenario, prepare, make=of(KINDS["write"]), stride=STRIDE) > 2


@pytest.mark.parametrize("turns", [2, 6])
async def test_several_permits(turns: int) -> None:
    """All of them are given back, even if only some were granted."""

    async def prepare(world: World) -> None:
        lease = await world.peer.semaphore("a", 3).acquire(2)
        world.soon(turns, lease.release)

    async def scenario(world: World) -> None:
        async with world.locks.semaphore("a", 3).acquire(3):
            await body(world)
        assert await world.locks.semaphore("a", 3).available() == 3

    def three(manager: LockManager) -> Any:
        return manager.semaphore("a", 3)

    assert await run_every_way(scenario, prepare, make=of(three), stride=STRIDE) > 2


@pytest.mark.parametrize("turns", range(0, 40, 6))
async def test_cancelled_by_a_scope(make: Callable[[], World], turns: int) -> None:
    """anyio's cancellation comes again at every await: not twice, always."""

    async def scenario(world: World) -> None:
        with anyio.CancelScope() as scope:
            world.soon(turns, scope.cancel)
            async with held_by_peer(world, 6):
                await guarded(world)
            await world.locks.aclose()

    assert await run_once(scenario, nothing, {}, True, make)
