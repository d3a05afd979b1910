"""Who holds a name, and who waits for it, for threads."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .portal import Portal

if TYPE_CHECKING:
    from ..scripts.view import HolderInfo, WaiterInfo


class Looking:
    """A base of primitives. Each look is of one moment, and changes nothing."""

    __slots__ = ()

    _core: Any
    _portal: Portal

    def holders(self) -> list[HolderInfo]:
        """Return everyone who holds it, in the order in which they entered; of a read-write lock, on either side.

        Raises:
            BackendError: Redis is unreachable or refuses.

        Cost: one round trip, read-only. Its answer is as long as there are holders and waiters.
        """
        found: list[HolderInfo] = self._portal.call(self._core.name, self._core.holders)
        return found

    def waiters(self) -> list[WaiterInfo]:
        """Return the queue, first to last. Of a `lock()` a place is that of a process, for all its threads.

        Raises:
            BackendError: Redis is unreachable or refuses.
            ConfigurationError: the locks are held on a quorum, where those who wait race.

        Cost: as for `holders()`.
        """
        found: list[WaiterInfo] = self._portal.call(self._core.name, self._core.waiters)
        return found
