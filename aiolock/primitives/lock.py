"""The reentrant lock: its calls and its contention rule."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from types import TracebackType
from typing import Final, cast

from ..core.acquisition import Acquisition, obtain, obtain_now
from ..core.calls import Contention
from ..core.gate import Gate
from ..core.guard import Guard
from ..core.lease import Lease, Owner
from ..core.policy import Policy, check_timeout
from ..core.runtime import Runtime
from ..errors import NotOwned
from ..scripts.lock import LockCalls

CONTENTION = Contention(contenders=1, handoff=True)


class Default:
    """Stands for 'as the lock was made with'."""

    def __repr__(self) -> str:
        return "the lock's default"


DEFAULT: Final = Default()


@dataclass(frozen=True, slots=True)
class LockInfo:
    """A look at a held lock, as the server saw it.

    Attributes:
        holder: host and pid of the process that holds it.
        depth: how many acquisitions its owner has open.
        ttl: seconds until it expires unless renewed.
        fence: the fencing token of its lease.
        metadata: what the holder's lock was made with, or None.
    """

    holder: str
    depth: int
    ttl: float
    fence: int
    metadata: str | None


class Lock:
    """A reentrant lock across processes. Comes from `LockManager.lock()`; cheap, reusable, shareable between tasks.

    `async with lock as lease:` waits as `acquire()` does, and cancels its body when the lease is lost; then `LockLost`
    is raised at its end. Nothing is lost on cancellation: what the server granted to nobody is undone.

    Args:
        runtime: the manager's.
        name: what is locked.
        policy: how.
    """

    __slots__ = ("__weakref__", "_name", "_policy", "_runtime")

    def __init__(self, runtime: Runtime, name: str, policy: Policy) -> None:
        self._runtime = runtime
        self._name = name
        self._policy = policy

    @property
    def name(self) -> str:
        """What is locked."""
        return self._name

    def acquire(self, *, timeout: float | Default | None = DEFAULT, owner: Owner | None = None) -> Acquisition[Lease]:
        """Acquire, waiting for others: `await` it for a lease, or `async with` it for a guarded block.

        Args:
            timeout: seconds to wait; 0 for one attempt, None for without limit; the lock's `acquire_timeout` if not
                given. It is `timeout=` here and not `asyncio.wait_for` around it, which on Python 3.11 acquires in
                another task.
            owner: `lease.owner` of a lease whose hold this task shall share.

        Returns:
            An awaitable context manager. A plain `await` guards no block: `lease.release()` raises `LockLost` if it
            was lost.

        Raises:
            AcquireTimeout: somebody else held it all the time; names the holder.
            BackendError: Redis is unreachable or refuses, or too few replicas acknowledged (`min_replicas`). A task
                that is already waiting rides out an outage.
            LockLost: nested, and the hold was lost.
            NotOwned: `owner` holds it no more.
            ConfigurationError: the manager is not entered, closed, of another loop, or of a parent process.

        Cancellation: at each await, once or twice: nothing is held once the undo, written at once, has landed.

        Cost: one round trip if it is free; else a SUBSCRIBE and a second attempt, then nothing until it is released.
        Behind a task of this process: nothing, the release hands it over.
        """
        limit = self._policy.acquire_timeout
        if not isinstance(timeout, Default):
            limit = check_timeout(self._name, "timeout", timeout)

        async def acquire() -> Lease:
            return await obtain(self._gate(), self._policy, limit, None if owner is None else owner.hold)

        return Acquisition(self._name, acquire)

    def try_acquire(self) -> Acquisition[Lease | None]:
        """Acquire in one attempt, never waiting: the lease is None if somebody else holds it.

        Raises and cancellation: as `acquire()`. Cost: one round trip; none if a task of this process holds it.
        """

        async def acquire() -> Lease | None:
            return await obtain_now(self._gate(), self._policy)

        return Acquisition(self._name, acquire)

    async def release(self) -> None:
        """Release the calling task's innermost lease on the name, as an RLock would.

        Raises:
            NotOwned: this task has none, and it cannot be decided whose is meant: call `lease.release()`.
            LockLost: it was lost.

        Cancellation: the lock is released all the same. Cost: one round trip.
        """
        lease = self._gate().find(asyncio.current_task())
        if lease is None:
            raise NotOwned(
                self._name,
                f"this task has no lease on lock {self._name!r}: call release() on the lease that acquire() returned",
            )
        await lease.release()

    async def is_locked(self) -> bool:
        """True if anybody holds it. Cost: one round trip."""
        return await self.info() is not None

    async def info(self) -> LockInfo | None:
        """Who holds it, or None.

        Raises:
            BackendError: Redis is unreachable or refuses.

        Cost: one round trip, read-only.
        """
        held = await self._runtime.ask(self._calls().info(), "looking at")
        if held is None:
            return None
        holder, _, metadata = held.holder.partition("\n")
        return LockInfo(holder, held.depth, max(0, held.pttl) / 1000, held.fence, metadata or None)

    async def force_release(self) -> bool:
        """Free it whoever holds it; the holder is told at once and its guarded block cancelled.

        The one way two blocks can overlap: until the holder has heard of it. Its fence is refused by then, if the
        resource looks at fences.

        Returns:
            True if it was held.

        Raises:
            BackendError: Redis is unreachable or refuses.

        Cost: one round trip.
        """
        return await self._runtime.ask(self._calls().force_release(), "force-releasing")

    async def __aenter__(self) -> Lease:
        lease = await self.acquire()
        self._runtime.enter(self, Guard(lease))
        return lease

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        guard = self._runtime.exit(self)
        if guard is not None:
            await guard.exit(kind, error, trace)

    def _calls(self) -> LockCalls:
        return LockCalls(self._runtime.keys, self._name)

    def _gate(self) -> Gate:
        self._runtime.check(self._name)
        key = (LockCalls.kind, self._name)
        gate = self._runtime.gates.get(key)
        if gate is None:
            gate = Gate(self._runtime, self._calls(), CONTENTION)
        return cast(Gate, gate)

    def __repr__(self) -> str:
        return f"<Lock {self._name!r} ttl={self._policy.ttl:g}>"

    def __reduce__(self) -> tuple[object, ...]:
        raise TypeError("a Lock cannot leave its process: make one of the same name from the other's manager")
