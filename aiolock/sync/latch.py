"""The count-down latch, for threads."""

from __future__ import annotations

from datetime import timedelta

from ..primitives.latch import Latch as AsyncLatch
from .portal import Portal


class Latch:
    """A count-down latch across processes. Comes from `LockManager.latch()`; cheap, shareable between threads.

    It opens after `count` counts, and stays open until it was unused for its `ttl`; then its name means a fresh latch.

    Args:
        portal: the manager's.
        core: what it stands for.
    """

    __slots__ = ("_core", "_portal")

    def __init__(self, portal: Portal, core: AsyncLatch) -> None:
        self._portal = portal
        self._core = core

    @property
    def name(self) -> str:
        """What is waited for."""
        return self._core.name

    def count_down(self, by: str | None = None) -> int:
        """Count down by one; an open latch stays as it is.

        Args:
            by: who or what is counted, text of 1 to 512 bytes in UTF-8, each once; None counts in any case.

        Returns:
            How many counts are missing now; 0: it is open.

        Raises:
            BackendError: Redis is unreachable or refuses. Without an answer it may have been counted, or may be once
                the connection is back.
            ConfigurationError: a `by` that cannot work; or the manager is not open, or in a forked child.

        If a signal interrupts it, it may have been counted. Cost: one round trip.
        """
        return self._portal.call(self.name, lambda: self._core.count_down(by))

    def count(self) -> int:
        """Return how many counts are missing; 0: it is open.

        Raises:
            BackendError: Redis is unreachable or refuses.

        Cost: one round trip.
        """
        return self._portal.call(self.name, self._core.count)

    def delete(self) -> bool:
        """End it, open or not; the next use of its name creates a fresh one, with all counts missing.

        Returns:
            True if there was one.

        Raises:
            BackendError: Redis is unreachable or refuses. Without an answer it may have been deleted.

        Cost: one round trip.
        """
        return self._portal.call(self.name, self._core.delete)

    def wait(self, timeout: float | timedelta | None = None) -> None:
        """Wait until it is open.

        Args:
            timeout: seconds to wait; 0 for one query, None for no limit.

        Raises:
            WaitTimeout: it did not open in time; the message says how many counts are missing.
            BackendError: Redis cannot be reached, did not answer the first query in time, or refuses. A thread that
                already waits keeps waiting through an outage.
            NotAcquired: the manager was closed meanwhile.

        Cost: that of `aiolock.Latch.wait()`.
        """
        self._portal.call(self.name, lambda: self._core.wait(timeout))

    def __repr__(self) -> str:
        return repr(self._core)

    def __reduce__(self) -> tuple[object, ...]:
        return self._core.__reduce__()
