"""The semaphore, for threads."""

from __future__ import annotations

from datetime import timedelta

from ..primitives.semaphore import Semaphore as AsyncSemaphore
from ..primitives.semaphore import SemaphoreInfo
from .looking import Looking
from .permits import Permits


class Semaphore(Looking, Permits):
    """Limits concurrent holders across processes and threads; each acquisition gets its own lease.

    Comes from `LockManager.semaphore()`. A crashed holder's permits come back after its ttl. Not reentrant: each
    acquisition takes permits.
    """

    __slots__ = ()

    _core: AsyncSemaphore

    def available(self) -> int:
        """Return how many permits are free. Raises and costs what `info()` does."""
        return self._portal.call(self.name, self._core.available)

    def used(self) -> int:
        """Return how many permits are taken. Raises and costs what `info()` does."""
        return self._portal.call(self.name, self._core.used)

    def info(self) -> SemaphoreInfo:
        """Return how many permits there are, are free and taken, and how many wait; and which number of permits counts.

        Raises:
            BackendError: Redis is unreachable or refuses.

        Cost: one round trip.
        """
        return self._portal.call(self.name, self._core.info)

    def set_permits(self, permits: int) -> None:
        """Change how many permits there are, for every manager; wakes the waiters that now fit.

        Raises:
            ConfigurationError: not a whole number from 1.
            BackendError: Redis is unreachable or refuses.

        Cost: one round trip.
        """
        self._portal.call(self.name, lambda: self._core.set_permits(permits))

    def request_release(self, grace: float | timedelta = 0.0) -> bool:
        """Ask all who hold it now to finish: their `lease.wanted` becomes true.

        Args:
            grace: seconds to wait until all these holds have ended; 0 only asks.

        Returns:
            True if they have, or if nobody held it.

        Raises:
            BackendError: Redis is unreachable or refuses.
            ConfigurationError: a grace that cannot be; a store without scripts; the manager is not open, or closes.

        Cost: one round trip for every 250 holders, again and again while it waits.
        """
        return self._portal.call(self.name, lambda: self._core.request_release(grace))

    def force_release(self) -> bool:
        """End all holds, whoever has them; the holders are notified at once.

        Returns:
            True if it was held.

        Raises:
            BackendError: Redis is unreachable or refuses.

        Cost: one round trip for every 250 holders; no one enters between these.
        """
        return self._portal.call(self.name, self._core.force_release)
