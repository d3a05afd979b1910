"""Time as leases see it: seconds that go on while the machine sleeps, and one-shot timers."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Protocol


class Timer(Protocol):
    """A pending callback."""

    def cancel(self) -> None:
        """Forget the callback; harmless once it ran."""


class Clock(Protocol):
    """A source of time in seconds from an arbitrary origin, never going back."""

    def now(self) -> float:
        """Seconds since the clock's origin."""

    def call_at(self, when: float, callback: Callable[[], None]) -> Timer:
        """Run `callback` on the running loop once `now()` has reached `when`; may be late, never twice."""


class SystemClock:
    """CLOCK_BOOTTIME where there is one, so that a lease ages while the machine is suspended; else the monotonic clock.

    Source: the loop's own clock stops during suspend on Linux, the server's does not.
    """

    _id: int | None = getattr(time, "CLOCK_BOOTTIME", None)

    def now(self) -> float:
        return time.monotonic() if self._id is None else time.clock_gettime(self._id)

    def call_at(self, when: float, callback: Callable[[], None]) -> Timer:
        return asyncio.get_running_loop().call_later(max(0.0, when - self.now()), callback)
