"""The fair lock: the lock of its name, first come, first served, task by task across processes."""

from __future__ import annotations

from ..core.policy import Policy
from ..core.runtime import Runtime
from .kinds import lock_calls
from .lock import Lock, LockInfo


class FairLockInfo(LockInfo):
    """A view of a fair lock, as the server saw it.

    Attributes:
        holder: host and pid of the process that holds it.
        depth: how many acquisitions its owner has open.
        ttl: seconds until it expires unless renewed.
        fence: the fencing token of its lease.
        metadata: the `metadata` of the holder's lock, or None.
        waiters: the length of the queue: tasks that wait for the fair lock, and processes that wait for the lock.
        position: the place of this manager's first waiter, from 1; None if it has none.
    """

    waiters: int
    position: int | None


class FairLock(Lock):
    """The lock of its name, for tasks that enter in the order in which they asked, whatever process they are in.

    Comes from `LockManager.fair_lock()`. It is the lock of the same name, and differs in how its tasks wait: each has a
    place of its own in the server's queue, where those of a `Lock` share their process's, and a release grants to the
    first of them, whatever its process. A waiter without a heartbeat for the manager's `liveness` is passed over.

    Args:
        runtime: the manager's.
        name: what is locked.
        policy: how.
    """

    __slots__ = ()

    def __init__(self, runtime: Runtime, name: str, policy: Policy) -> None:
        super().__init__(runtime, name, policy)
        self._calls = lock_calls(runtime, name, ordered=True)

    async def info(self) -> FairLockInfo | None:
        """Return who holds it and how long the queue is; None if it is free.

        Raises:
            BackendError: Redis is unreachable or refuses.

        Cost: one round trip, read-only.
        """
        first = self._gate().foremost
        seen = await self._runtime.ask(self._calls.info(first), "looking at")
        held = seen.held
        if held is None:
            return None
        holder, metadata = held.told()
        return FairLockInfo(holder, held.depth, held.pttl / 1000, held.fence, metadata, seen.waiters, seen.rank)
