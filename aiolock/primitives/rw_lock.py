"""The read-write lock: many readers or one writer."""

from __future__ import annotations

from datetime import timedelta
from typing import ClassVar

from ..clock import format_seconds
from ..core.calls import Contention
from ..core.policy import Policy
from ..core.runtime import Runtime
from ..record import Record
from .kinds import FULL, RW, rw_calls
from .looking import Looking
from .queued import Queueing
from .reentrant import Reentrant
from .two_sides import TwoSides
from .vacancy import Vacancy


class RWLockInfo(Record):
    """A view of a held read-write lock, as the server saw it.

    Attributes:
        readers: how many hold it for reading; 1 while the writer also reads.
        writing: whether it is held for writing.
        holder: host and pid of the process whose lease lasts longest.
        ttl: seconds until the longest of its leases expires unless renewed.
        fence: the fencing token of the last write.
        metadata: the `metadata` of that one's lock, or None.
        waiters: how many wait in the queue, over all processes.
        position: the place of this manager's first waiter, from 1; None if it has none.
    """

    readers: int
    writing: bool
    holder: str
    ttl: float
    fence: int
    metadata: str | None
    waiters: int
    position: int | None


class RWLockSide(Queueing, Reentrant):
    """One side of a read-write lock; use it like a `Lock`.

    A task that writes may read (and keep reading when it releases the write lease: a downgrade). A task that reads and
    wants to write would wait for itself: `NotAcquired` at once. `release()` releases only this side's leases.

    Args:
        runtime: the manager's.
        name: what is locked.
        policy: how.
        writes: the side.
    """

    __slots__ = ("_writes",)

    contention: ClassVar[Contention] = RW

    def __init__(self, runtime: Runtime, name: str, policy: Policy, writes: bool) -> None:
        self._writes = writes
        super().__init__(runtime, rw_calls(runtime, name, FULL if writes else 1), policy)

    async def info(self) -> RWLockInfo | None:
        """Return who holds it, and how long the queue is; None if it is free. As `RWLock.info()`."""
        seen = await self._standing()
        if seen.held is None:
            return None
        holder, metadata = seen.held.told()
        writing = seen.used >= FULL
        return RWLockInfo(
            readers=seen.used - FULL if writing else seen.holders,
            writing=writing,
            holder=holder,
            ttl=seen.held.pttl / 1000,
            fence=seen.fence,
            metadata=metadata,
            waiters=seen.waiters,
            position=seen.rank,
        )

    @property
    def _side(self) -> int | None:
        return self._calls.weight

    def _unowned(self) -> str:
        if self._find() is None:
            return super()._unowned()
        this, other = ("write", "read") if self._writes else ("read", "write")
        return (
            f"this task has no lease to {this} {self.name!r}, only one to {other}: call release() on the {other} side"
        )

    def __repr__(self) -> str:
        whole, side = type(self).__name__.removesuffix("Side"), "write" if self._writes else "read"
        return f"<{whole} {self.name!r} {side} ttl={format_seconds(self._policy.ttl)}>"


class RWLock(Looking, TwoSides, Vacancy):
    """Many readers or one writer, over all processes; first come, first served, so neither side starves.

    Comes from `LockManager.rw_lock()`. Readers that come after a waiting writer wait behind it; a writer that dies
    while it waits is passed over within the manager's `liveness`. Each reader has its own lease: a crashed one delays
    writers by its own ttl. A write lease has a fence of its own; a read lease has that of the last write.

    Args:
        runtime: the manager's.
        name: what is locked.
        policy: how.

    Attributes:
        read: the side for readers: `async with rw.read as lease:`.
        write: the side for the writer: `async with rw.write as lease:`.
    """

    __slots__ = ("_calls", "_runtime")

    def __init__(self, runtime: Runtime, name: str, policy: Policy) -> None:
        self.read: RWLockSide = RWLockSide(runtime, name, policy, writes=False)
        self.write: RWLockSide = RWLockSide(runtime, name, policy, writes=True)
        self._runtime, self._calls = runtime, self.write._calls

    async def request_release(self, grace: float | timedelta = 0.0) -> bool:
        """Ask all who hold it now to finish, as a side's `request_release()` does."""
        return await self.write.request_release(grace)

    async def info(self) -> RWLockInfo | None:
        """Return who holds it, and how long the queue is; None if it is free.

        Raises:
            BackendError: Redis is unreachable or refuses.

        Cost: one round trip, read-only.
        """
        return await self.write.info()
