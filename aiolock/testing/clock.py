"""A clock that you advance, and that can also run by itself."""

from __future__ import annotations

import asyncio
import heapq
import itertools
import math
import threading
from collections.abc import Callable
from datetime import timedelta

from ..backends.memory import call_in
from ..clock import SystemClock, Timer, in_seconds
from ..errors import ConfigurationError

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
        self._mutex = threading.RLock()
        self._timers: list[tuple[float, int, VirtualTimer]] = []
        self._loops: set[asyncio.AbstractEventLoop] = set()  # those that have set a timer
        self._count = itertools.count()

    def now(self) -> float:
        """Return the seconds since its origin."""
        return self._told + self._passed()

    def wall_us(self) -> int:
        """Return the server's wall clock, in microseconds since the epoch; it moves along with this clock."""
        return 1_750_000_000_000_000 + round(self.now() * 1_000_000)

    def call_at(self, when: float, callback: Callable[[], None]) -> VirtualTimer:
        timer = VirtualTimer(callback, asyncio.get_running_loop())
        with self._mutex:
            self._loops.add(timer.loop)
            heapq.heappush(self._timers, (when, next(self._count), timer))
        if when <= self.now():
            timer.loop.call_soon(self._fire)
        elif self._system is not None:
            timer.alarm = self._system.call_at(when - self._told + self._started, timer.fire)
        return timer

    async def advance(self, seconds: float | timedelta) -> None:
        """Let time pass: every timer on the way fires at its own moment, and the tasks that it wakes run.

        In a test without an event loop, call `asyncio.run(clock.advance(60.0))`: timers fire in the loops that have set
        them, and time waits until these are done. It does not wait for other threads.

        Args:
            seconds: how much, from 0; 0 only runs what is ready.

        Raises:
            ConfigurationError: time that cannot pass: negative, infinite or not a number.
        """
        end = self.now() + forward("advance", seconds)
        await self._settle()
        while (due := self._next()) <= end:
            self._go_to(due)
            self._fire()
            await self._settle()
        self._go_to(end)

    def jump(self, seconds: float | timedelta) -> None:
        """Let time pass while the loop is blocked, as in a blocking call or a stopped process. Timers are late.

        It works in any thread. Raises: as `advance()`.
        """
        with self._mutex:
            self._told += forward("jump", seconds)
            waiting = {timer.loop for _, _, timer in self._timers}
        for loop in waiting:
            call_in(loop, self._fire)

    def _passed(self) -> float:
        """Seconds that have passed by themselves."""
        return 0.0 if self._system is None else self._system.now() - self._started

    def _next(self) -> float:
        """When the first timer is due."""
        with self._mutex:
            return self._timers[0][0] if self._timers else math.inf

    def _pop_due(self) -> VirtualTimer | None:
        with self._mutex:
            return heapq.heappop(self._timers)[2] if self._next() <= self.now() else None

    def _go_to(self, when: float) -> None:
        with self._mutex:
            self._told = max(self._told, when - self._passed())  # never back: a task may have made it jump meanwhile

    def _fire(self) -> None:
        """Let the timers that are due fire: those of the running loop now, others in the next turn of theirs."""
        here = asyncio._get_running_loop()
        while (timer := self._pop_due()) is not None:
            if timer.loop is here:
                timer.fire()
            else:
                call_in(timer.loop, timer.fire)

    async def _settle(self) -> None:
        """Let each loop run until nothing happens any more; what one does may concern another."""
        with self._mutex:
            self._loops = {loop for loop in self._loops if not loop.is_closed()}
            others = [loop for loop in self._loops if loop.is_running() and loop is not asyncio.get_running_loop()]
        await _settle_here()
        for loop in 2 * others:
            there = _settle_here()
            try:
                settled = asyncio.wrap_future(asyncio.run_coroutine_threadsafe(there, loop))
            except RuntimeError:  # it has been closed
                there.close()
            else:
                await asyncio.wait((settled,))
        if others:
            await _settle_here()


async def _settle_here() -> None:
    # What the next turn will run; uvloop does not show it. Timers of the loop that are due come a turn later.
    ready = getattr(asyncio.get_running_loop(), "_ready", None)
    idle = 0
    for _ in range(TURNS):
        await asyncio.sleep(0)
        idle = idle + 1 if ready is not None and not ready else 0
        if idle == 2:
            return


def forward(what: str, seconds: float | timedelta) -> float:
    """Return seconds that can pass.

    Raises:
        ConfigurationError: they cannot.
    """
    passing = in_seconds(seconds)
    if not 0.0 <= passing < math.inf:
        raise ConfigurationError("", f"{what}() takes a finite number of seconds from 0, not {seconds!r}")
    return passing


class VirtualTimer:
    """A pending callback of a `VirtualClock`.

    Args:
        callback: what it calls, once.
        loop: in which it is called.
    """

    __slots__ = ("_callback", "alarm", "loop")

    def __init__(self, callback: Callable[[], None], loop: asyncio.AbstractEventLoop) -> None:
        self._callback: Callable[[], None] | None = callback
        self.loop: asyncio.AbstractEventLoop = loop
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
