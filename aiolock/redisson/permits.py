"""Redisson's semaphore of permits that expire."""

from __future__ import annotations

from typing import ClassVar

from ..core.calls import Contention
from ..core.policy import Policy
from ..core.runtime import Runtime
from ..errors import ConfigurationError
from ..primitives.kinds import SEMAPHORE
from ..primitives.permits import Permits
from ..primitives.semaphore import check_permits
from ..record import Record
from ..scripts.redisson.permits import PermitCalls

MOST = 1000
"""How many permits one lease may have: each has an id on the server."""


class RPermitExpirableSemaphoreInfo(Record):
    """A view of the semaphore, as the server saw it.

    Attributes:
        permits: how many there are in all: `getPermits()`; 0 if nobody has set them.
        available: how many are free: `availablePermits()`.
        used: how many are taken: `acquiredPermits()`.
    """

    permits: int
    available: int
    used: int


class RPermitExpirableSemaphore(Permits):
    """`RedissonClient.getPermitExpirableSemaphore(name)`: each permit comes back when its time is over, whatever became
    of its holder. Comes from `Redisson.permit_expirable_semaphore()`.

    Use it like a `Semaphore`: here leases are renewed, so that `ttl` says how soon those of a dead process come back.
    In Java nobody renews them. Redisson has no queue for them: all who wait are told of free permits, and they
    race. So small requests can starve a large one. Whoever asks for more than there are waits until somebody sets more.
    A lease has no fence.

    Args:
        runtime: the manager's.
        name: what is limited, and its key.
        policy: how its permits are held.
    """

    __slots__ = ()

    _calls: PermitCalls
    contention: ClassVar[Contention] = SEMAPHORE

    def __init__(self, runtime: Runtime, name: str, policy: Policy) -> None:
        super().__init__(runtime, PermitCalls(name, 1), policy)

    async def try_set_permits(self, permits: int) -> bool:
        """Say how many permits there are: `trySetPermits()`. Whoever says so first is right, here or in Java.

        Returns:
            True if nobody had said so.

        Raises:
            ConfigurationError: not a whole number from 1.
            BackendError: Redis is unreachable or refuses. Without an answer it may have been set.

        Cancellation: it may still happen. Cost: one round trip.
        """
        call = self._calls.set_permits(check_permits(self.name, "permits", permits))
        return await self._runtime.ask(call, "setting the permits of", again=False)

    async def available(self) -> int:
        """Return how many permits are free. Raises and costs what `info()` does."""
        return (await self.info()).available

    async def info(self) -> RPermitExpirableSemaphoreInfo:
        """Return how many permits there are, are free and taken.

        Raises:
            BackendError: Redis is unreachable or refuses.

        Cost: one round trip, read-only.
        """
        free, taken = await self._runtime.ask(self._calls.count(), "looking at")
        return RPermitExpirableSemaphoreInfo(free + taken, max(0, free), taken)

    def _for(self, n: int) -> PermitCalls:
        if check_permits(self.name, "n", n) > MOST:
            raise ConfigurationError(
                self.name,
                f"n of semaphore {self.name!r} must be at most {MOST}, not {n}: take several leases",
            )
        return PermitCalls(self.name, n)
