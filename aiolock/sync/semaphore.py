"""The semaphore, for threads."""

from __future__ import annotations

from ..primitives.semaphore import Semaphore as AsyncSemaphore
from ..primitives.semaphore import SemaphoreInfo
from .looking import Looking
from .permits import Permits
from .queued import Queueing


class Semaphore(Looking, Permits, Queueing):
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
