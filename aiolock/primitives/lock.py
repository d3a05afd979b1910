"""The reentrant lock: its calls and its contention rule."""

from __future__ import annotations

from datetime import timedelta
from typing import ClassVar

from ..core.calls import Contention
from ..core.policy import Policy, check_duration
from ..core.runtime import Runtime
from ..record import Record
from ..scripts.lock import LockCalls
from ..scripts.outcomes import Held
from .kinds import LOCK, lock_calls
from .looking import Looking
from .reentrant import Reentrant
from .revocation import request_release
from .vacancy import Vacancy


class LockInfo(Record):
    """A view of a held lock, as the server saw it.

    Attributes:
        holder: host and pid of the process that holds it.
        depth: how many acquisitions its owner has open.
        ttl: seconds until it expires unless renewed.
        fence: the fencing token of its lease.
        metadata: the `metadata` of the holder's lock, or None.
    """

    holder: str
    depth: int
    ttl: float
    fence: int
    metadata: str | None


def lock_info(held: Held) -> LockInfo:
    """The server's answer, for people."""
    holder, metadata = held.told()
    return LockInfo(holder, held.depth, max(0, held.pttl) / 1000, held.fence, metadata)


class Lock(Looking, Reentrant, Vacancy):
    """A reentrant lock across processes. Comes from `LockManager.lock()`; cheap, reusable, shareable between tasks.

    Processes queue for it on the server, each with one place for all its tasks, and take turns. Within a process tasks
    go by their `priority`, and those with the same one first come, first served. So no waiter starves, and a hand-off
    wakes only the next one.

    `async with lock as lease:` waits as `acquire()` does, and cancels its body if the lease is lost; the block then
    raises `LockLost` at its end. You may cancel it anywhere: a grant that no task takes is undone.

    Args:
        runtime: the manager's.
        name: what is locked.
        policy: how.
    """

    __slots__ = ()

    _calls: LockCalls
    contention: ClassVar[Contention] = LOCK

    def __init__(self, runtime: Runtime, name: str, policy: Policy) -> None:
        super().__init__(runtime, lock_calls(runtime, name), policy)

    async def is_locked(self) -> bool:
        """Return True if it is held. Cost: one round trip."""
        return await self.info() is not None

    async def info(self) -> LockInfo | None:
        """Return who holds it, or None if it is free.

        Raises:
            BackendError: Redis is unreachable or refuses.

        Cost: one round trip, read-only.
        """
        seen = await self._runtime.ask(self._calls.info(), "looking at")
        return None if seen.held is None else lock_info(seen.held)

    async def request_release(self, grace: float | timedelta = 0.0, *, force: bool = False) -> bool:
        """Ask the holder to finish: its `lease.wanted` becomes True, and `lease.wait_wanted()` returns.

        A holder that does not check does not notice. For a deploy that hands over in milliseconds, or a long
        job that yields to an urgent one: ask, and then acquire as usual. The request is a message, which does not
        reach a holder that polls (`Poll()`) or is reconnecting, or a detached lock. While this waits, it asks again.

        Args:
            grace: seconds to wait until that holder has released or lost the lock; 0 only asks.
            force: if it still holds the lock then, end that as `force_release()` does.

        Returns:
            True if the hold that was asked to end has ended, or if nobody held the lock.

        Raises:
            BackendError: Redis is unreachable or refuses.
            ConfigurationError: a grace that cannot be; the manager is not entered, or closes.

        Cancellation: the holder may have been asked. Nothing is forced any more, unless that was written already.

        Cost: one round trip, two on a quorum. While it waits, one more after 10 ms, then after twice as long each time,
        up to 1 s.

        Example:
            ```python
            await lock.request_release(grace=10.0, force=True)
            async with lock: ...
            ```

        Source: Curator's revocation of inter-process locks.
        """
        seconds = check_duration(self.name, "grace", grace)
        return await request_release(self._runtime, (self._calls,), seconds, force)

    async def force_release(self) -> bool:
        """End the hold, whoever has it; the holder is told at once, and its guarded block cancelled. The next waiter
        enters.

        Two blocks overlap until the holder has learned of it and its block has ended. If the resource checks fences, it
        refuses the holder as soon as it has seen the next one's.

        Returns:
            True if it was held.

        Raises:
            BackendError: Redis is unreachable or refuses.

        Cost: one round trip.
        """
        return await self._runtime.ask(self._calls.force_release(), "force-releasing", again=False)
