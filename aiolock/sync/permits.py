"""What has permits: each acquisition takes some, and can return some; for threads."""

from __future__ import annotations

from collections.abc import Awaitable
from datetime import timedelta

from ..core.lease import Lease as AsyncLease
from ..primitives.options import ACQUIRE_HINTS, DEFAULT, Default
from ..primitives.permits import Permits as AsyncPermits
from ..usage import usage
from .base import Primitive
from .lease import Lease


class Permits(Primitive):
    """Limits concurrent holders; each acquisition gets a lease of its own."""

    __slots__ = ()

    _called = "semaphore"

    _core: AsyncPermits

    @usage("semaphore.acquire(2, timeout=2.0)", ACQUIRE_HINTS)
    def acquire(self, n: int = 1, *, timeout: float | timedelta | Default | None = DEFAULT) -> Lease:
        """Acquire `n` permits, all or none, waiting for others.

        Args:
            n: how many, for this one lease.
            timeout: seconds to wait; 0 for one attempt, None for no limit; by default the semaphore's
                `acquire_timeout`.

        Returns:
            The lease; `with semaphore.acquire(2) as lease:` releases it at the end of the block.

        Raises:
            AcquireTimeout: the timeout is over, and others have them; the message says who.
            BackendError: Redis cannot be reached, did not answer within the timeout or `request_timeout`, or refuses.
                A thread that already waits keeps waiting through an outage.
            ConfigurationError: more than there are; or as for `Lock.acquire()`.

        If Ctrl-C interrupts it, nothing is held. Cost: that for a task, and two switches of
        threads.
        """
        return self._obtain(lambda: self._core.acquire(n, timeout=timeout))

    @usage("semaphore.try_acquire(2), which never waits, or semaphore.acquire(2, timeout=2.0)", ACQUIRE_HINTS)
    def try_acquire(self, n: int = 1) -> Lease | None:
        """Acquire `n` permits in one attempt, never waiting.

        Returns:
            The lease; None if there are not enough, or if others wait in a queue.

        Raises: as `acquire()`. Cost: one round trip.
        """
        return self._obtain_now(lambda: self._core.try_acquire(n))

    def release(self, n: int | None = None) -> None:
        """Release the calling thread's innermost lease, or `n` permits of it, and wait for the answer.

        Args:
            n: how many, at most as many as that lease has; None for all.

        Raises:
            NotOwned: this thread has no lease: call `lease.release()` on the lease that another thread acquired. Or a
                `with` block has it, which releases the rest at its end.
            LockLost: the lease was lost.
            BackendError: the server refuses.
            ConfigurationError: the lease has fewer.

        If a signal interrupts it, they are still released. Cost: one round trip.
        """
        self._release(lambda: self._core.release(n))

    def _begin(self) -> Awaitable[AsyncLease]:
        return self._core.acquire()
