"""A clock that goes when told."""

from __future__ import annotations

import asyncio
import heapq
import itertools
from collections.abc import Callable
from datetime import timedelta

from ..clock import in_seconds

TURNS = 60
"""Turns of the loop after which whatever could go on without time passing has done so."""


class VirtualClock:
    """Implements `aiolock.clock.Clock`; stands still until `advance()`."""

    def __init__(self) -> None:
        self._now = 1_000.0
        self._timers: list[tuple[float, int, VirtualTimer]] = []
        self._count = itertools.count()

    def now(self) -> float:
        return self._now

    def wall_us(self) -> int:
        """The server's wall clock, in microseconds since the epoch; goes with this clock."""
        return 1_750_000_000_000_000 + round(self._now * 1_000_000)

    def call_at(self, when: float, callback: Callable[[], None]) -> VirtualTimer:
        timer = VirtualTimer(callback)
        heapq.heappush(self._timers, (when, next(self._count), timer))
        if when <= self._now:
            asyncio.get_running_loop().call_soon(self._fire)
        return timer

    async def advance(self, seconds: float | timedelta) -> None:
        """Let time pass; every timer on the way fires at its own moment, and the tasks it wakes run.

        Args:
            seconds: how much; 0 lets only what is ready run.
        """
        end = self._now + in_seconds(seconds)
        await self._settle()
        while self._timers and self._timers[0][0] <= end:
            self._now = max(self._now, self._timers[0][0])
            self._fire()
            await self._settle()
        self._now = max(self._now, end)  # a task may have made it jump meanwhile

    def jump(self, seconds: float | timedelta) -> None:
        """Let time pass while the loop does not run: a blocking call, or the process was stopped. Timers are late."""
        self._now += in_seconds(seconds)
        asyncio.get_running_loop().call_soon(self._fire)

    def _fire(self) -> None:
        while self._timers and self._timers[0][0] <= self._now:
            _, _, timer = heapq.heappop(self._timers)
            timer.fire()

    async def _settle(self) -> None:
        for _ in range(TURNS):
            await asyncio.sleep(0)


class VirtualTimer:
    """A pending callback of a `VirtualClock`."""

    __slots__ = ("_callback",)

    def __init__(self, callback: Callable[[], None]) -> None:
        self._callback: Callable[[], None] | None = callback

    def cancel(self) -> None:
        """Forget the callback; harmless once it ran."""
        self._callback = None

    def fire(self) -> None:
        """Run the callback, once."""
        callback, self._callback = self._callback, None
        if callback is not None:
            callback()
