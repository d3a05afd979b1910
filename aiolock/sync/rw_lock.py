"""The read-write lock, for threads."""

from __future__ import annotations

from datetime import timedelta

from ..primitives.rw_lock import RWLock as AsyncRWLock
from ..primitives.rw_lock import RWLockInfo
from ..primitives.rw_lock import RWLockSide as AsyncRWLockSide
from .looking import Looking
from .options import OnLost
from .portal import Portal
from .queued import Queueing
from .reentrant import Reentrant
from .two_sides import TwoSides
from .vacancy import Vacancy


class RWLockSide(Reentrant, Queueing):
    """One side of a read-write lock; use it like a `Lock`.

    A thread that writes may read. A thread that reads and wants to write would wait for itself: `NotAcquired` at once.
    `release()` releases only this side's leases.
    """

    __slots__ = ()

    _core: AsyncRWLockSide

    def info(self) -> RWLockInfo | None:
        """Return who holds it, and how long the queue is; None if it is free. As `RWLock.info()`."""
        return self._portal.call(self.name, self._core.info)


class RWLock(Looking, TwoSides, Vacancy):
    """Many readers or one writer, over all processes; first come, first served. Comes from `LockManager.rw_lock()`.

    Args:
        portal: the manager's.
        core: what it stands for.
        on_lost: called when a lease of it is lost.

    Attributes:
        read: the side for readers: `with rw.read as lease:`.
        write: the side for the writer: `with rw.write as lease:`.
    """

    __slots__ = ("_portal",)

    def __init__(self, portal: Portal, core: AsyncRWLock, on_lost: OnLost | None) -> None:
        self._core = core
        self._portal = portal
        self.read: RWLockSide = RWLockSide(portal, core.read, on_lost)
        self.write: RWLockSide = RWLockSide(portal, core.write, on_lost)

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
        return self.write.request_release(grace)

    def info(self) -> RWLockInfo | None:
        """Return who holds it, and how long the queue is; None if it is free.

        Raises:
            BackendError: Redis is unreachable or refuses.

        Cost: one round trip, read-only.
        """
        return self.write.info()
