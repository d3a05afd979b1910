"""The count-down latch, for threads."""

from __future__ import annotations

from ..primitives.latch import Latch as AsyncLatch
from .count_down import CountDown


class Latch(CountDown):
    """A count-down latch across processes. Comes from `LockManager.latch()`; cheap, shareable between threads.

    It opens after `count` counts, and stays open until it was unused for its `ttl`; then its name means a fresh latch.
    """

    __slots__ = ()

    _core: AsyncLatch

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

    def delete(self) -> bool:
        """End it, open or not; the next use of its name creates a fresh one, with all counts missing.

        Returns:
            True if there was one.

        Raises:
            BackendError: Redis is unreachable or refuses. Without an answer it may have been deleted.

        Cost: one round trip.
        """
        return self._portal.call(self.name, self._core.delete)
