"""Several locks at once, all or none, for threads."""

from __future__ import annotations

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
