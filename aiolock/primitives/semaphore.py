"""The semaphore: limits concurrent holders across processes; each acquisition gets its own lease."""

from __future__ import annotations

from typing import ClassVar

from ..clock import format_seconds
from ..core.calls import Contention
from ..core.lease import Lease
from ..core.policy import Policy, check_flag
from ..core.runtime import Runtime
from ..errors import ConfigurationError
from ..log import Log
from ..record import Record
from ..scripts.queue import QueueCalls
from .kinds import SEMAPHORE, semaphore_calls
from .looking import Looking
from .permits import Permits
from .queued import Queueing

logger: Log = Log("aiolock.semaphore")

MAX_PERMITS = 2**31 - 1
MOST_SLOTS = 1000


class SemaphoreInfo(Record):
    """A view of a semaphore, as the server saw it.

    Attributes:
        permits: how many there are in all, which counts for everybody: what those who hold or wait go by; if nobody
            does, `declared`; or what `set_permits()` said.
        declared: the number that this semaphore was made with.
        available: how many are free.
        used: how many are taken; for a while more than there are, if `set_permits()` lowered their number.
        holders: how many leases exist.
        waiters: how many wait in the queue, over all processes.
        position: the place of this manager's first waiter, from 1; None if it has none.
    """

    permits: int
    declared: int
    available: int
    used: int
    holders: int
    waiters: int
    position: int | None


class Semaphore(Looking, Permits, Queueing):
    """Limits concurrent holders across processes; each acquisition gets its own lease, renewed and guarded like a
    lock's.

    Comes from `LockManager.semaphore()`. A crashed holder's permits come back after its ttl. Requests are served in
    order, so small ones do not starve a large one, and one attempt overtakes no one. Not reentrant: each acquisition
    takes permits. One that waits has an entry in the server's queue, which one command per second refreshes for all
    waiters of this manager, and gets one message when it is its turn.

    Args:
        runtime: the manager's.
        name: what is limited.
        permits: how many, unless others hold it or wait for it with another number, or `set_permits()` gave it one.
        policy: how they are held.
        slots: each lease learns which permits it has.
    """

    __slots__ = ("_permits", "_slots", "_warned")

    _calls: QueueCalls
    contention: ClassVar[Contention] = SEMAPHORE

    def __init__(self, runtime: Runtime, name: str, permits: int, policy: Policy, slots: bool = False) -> None:
        self._permits = check_permits(name, "permits", permits)
        self._slots = check_slots(name, slots, permits)
        self._warned = False
        super().__init__(runtime, semaphore_calls(runtime, name, 1, permits, slots), policy)

    async def available(self) -> int:
        """Return how many permits are free. Raises and costs what `info()` does."""
        return (await self.info()).available

    async def used(self) -> int:
        """Return how many permits are taken. Raises and costs what `info()` does."""
        return (await self.info()).used

    async def info(self) -> SemaphoreInfo:
        """Return how many permits there are, are free and taken, and how many wait; and which number of permits counts.

        Raises:
            BackendError: Redis is unreachable or refuses.

        Cancellation: nothing was changed. Cost: one round trip.
        """
        seen = await self._standing()
        self._agree(seen.capacity)
        free = max(0, seen.capacity - seen.used)
        return SemaphoreInfo(seen.capacity, self._permits, free, seen.used, seen.holders, seen.waiters, seen.rank)

    async def set_permits(self, permits: int) -> None:
        """Change how many permits there are, for every manager; wakes the waiters that now fit.

        It takes none from a holder: if more are taken than this, nobody enters until enough are free. A waiting
        request that is larger than this fails with `ConfigurationError`.

        Raises:
            ConfigurationError: not a whole number from 1; or on etcd, where each manager says how many there are.
            BackendError: Redis is unreachable or refuses.

        Cancellation: it may still happen. Cost: one round trip.
        """
        permits = check_permits(self.name, "permits", permits)
        self._runtime.backend.abilities.need_scripts(self.name, "changes of permits")
        await self._runtime.ask(self._calls.set_capacity(permits), "setting the permits of")
        self._permits = permits

    def _obtained(self, lease: Lease) -> None:
        self._agree(lease._hold.capacity)

    def _agree(self, permits: int) -> None:
        if permits != self._permits and not self._warned:
            self._warned = True
            logger.warning(
                "semaphore %r has %d permits, not the %d it was made with here, until nobody holds it or waits for it; "
                "change it for all with set_permits()",
                self.name,
                permits,
                self._permits,
                extra={"lock_name": self.name},
            )

    def _for(self, n: int) -> QueueCalls:
        if check_permits(self.name, "n", n) == 1:
            return self._calls
        return semaphore_calls(self._runtime, self.name, n, self._permits, self._slots)

    def __repr__(self) -> str:
        return f"<Semaphore {self.name!r} permits={self._permits} ttl={format_seconds(self._policy.ttl)}>"


def check_permits(name: str, option: str, value: object) -> int:
    """Return `value` as a number of permits.

    Raises:
        ConfigurationError: not a whole number from 1.
    """
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= MAX_PERMITS:
        raise ConfigurationError(
            name, f"{option} of semaphore {name!r} must be a whole number from 1 to {MAX_PERMITS}, not {value!r}"
        )
    return value


def check_slots(name: str, value: object, permits: int) -> bool:
    """Return `value` if it is True or False, and if there are not too many permits for it.

    Raises:
        ConfigurationError: otherwise.
    """
    if check_flag(name, "slots", value) and permits > MOST_SLOTS:
        raise ConfigurationError(
            name, f"slots=True of semaphore {name!r} needs {MOST_SLOTS} permits at most, as each grant looks at all"
        )
    return bool(value)
