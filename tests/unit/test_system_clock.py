"""The clock that leases have when nobody steps it."""

from __future__ import annotations

import asyncio
import gc
import weakref

from aiolock.clock import SystemClock


async def test_a_timer_that_ran_is_freed_without_the_garbage_collector() -> None:
    """A manager has one every second, and the collector's work would be part of a lock's cost.

    Kept by _SystemTimer._check: `self._handle = None`.
    """

    class Callback:
        def __call__(self) -> None:
            ran.set()

    clock, ran, callback = SystemClock(), asyncio.Event(), Callback()
    freed = weakref.ref(callback)
    gc.disable()
    try:
        clock.call_at(clock.now(), callback)
        del callback
        await ran.wait()
        await asyncio.sleep(0)  # the loop lets go of the handle that it has just run
        assert freed() is None
    finally:
        gc.enable()


async def test_a_timer_that_ran_may_be_cancelled() -> None:
    clock, ran = SystemClock(), asyncio.Event()
    timer = clock.call_at(clock.now(), ran.set)
    await ran.wait()
    timer.cancel()
    assert ran.is_set()
