"""Redisson's read-write lock."""

from __future__ import annotations

from typing import ClassVar

from ..core.calls import Contention
from ..core.policy import Policy
from ..core.runtime import Runtime
from ..primitives.base import Primitive
from ..primitives.rw_lock import RWLockSide
from ..primitives.two_sides import TwoSides
from ..record import Record
from ..scripts.redisson.rw import FULL, RWCalls


class RReadWriteLockInfo(Record):
    """A view of a held read-write lock, as the server saw it.

    Attributes:
        readers: how many hold it for reading.
        writing: whether it is held for writing.
        holder: one of them, as Redisson names it: the id of a client, and of its thread.
        ttl: seconds until the longest of them expires unless renewed.
    """

    readers: int
    writing: bool
    holder: str
    ttl: float


class RReadWriteLockSide(RWLockSide):
    """One side of Redisson's read-write lock; use it like an `RLock`.

    A task that writes may read, and keep reading when it releases the write lease. A task that reads and wants to write
    would wait for itself: `NotAcquired` at once.

    Args:
        runtime: the manager's.
        name: what is locked, and its key.
        policy: how.
        writes: the side.
    """

    __slots__ = ()

    _calls: RWCalls  # type: ignore[assignment]
    contention: ClassVar[Contention] = Contention(exclusive=False, watches=True)

    def __init__(self, runtime: Runtime, name: str, policy: Policy, writes: bool) -> None:
        self._writes = writes
        Primitive.__init__(self, runtime, RWCalls(name, FULL if writes else 1), policy)

    async def info(self) -> RReadWriteLockInfo | None:  # type: ignore[override]
        """Return who holds it; None if it is free.

        Raises:
            BackendError: Redis is unreachable or refuses.

        Cost: one round trip, read-only.
        """
        seen = await self._runtime.ask(self._calls.info(), "looking at")
        held = seen.held
        if held is None:
            return None
        writing = seen.used >= FULL
        return RReadWriteLockInfo(0 if writing else seen.holders, writing, held.owner, max(0, held.pttl) / 1000)

    async def force_release(self) -> bool:
        """End all holds on both sides, whoever has them; as `RLock.force_release()` for one.

        Returns:
            True if it was held.

        Raises:
            BackendError: Redis is unreachable or refuses.

        Cost: one round trip.
        """
        return await self._runtime.ask(self._calls.force_release(), "force-releasing", again=False)


class RReadWriteLock(TwoSides):
    """`RedissonClient.getReadWriteLock(name)`: many readers or one writer. Comes from `Redisson.rw_lock()`.

    There is no queue: readers that come do not wait for a writer that waits. Use it with Redisson 4: until 3.52 a
    reader that is renewed may share with a writer, whoever that is, as Redisson itself loses it.

    Args:
        runtime: the manager's.
        name: what is locked, and its key.
        policy: how.

    Attributes:
        read: the side for readers: `async with rw.read as lease:`.
        write: the side for the writer: `async with rw.write as lease:`.
    """

    __slots__ = ()

    def __init__(self, runtime: Runtime, name: str, policy: Policy) -> None:
        self.read: RReadWriteLockSide = RReadWriteLockSide(runtime, name, policy, writes=False)
        self.write: RReadWriteLockSide = RReadWriteLockSide(runtime, name, policy, writes=True)

    async def info(self) -> RReadWriteLockInfo | None:
        """Return who holds it; None if it is free. Cost: one round trip, read-only."""
        return await self.write.info()
