"""Redisson's locks for threads: those of `aiolock.redisson`, without `await`."""

from __future__ import annotations

from typing import Unpack

from ..errors import ConfigurationError
from ..primitives.options import LOCK
from ..redisson import RCountDownLatch as AsyncRCountDownLatch
from ..redisson import Redisson as AsyncRedisson
from ..redisson import RFairLock as AsyncRFairLock
from ..redisson import RFairLockInfo, RLockInfo, RPermitExpirableSemaphoreInfo, RReadWriteLockInfo
from ..redisson import RLock as AsyncRLock
from ..redisson import RPermitExpirableSemaphore as AsyncRPermitExpirableSemaphore
from ..redisson import RReadWriteLock as AsyncRReadWriteLock
from ..redisson import RReadWriteLockSide as AsyncSide
from ..usage import usage
from .count_down import CountDown
from .manager import LockManager
from .options import LockOptions, OnLost, split
from .permits import Permits
from .portal import Portal
from .reentrant import Reentrant
from .two_sides import TwoSides

__all__ = [
    "RCountDownLatch",
    "RFairLock",
    "RFencedLock",
    "RLock",
    "RPermitExpirableSemaphore",
    "RReadWriteLock",
    "RReadWriteLockSide",
    "Redisson",
]


class RLock(Reentrant):
    """`RedissonClient.getLock(name)`, reentrant by thread, as in Java. Comes from `Redisson.lock()`."""

    __slots__ = ()

    _core: AsyncRLock

    def is_locked(self) -> bool:
        """Return True if it is held. Cost: one round trip."""
        return self._portal.call(self.name, self._core.is_locked)

    def info(self) -> RLockInfo | None:
        """Return who holds it, or None if it is free.

        Raises:
            BackendError: Redis is unreachable or refuses.

        Cost: one round trip, read-only.
        """
        return self._portal.call(self.name, self._core.info)

    def force_release(self) -> bool:
        """End the hold, whoever has it: `forceUnlock()`. A holder in Java learns of it when it unlocks.

        Returns:
            True if it was held.

        Raises:
            BackendError: Redis is unreachable or refuses.

        Cost: one round trip.
        """
        return self._portal.call(self.name, self._core.force_release)


class RFencedLock(RLock):
    """`RedissonClient.getFencedLock(name)`: the lock of its name, with leases that have a fence. Comes from
    `Redisson.fenced_lock()`.
    """

    __slots__ = ()


class RFairLock(RLock):
    """`RedissonClient.getFairLock(name)`: first come, first served, thread by thread. Comes from
    `Redisson.fair_lock()`.
    """

    __slots__ = ()

    _core: AsyncRFairLock

    def info(self) -> RFairLockInfo | None:
        """Return who holds it and how long the queue is; None if it is free.

        Raises:
            BackendError: Redis is unreachable or refuses.

        Cost: one round trip, read-only.
        """
        return self._portal.call(self.name, self._core.info)


class RReadWriteLockSide(Reentrant):
    """One side of Redisson's read-write lock; use it like an `RLock`. `release()` releases only this side's leases."""

    __slots__ = ()

    _core: AsyncSide

    def info(self) -> RReadWriteLockInfo | None:
        """Return who holds it; None if it is free. Cost: one round trip, read-only."""
        return self._portal.call(self.name, self._core.info)

    def force_release(self) -> bool:
        """End all holds on both sides, whoever has them. Return True if it was held. Cost: one round trip."""
        return self._portal.call(self.name, self._core.force_release)


class RReadWriteLock(TwoSides):
    """`RedissonClient.getReadWriteLock(name)`: many readers or one writer, with Redisson 4. Comes from
    `Redisson.rw_lock()`.

    Args:
        portal: the manager's.
        core: what it stands for.
        on_lost: called when a lease of it is lost.

    Attributes:
        read: the side for readers: `with rw.read as lease:`.
        write: the side for the writer: `with rw.write as lease:`.
    """

    __slots__ = ()

    def __init__(self, portal: Portal, core: AsyncRReadWriteLock, on_lost: OnLost | None) -> None:
        self._core = core
        self.read: RReadWriteLockSide = RReadWriteLockSide(portal, core.read, on_lost)
        self.write: RReadWriteLockSide = RReadWriteLockSide(portal, core.write, on_lost)

    def info(self) -> RReadWriteLockInfo | None:
        """Return who holds it; None if it is free. Cost: one round trip, read-only."""
        return self.write.info()


class RPermitExpirableSemaphore(Permits):
    """`RedissonClient.getPermitExpirableSemaphore(name)`, whose leases are renewed. Comes from
    `Redisson.permit_expirable_semaphore()`.
    """

    __slots__ = ()

    _core: AsyncRPermitExpirableSemaphore

    def try_set_permits(self, permits: int) -> bool:
        """Say how many permits there are: `trySetPermits()`. Whoever says so first is right, here or in Java.

        Returns:
            True if nobody had said so.

        Raises:
            ConfigurationError: not a whole number from 1.
            BackendError: Redis is unreachable or refuses. Without an answer it may have been set.

        Cost: one round trip.
        """
        return self._portal.call(self.name, lambda: self._core.try_set_permits(permits))

    def available(self) -> int:
        """Return how many permits are free. Raises and costs what `info()` does."""
        return self._portal.call(self.name, self._core.available)

    def info(self) -> RPermitExpirableSemaphoreInfo:
        """Return how many permits there are, are free and taken.

        Raises:
            BackendError: Redis is unreachable or refuses.

        Cost: one round trip, read-only.
        """
        return self._portal.call(self.name, self._core.info)


class RCountDownLatch(CountDown):
    """`RedissonClient.getCountDownLatch(name)`. Comes from `Redisson.count_down_latch()`."""

    __slots__ = ()

    _core: AsyncRCountDownLatch

    def try_set_count(self, count: int) -> bool:
        """Say how many counts open it: `trySetCount()`. Until somebody does it is open, and so it is afterwards.

        Returns:
            True if it was open.

        Raises:
            ConfigurationError: not a whole number from 1.
            BackendError: Redis is unreachable or refuses. Without an answer it may have been set.

        Cost: one round trip.
        """
        return self._portal.call(self.name, lambda: self._core.try_set_count(count))

    def count_down(self) -> int:
        """Count down by one: `countDown()`. An open one stays as it is.

        Returns:
            How many counts are missing now; 0: it is open.

        Raises:
            BackendError: Redis is unreachable or refuses. Without an answer it may have been counted: look at
                `count()`.

        If a signal interrupts it, it may have been counted. Cost: one round trip.
        """
        return self._portal.call(self.name, self._core.count_down)


class Redisson:
    """Redisson's locks, for a manager of threads; see `aiolock.redisson.Redisson`.

    Args:
        locks: the manager, open or not.

    Raises:
        ConfigurationError: its locks are on a quorum, or in another store than Redis.

    Example:
        ```python
        with LockManager("redis://localhost:6379/0") as locks:
            java = Redisson(locks)
            with java.lock("orders"):
                ...
        ```
    """

    def __init__(self, locks: LockManager) -> None:
        if not isinstance(locks, LockManager):
            raise ConfigurationError("", f"Redisson() needs an aiolock.LockManager of aiolock.sync, not {locks!r}")
        self._portal = locks._portal
        self._core = AsyncRedisson(locks._core)

    @usage(LOCK)
    def lock(self, name: str, **options: Unpack[LockOptions]) -> RLock:
        """Return `getLock(name)`. No I/O; works before you open the manager.

        Args:
            name: the key, 1 to 512 bytes in UTF-8.
            options: keywords, as for `LockManager.lock()`, but not `metadata` and `hold_at_least`.

        Raises:
            ConfigurationError: an argument that cannot work.
            TypeError: an unknown keyword; for one of another library the message says what to do instead.
        """
        known, on_lost = split(options)
        return RLock(self._portal, self._core.lock(name, **known), on_lost)

    @usage("locks.fenced_lock('a', ttl=30)")
    def fenced_lock(self, name: str, **options: Unpack[LockOptions]) -> RFencedLock:
        """Return `getFencedLock(name)`: `lock()` of the same name, with leases that have a fence.

        Arguments and errors: as for `lock()`. No I/O.
        """
        known, on_lost = split(options)
        return RFencedLock(self._portal, self._core.fenced_lock(name, **known), on_lost)

    @usage("locks.fair_lock('a', ttl=30)")
    def fair_lock(self, name: str, **options: Unpack[LockOptions]) -> RFairLock:
        """Return `getFairLock(name)`: first come, first served.

        Arguments and errors: as for `lock()`. No I/O.
        """
        known, on_lost = split(options)
        return RFairLock(self._portal, self._core.fair_lock(name, **known), on_lost)

    @usage("locks.rw_lock('a', ttl=30)")
    def rw_lock(self, name: str, **options: Unpack[LockOptions]) -> RReadWriteLock:
        """Return `getReadWriteLock(name)`: `with rw.read`, `with rw.write`. For Redisson 4.

        Arguments and errors: as for `lock()`. No I/O.
        """
        known, on_lost = split(options)
        return RReadWriteLock(self._portal, self._core.rw_lock(name, **known), on_lost)

    @usage("locks.permit_expirable_semaphore('a', ttl=30)")
    def permit_expirable_semaphore(self, name: str, **options: Unpack[LockOptions]) -> RPermitExpirableSemaphore:
        """Return `getPermitExpirableSemaphore(name)`, of which `try_set_permits()` says how many permits it has.

        Arguments and errors: as for `lock()`. No I/O.
        """
        known, on_lost = split(options)
        return RPermitExpirableSemaphore(self._portal, self._core.permit_expirable_semaphore(name, **known), on_lost)

    @usage("locks.count_down_latch('a')")
    def count_down_latch(self, name: str) -> RCountDownLatch:
        """Return `getCountDownLatch(name)`, of which `try_set_count()` says how many counts open it. No I/O.

        Args:
            name: the key, 1 to 512 bytes in UTF-8.

        Raises:
            ConfigurationError: a name that cannot be.
        """
        return RCountDownLatch(self._portal, self._core.count_down_latch(name))
