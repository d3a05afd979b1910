"""What opens when its counts are there, for threads."""

from __future__ import annotations

from datetime import timedelta
from typing import Literal

from ..primitives.count_down import CountDown as AsyncCountDown
from .portal import Portal


class CountDown:
    """A base of latches.

    Args:
        portal: the manager's.
        core: what it stands for.
    """

    __slots__ = ("_core", "_portal")

    def __init__(self, portal: Portal, core: AsyncCountDown) -> None:
        self._portal = portal
        self._core = core

    @property
    def name(self) -> str:
        """What is waited for."""
        return self._core.name

    def count(self) -> int:
        """Return how many counts are missing; 0: it is open.

        Raises:
            BackendError: Redis is unreachable or refuses.

        Cost: one round trip.
        """
        return self._portal.call(self.name, self._core.count)

    def wait(self, timeout: float | timedelta | None = None) -> Literal[True]:
        """Wait until it is open.

        Args:
            timeout: seconds to wait; 0 for one query, None for no limit.

        Returns:
            True.

        Raises:
            WaitTimeout: it did not open in time; the message says how many counts are missing.
            BackendError: Redis cannot be reached, did not answer the first query in time, or refuses. A thread that
                already waits keeps waiting through an outage.
            NotAcquired: the manager was closed meanwhile.

        Cost: that of waiting in a task.
        """
        return self._portal.call(self.name, lambda: self._core.wait(timeout))

    def __repr__(self) -> str:
        return repr(self._core)

    def __reduce__(self) -> tuple[object, ...]:
        return self._core.__reduce__()
