"""Waiting until a name is free, without taking it, for threads: a base of primitives."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, Literal

from .portal import Portal


class Vacancy:
    """A base of what is held or free."""

    __slots__ = ()

    _core: Any
    _portal: Portal

    def wait_free(self, timeout: float | timedelta | None = None) -> Literal[True]:
        """Wait until nobody holds it, and take nothing: another may have it when this returns. To do something with it,
        acquire it. A hand-over from one waiter to the next is not free in between.

        Args:
            timeout: seconds to wait; None for no limit, 0 for one look.

        Returns:
            True.

        Raises:
            WaitTimeout: somebody had it at each look.
            BackendError: Redis is unreachable or refuses. Once it has answered, an outage does not end the wait.

        If a signal interrupts it, nothing is left. Cost: one round trip, read-only; while it is held one more after 10
        ms, then after twice as long each time, up to 1 s.
        """
        return self._portal.call(self._core.name, lambda: self._core.wait_free(timeout))
