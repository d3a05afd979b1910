"""The front door for threads: its lifecycle and what it makes."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from types import TracebackType
from typing import TYPE_CHECKING, Literal, Unpack, cast

from ..backends.base import Backend
from ..manager import LockManager as AsyncLockManager
from ..manager_options import ManagerOptions, QuorumOptions
from ..primitives.options import LATCH, LATCH_TTL, LOCK, SEMAPHORE
from ..usage import Renamed, SyncOnly, usage
from .condition import Condition
from .latch import Latch
from .lease import Lease, watch_over
from .lock import FairLock, Lock
from .multi_lock import MultiLock
from .options import LockOptions, split
from .portal import Portal
from .rw_lock import RWLock
from .semaphore import Semaphore

if TYPE_CHECKING:
    from ..backends.redis import Client, ClusterClient
    from ..backends.redis.blocking import BlockingClient
    from ..backends.redis.seeds import Seeds
    from ..backends.redis.sentinels import Sentinels
    from ..backends.stores import Database
    from ..primitives.presence import LeaseInfo, WaitInfo


class LockManager(SyncOnly, Renamed):
    """All locks of one process, for threads: the locks of `aiolock.LockManager`, and the same on the server.

    An event loop in a thread of its own renews, waits and listens. So blocking calls under a lock are fine, but a
    thread cannot be cancelled when its lock is lost: see `Lease`.

    Creating one does no I/O. `with manager:` connects, or `manager.open()` in a start-up hook. Share it between
    threads. If you fork, open it after the fork. One that you leave open is closed when the interpreter exits.

    Args:
        source: as for `aiolock.LockManager`; or a `redis.Redis` or `valkey.Valkey`, whose address and credentials are
            used for a connection of our own.
        options: its keywords, with the same meaning.

    Raises:
        ConfigurationError: an argument that cannot work.
        TypeError: an unknown keyword.

    Example:
        ```python
        from aiolock.sync import LockManager

        with LockManager("redis://localhost:6379/0") as locks:
            with locks.lock("order:42") as lease:
                charge(lease.fence)
        ```
    """

    _called = "locks"

    def __init__(
        self,
        source: str | Client | BlockingClient | ClusterClient | Seeds | Sentinels | Backend | Database,
        **options: Unpack[ManagerOptions],
    ) -> None:
        if hasattr(source, "connection_pool"):
            from ..backends.redis.blocking import source_of

            source = source_of(source)
        self._begin(AsyncLockManager(cast("str", source), **options))

    def _begin(self, core: AsyncLockManager) -> None:
        self._core = core
        self._portal = Portal(self._close_at_exit)

    @classmethod
    def _of(cls, core: AsyncLockManager) -> LockManager:
        manager = cls.__new__(cls)
        manager._begin(core)
        return manager

    @classmethod
    def cluster(cls, urls: Sequence[str], **options: Unpack[ManagerOptions]) -> LockManager:
        """Return a manager whose locks are kept by the masters of a Redis Cluster.

        Arguments and errors: as for `aiolock.LockManager.cluster()`.
        """
        return cls._of(AsyncLockManager.cluster(urls, **options))

    @classmethod
    def sentinel(
        cls,
        addresses: Sequence[tuple[str, int] | str],
        *,
        service: str,
        username: str | None = None,
        password: str | None = None,
        db: int = 0,
        **options: Unpack[ManagerOptions],
    ) -> LockManager:
        """Return a manager whose locks are kept by the master that Sentinels name, even after a failover.

        Arguments and errors: as for `aiolock.LockManager.sentinel()`.
        """
        return cls._of(
            AsyncLockManager.sentinel(
                addresses, service=service, username=username, password=password, db=db, **options
            )
        )

    @classmethod
    def quorum(cls, sources: Sequence[str | Client | Backend], **options: Unpack[QuorumOptions]) -> LockManager:
        """Return a manager whose locks are held on a majority of independent servers.

        Arguments and errors: as for `aiolock.LockManager.quorum()`.
        """
        return cls._of(AsyncLockManager.quorum(sources, **options))

    def open(self, *, strict: bool = True) -> LockManager:
        """Connect, if you cannot use `with manager:`. Pair it with `close()`; another thread may call that.

        Args:
            strict: as for `aiolock.LockManager.open()`: False to be open even if the server does not answer yet.

        Returns:
            The manager.

        Raises:
            BackendError: the server does not answer within `request_timeout`, if `strict`; or it refuses.
            ConfigurationError: open already, or opened before a fork; closed meanwhile; this thread runs an event loop;
                gevent or eventlet stands in for threads; or the server is too old.

        Cost: one thread; one connection, two with `min_replicas`, and one subscription, none if it polls.
        """

        async def work() -> LockManager:
            await self._core.open(strict=strict)
            return self

        return self._portal.open(work)

    @property
    def is_open(self) -> bool:
        """Whether locks may be asked for, in this process; see `aiolock.LockManager.is_open`. No I/O."""
        return self._portal.ready and self._core.is_open

    def ping(self) -> Literal[True]:
        """Ask the server now, as an acquire would; see `aiolock.LockManager.ping()`.

        Returns:
            True.

        Raises:
            BackendError: no answer within `request_timeout`, Redis is unreachable or refuses.
            ConfigurationError: the manager is not open, or in a forked child; or this thread runs an event loop.

        Cost: one round trip, read-only.
        """
        return self._portal.call("", self._core.ping)

    @property
    def connected(self) -> bool:
        """Whether it is open, and the server could be reached when that was last tried; see
        `aiolock.LockManager.connected`. No I/O.
        """
        return self._portal.ready and self._core.connected

    def close(self) -> None:
        """Close the manager. No acquire starts any more, and waiting threads get `NotAcquired`. Leases are lost with
        `CLOSED`. It waits for at most `request_timeout` until the blocks of other threads have ended; then their locks
        are released. A block that does not end keeps its key until its ttl.

        It is harmless to close a manager that is closed or was never opened, or that another call is closing (which
        this call does not wait for), or in a forked child. You can open it again.

        Raises:
            ConfigurationError: this thread runs an event loop, or waits for something here, and this is a signal's
                handler; nothing is closed.

        If Ctrl-C interrupts it, it closes without further waiting.
        """
        self._close()

    def _close_at_exit(self) -> None:
        """The interpreter exits: only daemon threads can still be inside blocks, and they do not end any more."""
        self._close(waits=False)

    def _close(self, waits: bool = True) -> None:
        try:
            if self._portal.begin_closing():
                self._portal.call("", lambda: self._core._lifecycle.close(waits), certain=True)
                self._portal.close()
        except BaseException:
            if self._portal.closing_here:
                self._portal.close()
            raise

    def __enter__(self) -> LockManager:
        """Connect, as `open()` does."""
        return self.open()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def leases(self) -> list[LeaseInfo]:
        """Return what threads of this process hold through this manager; see `aiolock.LockManager.leases()`. No I/O.

        Raises:
            ConfigurationError: the manager is not open, or in a forked child.
        """

        async def work() -> list[LeaseInfo]:
            return self._core.leases()

        return self._portal.call("", work)

    def waiting(self) -> list[WaitInfo]:
        """Return which acquires of this process wait; see `aiolock.LockManager.waiting()`. No I/O.

        Raises:
            ConfigurationError: the manager is not open, or in a forked child.
        """

        async def work() -> list[WaitInfo]:
            return self._core.waiting()

        return self._portal.call("", work)

    @usage(LOCK)
    def lock(self, name: str, **options: Unpack[LockOptions]) -> Lock:
        """Return a reentrant lock, for which processes queue and take turns. No I/O; works before you open the manager.

        Args:
            name: any text of 1 to 512 bytes in UTF-8.
            options: keywords: `ttl`, `acquire_timeout`, `renew`, `max_hold`, `hold_at_least`, `metadata` and `on_lost`,
                as `LockOptions` explains them.

        Raises:
            ConfigurationError: an argument that cannot work.
            TypeError: an unknown keyword; for one of another library the message says what to do instead.
        """
        known, on_lost = split(options)
        return Lock(self._portal, self._core.lock(name, **known), on_lost)

    @usage("locks.fair_lock('a', ttl=30)")
    def fair_lock(self, name: str, **options: Unpack[LockOptions]) -> FairLock:
        """Return the lock of that name, for threads that enter in the order in which they ask, whatever process they
        are in.

        Arguments and errors: as for `lock()`. No I/O.
        """
        known, on_lost = split(options)
        return FairLock(self._portal, self._core.fair_lock(name, **known), on_lost)

    def multi_lock(self, *names: str, **options: Unpack[LockOptions]) -> MultiLock:
        """Return several locks as one, all or none: the same locks that `lock()` returns.

        Args:
            names: 1 to 10,000 different names of 1 to 512 bytes in UTF-8, in any order; duplicates count once.
            options: as for `lock()`, but not `hold_at_least`.

        Errors: as for `lock()`. No I/O.
        """
        known, on_lost = split(options)
        return MultiLock(self._portal, self._core.multi_lock(*names, **known), on_lost)

    def condition(self, lock: Lock) -> Condition:
        """Return the condition variable of a lock: threads that hold it wait until another says that something changed.

        Args:
            lock: `lock()` or `fair_lock()` of this manager; all conditions of one lock name are the same condition.

        Raises:
            ConfigurationError: not a lock, or another manager's; on a quorum.

        Cost: none, it does no I/O.
        """
        core = self._core.condition(lock._core if isinstance(lock, Lock) else lock)
        return Condition(self._portal, core, lock)

    @usage("locks.rw_lock('a', ttl=30)")
    def rw_lock(self, name: str, **options: Unpack[LockOptions]) -> RWLock:
        """Return a lock for many readers or one writer: `with rw.read`, `with rw.write`.

        Arguments and errors: as for `lock()`. No I/O.
        """
        known, on_lost = split(options)
        return RWLock(self._portal, self._core.rw_lock(name, **known), on_lost)

    @usage(SEMAPHORE)
    def semaphore(self, name: str, permits: int, *, slots: bool = False, **options: Unpack[LockOptions]) -> Semaphore:
        """Return a semaphore: limits concurrent holders across processes; each acquisition gets its own lease.

        Args:
            name: any text of 1 to 512 bytes in UTF-8.
            permits: how many, from 1. While others hold it or wait for it, theirs counts, and this logs a WARNING.
            slots: each lease learns which permits it has, of at most 1,000: `lease.slot`, or `lease.slots` of several.
            options: as for `lock()`.

        Errors: as for `lock()`. No I/O.
        """
        known, on_lost = split(options)
        return Semaphore(self._portal, self._core.semaphore(name, permits, slots=slots, **known), on_lost)

    @usage(LATCH)
    def latch(self, name: str, count: int, *, ttl: float | timedelta = LATCH_TTL) -> Latch:
        """Return a count-down latch. No I/O; works before you open the manager.

        Args:
            name: any text of 1 to 512 bytes in UTF-8; one for each occasion, because an open latch stays open.
            count: how many counts open it, 1 to 100,000. The first use of the name decides.
            ttl: seconds the server keeps it after its last use, 0.1 s to 30 days; by default a day. Waiting is a use.

        Raises:
            ConfigurationError: an argument that cannot work.
        """
        return Latch(self._portal, self._core.latch(name, count, ttl=ttl))

    def resume(self, ticket: str, **options: Unpack[LockOptions]) -> Lease:
        """Continue a lease that another process detached, asynchronous or not; `with locks.resume(ticket) as lease:`.

        Args:
            ticket: what `lease.detach()` returned.
            options: as for `lock()`.

        Returns:
            The lease, with a new owner and a higher fence.

        Raises:
            ConfigurationError: not a ticket, a damaged one, or one of another namespace, database or kind; a keyword
                that cannot work; or the manager is not open.
            NotOwned: it was resumed before, came after its ttl, was made up, or the lock was force-released.
            BackendError: Redis is unreachable or refuses. If it never saw the request, the ticket is still valid.
            NotAcquired: the answer came after the lease's own deadline, or the manager closes.

        If Ctrl-C interrupts it, either the ticket is still valid, or the lock is released. Cost: one round trip.
        """
        known, on_lost = split(options)

        async def work() -> Lease:
            lease = Lease(self._portal, await self._core.resume(ticket, **known))
            if on_lost is not None:
                watch_over(lease, on_lost)
            return lease

        return self._portal.call("", work, Lease._take_back)

    def __repr__(self) -> str:
        return repr(self._core)

    def __reduce__(self) -> tuple[object, ...]:
        return self._core.__reduce__()
