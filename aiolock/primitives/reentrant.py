"""The primitives that a task can nest in."""

from __future__ import annotations

from datetime import timedelta
from typing import Never

from ..core.acquisition import Acquisition
from ..core.lease import Lease, Owner
from .base import Primitive
from .options import ACQUIRE_HINTS, DEFAULT, Default, refuse_foreign


class Reentrant(Primitive):
    """Reentrant by task: a task that holds it acquires it again at once, and a child task by its owner."""

    __slots__ = ()

    def acquire(
        self,
        *,
        timeout: float | timedelta | Default | None = DEFAULT,
        owner: Owner | None = None,
        **foreign: Never,
    ) -> Acquisition[Lease]:
        """Acquire, waiting for others: `await` it for a lease, or `async with` it for a guarded block.

        Args:
            timeout: seconds to wait; 0 for one attempt, None for without limit; the lock's `acquire_timeout` if not
                given. It is `timeout=` here and not `asyncio.wait_for` around it, which on Python 3.11 acquires in
                another task.
            owner: `lease.owner` of a lease whose hold this task shall share.

        Returns:
            An awaitable context manager. A plain `await` guards no block: `lease.release()` raises `LockLost` if it
            was lost.

        Raises:
            AcquireTimeout: the timeout is over; names the holder, or says that Redis has not answered yet.
            NotAcquired: this task would wait for itself: it reads and wants to write, or holds part of it through
                another lock; or the manager closes.
            BackendError: Redis did not answer within `request_timeout`, or refuses, or too few replicas acknowledged
                (`min_replicas`). A task that is already waiting rides out an outage.
            LockLost: nested, and the hold was lost.
            NotOwned: `owner` holds it no more.
            ConfigurationError: the manager is not entered, closed, of another loop, or of a parent process.
            TypeError: an unknown keyword; says what to do instead of one of another library.

        Cancellation: at each await, once or twice: nothing is held once the undo, written at once, has landed.

        Cost: one round trip if it is free. Else the same request is a place in the server's queue: of a lock for all
        tasks of this process, so that those behind it ask nothing; of a fair lock, or a read-write lock, for each task.
        While it waits, the manager sends one refresh each `liveness`/3 for all of them. When it is its turn a message
        comes; a lock then confirms it by one request, whose answer the block need not wait for. A hand-off from a task
        of this process comes with that one's release.
        """
        if foreign:
            refuse_foreign(foreign, ACQUIRE_HINTS, ("timeout", "owner"))
        return self._obtain(self._calls, timeout, owner)

    def try_acquire(self, **foreign: Never) -> Acquisition[Lease | None]:
        """Acquire in one attempt, never waiting: the lease is None if somebody else holds it.

        It is refused, too, while somebody waits: whoever asks in one attempt overtakes nobody.

        Raises and cancellation: as `acquire()`. Cost: one round trip; none if it is a lock that a task of this process
        holds or waits for.
        """
        if foreign:
            refuse_foreign(foreign, ACQUIRE_HINTS, ("none",))
        return self._obtain_now(self._calls)
