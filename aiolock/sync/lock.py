"""The reentrant lock, and the fair one, for threads."""

from __future__ import annotations

from datetime import timedelta

from ..primitives.fair_lock import FairLock as AsyncFairLock
from ..primitives.fair_lock import FairLockInfo
from ..primitives.lock import Lock as AsyncLock
from ..primitives.lock import LockInfo
from .looking import Looking
from .reentrant import Reentrant
from .vacancy import Vacancy


class Lock(Looking, Reentrant, Vacancy):
    """A reentrant lock across processes and threads. Comes from `LockManager.lock()`; cheap, reusable, shareable
    between threads.

    It is the lock of that name that `aiolock.LockManager.lock()` gives to tasks. `with lock as lease:` waits as
    `acquire()` does, and releases at the end of the block; if the lease was lost meanwhile, the block raises `LockLost`
    there.
    """

    __slots__ = ()

    _core: AsyncLock

    def is_locked(self) -> bool:
        """Return True if it is held. Cost: one round trip."""
        return self._portal.call(self.name, self._core.is_locked)

    def info(self) -> LockInfo | None:
        """Return who holds it, or None if it is free.

        Raises:
            BackendError: Redis is unreachable or refuses.

        Cost: one round trip, read-only.
        """
        return self._portal.call(self.name, self._core.info)

    def request_release(self, grace: float | timedelta = 0.0, *, force: bool = False) -> bool:
        """Ask the holder to finish: its `lease.wanted` becomes true, and `lease.wait_wanted()` returns.

        Args:
            grace: seconds to wait until that holder has released or lost the lock; 0 only asks.
            force: if it still holds the lock then, end that as `force_release()` does.

        Returns:
            True if the hold that was asked to end has ended, or if nobody held the lock.

        Raises:
            BackendError: Redis is unreachable or refuses.
            ConfigurationError: a grace that cannot be; the manager is not open, or closes.

        Cost: one round trip, two on a quorum. While it waits, one more after 10 ms, then after twice as long each time,
        up to 1 s.
        """
        return self._portal.call(self.name, lambda: self._core.request_release(grace, force=force))

    def force_release(self) -> bool:
        """End the hold, whoever has it; the holder learns of it at once. The next waiter enters.

        Two blocks can overlap: a task is cancelled when its process has learned of it, and a thread runs on to its next
        look at the lease. If the resource checks fences, it refuses both as soon as it has seen the next one's.

        Returns:
            True if it was held.

        Raises:
            BackendError: Redis is unreachable or refuses.

        Cost: one round trip.
        """
        return self._portal.call(self.name, self._core.force_release)


class FairLock(Lock):
    """The lock of its name, for threads and tasks that enter in the order in which they asked, whatever process they
    are in. Comes from `LockManager.fair_lock()`.
    """

    __slots__ = ()

    _core: AsyncFairLock

    def info(self) -> FairLockInfo | None:
        """Return who holds it and how long the queue is; None if it is free.

        Raises:
            BackendError: Redis is unreachable or refuses.

        Cost: one round trip, read-only.
        """
        return self._portal.call(self.name, self._core.info)
