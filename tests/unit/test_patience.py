"""One time limit for all that wait for an answer, and one timer."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from aiolock import LockManager
from aiolock.core.scheduler import NEVER, Patience, Scheduler
from aiolock.testing import VirtualClock

from .world import SlowBackend

SECONDS = 5.0


class Waiting:
    """Notes when it was told that the time is over, counted from the beginning of the test."""

    def __init__(self, clock: VirtualClock) -> None:
        self.told: list[float] = []
        self._clock = clock
        self._start = clock.now()

    def overdue(self) -> None:
        self.told.append(self._clock.now() - self._start)


class World:
    """A patience, and its waiters."""

    def __init__(self) -> None:
        self.clock = VirtualClock()
        self.timer = Scheduler(self.clock, lambda renewals: None)
        self.timer.start()
        self.patience = Patience(self.timer, SECONDS)

    def waiting(self) -> Waiting:
        return Waiting(self.clock)

    def begin(self, waiting: Waiting) -> None:
        """It waits from now on, as a `Waiter` or a `Release` does."""
        self.patience.until[waiting] = until = self.clock.now() + SECONDS
        if self.patience.due == NEVER:
            self.patience.wake(until)


@pytest.fixture
async def world() -> AsyncIterator[World]:
    world = World()
    yield world
    world.timer.stop()


async def test_each_is_told_once_at_its_own_time(world: World) -> None:
    """Kept by Patience.on_due: `wake`."""
    first, second, third = (world.waiting() for _ in range(3))
    world.begin(first)
    await world.clock.advance(1.0)
    world.begin(second)
    world.begin(third)
    await world.clock.advance(20.0)
    assert (first.told, second.told, third.told) == ([5.0], [6.0], [6.0])


async def test_a_waiter_with_an_answer_is_not_told(world: World) -> None:
    """Nor does the timer of a waiter that left delay the next one. Kept by Patience.until."""
    first, second = world.waiting(), world.waiting()
    world.begin(first)
    await world.clock.advance(1.0)
    world.begin(second)
    world.patience.until.pop(first, None)
    world.patience.until.pop(first, None)
    await world.clock.advance(20.0)
    assert (first.told, second.told) == ([], [6.0])


async def test_it_begins_again_after_all_have_left(world: World) -> None:
    """Its timer is over by then, and is set anew."""
    first, second = world.waiting(), world.waiting()
    world.begin(first)
    await world.clock.advance(20.0)
    world.begin(second)
    await world.clock.advance(20.0)
    assert (first.told, second.told) == ([5.0], [25.0])


async def test_a_release_counts_from_the_writing_of_its_request(caplog: pytest.LogCaptureFixture) -> None:
    """Kept by Release.observed: `call.sent_at`."""
    backend = SlowBackend()
    async with LockManager(backend, request_timeout=SECONDS) as locks:
        lease = await locks.lock("a").acquire()
        backend.turns = 1000
        releasing = lease.release()
        await backend.clock.advance(2.0)
        observing = asyncio.ensure_future(releasing)
        await backend.clock.advance(SECONDS - 2.1)
        assert not observing.done()
        await backend.clock.advance(0.2)
        assert observing.done()
    assert "no answer yet to the release of lock 'a'" in caplog.text


async def test_all_are_told_when_the_scheduler_stops(world: World) -> None:
    """A task may wait for it. Kept by Patience.on_due: `self._wake_at`."""
    first, second = world.waiting(), world.waiting()
    world.begin(first)
    await world.clock.advance(1.0)
    world.begin(second)
    await world.clock.advance(1.0)
    world.timer.stop()
    assert (first.told, second.told) == ([2.0], [2.0])
