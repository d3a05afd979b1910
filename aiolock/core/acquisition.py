"""The acquire loop, one for all primitives, and the object that `acquire()` returns."""

from __future__ import annotations

import asyncio
import math
import warnings
from collections.abc import Callable, Coroutine, Generator, Sequence
from logging import DEBUG
from sys import _getframe
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from anyio.lowlevel import checkpoint_if_cancelled

from ..errors import AcquireTimeout, AiolockError, BackendError, Holder, LossReason, NotAcquired, NotOwned
from ..event_log import SHOWN
from ..events import Acquired
from ..scripts.base import resolve
from ..scripts.outcomes import Granted, Kept, Lost, Missing
from ..usage import AsyncOnly
from .calls import Calls
from .gate import Gate
from .guarding.blocks import spans
from .guarding.guard import Guard, running_task
from .holding.hold import Hold
from .holding.leases_by_task import held_by_kin
from .holding.telling import tell_acquired, tell_failed, tell_refused, tell_waiting
from .lease import Lease
from .ondemand import OnDemand
from .policy import Policy
from .refusal import Kin, KinWatch, Refusal, overlapping
from .scheduler import NEVER
from .waiting.queue_entry import QueueEntry
from .waiting.waiter import Expired, Waiter

_shown = SHOWN[Acquired]
L = TypeVar("L", bound="Lease | None")


class Acquisition(OnDemand[L], AsyncOnly, Generic[L]):
    """What `acquire()` returns: await it for a lease, enter it for a guarded block, or make a task of it.

    Args:
        name: the lock's name, for the warning.
        obtain: the acquisition itself; called once.
        via: the call that returned it, for the warning.
    """

    __slots__ = ("_guard", "_name", "_obtain", "_via")

    def __init__(self, name: str, obtain: Callable[[], Coroutine[object, object, L]], via: str = "acquire()") -> None:
        self._name = name
        self._via = via
        self._obtain: Callable[[], Coroutine[object, object, L]] | None = obtain
        self._running = None
        self._guard: Guard | None = None

    def __await__(self) -> Generator[object, None, L]:
        return self._start().__await__()

    async def __aenter__(self) -> L:
        obtain = self._begun()
        spans_yield = spans(_getframe().f_back, self._name)
        lease = await obtain()
        if lease is not None:
            self._guard = Guard(lease, spans_yield)
        return lease

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        guard, self._guard = self._guard, None
        if guard is not None:
            await guard.exit(running_task(), error)

    def close(self) -> None:
        """End it where it is suspended, like a coroutine's `close`."""
        self._obtain = None
        super().close()

    def _start(self) -> Coroutine[object, object, L]:
        return self._begun()()

    def _begun(self) -> Callable[[], Coroutine[object, object, L]]:
        obtain, self._obtain = self._obtain, None
        if obtain is None:
            raise RuntimeError(f"this acquisition of lock {self._name!r} was used before: call {self._via} again")
        return obtain

    def __repr__(self) -> str:
        return f"<{self._via} of {self._name!r}>"

    if not TYPE_CHECKING:  # which has a rule for that

        def __bool__(self):
            raise TypeError(f"{self!r} is no answer yet: await it")

    def __del__(self) -> None:
        if self._obtain is not None:
            warnings.warn(
                f"{self._via} of lock {self._name!r} was never awaited: use `await` or `async with`",
                RuntimeWarning,
                stacklevel=2,
                source=self,
            )


class Attempt(Acquisition["Lease | None"]):
    """What `try_acquire()` returns: an `Acquisition` whose lease is None if another owner has the lock.

    Args:
        name: the lock's name, for the warning.
        obtain: the acquisition itself; called once.
        refusals: `obtain` adds here why there is no lease.

    Example:
        ```python
        async with lock.try_acquire() as lease: ...

        attempt = lock.try_acquire()
        async with attempt as lease:
            if lease is None:
                raise HTTPException(409, f"{attempt.holder}")
        ```
    """

    __slots__ = ("_refusals",)

    def __init__(
        self, name: str, obtain: Callable[[], Coroutine[object, object, Lease | None]], refusals: Sequence[Refusal]
    ) -> None:
        super().__init__(name, obtain, "try_acquire()")
        self._refusals = refusals

    @property
    def holder(self) -> Holder | None:
        """Who has the lock, if this attempt got no lease; None if it got one, or if no server named a holder.

        Costs no round trip.
        """
        return self._refusals[0].holder if self._refusals else None


async def obtain(gate: Gate, calls: Calls, policy: Policy, timeout: float | None, sharing: Hold | None = None) -> Lease:
    """Acquire, waiting for at most `timeout` seconds.

    Args:
        gate: the name's.
        calls: requests of this acquisition's weight.
        policy: of an outermost acquisition; a nested one uses its hold's.
        timeout: seconds; None for no limit, 0 for one attempt.
        sharing: the hold to nest in; None for the calling task's own, if it has one.
    """
    runtime = gate.runtime
    task = asyncio.current_task(runtime.binding.loop)  # the running one, as was checked
    if sharing is not None or task in runtime.leases.by_task:
        hold = sharing or _nesting(gate, task)
        if hold is not None:
            return await _nest(gate, calls, hold, policy, task, timeout)
        _refuse_overlap(gate, task)
    if timeout == 0 and not gate.open:
        error = _late(gate, calls, gate.common, timeout, answered=gate.unreachable is None)
        tell_failed(runtime, calls, error)
        raise error
    waiter = gate.join(calls, policy, timeout)
    if not waiter.asked:
        waiter.wait = tell_waiting(runtime, calls)
    if runtime.holds:
        KinWatch.begin(gate, waiter, task)
    try:
        while True:
            outcome = await waiter.outcome
            if not isinstance(outcome, Granted):
                raise _late(gate, calls, gate.entry_of(waiter), timeout)
            # anyio does not cancel a task that is about to run: its scope may have been cancelled long ago.
            if waiter.waited:
                await checkpoint_if_cancelled()
            lease = admit(gate, waiter, task)
            if lease is not None:
                return lease
            gate.rejoin(waiter)
    except Expired as late:
        error = _late(gate, calls, gate.entry_of(waiter), timeout, late.away, not waiter.impatient, late.silent)
        _give_up(gate, waiter, error)
        raise error from error.__cause__
    except BaseException as failure:
        _give_up(gate, waiter, failure)
        raise


async def obtain_now(gate: Gate, calls: Calls, policy: Policy) -> Lease | Refusal:
    """Acquire in one attempt; or return why not, if another owner holds the lock, in this process or elsewhere."""
    task = asyncio.current_task()
    runtime = gate.runtime
    hold = _nesting(gate, task)
    if hold is not None:
        return await _nest(gate, calls, hold, policy, task)
    _refuse_overlap(gate, task)
    if not gate.open:
        refusal = Refusal(gate, gate.common, answered=gate.unreachable is None)
        if refusal.unknown:
            away = refusal.error(0.0)
            tell_failed(runtime, calls, away)
            raise away
        return _refused(gate, calls, refusal)
    waiter = gate.join(calls, policy, 0.0)
    try:
        outcome = await waiter.outcome
        lease = admit(gate, waiter, task) if isinstance(outcome, Granted) else None
    except Expired as late:
        silence = runtime.unanswered(calls.name, "acquiring", away=late.away)
        _give_up(gate, waiter, silence)
        raise silence from silence.__cause__
    except BaseException as error:
        _give_up(gate, waiter, error)
        raise
    if lease is not None:
        return lease
    refusal = Refusal(gate, gate.entry_of(waiter))
    gate.leave(waiter)
    return _refused(gate, calls, refusal, waiter.began)


def _give_up(gate: Gate, waiter: Waiter, error: BaseException) -> None:
    """Stop waiting, because of `error`."""
    entry = gate.entry_of(waiter)
    requests = waiter.answers if entry is None else entry.answers
    gate.leave(waiter)
    tell_failed(gate.runtime, waiter.calls, error, waiter.began, requests, waiter.wait)


def admit(gate: Gate, waiter: Waiter, task: asyncio.Task[object] | None) -> Lease | None:
    """Return the lease that `task` has of what its waiter was granted; None if that was lost meanwhile.

    Raises:
        NotAcquired: the manager closes.
    """
    hold, entry, runtime = waiter.hold, waiter.entry, gate.runtime
    if runtime.binding.closing:
        name = gate.calls.name
        raise NotAcquired(name, f"lock {name!r} was not acquired: its manager was closed meanwhile; end this task")
    assert hold is not None
    if hold.check() is not None:
        return None
    runtime.patience.until.pop(waiter, None)
    if waiter.due != NEVER:
        runtime.scheduler.forget(waiter)
    waiter.entry = waiter.hold = None  # they refer to each other: free them without the garbage collector
    hold.enter(hold.policy, hold.began)
    if gate.race is not None:
        gate.settle_down()  # if no one waits, it listens no more
        gate.race.held()
    lease = Lease(gate, hold, waiter.calls, task)
    runtime.leases.add(lease)
    if runtime.observers.listening or _shown(DEBUG):
        contended = not waiter.asked or (entry is not None and entry.refused)
        answers = 1 if entry is None else entry.answers
        tell_acquired(runtime, hold, runtime.clock.now() - waiter.began, answers, contended, waiter.wait)
    return lease


def _refused(gate: Gate, calls: Calls, refusal: Refusal, began: float | None = None) -> Refusal:
    tell_refused(gate.runtime, calls, began, lambda: refusal.holder)
    return refusal


def _nesting(gate: Gate, task: asyncio.Task[object] | None) -> Hold | None:
    """Return what `task` nests in. A plain hold whose loss was reported ends here: its task wants to start again."""
    leases = gate.of_task(task) if gate.contention.reentrant else ()
    while leases:
        hold = leases[-1]._hold
        mine = [lease for lease in leases if lease._hold is hold]
        if not hold.told or hold.check() is None or any(lease._guard is not None for lease in mine):
            return hold
        for lease in mine:
            lease._give_up("dirty")
        leases = gate.of_task(task)
    return None


def _refuse_overlap(gate: Gate, task: asyncio.Task[object] | None) -> None:
    """Raise at once if the task would wait for what it holds itself, through another queue."""
    holds = gate.runtime.leases.of(task)
    for hold in () if holds is None else overlapping(gate, holds):
        if hold.loss_by_clock() is None:
            name = gate.calls.name
            error = NotAcquired(
                name,
                f"lock {name!r} was not acquired: this task holds {hold.calls.name!r}, which overlaps with it, "
                "and would wait for itself: release that first, or take all names at once",
                transient=False,
            )
            tell_failed(gate.runtime, gate.calls, error)
            raise error


async def _nest(
    gate: Gate,
    calls: Calls,
    hold: Hold,
    policy: Policy,
    task: asyncio.Task[object] | None,
    timeout: float | None = None,
) -> Lease:
    """Add one level to a hold. Ask the server, so that no one nests in a lock that is gone."""
    runtime, name = gate.runtime, gate.calls.name
    try:
        _check_nesting(gate, calls, hold)
    except AiolockError as error:
        tell_failed(runtime, calls, error)
        raise
    hold.depth += 1
    hold.nesting += (calls,)
    if calls.weight != hold.calls.weight:
        hold.weigh()
    before, ttl_ms = hold.ttl_ms, hold.nesting_ttl_ms(policy.ttl_ms)
    call = hold.calls.nest(hold.owner, hold.fence, ttl_ms, hold.depth)
    wanted = True

    def unanswered() -> bool:
        hold.tainted = True
        return wanted

    call.unanswered, call.unrun = unanswered, lambda: wanted
    reply: asyncio.Future[Any]
    call.away = lambda known: resolve(reply, runtime.unanswered(name, "nesting in", away=known))
    reply, began = runtime.backend.run(call), runtime.clock.now()
    seconds = min(timeout or math.inf, runtime.limits.request_timeout)
    try:
        outcome = await runtime.within(reply, began + seconds, lambda: runtime.unanswered(name, "nesting in", seconds))
        if not isinstance(outcome, Kept | Granted):
            hold.lose(outcome.reason if isinstance(outcome, Lost | Missing) else LossReason.TAKEN_OVER)
        elif hold.check() is None:
            hold.extend(call.sent_at, outcome.pttl)
        if hold.check() is not None:
            raise hold.loss()
    except BaseException as error:
        wanted = False
        if isinstance(error, BackendError) and not error.transient and hold.ttl_ms == ttl_ms:
            hold.ttl_ms = before  # a store that refuses a longer one would refuse each renewal
        call.withdraw()
        hold.nested(calls)
        gate.lower(hold, "clean" if hold.check() is None else "dirty")
        tell_failed(runtime, calls, error, began, requests=1)
        raise
    hold.nested(calls)
    hold.enter(policy, runtime.clock.now())
    lease = Lease(gate, hold, calls, task)
    runtime.leases.add(lease)
    if runtime.observers.wants(Acquired):
        tell_acquired(runtime, hold, runtime.clock.now() - began)
    return lease


def _check_nesting(gate: Gate, calls: Calls, hold: Hold) -> None:
    """Raise unless there can be one level more."""
    name = gate.calls.name
    if hold.ended or hold.home is not gate:
        raise NotOwned(name, f"the owner given to lock {name!r} does not hold it: pass that of an open lease of it")
    if hold.check() is not None:
        raise hold.loss()
    if calls.weight > hold.calls.weight:
        raise NotAcquired(
            name,
            f"{name!r} is held for reading by this owner, which would wait for itself to write: release it first",
            transient=False,
        )


def _late(
    gate: Gate,
    calls: Calls,
    entry: QueueEntry | None,
    timeout: float | None,
    away: AiolockError | None = None,
    answered: bool = False,
    silent: bool = False,
) -> AcquireTimeout | BackendError:
    """Why a wait is over: another has the name, or no server has answered, or will."""
    if away is not None:
        return gate.runtime.unanswered(gate.calls.name, "acquiring", away=away)
    kin = Kin.of(gate, calls, asyncio.current_task(), held_by_kin())
    refusal = Refusal(gate, entry, kin, answered)
    if silent and not refusal.unknown:  # the answer came when the wait had ended, long before its timeout
        return gate.runtime.unanswered(gate.calls.name, "acquiring", names=gate.calls.names)
    return refusal.error(timeout)
