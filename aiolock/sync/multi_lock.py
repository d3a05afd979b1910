"""Several locks at once, all or none, for threads."""

from __future__ import annotations

from datetime import timedelta

from ..primitives.lock import LockInfo
from ..primitives.multi_lock import MultiLock as AsyncMultiLock
from .reentrant import Reentrant
from .vacancy import Vacancy


class MultiLock(Reentrant, Vacancy):
    """Several locks as one: all or none, and no order can cause a deadlock. Comes from `LockManager.multi_lock()`."""

    __slots__ = ()

    _core: AsyncMultiLock

    @property
    def names(self) -> tuple[str, ...]:
        """What is locked: sorted, each name once."""
        return self._core.names

    def is_locked(self) -> bool:
        """Return True if any of the names is held. Cost: one round trip."""
        return self._portal.call(self.name, self._core.is_locked)

    def info(self) -> dict[str, LockInfo]:
        """Return who holds which of the names; free ones are left out.

        Raises:
            BackendError: Redis is unreachable or refuses.

        Cost: one round trip, read-only; on a cluster a request to each slot.
        """
        return self._portal.call(self.name, self._core.info)

    def request_release(self, grace: float | timedelta = 0.0, *, force: bool = False) -> bool:
        """Ask who holds any of the names to finish, as `Lock.request_release()` does.

        Args:
            grace: seconds to wait until those holds have ended; 0 only asks.
            force: end those that have not ended then.

        Returns:
            True if all holds that were asked to end have ended, or if nobody held any name.

        Raises:
            BackendError: Redis is unreachable or refuses.
            ConfigurationError: a grace that cannot be; the manager is not open, or closes.

        Cost: that of `Lock.request_release()` for each name, of 250 names at once.
        """
        return self._portal.call(self.name, lambda: self._core.request_release(grace, force=force))
