"""Waiting until a name is free, without taking it: a base of primitives."""

from __future__ import annotations

from abc import abstractmethod
from datetime import timedelta
from typing import Literal

from ..clock import Clock, format_seconds, pause
from ..core.policy import check_timeout
from ..errors import BackendError, WaitTimeout

FIRST, LONGEST = 0.01, 1.0
"""Seconds until it looks for the second time, and at most between two looks."""


class Vacancy:
    """A base of what is held or free."""

    __slots__ = ()

    @property
    @abstractmethod
    def name(self) -> str:
        """What is locked."""

    @property
    @abstractmethod
    def clock(self) -> Clock:
        """The clock that its leases live by."""

    @abstractmethod
    async def is_locked(self) -> bool:
        """Return True if it is held."""

    async def wait_free(self, timeout: float | timedelta | None = None) -> Literal[True]:
        """Wait until nobody holds it, and take nothing: another may have it when this returns. To do something with it,
        acquire it. A hand-over from one waiter to the next is not free in between.

        Args:
            timeout: seconds to wait; None for no limit, 0 for one look.

        Returns:
            True.

        Raises:
            WaitTimeout: somebody had it at each look.
            BackendError: Redis is unreachable or refuses. Once it has answered, an outage does not end the wait.

        Cancellation: nothing is left. Cost: one round trip, read-only; while it is held one more after 10 ms, then
        after twice as long each time, up to 1 s.
        """
        limit, clock = check_timeout(self.name, "timeout", timeout), self.clock
        until = None if limit is None else clock.now() + limit
        held, interval = await self.is_locked(), FIRST
        while held:
            left = interval if until is None else until - clock.now()
            if left <= 0:
                seconds = format_seconds(limit or 0.0)
                raise WaitTimeout(self.name, f"lock {self.name!r} was not free within {seconds} s: wait longer")
            await pause(clock, min(interval, left))
            interval = min(2 * interval, LONGEST)
            try:
                held = await self.is_locked()
            except BackendError as error:
                if not error.transient:
                    raise
        return True
