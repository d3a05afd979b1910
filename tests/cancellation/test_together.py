"""Fair tasks that come at once: whichever of them you cancel, the others get in, in order."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from aiolock import LockManager
from aiolock.testing import MemoryBackend
from tests.support.locks import waiting
from tests.unit.world import Crew, Holder, SlowBackend, assert_empty, lock_keys, settle, turns


class World:
    """A process whose server is slow, and another one."""

    def __init__(self) -> None:
        self.backend = SlowBackend()
        self.locks = LockManager(self.backend)
        self.peer = LockManager(MemoryBackend(self.backend))
        self.crew = Crew()
        self.order: list[int] = []

    def start(self, count: int) -> list[asyncio.Task[None]]:
        """Start this many tasks that want it, in the loop's next turn."""
        return [self.crew.start(self._enter(number)) for number in range(count)]

    async def _enter(self, number: int) -> None:
        async with self.locks.fair_lock("a"):
            self.order.append(number)


@pytest.fixture
async def world() -> AsyncIterator[World]:
    world = World()
    async with world.peer, world.locks:
        yield world
        await settle(world.backend)
        assert lock_keys(world.backend) == []
        assert_empty(world.locks)
        await world.crew.dismiss()


@pytest.mark.parametrize("cancelled", range(5))
@pytest.mark.parametrize("after", range(14))
async def test_one_of_them_is_cancelled(world: World, cancelled: int, after: int) -> None:
    """It leaves the queue at once. Kept by QueueEntry.end: `self.undo()`."""
    lease = await world.peer.lock("a").acquire()
    tasks = world.start(5)
    await turns(after)
    tasks[cancelled].cancel()
    await settle(world.backend)
    assert len(waiting(world.backend, "a")) == 4
    await lease.release()
    await settle(world.backend)
    assert all(task.done() for task in tasks), "a task is stuck"
    assert world.order == [number for number in range(5) if number != cancelled]


@pytest.mark.parametrize("cancelled", [(0,), (1,), (2,), (0, 1), (1, 2), (2, 0)])
async def test_before_it_could_be_written(world: World, cancelled: tuple[int, ...]) -> None:
    with world.backend.outage(silent=True):
        tasks = world.start(4)
        await turns(3)
        for number in cancelled:
            tasks[number].cancel()
            await turns(2)
    await settle(world.backend)
    assert all(task.done() for task in tasks), "a task is stuck"
    assert world.order == [number for number in range(4) if number not in cancelled]


@pytest.mark.parametrize("after", range(6))
async def test_a_task_that_comes_during_a_hand_off(world: World, after: int) -> None:
    holder = Holder(world.crew, world.locks.fair_lock("a"))
    await holder.entered
    heir = Holder(world.crew, world.locks.fair_lock("a"))
    await settle(world.backend)
    holder.leave.set()
    await turns(after)
    (late,) = world.start(1)
    await settle(world.backend)
    assert heir.entered.done()
    await heir.end()
    await settle(world.backend)
    assert late.done(), "stuck"


async def test_a_refusal_leaves_nothing_to_undo(world: World) -> None:
    """Kept by QueueEntry.end: an entry ends once."""
    async with world.peer.lock("a"):
        world.backend.calls.clear()
        for lock in (world.locks.lock("a"), world.locks.fair_lock("a")):
            async with lock.try_acquire() as lease:
                assert lease is None
        await settle(world.backend)
        assert world.backend.calls == ["acquire"] * 2
