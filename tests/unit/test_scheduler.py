"""The scheduler: one timer and no task, a heap that does not grow."""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Iterable
from typing import TypeVar, cast

import pytest

from aiolock import LockManager
from aiolock.core.renewals import Renewable
from aiolock.core.scheduler import LATE, Scheduler
from aiolock.testing import MemoryBackend, VirtualClock

from .world import TTL, runtime_of

R = TypeVar("R")


class Item:
    """Something to look at; notes when it was."""

    def __init__(self, clock: VirtualClock) -> None:
        self.due = math.inf
        self.seen: list[tuple[float, float]] = []
        self._clock = clock
        self._start = clock.now()

    def on_due(self, now: float, late: float) -> None:
        self.seen.append((now - self._start, late))


def unwritten(renewals: list[Renewable]) -> None:
    raise AssertionError("written")


@pytest.fixture
async def timer() -> Iterable[tuple[Scheduler, VirtualClock]]:
    clock = VirtualClock()
    timer = Scheduler(clock, unwritten)
    timer.start()
    yield timer, clock
    timer.stop()


async def test_looks_at_each_item_at_its_moment(timer: tuple[Scheduler, VirtualClock]) -> None:
    scheduler, clock = timer
    start = clock.now()
    items = [Item(clock) for _ in range(3)]
    for item, delay in zip(items, (3, 1, 2), strict=True):
        scheduler.schedule(item, start + delay)
    await clock.advance(5)
    assert [item.seen for item in items] == [[(3, 0)], [(1, 0)], [(2, 0)]]
    assert all(item.due == math.inf for item in items)


async def test_an_earlier_item_wakes_it(timer: tuple[Scheduler, VirtualClock]) -> None:
    """`schedule`: `if due < self._wake_at: self._wake()`."""
    scheduler, clock = timer
    late, early = Item(clock), Item(clock)
    scheduler.schedule(late, clock.now() + 100)
    await clock.advance(1)
    scheduler.schedule(early, clock.now() + 1)
    await clock.advance(1)
    assert (early.seen, late.seen) == ([(2, 0)], [])


async def test_what_may_not_be_early_keeps_its_moment() -> None:
    """Something renews just before, and asks who else would. Kept by Scheduler._call_due: `self.schedule(item, …)`."""

    class Renewed(Item):
        def on_due(self, now: float, late: float) -> Renewable:
            super().on_due(now, late)
            return cast(Renewable, self)

    clock, written = VirtualClock(), list[int]()
    scheduler = Scheduler(clock, lambda renewals: written.append(len(renewals)))
    scheduler.start()
    first, late, early = Renewed(clock), Item(clock), Renewed(clock)
    start = clock.now()
    scheduler.schedule(first, start + 3)
    scheduler.schedule(late, start + 3.5, early=0.25)
    scheduler.schedule(early, start + 3.75, early=1.0)
    await clock.advance(5)
    assert [item.seen for item in (first, late, early)] == [[(3, 0)], [(3.5, 0)], [(3, 0)]]
    assert written == [2]
    scheduler.stop()


async def test_rescheduled_and_forgotten(timer: tuple[Scheduler, VirtualClock]) -> None:
    scheduler, clock = timer
    moved, dropped, again = Item(clock), Item(clock), Item(clock)
    scheduler.schedule(moved, clock.now() + 1)
    scheduler.schedule(moved, clock.now() + 3)
    scheduler.schedule(dropped, clock.now() + 1)
    scheduler.forget(dropped)
    scheduler.forget(dropped)
    scheduler.schedule(again, clock.now() + 1)
    scheduler.forget(again)
    scheduler.schedule(again, clock.now() + 1)
    await clock.advance(5)
    assert (moved.seen, dropped.seen, again.seen) == ([(3, 0)], [], [(1, 0)])


async def test_says_how_late_it_woke(timer: tuple[Scheduler, VirtualClock], caplog: pytest.LogCaptureFixture) -> None:
    scheduler, clock = timer
    prompt, late = Item(clock), Item(clock)
    scheduler.schedule(prompt, clock.now() + 1)
    scheduler.schedule(late, clock.now() + 2)
    await clock.advance(1)
    assert scheduler.lateness(clock.now()) == 0
    with caplog.at_level(logging.DEBUG, "aiolock.scheduler"):
        clock.jump(1 + LATE / 2)
        await clock.advance(0)
        assert late.seen == [(2 + LATE / 2, pytest.approx(LATE / 2))]
        assert [record.levelno for record in caplog.records] == [logging.DEBUG]
        scheduler.schedule(late, clock.now() + 1)
        clock.jump(8.5)
        assert scheduler.lateness(clock.now()) == pytest.approx(8.0)  # it wakes at the beginning of a second
        await clock.advance(0)
    assert late.seen[1][1] == pytest.approx(8.0)
    assert "8.00 s late" in caplog.text
    assert caplog.records[-1].levelno == logging.WARNING


async def test_an_error_in_one_item_stops_nothing(
    timer: tuple[Scheduler, VirtualClock], caplog: pytest.LogCaptureFixture
) -> None:
    scheduler, clock = timer
    broken, whole = Item(clock), Item(clock)
    broken.on_due = lambda now, late: 1 / 0  # type: ignore[method-assign,assignment]
    scheduler.schedule(broken, clock.now() + 1)
    scheduler.schedule(whole, clock.now() + 2)
    await clock.advance(3)
    assert whole.seen == [(2, 0)]
    assert "ZeroDivisionError" in caplog.text


def kept(scheduler: Scheduler) -> int:
    return len(scheduler._heap) + len(scheduler._seconds) + sum(map(len, scheduler._seconds.values()))


@pytest.mark.parametrize(
    ("pause", "step"),
    [
        pytest.param(0.5, 0, id="in this second"),  # `forget`: compaction once most of the heap is stale
        pytest.param(3600, 0, id="far off"),  # `forget`: del items[item]
        pytest.param(3600, 1, id="in many seconds"),  # `forget`: del self._seconds[second]
    ],
)
async def test_nothing_is_kept_of_finished_items(
    timer: tuple[Scheduler, VirtualClock], pause: float, step: float
) -> None:
    scheduler, clock = timer
    await clock.advance(0)
    lasting = [Item(clock) for _ in range(100)]
    for number, item in enumerate(lasting):
        scheduler.schedule(item, clock.now() + pause + number / 1000)
    for number in range(5_000):
        item = Item(clock)
        scheduler.schedule(item, clock.now() + pause + step * number)
        scheduler.forget(item)
    assert kept(scheduler) < 400
    await clock.advance(pause + 1)
    assert [item.seen for item in lasting] == [[(pytest.approx(pause + n / 1000), 0)] for n in range(100)]


async def test_many_short_leases_leave_nothing(locks: LockManager) -> None:
    for i in range(500):
        async with locks.lock(f"n{i}"):
            pass
    assert kept(runtime_of(locks).scheduler) < 200


async def test_the_order_within_a_second(timer: tuple[Scheduler, VirtualClock]) -> None:
    """Also for items that come when that second has begun, or are put off, or brought forward from another one."""
    scheduler, clock = timer
    first, last, moved, late, gone = (Item(clock) for _ in range(5))
    scheduler.schedule(last, clock.now() + 2.75)
    scheduler.schedule(gone, clock.now() + 2.5)
    scheduler.schedule(moved, clock.now() + 7)
    scheduler.schedule(first, clock.now() + 2.25)
    scheduler.forget(gone)
    await clock.advance(2.125)
    scheduler.schedule(moved, clock.now() + 0.5)
    scheduler.schedule(late, clock.now() + 0.25)
    await clock.advance(0.5)
    assert [item.seen for item in (first, late, moved, last, gone)] == [[(2.25, 0)], [(2.375, 0)], [(2.625, 0)], [], []]
    scheduler.schedule(last, clock.now() + 3)
    await clock.advance(5)
    assert last.seen == [(5.625, 0)]
    assert gone.seen == []


async def test_a_stop_looks_at_all_items_a_last_time() -> None:
    clock = VirtualClock()
    scheduler = Scheduler(clock, unwritten)
    scheduler.start()
    await clock.advance(0)
    near, far, gone = (Item(clock) for _ in range(3))
    for item, pause in ((far, 1e9), (near, 0.25), (gone, 60.0)):
        scheduler.schedule(item, clock.now() + pause)
    scheduler.forget(gone)
    scheduler.stop()
    assert (len(near.seen), len(far.seen), len(gone.seen)) == (1, 1, 0)


async def test_no_task_however_many_leases(locks: LockManager, backend: MemoryBackend) -> None:
    """A shutdown that cancels all other tasks cancels nothing of ours."""
    assert asyncio.all_tasks() == {asyncio.current_task()}
    leases = [await locks.lock(f"n{i}").acquire() for i in range(50)]
    assert asyncio.all_tasks() == {asyncio.current_task()}
    await backend.clock.advance(3 * TTL)
    assert not any(lease.lost for lease in leases)
    for lease in leases:
        await lease.release()
