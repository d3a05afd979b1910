"""Redisson's reentrant lock."""

from __future__ import annotations

from typing import ClassVar

from ..core.calls import Contention
from ..core.policy import Policy
from ..core.runtime import Runtime
from ..primitives.reentrant import Reentrant
from ..record import Record
from ..scripts.redisson import RLockCalls
from .place import Place


class RLockInfo(Record):
    """A view of a held lock, as the server saw it.

    Attributes:
        holder: as Redisson names it: the id of a client, and of its thread. Of a manager of yours, the same of its own.
        depth: how many acquisitions it has open.
        ttl: seconds until it expires unless renewed.
        fence: the last token of the RFencedLock of this name; None if there never was one.
    """

    holder: str
    depth: int
    ttl: float
    fence: int | None


class RLock(Reentrant):
    """`RedissonClient.getLock(name)`, which is also `getSpinLock(name)`. Comes from `Redisson.lock()`.

    Use it like a `Lock`. Redisson has no queue for it: all who wait are told of a release, and race. So no
    order is kept, and no bound on the wait. A lease has no fence, and `abandoned` is never true.

    Args:
        runtime: the manager's.
        name: what is locked, and its key.
        policy: how.
    """

    __slots__ = ()

    _calls: RLockCalls
    contention: ClassVar[Contention] = Contention(exclusive=True, watches=True, entry=Place)

    def __init__(self, runtime: Runtime, name: str, policy: Policy) -> None:
        super().__init__(runtime, RLockCalls(name), policy)

    async def is_locked(self) -> bool:
        """Return True if it is held: `isLocked()`. Cost: one round trip."""
        return await self.info() is not None

    async def info(self) -> RLockInfo | None:
        """Return who holds it, or None if it is free: `remainTimeToLive()`, `getHoldCount()` and more.

        Raises:
            BackendError: Redis is unreachable or refuses.

        Cost: one round trip, read-only.
        """
        seen = await self._runtime.ask(self._calls.info(), "looking at")
        held = seen.held
        if held is None:
            return None
        return RLockInfo(held.owner, held.depth, max(0, held.pttl) / 1000, held.fence or None)

    async def force_release(self) -> bool:
        """End the hold, whoever has it: `forceUnlock()`. A holder in Java learns of it when it unlocks.

        A holder of yours that has had it for 0.1 s is notified at once, and its guarded block cancelled; one that has
        just got it is notified after that.

        Returns:
            True if it was held.

        Raises:
            BackendError: Redis is unreachable or refuses.

        Cost: one round trip.
        """
        return await self._runtime.ask(self._calls.force_release(), "force-releasing", again=False)
