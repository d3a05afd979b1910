"""Time as leases see it: seconds that continue while the machine sleeps, and one-shot timers."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from datetime import timedelta
from functools import partial
from typing import Protocol


class Timer(Protocol):
    """A pending callback."""

    def cancel(self) -> None:
        """Cancel the callback; harmless after it ran."""


class Clock(Protocol):
    """A source of time in seconds from an arbitrary origin that never goes back."""

    def now(self) -> float:
        """Return the seconds since the clock's origin."""

    def call_at(self, when: float, callback: Callable[[], None]) -> Timer:
        """Run `callback` on the running loop once `now()` has reached `when`; it may be late, but never runs twice."""


SLICE = 1.0
"""Seconds after which a timer checks the clock again: the loop's own clock stops while the machine is suspended."""


class SystemClock:
    """CLOCK_BOOTTIME where there is one, so that a lease ages while the machine sleeps; otherwise the monotonic
    clock.
    """

    def __init__(self) -> None:
        boot: int | None = getattr(time, "CLOCK_BOOTTIME", None)
        self.now: Callable[[], float] = time.monotonic if boot is None else partial(time.clock_gettime, boot)

    def call_at(self, when: float, callback: Callable[[], None]) -> Timer:
        return _SystemTimer(self, when, callback)


class _SystemTimer:
    __slots__ = ("_callback", "_clock", "_handle", "_when")

    def __init__(self, clock: SystemClock, when: float, callback: Callable[[], None]) -> None:
        self._clock = clock
        self._when = when
        self._callback = callback
        self._arm()

    def _arm(self) -> None:
        delay = min(max(0.0, self._when - self._clock.now()), SLICE)
        self._handle: asyncio.Handle | None = asyncio.get_running_loop().call_later(delay, self._check)

    def _check(self) -> None:
        if self._clock.now() < self._when:
            self._arm()
        else:
            self._handle = None  # they refer to each other: free both without the garbage collector
            self._callback()

    def cancel(self) -> None:
        if self._handle is not None:
            self._handle.cancel()


async def pause(clock: Clock, seconds: float) -> None:
    """Sleep by `clock`, so that a test can advance it. Cancellation: nothing is left."""
    over: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    timer = clock.call_at(clock.now() + seconds, lambda: None if over.done() else over.set_result(None))
    try:
        await over
    finally:
        timer.cancel()


def backoff(failures: int, first: float, longest: float) -> float:
    """Seconds to wait after this many failures in a row, from 0: twice as long each time, up to `longest`."""
    return min(longest, first * 2.0 ** min(failures, 30))


def in_seconds(duration: float | timedelta) -> float:
    """A duration as you may give it."""
    return duration.total_seconds() if isinstance(duration, timedelta) else duration


def format_seconds(seconds: float) -> str:
    """Format seconds for people, with at most three decimals."""
    return f"{seconds:.3f}".rstrip("0").rstrip(".")
