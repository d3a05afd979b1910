"""The virtual clock stands still until you move it, fires in order, and can be late."""

from __future__ import annotations

import asyncio

import pytest

from aiolock.clock import Clock, SystemClock
from aiolock.testing import VirtualClock


async def test_stands_still() -> None:
    clock = VirtualClock()
    before = clock.now()
    for _ in range(10):
        await asyncio.sleep(0)
    assert clock.now() == before
    await clock.advance(2.5)
    assert clock.now() == before + 2.5


async def test_timers_fire_in_order_each_at_its_moment() -> None:
    clock, seen = VirtualClock(), []
    start = clock.now()
    for delay in (3, 1, 2, 5):
        clock.call_at(start + delay, lambda delay=delay: seen.append((delay, clock.now() - start)))
    await clock.advance(3)
    assert seen == [(1, 1), (2, 2), (3, 3)]
    await clock.advance(1)
    assert len(seen) == 3
    await clock.advance(1)
    assert seen[3:] == [(5, 5)]


async def test_what_a_timer_starts_runs_at_that_moment() -> None:
    clock, seen = VirtualClock(), []
    start = clock.now()
    woken = asyncio.Event()

    async def later() -> None:
        await woken.wait()
        seen.append(clock.now() - start)
        clock.call_at(clock.now() + 1, lambda: seen.append(clock.now() - start))

    task = asyncio.create_task(later())
    clock.call_at(start + 1, woken.set)
    await clock.advance(10)
    await task
    assert seen == [1, 2]


async def test_cancelled_timers_stay_silent() -> None:
    clock, seen = VirtualClock(), []
    timer = clock.call_at(clock.now() + 1, lambda: seen.append(1))
    timer.cancel()
    timer.cancel()
    await clock.advance(2)
    assert seen == []


async def test_a_jump_makes_timers_late() -> None:
    clock, seen = VirtualClock(), []
    start = clock.now()
    clock.call_at(start + 1, lambda: seen.append(clock.now() - start))
    clock.jump(7)
    assert seen == []
    await asyncio.sleep(0)
    assert seen == [7]


async def test_a_jump_while_it_advances_is_not_taken_back() -> None:
    clock = VirtualClock()
    start = clock.now()
    asyncio.get_running_loop().call_soon(clock.jump, 7)
    await clock.advance(1)
    assert clock.now() == start + 7


async def test_due_timers_need_no_advance() -> None:
    clock, seen = VirtualClock(), []
    clock.call_at(clock.now() - 1, lambda: seen.append(1))
    assert seen == []
    await asyncio.sleep(0)
    assert seen == [1]


async def test_wall_clock_goes_with_it() -> None:
    clock = VirtualClock()
    before = clock.wall_us()
    await clock.advance(1.5)
    assert clock.wall_us() - before == 1_500_000


async def test_a_running_clock_goes_by_itself() -> None:
    """Guards the alarm of a timer: no one advances the clock."""
    clock, fired = VirtualClock(running=True), asyncio.Event()
    start = clock.now()
    clock.call_at(start + 0.01, fired.set)
    async with asyncio.timeout(5):
        await fired.wait()
    assert 0.01 <= clock.now() - start < 5


async def test_a_running_clock_goes_on_when_told() -> None:
    """Guards both: what was told, and that a timer fires once."""
    clock, seen = VirtualClock(running=True), []
    start, wall = clock.now(), clock.wall_us()
    clock.call_at(start + 60, lambda: seen.append(clock.now() - start))
    clock.call_at(start + 30, lambda: seen.append(clock.now() - start))
    await clock.advance(45)
    assert len(seen) == 1
    assert 30 <= seen[0] < 45
    assert 45 <= clock.now() - start < 60
    assert 45_000_000 <= clock.wall_us() - wall < 60_000_000
    clock.jump(20)
    await asyncio.sleep(0)
    assert len(seen) == 2


async def test_a_cancelled_timer_of_a_running_clock_leaves_nothing_in_the_loop() -> None:
    """Guards the alarm's end."""
    clock = VirtualClock(running=True)
    timer = clock.call_at(clock.now() + 60, lambda: None)
    timer.cancel()
    assert timer.alarm is not None
    assert timer.alarm._handle.cancelled()  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    "clock", [VirtualClock(), VirtualClock(running=True), SystemClock()], ids=["virtual", "running", "system"]
)
async def test_both_are_clocks(clock: Clock) -> None:
    fired = asyncio.Event()
    cancelled = clock.call_at(clock.now(), lambda: pytest.fail("was cancelled"))
    cancelled.cancel()
    clock.call_at(clock.now(), fired.set)
    await asyncio.wait_for(fired.wait(), 5)
    first = clock.now()
    assert first <= clock.now()
