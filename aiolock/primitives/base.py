"""What every primitive with leases can do, however it is acquired."""

from __future__ import annotations

import asyncio
import weakref
from datetime import timedelta
from sys import _getframe
from types import TracebackType
from typing import ClassVar

from ..clock import Clock, format_seconds
from ..core.acquisition import Acquisition, Attempt, obtain, obtain_now
from ..core.calls import Calls, Contention
from ..core.gate import Gate
from ..core.guarding.blocks import BETWEEN, GENERATOR, Blocks, spans
from ..core.guarding.guard import Guard
from ..core.holding.level import Owner
from ..core.holding.release import Releasing
from ..core.lease import Lease
from ..core.policy import Policy, check_timeout
from ..core.refusal import Refusal
from ..core.runtime import Runtime
from ..errors import ConfigurationError, NotOwned
from ..log import Log
from ..usage import AsyncOnly, Renamed
from .options import Default

logger: Log = Log("aiolock.guard")


class Primitive(AsyncOnly, Renamed):
    """A name, a kind and a policy; its only state is which blocks were entered through it. Primitives differ in their
    requests and their contention rule.

    Args:
        runtime: the manager's.
        calls: requests for an acquisition through `async with`.
        policy: how it is held.
    """

    __slots__ = ("__weakref__", "_blocks", "_calls", "_idle_gate", "_policy", "_runtime")

    contention: ClassVar[Contention]

    def __init__(self, runtime: Runtime, calls: Calls, policy: Policy) -> None:
        option = "hold_at_least" if policy.hold_at_least else "priority" if policy.priority else ""
        if option and not calls.keeps:
            raise ConfigurationError(
                calls.name,
                f"{option}= of {calls.name!r} cannot be: give it to a lock, a fair lock, a read-write lock or a "
                "semaphore, not on etcd or ZooKeeper, and not to one of Redisson's",
            )
        self._runtime = runtime
        self._calls: Calls = calls
        self._policy = policy
        self._blocks = Blocks()
        self._idle_gate: Gate | None = None  # the last one used, which can be used again if no other was made

    @property
    def name(self) -> str:
        """What is locked."""
        return self._calls.name

    @property
    def clock(self) -> Clock:
        """The clock that its leases live by: let your own code wait by it, and a test can advance it."""
        return self._runtime.clock

    def release(self) -> Releasing:
        """Release the calling task's innermost lease on the name, as an RLock would. Sent when you call it.

        Returns:
            Something that you may await, as `lease.release()` does. Awaiting it raises `LockLost` if the lease was
            lost, and `BackendError` if the server refuses.

        Raises:
            NotOwned: this task has no lease: call `lease.release()` on the lease that another task acquired. Or an
                `async with` block has it, which releases it at its end.

        Cancellation: the lock is still released. Cost: one round trip.
        """
        return self._innermost().release()

    def cancel_waits(self) -> int:
        """End all acquires of this name that wait in this process, on both sides of a read-write lock: each raises
        `NotAcquired`, and nothing is held. Those of other processes keep waiting, and so do later ones.

        Returns:
            How many they were.

        Raises:
            ConfigurationError: the manager is not entered, closed, of another loop, or of a parent process.
        """
        return self._gate().end_waits("cancel_waits() was called; end this task, or acquire it again")

    def owned(self) -> int:
        """How many leases on the name the calling task has, without lost ones; 0 if it does not hold it.

        For a read-write lock it counts those of this side. It costs no round trip: this process knows by its clock.

        Raises:
            ConfigurationError: the manager is not entered, closed, of another loop, or of a parent process.
        """
        leases = self._gate().of_task(asyncio.current_task())
        return sum(
            self._side in (None, lease._calls.weight) and lease._hold.loss_by_clock() is None for lease in leases
        )

    async def __aenter__(self) -> Lease:
        policy, frame, code, spans_yield = self._policy, 0, Primitive.__aenter__.__code__, False
        around = _getframe().f_back
        if around is not None:
            frame, code = id(around), around.f_code
            if code.co_flags & GENERATOR or code.co_name in BETWEEN:
                spans_yield = spans(around, self._calls.name)
            del around  # it would keep its contents alive
        self._runtime.binding.check(self._calls.name)
        gate = self._idle_gate = Gate.of(self._runtime, self._calls, self.contention, self._idle_gate)
        lease = await obtain(gate, self._calls, policy, policy.acquire_timeout)
        several = len(lease._hold.leases) > 1
        if self.contention.divisible:
            self._obtained(lease)
            several = len(lease._gate.of_task(lease._task)) > 1
        guard, blocks = Guard(lease, spans_yield), self._blocks
        guard.frame, guard.code = frame, code
        if blocks or several or code.co_name in BETWEEN:
            blocks.enter(guard, several)
        else:
            blocks[frame] = guard
        return lease

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            task = asyncio.current_task()
        except RuntimeError:  # no loop runs here
            task = None
        guard = self._blocks.leave(task)
        if guard is not None:
            await guard.exit(task, error)
        elif self._blocks:
            self._undecided(kind)

    def _obtain(
        self, calls: Calls, timeout: float | timedelta | Default | None, owner: Owner | None = None
    ) -> Acquisition[Lease]:
        limit = self._policy.acquire_timeout
        if not isinstance(timeout, Default):
            limit = check_timeout(self.name, "timeout", timeout)
        if owner is not None and not isinstance(owner, Owner):
            raise ConfigurationError(
                self.name, f"the owner of lock {self.name!r} must be that of a lease, not {owner!r}"
            )

        async def acquire() -> Lease:
            sharing = None if owner is None else owner._hold
            lease = await obtain(self._gate(), calls, self._policy, limit, sharing)
            lease._lock = weakref.ref(self)
            if self.contention.divisible:
                self._obtained(lease)
            return lease

        return Acquisition(self.name, acquire)

    def _obtain_now(self, calls: Calls) -> Attempt:
        refusals: list[Refusal] = []

        async def acquire() -> Lease | None:
            outcome = await obtain_now(self._gate(), calls, self._policy)
            if isinstance(outcome, Refusal):
                refusals.append(outcome)
                return None
            outcome._lock = weakref.ref(self)
            if self.contention.divisible:
                self._obtained(outcome)
            return outcome

        return Attempt(self.name, acquire, refusals)

    def _obtained(self, lease: Lease) -> None:
        """Called with each new lease that can be released in parts."""

    def _innermost(self, part: int | None = None) -> Lease:
        """Return the lease that `release()` in the running task means; if only a part is released, the lease keeps
        the rest.
        """
        lease = self._find(self._side)
        if lease is None:
            raise NotOwned(self.name, self._unowned())
        if lease._guard is not None and (part is None or part == lease.permits):
            raise NotOwned(
                self.name,
                f"lock {self.name!r} was not released: an `async with` block of this task has it, and releases it at "
                "its end. Leave the block; or release its lease, and the rest of the block runs without the lock",
            )
        return lease

    def _find(self, weight: int | None = None) -> Lease | None:
        """The innermost lease of the running task; only one of this weight, if you name one."""
        gate = self._gate()  # first: it says so if no loop runs here
        for own in reversed(gate.of_task(asyncio.current_task())):
            if isinstance(own, Lease) and weight in (None, own._calls.weight):
                return own
        return None

    @property
    def _side(self) -> int | None:
        """The weight of the leases that `release()` means; None for any."""
        return None

    def _unowned(self) -> str:
        """Why `release()` in the running task releases nothing, and what to do about it."""
        return (
            f"this task has no lease on lock {self.name!r}: call release() on the lease that acquire() returned "
            "(asyncio.wait_for() acquires in another task on Python 3.11: use timeout=)"
        )

    def _undecided(self, kind: type[BaseException] | None) -> None:
        what = (
            f"lock {self.name!r} was left in a task that did not enter it, and it is unclear which of several open "
            "blocks is meant: none was released. Keep the object that acquire() returns, and enter and leave that one: "
            "it knows its own block"
        )
        logger.error(what, extra={"lock_name": self.name})
        if kind is None:
            raise NotOwned(self.name, what)

    def _gate(self) -> Gate:
        self._runtime.binding.check(self._calls.name)
        gate = self._idle_gate = Gate.of(self._runtime, self._calls, self.contention, self._idle_gate)
        return gate

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name!r} ttl={format_seconds(self._policy.ttl)}>"

    def __reduce__(self) -> tuple[object, ...]:
        raise TypeError(
            f"a {type(self).__name__} cannot leave its process: create one with the same name from the other's manager"
        )
