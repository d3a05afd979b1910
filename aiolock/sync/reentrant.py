"""The primitives in which a thread can nest."""

from __future__ import annotations

from collections.abc import Awaitable
from datetime import timedelta

from ..core.holding.level import Owner
from ..core.lease import Lease as AsyncLease
from ..primitives.options import ACQUIRE_HINTS, DEFAULT, Default
from ..primitives.reentrant import Reentrant as AsyncReentrant
from ..usage import usage
from .base import Primitive
from .lease import Lease


class Reentrant(Primitive):
    """Reentrant by thread, as `threading.RLock` is: a thread that holds it acquires it again at once."""

    __slots__ = ()

    _core: AsyncReentrant

    @usage("lock.acquire(timeout=2.0)", ACQUIRE_HINTS)
    def acquire(
        self,
        *,
        timeout: float | timedelta | Default | None = DEFAULT,
        owner: Owner | None = None,
    ) -> Lease:
        """Acquire, waiting for others.

        Args:
            timeout: seconds to wait; 0 for one attempt, None for no limit; by default the lock's `acquire_timeout`.
            owner: `lease.owner` of another thread's lease whose hold this thread should share.

        Returns:
            The lease. `with lock.acquire(timeout=2.0) as lease:` releases it at the end of the block; otherwise call
            its `release()`, or the lock's in this thread.

        Raises:
            AcquireTimeout: the timeout is over, and another has it; the message names the holder.
            NotAcquired: this thread would wait for itself: it reads and wants to write, or holds part of it through
                another lock; or the manager closes.
            BackendError: Redis cannot be reached, did not answer within the timeout or `request_timeout`, or refuses;
                or too few replicas acknowledged.
                A thread that already waits keeps waiting through an outage.
            LockLost: nested, and the hold was lost.
            NotOwned: `owner` no longer holds it.
            ConfigurationError: the manager is not open, or in a forked child; or this thread runs an event loop.
            TypeError: an unknown keyword; for one of another library the message says what to do instead.

        If Ctrl-C interrupts it, nothing is held. Cost: that of `aiolock.Lock.acquire()`, and two switches of threads.
        """
        return self._obtain(lambda: self._core.acquire(timeout=timeout, owner=owner))

    @usage("lock.try_acquire(), which never waits, or lock.acquire(timeout=2.0)", ACQUIRE_HINTS)
    def try_acquire(self) -> Lease | None:
        """Acquire in one attempt, never waiting.

        Returns:
            The lease; None if another owner holds it, or if others wait.

        Raises: as `acquire()`. Cost: one round trip; none if it is a lock that a thread of this process holds or waits
        for.

        Example:
            ```python
            lease = lock.try_acquire()
            if lease is None:
                return "somebody else has it"
            with lease: ...
            ```
        """
        return self._obtain_now(self._core.try_acquire)

    def _begin(self) -> Awaitable[AsyncLease]:
        return self._core.acquire()
