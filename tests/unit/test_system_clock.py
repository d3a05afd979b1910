"""The clock that leases have when nobody steps it."""

from __future__ import annotations

import asyncio
import gc

from aiolock.clock import SystemClock


async def test_a_timer_that_ran_is_freed_without_the_garbage_collector() -> None:
    """A manager has one every second, and the collector's work would be part of a lock's cost."""
    clock, ran = SystemClock(), asyncio.Event()
    gc.collect()
    gc.disable()
    try:
        clock.call_at(clock.now(), ran.set)
        await ran.wait()
        await asyncio.sleep(0)  # the loop lets go of the handle that it has just run
        assert gc.collect() == 0
    finally:
        gc.enable()


async def test_a_timer_that_ran_may_be_cancelled() -> None:
    clock, ran = SystemClock(), asyncio.Event()
    timer = clock.call_at(clock.now(), ran.set)
    await ran.wait()
    timer.cancel()
    assert ran.is_set()
