"""Redisson's fair lock."""

from __future__ import annotations

from ..core.policy import Policy
from ..core.runtime import Runtime
from ..scripts.redisson import FairCalls
from .lock import RLock, RLockInfo


class RFairLockInfo(RLockInfo):
    """A view of a held fair lock, as the server saw it.

    Attributes:
        holder: as Redisson names it: the id of a client, and of its thread. Of a manager of yours, the same of its own.
        depth: how many acquisitions it has open.
        ttl: seconds until it expires unless renewed.
        fence: None: a fair lock has no token.
        waiters: the length of the queue: threads in Java and tasks of yours.
        position: the place of this manager's first waiter, from 1; None if it has none.
    """

    waiters: int
    position: int | None


class RFairLock(RLock):
    """`RedissonClient.getFairLock(name)`: first come, first served, thread by thread and task by task. Comes from
    `Redisson.fair_lock()`.

    Tasks of yours wait in Redisson's queue, each with a place of its own. One that dies there blocks the others until
    its `liveness` and the holder's ttl are over; a thread in Java that dies first in the queue does so for up to five
    minutes (`fairLockWaitTimeout`).

    Args:
        runtime: the manager's.
        name: what is locked, and its key.
        policy: how.
    """

    __slots__ = ()

    _calls: FairCalls

    def __init__(self, runtime: Runtime, name: str, policy: Policy) -> None:
        super().__init__(runtime, name, policy)
        self._calls = FairCalls(name, runtime.limits.liveness_ms)

    async def info(self) -> RFairLockInfo | None:
        """Return who holds it and how long the queue is; None if it is free.

        Raises:
            BackendError: Redis is unreachable or refuses.

        Cost: one round trip, read-only.
        """
        seen = await self._runtime.ask(self._calls.info(self._gate().foremost), "looking at")
        held = seen.held
        if held is None:
            return None
        return RFairLockInfo(held.owner, held.depth, max(0, held.pttl) / 1000, None, seen.waiters, seen.rank)
