"""What a manager makes: the primitives. All but the lock are imported when one is made."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Unpack

from ..core.acquisition import Acquisition
from ..core.lease import Lease
from ..core.policy import Policy, ShortTtl, check_replica_timeout
from ..core.resume import read, resume
from ..core.runtime import Runtime
from ..scripts.keys import check_name
from ..usage import usage
from .lock import Lock
from .options import LATCH, LATCH_TTL, LOCK, SEMAPHORE, LockOptions, policy_of

if TYPE_CHECKING:
    from ..backends.redis import Replicas
    from .condition import Condition
    from .fair_lock import FairLock
    from .latch import Latch
    from .multi_lock import MultiLock
    from .presence import LeaseInfo, WaitInfo
    from .rw_lock import RWLock
    from .semaphore import Semaphore


class LockFactory:
    """Makes the primitives of one manager, and tells which are in use; a base of `LockManager`.

    Args:
        runtime: the manager's.
        policy: what applies where a lock's options say nothing.
        margin: the manager's own; None for the usual share of each ttl.
        replicas: which must acknowledge; None for none.
        short: warns of a ttl that is too short for this server.
    """

    def __init__(
        self,
        runtime: Runtime,
        policy: Policy,
        margin: float | timedelta | None,
        replicas: Replicas | None,
        short: ShortTtl,
    ) -> None:
        self._runtime = runtime
        self._policy = policy
        self._margin = margin
        self._replicas = replicas
        self._short = short

    def leases(self) -> list[LeaseInfo]:
        """Return what tasks of this process hold through this manager, the oldest first. Lost leases count until they
        are released. No I/O; `lock.holders()` asks the server.

        Example:
            ```python
            for lease in locks.leases():
                print(lease.kind, lease.name, lease.task, lease.held_for)
            ```
        """
        from .presence import leases_of

        return leases_of(self._runtime)

    def waiting(self) -> list[WaitInfo]:
        """Return which acquires of this process wait, the oldest first: for locks of any kind, not for latches or
        conditions. No I/O; `lock.waiters()` asks the server.
        """
        from .presence import waits_of

        return waits_of(self._runtime)

    @usage(LOCK)
    def lock(self, name: str, **options: Unpack[LockOptions]) -> Lock:
        """Return a reentrant lock, for which processes queue and take turns. No I/O; works before you enter the
        manager.

        Args:
            name: any text of 1 to 512 bytes in UTF-8.
            options: keywords: `ttl`, `acquire_timeout`, `renew`, `max_hold`, `hold_at_least`, `cancel_on_loss` and
                `metadata`, as `LockOptions` explains them.

        Raises:
            ConfigurationError: an argument that cannot work.
            TypeError: an unknown keyword; for one of another library the message says what to do instead.
        """
        return Lock(self._runtime, *self._named(name, options))

    @usage("locks.fair_lock('a', ttl=30)")
    def fair_lock(self, name: str, **options: Unpack[LockOptions]) -> FairLock:
        """Return the lock of that name, for tasks that enter in the order in which they ask, whatever process they are
        in.

        It excludes `lock()` of the same name, and nests with it in one task. Only the waiting differs: each task has a
        place of its own, and is not overtaken. Without waiters it costs as much as `lock()`; otherwise each entry
        needs a request to queue, and one when it is its turn.

        Arguments and errors: as for `lock()`. No I/O.
        """
        from .fair_lock import FairLock

        self._runtime.backend.abilities.need_queues(name, "fair locks")
        return FairLock(self._runtime, *self._named(name, options))

    def multi_lock(self, *names: str, **options: Unpack[LockOptions]) -> MultiLock:
        """Return several locks as one, all or none: the same locks that `lock()` returns.

        Args:
            names: 1 to 10,000 different names of 1 to 512 bytes in UTF-8, in any order; duplicates count once.
            options: as for `lock()`, but not `hold_at_least`.

        Errors: as for `lock()`. No I/O.
        """
        from ..scripts.multi import joined
        from .multi_lock import MultiLock, check_names

        parts = check_names(names)
        self._runtime.backend.abilities.need_scripts(joined(parts), "multi locks")
        return MultiLock(self._runtime, parts, self._policy_of(joined(parts), options))

    def condition(self, lock: Lock) -> Condition:
        """Return the condition variable of a lock: tasks that hold it wait until another says that something changed.

        Args:
            lock: `lock()` or `fair_lock()` of this manager; all conditions of one lock name are the same condition.

        Raises:
            ConfigurationError: not a lock, or another manager's; on a quorum.

        Cost: none, it does no I/O.
        """
        from .condition import Condition

        if isinstance(lock, Lock):
            self._runtime.backend.abilities.need_scripts(lock.name, "conditions")
        return Condition(self._runtime, lock)

    @usage("locks.rw_lock('a', ttl=30)")
    def rw_lock(self, name: str, **options: Unpack[LockOptions]) -> RWLock:
        """Return a lock for many readers or one writer: `async with rw.read`, `async with rw.write`.

        Arguments and errors: as for `lock()`. No I/O.
        """
        from .rw_lock import RWLock

        self._runtime.backend.abilities.need_queues(name, "read-write locks")
        return RWLock(self._runtime, *self._named(name, options))

    @usage(SEMAPHORE)
    def semaphore(self, name: str, permits: int, *, slots: bool = False, **options: Unpack[LockOptions]) -> Semaphore:
        """Return a semaphore: limits concurrent holders across processes; each acquisition gets its own lease.

        Args:
            name: any text of 1 to 512 bytes in UTF-8.
            permits: how many, from 1. While others hold it or wait for it, their number counts, and a manager with
                another one logs a WARNING; `set_permits()` changes it for all.
            slots: each lease learns which permits it has, of at most 1,000: `lease.slot`, or `lease.slots` of several.
            options: as for `lock()`.

        Errors: as for `lock()`. No I/O.
        """
        from .semaphore import Semaphore

        name, policy = self._named(name, options)
        self._runtime.backend.abilities.need_queues(name, "semaphores")
        if slots:
            self._runtime.backend.abilities.need_scripts(name, "slots of a semaphore")
        return Semaphore(self._runtime, name, permits, policy, slots)

    @usage(LATCH)
    def latch(self, name: str, count: int, *, ttl: float | timedelta = LATCH_TTL) -> Latch:
        """Return a count-down latch. No I/O; works before you enter the manager.

        Args:
            name: any text of 1 to 512 bytes in UTF-8; one for each occasion, because an open latch stays open.
            count: how many counts open it, 1 to 100,000. The first use of the name decides; a manager with another
                number logs a warning.
            ttl: seconds the server keeps it after its last use, 0.1 s to 30 days; by default a day. Waiting is a use.

        Raises:
            ConfigurationError: an argument that cannot work.
        """
        from .latch import Latch

        self._runtime.backend.abilities.need_scripts(name, "latches")
        return Latch(self._runtime, name, count, ttl)

    def resume(self, ticket: str, **options: Unpack[LockOptions]) -> Acquisition[Lease]:
        """Continue a lease that another process detached: `await` it for a lease, or `async with` it for a guarded
        block.

        The lease has a new owner and a higher fence, this manager renews it, and your keywords apply, which are those
        of `lock()`. Nobody can acquire it in between. It never waits: either the ticket is valid now, or it raises.

        Args:
            ticket: what `lease.detach()` returned.
            options: as for `lock()`.

        Returns:
            An awaitable context manager, like `lock.acquire()`.

        Raises:
            ConfigurationError: not a ticket, a damaged one, or one of another namespace, database or kind; a keyword
                that cannot work; or the manager is not entered, closed, of another loop, or of a parent process.
            NotOwned: it was resumed before, came after its ttl, was made up, or the lock was force-released.
            BackendError: Redis is unreachable or refuses. If it never saw the request, the ticket is still valid.
            NotAcquired: the answer came after the lease's own deadline, or the manager closes.

        Cancellation: either the ticket is still valid, or the lock is released, and its next holder sees `abandoned`.
        The release is sent at once. Cost: one round trip.
        """
        known = read(self._runtime, ticket)
        _, policy = self._named(known.name, options)

        async def take_over() -> Lease:
            return await resume(self._runtime, policy, known)

        return Acquisition(known.name, take_over, "resume()")

    def _named(self, name: str, options: LockOptions) -> tuple[str, Policy]:
        name = check_name(name)
        return name, self._policy_of(name, options)

    def _policy_of(self, name: str, options: LockOptions) -> Policy:
        policy = policy_of(name, self._policy, self._margin, options)
        if policy == self._policy:
            return self._policy  # one for all locks that do not differ
        if self._replicas is not None:
            check_replica_timeout(name, self._replicas.timeout, policy.ttl)
        self._short.check(policy)
        return policy
