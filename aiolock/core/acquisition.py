"""The acquire loop, one for all primitives, and the object that `acquire()` returns."""

from __future__ import annotations

import asyncio
import math
import warnings
from collections.abc import Callable, Coroutine, Generator, Iterator
from functools import partial
from types import TracebackType
from typing import Any, Generic, TypeVar

from anyio.lowlevel import checkpoint_if_cancelled

from ..clock import format_seconds
from ..errors import AcquireTimeout, BackendError, ConfigurationError, LossReason, NotAcquired, NotOwned
from ..scripts.base import DONT_QUEUE, JOIN, Call
from ..scripts.outcomes import Granted, Impossible, Lost, Queued, Refused
from .caller import caller
from .calls import Calls
from .gate import Gate
from .guard import Guard
from .hold import Hold
from .holds import TaskHolds, lineage
from .lease import Lease
from .ondemand import OnDemand
from .policy import Policy, milliseconds
from .queue_entry import FINAL_REFRESH
from .waiter import Expired, Grant, Waiter

R = TypeVar("R")
L = TypeVar("L", bound="Lease | None")


UNANSWERED = "Redis has not answered yet"


class Acquisition(OnDemand[L], Generic[L]):
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
        _, _, spans_yield = caller(self._name)
        lease = await obtain()
        if lease is not None:
            self._guard = Guard(lease, spans_yield)
        return lease

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        guard, self._guard = self._guard, None
        if guard is not None:
            await guard.exit(asyncio.current_task(), kind, error, trace)

    def close(self) -> None:
        """End it where it is suspended, as a coroutine's `close`."""
        self._obtain = None
        super().close()

    def _start(self) -> Coroutine[object, object, L]:
        return self._begun()()

    def _begun(self) -> Callable[[], Coroutine[object, object, L]]:
        obtain, self._obtain = self._obtain, None
        if obtain is None:
            raise RuntimeError(f"this acquisition of lock {self._name!r} was used before: call {self._via} again")
        return obtain

    def __del__(self) -> None:
        if self._obtain is not None:
            warnings.warn(
                f"{self._via} of lock {self._name!r} was never awaited: use `await` or `async with`",
                RuntimeWarning,
                stacklevel=2,
                source=self,
            )


async def obtain(gate: Gate, calls: Calls, policy: Policy, timeout: float | None, sharing: Hold | None = None) -> Lease:
    """Acquire, waiting for at most `timeout` seconds.

    Args:
        gate: the name's.
        calls: requests of this acquisition's weight.
        policy: of an outermost acquisition; a nested one lives by its hold's.
        timeout: seconds; None for without limit, 0 for one attempt.
        sharing: the hold to nest in; None for the calling task's own, if it has one.
    """
    task = asyncio.current_task()
    runtime = gate.runtime
    if sharing is not None or runtime.holds:
        hold = sharing or _nesting(gate, task)
        if hold is not None:
            return await _nest(gate, calls, hold, policy, task, timeout)
        _refuse_overlap(gate, task)
    now = runtime.clock.now()
    expires = math.inf if timeout is None else now + timeout
    patience = now + runtime.limits.request_timeout
    waited = False
    at_once = gate.open
    waiter = gate.join(calls, policy, DONT_QUEUE if timeout == 0 else JOIN, at_once)
    if timeout is not None:
        waiter.final_refresh = expires - min(FINAL_REFRESH, timeout / 4)
    try:
        if at_once:
            await _attempt(gate, waiter, now, expires, patience)
        while not gate.accepts(waiter):
            now = runtime.clock.now()
            if now >= expires:
                raise _timeout(gate, waiter, timeout)
            if waiter.wants(now, gate.signals):
                # Who waits rides out an outage; but not behind others who never had an answer either.
                await _attempt(gate, waiter, now, expires, math.inf if gate.answered else patience)
            else:
                due = min(expires, waiter.retry_at) if waiter.contending else expires
                if waiter.contending and waiter.refusal is not None:
                    gate.ear.listen()
                runtime.watchdog.schedule(waiter, due)
                waited = True
                await waiter.sleep()
        if waited:  # anyio does not cancel a task that is about to run, though its scope may be cancelled
            await checkpoint_if_cancelled()
    except BaseException:
        gate.leave_queue(waiter)
        raise
    return own(gate, waiter, task)


async def obtain_now(gate: Gate, calls: Calls, policy: Policy) -> Lease | None:
    """Acquire in one attempt; None if somebody else holds the lock, in this process or elsewhere."""
    task = asyncio.current_task()
    hold = _nesting(gate, task)
    if hold is not None:
        return await _nest(gate, calls, hold, policy, task)
    _refuse_overlap(gate, task)
    if not gate.open:
        return None
    now = gate.runtime.clock.now()
    waiter = gate.join(calls, policy, DONT_QUEUE)
    try:
        await _attempt(gate, waiter, now, math.inf, now + gate.runtime.limits.request_timeout)
        granted = gate.accepts(waiter)
    except BaseException:
        gate.leave_queue(waiter)
        raise
    if not granted:
        gate.leave_queue(waiter)
        return None
    return own(gate, waiter, task)


async def _attempt(gate: Gate, waiter: Waiter, now: float, expires: float, patience: float) -> None:
    """One request for the lock. The answer becomes the waiter's grant, or decides when it tries again.

    Args:
        gate: the name's.
        waiter: who wants it.
        now: clock time.
        expires: clock time of the acquire's own timeout.
        patience: clock time until which the server may take to answer; `math.inf` rides out an outage.
    """
    runtime, calls, owner, policy = gate.runtime, waiter.calls, waiter.owner, waiter.policy
    mark_ms = 0
    if runtime.poll is not None and waiter.queue_number != DONT_QUEUE:
        # How long others assume that it waits, should it be refused: who polls has no subscription to count.
        mark_ms = milliseconds(runtime.poll.lasting(waiter.attempts))
    call = calls.acquire(owner, policy.ttl_ms, runtime.floor, waiter.metadata, 1, 0, waiter.queue_number, mark_ms)
    if gate.contention.contenders is None:
        # At once, not when the task runs again: the message of a grant may come right behind.
        call.settle = partial(gate.queued, waiter, call, owner)
    waiter.seen, waiter.retry_at = gate.signals, math.inf
    until = expires if now < expires < patience else patience
    reply = ask(gate, waiter, call, until)
    try:
        outcome = await reply
    except Expired:
        abandon(gate, waiter, call)
        if until == patience and not runtime.closing:
            raise runtime.unanswered(calls.name, "acquiring") from None
        waiter.pause(now, gate.signals)
        return
    except BackendError as error:
        abandon(gate, waiter, call)
        if not runtime.closing and (patience < math.inf or not error.transient):
            raise
        waiter.pause(now, gate.signals)
        waiter.failure = error
        return
    except BaseException:
        abandon(gate, waiter, call)
        raise
    waiter.reply = None
    gate.answered = True
    if isinstance(outcome, Granted):
        waiter.grant = Grant(outcome, call.sent_at, policy.margin)
        if waiter.queue_entry is not None:
            gate.granted(waiter, waiter.grant)
    elif isinstance(outcome, Refused):
        if outcome.spent:
            news = gate.signals - waiter.seen
            gate.undo(waiter)
            waiter.seen = gate.signals - news  # our own undo is no news
        gate.refuse(waiter, outcome)
        if outcome.spent and not outcome.pttl:
            waiter.pause(runtime.clock.now(), waiter.seen)
    elif isinstance(outcome, Impossible):
        name = gate.calls.name
        raise ConfigurationError(
            name,
            f"{name!r} was asked for {waiter.calls.weight} at once, but has {outcome.capacity} in all: ask for less",
        )
    elif not isinstance(outcome, Queued):
        gate.undo(waiter)


def ask(gate: Gate, waiter: Waiter, call: Call[R], until: float) -> asyncio.Future[R]:
    """Write a request that may get the waiter the lock. Whoever does not get the answer has to `abandon` it.

    Returns:
        Its outcome; or `Expired`, at clock time `until`; or `BackendError`: the server refuses, or the connection died
        and it is not to be written again.
    """
    call.unanswered = waiter.unanswered
    waiter.reply = reply = gate.runtime.backend.run(call)
    gate.runtime.watchdog.schedule(waiter, until)
    return reply


def abandon(gate: Gate, waiter: Waiter, call: Call[Any]) -> None:
    """The request's answer is not waited for any more: withdraw it; what a server may have seen is undone."""
    waiter.reply = None
    if not call.withdraw():
        call.unanswered = gate.undo(waiter).outlive


def own(gate: Gate, waiter: Waiter, task: asyncio.Task[object] | None) -> Lease:
    """Make the waiter's grant a lease of `task`."""
    hold = gate.admit(waiter)
    return gate.lease(hold, waiter.calls, task)


def _nesting(gate: Gate, task: asyncio.Task[object] | None) -> Hold | None:
    """What `task` nests in. A plain hold whose loss an error has told ends here: its task wants to begin anew."""
    leases = gate.of_task(task) if gate.contention.reentrant else ()
    while leases:
        hold = leases[-1].hold
        mine = [lease for lease in leases if lease.hold is hold]
        if not hold.told or hold.check() is None or any(lease.guard is not None for lease in mine):
            return hold
        for lease in mine:
            lease.give_up("dirty")
        leases = gate.of_task(task)
    return None


def _refuse_overlap(gate: Gate, task: asyncio.Task[object] | None) -> None:
    """Raise at once where the task would wait for what it holds itself, through another queue."""
    holds = gate.runtime.tasks.of(task)
    for hold in () if holds is None else _overlapping(gate, holds):
        if hold.loss_by_clock() is None:
            name = gate.calls.name
            raise NotAcquired(
                name,
                f"lock {name!r} was not acquired: this task holds {hold.calls.name!r}, which overlaps with it, "
                "and would wait for itself: release that first, or take all names at once",
            )


def _overlapping(gate: Gate, holds: TaskHolds) -> Iterator[Hold]:
    """What a task holds that the gate's name needs, too."""
    channels = gate.calls.channels
    for lease in holds if gate.contention.overlapping else holds.overlapping:
        hold = lease.hold
        if gate.runtime.holds.get(hold.owner) is hold and not set(channels).isdisjoint(hold.calls.channels):
            yield hold


async def _nest(
    gate: Gate,
    calls: Calls,
    hold: Hold,
    policy: Policy,
    task: asyncio.Task[object] | None,
    timeout: float | None = None,
) -> Lease:
    """One level more of a hold. The server is asked, so that nobody nests in a lock that is gone."""
    runtime, name = gate.runtime, gate.calls.name
    if hold.ended or hold.listener is not gate:
        raise NotOwned(name, f"the owner given to lock {name!r} does not hold it: pass that of an open lease of it")
    if hold.check() is not None:
        raise hold.loss()
    if calls.weight > hold.calls.weight:
        raise NotAcquired(
            name, f"{name!r} is held for reading by this owner, which would wait for itself to write: release it first"
        )
    hold.depth += 1
    hold.nesting += (calls,)
    if calls.weight != hold.calls.weight:
        hold.weigh()
    ttl_ms = hold.nesting_ttl_ms(policy.ttl_ms)
    call = hold.calls.acquire(hold.owner, ttl_ms, runtime.floor, runtime.holder, hold.depth, hold.fence)
    wanted = True

    def unanswered() -> bool:
        hold.tainted = True
        return wanted

    call.unanswered = unanswered
    reply = runtime.backend.run(call)
    seconds = runtime.limits.request_timeout
    if timeout and timeout < seconds:
        limit = runtime.limit(reply, runtime.clock.now() + timeout, lambda: _given_up(name, timeout, UNANSWERED))
    else:
        limit = runtime.limit(reply, runtime.clock.now() + seconds, lambda: runtime.unanswered(name, "nesting in"))
    try:
        outcome = await reply
        if not isinstance(outcome, Granted):
            hold.lose(outcome.reason if isinstance(outcome, Lost) else LossReason.TAKEN_OVER)
        elif hold.check() is None:
            hold.extend(call.sent_at, outcome.pttl)
        if hold.check() is not None:
            raise hold.loss()
    except BaseException:
        wanted = False
        call.withdraw()
        hold.nested(calls)
        gate.lower(hold, "clean" if hold.check() is None else "dirty")
        raise
    finally:
        runtime.watchdog.forget(limit)
    hold.nested(calls)
    return gate.lease(hold, calls, task)


def _timeout(gate: Gate, waiter: Waiter, timeout: float | None) -> AcquireTimeout:
    name = gate.calls.name
    other = next((hold for holds in lineage() for hold in _overlapping(gate, holds)), None)
    inherited = (lease for holds in lineage() for lease in holds.leases.get(gate, ()))
    if gate.contention.reentrant and any(lease.hold.reason is None for lease in inherited):
        who = "a task that started this one holds it: pass owner=lease.owner to acquire() to share it"
    elif other is not None:
        who = f"a task that started this one holds {other.calls.name!r}, which overlaps with it"
    elif gate.busy and gate.contention.contenders is not None:
        who = f"held by another task of this process ({gate.runtime.holder})"
    elif waiter.failure is not None:
        who = str(waiter.failure)
    elif isinstance(waiter.refusal, Queued):
        who = f"held by {_named(waiter.refusal)}, and this was number {waiter.refusal.rank} in the queue"
    elif waiter.refusal is not None:
        part = f"{waiter.refusal.part!r} is " if waiter.refusal.part else ""
        who = f"{part}held by {_named(waiter.refusal)}"
    else:
        who = UNANSWERED
    return _given_up(name, timeout, who)


def _given_up(name: str, timeout: float | None, why: str) -> AcquireTimeout:
    return AcquireTimeout(name, f"lock {name!r} was not acquired within {format_seconds(timeout or 0.0)} s: {why}")


def _named(refusal: Refused | Queued) -> str:
    return refusal.holder.replace("\n", " ") or "somebody who did not say who"
