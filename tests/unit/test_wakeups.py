"""Whatever happens in one wake-up, the next one comes, in time and in no user's context."""

from __future__ import annotations

import asyncio
import gc
import logging
import math
import random
import weakref
from collections.abc import AsyncIterator, Iterable
from contextvars import ContextVar
from typing import Any

import pytest

from aiolock import LockManager
from aiolock.core.calls import Batch
from aiolock.core.renewals import Renewable
from aiolock.core.scheduler import Scheduler
from aiolock.scripts.base import Call, Part
from aiolock.testing import MemoryBackend, VirtualClock

from .test_scheduler import Item
from .world import TTL, settle

whose = ContextVar("whose", default="no one's")


class Fatal(BaseException):
    """Not an `Exception`: like `KeyboardInterrupt`, and `SystemExit` from `sys.exit()` in a callback."""


class Deaf(MemoryBackend):
    """Cannot be written to, at times."""

    broken = False

    def post(self, call: Call[Any]) -> None:
        if self.broken:
            raise RuntimeError("cannot be written")
        super().post(call)


class Player:
    """Schedules itself anew as it likes; knows when it wants to be looked at."""

    def __init__(self, scheduler: Scheduler, dice: random.Random) -> None:
        self.due = math.inf
        self.wanted = math.inf
        self.looks = 0
        self.premature = 0
        self._early = 0.0
        self._scheduler = scheduler
        self._dice = dice

    def plan(self, due: float, early: float = 0.0) -> None:
        self.wanted, self._early = due, early
        self._scheduler.schedule(self, due, early)

    def drop(self) -> None:
        self.wanted = math.inf
        self._scheduler.forget(self)

    def on_due(self, now: float, late: float) -> Player | None:
        self.premature += now < self.wanted - self._early
        self.looks += 1
        self.wanted = math.inf
        if self._dice.random() < 0.5:
            self.plan(now + self._dice.choice([0.25, 1, 10, 700]) * self._dice.random())
        return self if self._dice.random() < 0.3 else None

    def part(self) -> tuple[Batch, Part]:
        raise AssertionError("written")

    def judged(self, outcome: Any, sent_at: float) -> None: ...
    def unknown(self, error: object) -> None: ...


def ignore(renewals: list[Renewable]) -> None:
    """They are not written."""


@pytest.fixture
async def scheduler() -> AsyncIterator[Scheduler]:
    scheduler = Scheduler(VirtualClock(), ignore)
    scheduler.start()
    yield scheduler
    scheduler.stop()


def clock_of(scheduler: Scheduler) -> VirtualClock:
    clock = scheduler._clock
    assert isinstance(clock, VirtualClock)
    return clock


async def test_an_escaping_error_stops_no_other(scheduler: Scheduler) -> None:
    """Kept by Scheduler._run: `finally: self._wake_next()`."""
    clock = clock_of(scheduler)
    fatal, same, later = Item(clock), Item(clock), Item(clock)

    def on_due(now: float, late: float) -> None:
        raise Fatal

    fatal.on_due = on_due  # type: ignore[method-assign]
    for item, pause in ((fatal, 1.25), (same, 1.5), (later, 60.0)):
        scheduler.schedule(item, clock.now() + pause)
    with pytest.raises(Fatal):
        await clock.advance(1.5)
    await clock.advance(100)
    assert len(same.seen) == 1
    assert later.seen == [(60, 0)]


class Broken(logging.Handler):
    """A user's, with a bug."""

    def emit(self, record: logging.LogRecord) -> None:
        raise RuntimeError("the handler is broken")


@pytest.fixture
def broken_logging(monkeypatch: pytest.MonkeyPatch) -> Iterable[None]:
    handler, logger = Broken(), logging.getLogger("aiolock")
    monkeypatch.setattr(logging, "raiseExceptions", False)  # otherwise it goes to stderr
    logger.addHandler(handler)
    yield
    logger.removeHandler(handler)


@pytest.mark.usefixtures("broken_logging")
async def test_an_error_that_cannot_be_logged(scheduler: Scheduler) -> None:
    clock = clock_of(scheduler)
    broken, same, later = Item(clock), Item(clock), Item(clock)
    broken.on_due = lambda now, late: 1 / 0  # type: ignore[method-assign,assignment]
    for item, pause in ((broken, 1), (same, 1), (later, 60)):
        scheduler.schedule(item, clock.now() + pause)
    await clock.advance(100)
    assert (same.seen, later.seen) == ([(1, 0)], [(60, 0)])


async def test_renewals_that_cannot_be_written_are_tried_again(caplog: pytest.LogCaptureFixture) -> None:
    """Kept by Renewals._request: `except Exception`; otherwise the hold would wait for an answer until its deadline."""
    backend = Deaf()
    async with LockManager(backend) as locks, locks.lock("a") as lease:
        backend.broken = True
        await backend.clock.advance(TTL / 2)
        backend.broken = False
        await backend.clock.advance(2 * TTL)
        assert not lease.lost
    assert "cannot be written" in caplog.text


async def test_a_wake_up_has_no_users_context(scheduler: Scheduler) -> None:
    """A renewal's log line does not belong to the request that took the lock. Kept by Scheduler._wake:
    `self._context.run`.
    """
    clock = clock_of(scheduler)
    item = Item(clock)
    seen: list[str] = []
    item.on_due = lambda now, late: seen.append(whose.get())  # type: ignore[method-assign]

    async def user() -> None:
        whose.set("a user's")
        scheduler.schedule(item, clock.now() + 1)

    loop = asyncio.get_running_loop()
    timers: list[Any] = []
    clock.call_at = lambda when, callback: timers.append(loop.call_later(0, callback))  # type: ignore[method-assign,assignment]
    await asyncio.create_task(user())
    await clock.advance(1)
    await asyncio.sleep(0.001)
    assert seen == ["no one's"]


async def test_nothing_is_kept_of_the_last_renewals(locks: LockManager, backend: MemoryBackend) -> None:
    leases = [await locks.lock(f"n{i}").acquire() for i in range(20)]
    await backend.clock.advance(TTL / 3)
    holds = [weakref.ref(lease) for lease in leases]
    for lease in leases:
        await lease.release()
    del leases, lease
    await settle(backend)
    gc.collect()
    assert [hold() for hold in holds] == [None] * 20


@pytest.mark.parametrize("seed", range(3))
async def test_against_a_simple_model(scheduler: Scheduler, seed: int) -> None:
    """Time passes in steps of all sizes: no item is looked at too early, too late, twice, or not at all."""
    dice = random.Random(seed)
    clock = clock_of(scheduler)
    players = [Player(scheduler, dice) for _ in range(40)]
    for _ in range(400):
        player = dice.choice(players)
        move = dice.random()
        if move < 0.5:
            early = dice.random() if dice.random() < 0.4 else 0.0
            player.plan(clock.now() + dice.choice([-1, 0.001, 0.5, 2, 60, 3600, 1e6]) * dice.random(), early)
        elif move < 0.75:
            player.drop()
        else:
            clock.jump(dice.choice([0.001, 0.01, 0.5, 1, 5, 100, 4000]) * dice.random())
            for _ in range(4):
                await asyncio.sleep(0)
            assert min(player.wanted for player in players) > clock.now()
        assert all(player.wanted == player.due for player in players)
    assert sum(player.looks for player in players) > 100
    assert sum(player.premature for player in players) == 0
