"""What a manager makes for Redisson's wire."""

from __future__ import annotations

from typing import Unpack

from ..core.policy import Policy
from ..errors import ConfigurationError
from ..primitives.factory import LockFactory
from ..primitives.options import LOCK, LockOptions
from ..scripts.redisson.keys import RedissonKeys
from ..usage import usage
from .count_down_latch import RCountDownLatch
from .fair_lock import RFairLock
from .fenced_lock import RFencedLock
from .lock import RLock
from .permits import RPermitExpirableSemaphore
from .rw_lock import RReadWriteLock


class Redisson:
    """Redisson's locks, for a manager that waits for them, renews them and closes them as it does its own.

    A name is a key, as in Java, whatever the manager's namespace is. The methods say what is shared; on one name, use
    what the Java side uses.

    Args:
        locks: the manager, entered or not.

    Raises:
        ConfigurationError: its locks are on a quorum, or in another store than Redis.

    Example:
        ```python
        async with LockManager("redis://localhost:6379/0") as locks:
            java = Redisson(locks)
            async with java.lock("orders"):
                ...
        ```
    """

    def __init__(self, locks: LockFactory) -> None:
        if not isinstance(locks, LockFactory):
            raise ConfigurationError("", f"Redisson() needs an aiolock.LockManager, not {locks!r}")
        self._locks = locks
        self._runtime = locks._runtime
        self._runtime.backend.abilities.need_masters("Redisson's locks")

    @usage(LOCK)
    def lock(self, name: str, **options: Unpack[LockOptions]) -> RLock:
        """Return `getLock(name)`. No I/O; works before you enter the manager.

        Args:
            name: the key, 1 to 512 bytes in UTF-8.
            options: keywords, as for `LockManager.lock()`, but not `metadata` and `hold_at_least`.

        Raises:
            ConfigurationError: an argument that cannot work.
            TypeError: an unknown keyword; for one of another library the message says what to do instead.
        """
        return RLock(self._runtime, *self._named(name, options))

    @usage("locks.fenced_lock('a', ttl=30)")
    def fenced_lock(self, name: str, **options: Unpack[LockOptions]) -> RFencedLock:
        """Return `getFencedLock(name)`: `lock()` of the same name, with leases that have a fence.

        Arguments and errors: as for `lock()`. No I/O.
        """
        return RFencedLock(self._runtime, *self._named(name, options))

    @usage("locks.fair_lock('a', ttl=30)")
    def fair_lock(self, name: str, **options: Unpack[LockOptions]) -> RFairLock:
        """Return `getFairLock(name)`: first come, first served.

        It nests with `lock()` of the same name in one task, as in Java. But a waiter of one gets no message of a
        release of the other: use one of them for a name.

        Arguments and errors: as for `lock()`. No I/O.
        """
        return RFairLock(self._runtime, *self._named(name, options))

    @usage("locks.rw_lock('a', ttl=30)")
    def rw_lock(self, name: str, **options: Unpack[LockOptions]) -> RReadWriteLock:
        """Return `getReadWriteLock(name)`: `async with rw.read`, `async with rw.write`. For Redisson 4.

        Arguments and errors: as for `lock()`. No I/O.
        """
        return RReadWriteLock(self._runtime, *self._named(name, options))

    @usage("locks.permit_expirable_semaphore('a', ttl=30)")
    def permit_expirable_semaphore(self, name: str, **options: Unpack[LockOptions]) -> RPermitExpirableSemaphore:
        """Return `getPermitExpirableSemaphore(name)`, of which `try_set_permits()` says how many permits it has.

        Arguments and errors: as for `lock()`. No I/O.
        """
        return RPermitExpirableSemaphore(self._runtime, *self._named(name, options))

    @usage("locks.count_down_latch('a')")
    def count_down_latch(self, name: str) -> RCountDownLatch:
        """Return `getCountDownLatch(name)`, of which `try_set_count()` says how many counts open it. No I/O.

        Args:
            name: the key, 1 to 512 bytes in UTF-8.

        Raises:
            ConfigurationError: a name that cannot be.
        """
        latch = RCountDownLatch(self._runtime, name)
        self._keep_together(name)
        return latch

    def _named(self, name: str, options: LockOptions) -> tuple[str, Policy]:
        name, policy = self._locks._named(name, options)
        if policy.metadata is not None:
            raise ConfigurationError(name, f"Redisson keeps no metadata of lock {name!r}: leave out metadata=")
        self._keep_together(name)
        return name, policy

    def _keep_together(self, name: str) -> None:
        slot = self._runtime.backend.slot
        if slot(name) != slot(RedissonKeys(name).channel):
            raise ConfigurationError(
                name,
                f"the braces in {name!r} put Redisson's keys of that name into several slots of a cluster, as in Java: "
                "use a name without braces, or with one {tag}",
            )
