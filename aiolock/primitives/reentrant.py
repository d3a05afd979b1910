"""The primitives in which a task can nest."""

from __future__ import annotations

from datetime import timedelta

from ..core.acquisition import Acquisition, Attempt
from ..core.holding.level import Owner
from ..core.lease import Lease
from ..usage import usage
from .base import Primitive
from .options import ACQUIRE_HINTS, DEFAULT, Default


class Reentrant(Primitive):
    """Reentrant by task: a task that holds it acquires it again at once, and so does a child task with its owner."""

    __slots__ = ()

    @usage("lock.acquire(timeout=2.0)", ACQUIRE_HINTS)
    def acquire(
        self,
        *,
        timeout: float | timedelta | Default | None = DEFAULT,
        owner: Owner | None = None,
    ) -> Acquisition[Lease]:
        """Acquire, waiting for others: `await` it for a lease, or `async with` it for a guarded block.

        Args:
            timeout: seconds to wait; 0 for one attempt, None for no limit; by default the lock's `acquire_timeout`. Use
                this instead of `asyncio.wait_for`, which acquires in another task on Python 3.11.
            owner: `lease.owner` of a lease whose hold this task should share.

        Returns:
            An awaitable context manager. A plain `await` guards no block: `lease.release()` raises `LockLost` if it was
            lost.

        Raises:
            AcquireTimeout: the timeout is over, and another has it; the message names the holder.
            NotAcquired: this task would wait for itself: it reads and wants to write, or holds part of it through
                another lock; or the manager closes.
            BackendError: Redis cannot be reached, did not answer within the timeout or `request_timeout`, or refuses;
                or too few replicas acknowledged (`min_replicas`). A task that already waits keeps waiting through an
                outage.
            LockLost: nested, and the hold was lost.
            NotOwned: `owner` no longer holds it.
            ConfigurationError: the manager is not entered, closed, of another loop, or of a parent process.
            TypeError: an unknown keyword; for one of another library the message says what to do instead.

        Cancellation: at each await, once or twice: you hold nothing. A grant on its way is given back at once; in
        an outage it ends with its ttl at the latest.

        Cost: one round trip if it is free. Otherwise the same request takes a place in the server's queue: a lock has
        one for all tasks of this process, so that later tasks ask nothing; a fair lock, or a read-write lock, has one
        for each task. While it waits, the manager sends one refresh every `liveness`/3 for all of them. A message tells
        it when it is its turn; it then asks by one request, and the block begins with the answer.
        A hand-off from a task of this process comes with that task's release.
        """
        return self._obtain(self._calls, timeout, owner)

    @usage("lock.try_acquire(), which never waits, or lock.acquire(timeout=2.0)", ACQUIRE_HINTS)
    def try_acquire(self) -> Attempt:
        """Acquire in one attempt, never waiting: the lease is None if another owner holds it.

        It is None, too, while others wait: one attempt overtakes no one.

        Raises and cancellation: as for `acquire()`. Cost: one round trip; none if it is a lock that a task of this
        process holds or waits for.
        """
        return self._obtain_now(self._calls)
