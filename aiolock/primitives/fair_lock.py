"""The fair lock: first come, first served, across processes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from ..core.calls import Contention
from ..core.kinds import KINDS, Kind
from ..core.policy import Policy, milliseconds
from ..core.runtime import Runtime
from ..scripts.queue import QueueCalls
from .queued import Queueing
from .reentrant import Reentrant


@dataclass(frozen=True, slots=True)
class FairLockInfo:
    """A look at a fair lock, as the server saw it.

    Attributes:
        holder: host and pid of the process that holds it.
        depth: how many acquisitions its owner has open.
        ttl: seconds until it expires unless renewed.
        fence: the fencing token of its lease.
        metadata: what the holder's lock was made with, or None.
        waiters: how many wait in the queue, over all processes.
        position: which of them is the first of this manager, from 1; None if nobody of it waits.
    """

    holder: str
    depth: int
    ttl: float
    fence: int
    metadata: str | None
    waiters: int
    position: int | None


class FairLock(Queueing, Reentrant):
    """A reentrant lock that is granted in the order in which it was asked for, whichever process asks.

    Comes from `LockManager.fair_lock()`; used as a `Lock` is. The server keeps the queue: a release grants to the first
    live waiter and tells its process, so a hand-off costs one script and one message however many wait. Who gives no
    sign of life for the manager's `liveness` is skipped.

    Args:
        runtime: the manager's.
        name: what is locked.
        policy: how.
    """

    __slots__ = ()

    contention: ClassVar[Contention] = Contention(contenders=None, handoff=False)

    def __init__(self, runtime: Runtime, name: str, policy: Policy) -> None:
        super().__init__(runtime, _calls(runtime, name), policy)

    async def is_locked(self) -> bool:
        """True if anybody holds it. Cost: one round trip."""
        return await self.info() is not None

    async def info(self) -> FairLockInfo | None:
        """Who holds it and how long the queue is; None if nobody holds it.

        Raises:
            BackendError: Redis is unreachable or refuses.

        Cost: one round trip, read-only.
        """
        standing = await self._standing()
        if standing.held is None:
            return None
        holder, metadata = standing.held.told()
        held = standing.held
        return FairLockInfo(holder, held.depth, held.pttl / 1000, held.fence, metadata, standing.waiters, standing.rank)


def _calls(runtime: Runtime, name: str) -> QueueCalls:
    liveness_ms = milliseconds(runtime.limits.liveness)
    return QueueCalls(runtime.keys, "fair", name, capacity=1, weight=1, mints=True, liveness_ms=liveness_ms)


KINDS["fair"] = Kind(FairLock.contention, lambda runtime, name, weight, capacity: _calls(runtime, name))
