"""A clock that you advance, and that can also run by itself."""

from __future__ import annotations

import asyncio
import heapq
import itertools
from collections.abc import Callable
from datetime import timedelta

from ..clock import SystemClock, Timer, in_seconds

TURNS = 60
"""Turns of the loop after which everything has happened that could happen without time passing."""


class VirtualClock:
    """Implements `aiolock.clock.Clock`; stands still until `advance()`.

    Args:
        running: real time passes, too, and `advance()` and `jump()` add to it. For tests whose own code waits, or that
            run in another thread than the event loop.

    Example:
        clock = VirtualClock()
        async with LockManager(MemoryBackend(clock=clock)) as locks:
            async with locks.lock("order:42", ttl=30.0) as lease:
                await clock.advance(60.0)  # the lease is renewed six times
    """

    def __init__(self, *, running: bool = False) -> None:
        self._told = 1_000.0
        self._system = SystemClock() if running else None
        self._started = self._system.now() if self._system else 0.0
        self._timers: list[tuple[float, int, VirtualTimer]] = []
        self._count = itertools.count()

    def now(self) -> float:
        return self._told + self._passed()

    def wall_us(self) -> int:
        """Return the server's wall clock, in microseconds since the epoch; it moves along with this clock."""
        return 1_750_000_000_000_000 + round(self.now() * 1_000_000)

    def call_at(self, when: float, callback: Callable[[], None]) -> VirtualTimer:
        timer = VirtualTimer(callback)
        heapq.heappush(self._timers, (when, next(self._count), timer))
        if when <= self.now():
            asyncio.get_running_loop().call_soon(self._fire)
        elif self._system is not None:
            timer.alarm = self._system.call_at(when - self._told + self._started, timer.fire)
        return timer

    async def advance(self, seconds: float | timedelta) -> None:
        """Let time pass: every timer on the way fires at its own moment, and the tasks that it wakes run.

        Args:
            seconds: how much; 0 only runs what is ready.
        """
        end = self.now() + in_seconds(seconds)
        await self._settle()
        while self._timers and self._timers[0][0] <= end:
            self._go_to(self._timers[0][0])
            self._fire()
            await self._settle()
        self._go_to(end)

    def jump(self, seconds: float | timedelta) -> None:
        """Let time pass while the loop stands still, as in a blocking call or a stopped process. Timers are late."""
        self._told += in_seconds(seconds)
        asyncio.get_running_loop().call_soon(self._fire)

    def _passed(self) -> float:
        """Seconds that have passed by themselves."""
        return 0.0 if self._system is None else self._system.now() - self._started

    def _go_to(self, when: float) -> None:
        self._told = max(self._told, when - self._passed())  # never back: a task may have made it jump meanwhile

    def _fire(self) -> None:
        while self._timers and self._timers[0][0] <= self.now():
            _, _, timer = heapq.heappop(self._timers)
            timer.fire()

    async def _settle(self) -> None:
        # What the next turn will run; uvloop does not show it. Timers of the loop that are due come a turn later.
        ready = getattr(asyncio.get_running_loop(), "_ready", None)
        idle = 0
        for _ in range(TURNS):
            await asyncio.sleep(0)
            idle = idle + 1 if ready is not None and not ready else 0
            if idle == 2:
                return


class VirtualTimer:
    """A pending callback of a `VirtualClock`."""

    __slots__ = ("_callback", "alarm")

    def __init__(self, callback: Callable[[], None]) -> None:
        self._callback: Callable[[], None] | None = callback
        self.alarm: Timer | None = None

    def cancel(self) -> None:
        """Cancel the callback; harmless after it ran."""
        self._callback = None
        if self.alarm is not None:
            self.alarm.cancel()

    def fire(self) -> None:
        """Run the callback, once."""
        callback, self._callback = self._callback, None
        if callback is not None:
            callback()
