"""What has permits: each acquisition takes some, and can return some."""

from __future__ import annotations

from abc import abstractmethod
from datetime import timedelta

from ..core.acquisition import Acquisition, Attempt
from ..core.calls import Calls
from ..core.holding.release import Releasing
from ..core.lease import Lease
from ..usage import usage
from .base import Primitive
from .options import ACQUIRE_HINTS, DEFAULT, Default


class Permits(Primitive):
    """Limits concurrent holders; each acquisition gets a lease of its own."""

    __slots__ = ()

    _called = "semaphore"

    @usage("semaphore.acquire(2, timeout=2.0)", ACQUIRE_HINTS)
    def acquire(self, n: int = 1, *, timeout: float | timedelta | Default | None = DEFAULT) -> Acquisition[Lease]:
        """Acquire `n` permits, all or none, waiting for others: `await` it for a lease, or `async with` it.

        Args:
            n: how many, for this one lease.
            timeout: seconds to wait; 0 for one attempt, None for no limit; by default the semaphore's
                `acquire_timeout`.

        Raises:
            AcquireTimeout: the timeout is over, and others have them; the message says who.
            BackendError: Redis cannot be reached, did not answer within the timeout or `request_timeout`, or refuses.
                A task that already waits keeps waiting through an outage.
            ConfigurationError: more than there are; or as for `Lock.acquire()`.

        Cancellation: at each await, once or twice: you hold nothing. A grant on its way is given back at once; in
        an outage it ends with its ttl at the latest.

        Cost: one round trip if there are enough; otherwise a message, and one more when they are free.
        """
        return self._obtain(self._for(n), timeout)

    @usage("semaphore.try_acquire(2), which never waits, or semaphore.acquire(2, timeout=2.0)", ACQUIRE_HINTS)
    def try_acquire(self, n: int = 1) -> Attempt:
        """Acquire `n` permits in one attempt, never waiting: the lease is None if there are not enough, or if others
        wait in a queue.

        Raises and cancellation: as for `acquire()`. Cost: one round trip.
        """
        return self._obtain_now(self._for(n))

    def release(self, n: int | None = None) -> Releasing:
        """Release the calling task's innermost lease, or `n` permits of it. Sent when you call it.

        Args:
            n: how many, at most as many as that lease has; None for all.

        Returns:
            Something that you may await, as `lease.release(n)` does. Awaiting it raises `LockLost` if the lease was
            lost, and `BackendError` if the server refuses.

        Raises:
            NotOwned: this task has no lease: call `lease.release()` on the lease that another task acquired. Or an
                `async with` block has it, which releases the rest at its end.
            ConfigurationError: the lease has fewer.

        Cancellation: they are still released. Cost: one round trip.
        """
        return self._innermost(n).release(n)

    @abstractmethod
    def _for(self, n: int) -> Calls:
        """Requests for so many permits.

        Raises:
            ConfigurationError: not a number of permits.
        """
