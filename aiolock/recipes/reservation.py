"""A name that a job has from when it is enqueued to its end, over all its attempts."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Coroutine
from dataclasses import replace
from datetime import timedelta
from functools import wraps
from typing import ParamSpec, TypeVar

from ..core.calls import Calls
from ..core.policy import check_ttl, milliseconds
from ..core.resume import read, worthless
from ..core.runtime import KINDS
from ..errors import BackendError, ConfigurationError
from ..log import Log
from ..manager import LockManager
from ..scripts.base import Call
from ..scripts.outcomes import Failed, Missing, Released, ReleaseOutcome
from .exclusion import Exclusive
from .not_run import NotRun, before_it_runs

P = ParamSpec("P")
R = TypeVar("R")
Retry = type[Exception] | tuple[type[Exception], ...] | Callable[[Exception], bool]

logger: Log = Log("aiolock.reserved")


async def reserve(locks: LockManager, name: str, *, within: float | timedelta) -> str | None:
    """Reserve a name for a job that you enqueue now: nobody else can, until the job has ended.

    The name is locked, by a ticket that stays valid: give it to the job as an argument, and decorate the job with
    `reserved()`. If you cannot enqueue it, call `unreserve()`.

    Args:
        locks: the manager.
        name: of the lock. Not one that the job itself takes: that would wait for its own reservation.
        within: seconds until a worker must begin the job, 0.1 s to 30 days. Then the name is free for others. If none
            takes it, the job still runs.

    Returns:
        The ticket, as `lease.detach()` returns it; None if the name is taken: its job waits or runs.

    Raises:
        BackendError: Redis is unreachable or refuses; nothing is reserved.
        ConfigurationError: `within` cannot be; this task holds the name; or a store or manager without tickets.
        LockLost: `within` was over before the answers had come.

    Cancellation: the reservation is given back at once; in an outage it ends with `within`. Cost: two round trips, or
    one if the name is taken.

    Example:
        ```python
        ticket = await reserve(locks, f"job:ship:{order}", within=timedelta(hours=6))
        if ticket is not None:
            await queue.enqueue_job("ship", order, ticket=ticket)
        ```
    """
    within = check_ttl(name, within)
    lock = locks.lock(name)
    policy = lock._policy  # a time is never shortened, so it must not be acquired for longer
    lock._policy = replace(policy, ttl=min(policy.ttl, within), margin=min(policy.margin, within / 10))
    locks._runtime.backend.abilities.need_scripts(name, "tickets")
    lease = await lock.try_acquire()
    if lease is None:
        return None
    try:
        return await lease.detach(within)
    except BaseException:
        lease.release()
        raise


def reserved(
    locks: LockManager | Callable[..., LockManager],
    *,
    within: float | timedelta,
    retry: Retry = (),
    ticket: str = "ticket",
) -> Exclusive:
    """Run a job under the reservation that its ticket stands for, which ends with the job. Put it next to the job.

    The ticket is as good for each retry, and for a job that is delivered again after its worker died. A job whose
    reservation has ended is not run: it was revoked, it has run to its end and was delivered twice, or it came so late
    that another took the name. Two deliveries at a time are not kept apart: put `exclusive(locks, key=…, busy="raise")`
    below it, with another name.

    Args:
        locks: the manager; or a function that gets the job's first argument: `get_locks` of arq's `ctx`.
        within: seconds that each attempt, and the wait for the next one, may last, 0.1 s to 30 days: each attempt
            begins with them anew.
        retry: errors after which the job runs again, as a class or several: the reservation stays. Or a function of the
            error that says so; it must know which attempt is the last. It also stays if the job was cancelled, or
            another decorator did not run it (`NotRun`).
        ticket: the name of the argument that has the ticket.

    Returns:
        A decorator, which keeps the function's signature.

    Raises:
        ConfigurationError, TypeError: on decorating: an option that cannot work; not a coroutine function; or it has no
            such argument.

    The decorated function raises what the function raises, and, before it runs:

    - `NotOwned`: the reservation has ended.
    - `Unavailable`, a `NotRun`: Redis could not be asked. The reservation stays.
    - `ConfigurationError`: no ticket, or one of another namespace, database or kind.

    If Redis does not learn of the job's end, a WARNING says so, and the name is free when `within` is over. Cost: one
    round trip before the job, and one after it.

    Example:
        ```python
        @reserved(get_locks, within=timedelta(hours=1), retry=arq.Retry)
        async def ship(ctx, order: str, *, ticket: str) -> None: ...
        ```
    """
    seconds = check_options(locks, LockManager, within, retry)

    def decorate(fn: Callable[P, Coroutine[object, object, R]]) -> Callable[P, Coroutine[object, object, R]]:
        if not inspect.iscoroutinefunction(fn):
            shown = getattr(fn, "__qualname__", repr(fn))
            raise TypeError(f"reserved() decorates coroutine functions (async def) without a yield, not {shown}")
        ticket_of = finder(fn, ticket)

        @wraps(fn)
        async def call(*args: P.args, **kwargs: P.kwargs) -> R:
            manager = locks if isinstance(locks, LockManager) else locks(*args[:1])
            reservation = Reservation(manager, ticket_of(*args, **kwargs))
            await reservation.extend(seconds)
            try:
                result = await fn(*args, **kwargs)
            except Exception as error:
                if not stays(error, retry):
                    await reservation.end_with_job()
                raise
            await reservation.end_with_job()
            return result

        return call

    return decorate


async def unreserve(locks: LockManager, ticket: str) -> bool:
    """End a reservation: revoke its job, or give the name back if you could not enqueue it.

    A job that already runs goes on; its retries are not run.

    Args:
        locks: the manager.
        ticket: what `reserve()` returned.

    Returns:
        True if it was in force.

    Raises:
        BackendError: Redis is unreachable or refuses.
        ConfigurationError: no ticket, or one of another namespace, database or kind.

    Cancellation: it still ends. Cost: one round trip.
    """
    return await Reservation(locks, ticket).end()


class Reservation:
    """What a ticket stands for, which nobody resumes.

    Args:
        locks: the manager.
        ticket: as text.

    Raises:
        ConfigurationError: no ticket, or one of another namespace, database or kind.
    """

    __slots__ = ("_calls", "_runtime", "_ticket", "_ttl")

    def __init__(self, locks: LockManager, ticket: str) -> None:
        self._runtime = locks._runtime
        self._ticket = known = read(self._runtime, ticket)
        self._calls: Calls = KINDS[known.kind].calls(self._runtime, known.name, known.weight, known.weight)
        self._ttl = milliseconds(locks.lock(known.name)._policy.ttl)

    @property
    def name(self) -> str:
        """The lock's name."""
        return self._ticket.name

    async def extend(self, seconds: float) -> None:
        """Let it last for so long from now on; never shortens it.

        Raises:
            NotOwned: it has ended.
            Unavailable: Redis is unreachable or refuses.
        """
        name, ticket = self._ticket.name, self._ticket
        call = self._calls.renew_many([self._calls.renewal(ticket.owner, ticket.fence, milliseconds(seconds))])
        call.name = name  # a batch has none
        with before_it_runs():
            (outcome,) = await self._runtime.ask(call, "extending the reservation of")
            if isinstance(outcome, Failed):
                raise BackendError(name, f"could not renew {name!r}: {outcome.error}", outcome.transient)
        if isinstance(outcome, Missing):
            raise worthless(name, outcome.reason)

    async def end(self) -> bool:
        """End it; return whether it was in force. Written when this is called."""
        outcome = await self._runtime.ask(self._release(), "ending the reservation of")
        return isinstance(outcome, Released)

    def give_up(self) -> None:
        """The same, without the answer."""
        self._runtime.backend.post(self._release())

    async def end_with_job(self) -> None:
        """The same; if it fails, that does not spoil what the job did."""
        name = self._ticket.name
        try:
            if not await self.end():
                logger.warning(
                    "the reservation of %r had ended before its job did: if nobody revoked it, raise within=",
                    name,
                    extra={"lock_name": name},
                )
        except BackendError as error:
            logger.warning(
                "the job of %r has ended, but its reservation lasts until within= is over: %s",
                name,
                error,
                extra={"lock_name": name},
            )

    def _release(self) -> Call[ReleaseOutcome]:
        ticket = self._ticket
        return self._calls.release(ticket.owner, self._ttl, 0, "clean", ticket.tainted)


def check_options(locks: object, manager: type, within: float | timedelta, retry: object) -> float:
    """Return `within` in seconds, if these options of a decorator can work; otherwise raise `ConfigurationError`."""
    if not isinstance(locks, manager) and not callable(locks):
        raise ConfigurationError(
            "", f"reserved() needs a LockManager, or a function of the first argument that returns it, not {locks!r}"
        )
    several = retry if isinstance(retry, tuple) else (retry,)
    if not callable(retry) and not all(isinstance(one, type) and issubclass(one, Exception) for one in several):
        raise ConfigurationError("", f"retry must be classes of errors, or a function of an error, not {retry!r}")
    return check_ttl("", within)


def finder(fn: Callable[..., object], ticket: str) -> Callable[..., str]:
    """Return what finds the ticket in the arguments of a call.

    Raises:
        ConfigurationError: the function has no such argument.
    """
    signature = inspect.signature(fn)
    if ticket not in signature.parameters:
        shown = getattr(fn, "__qualname__", repr(fn))
        raise ConfigurationError("", f"{shown} needs the argument {ticket!r} for its ticket: add it, or pass ticket=")

    def ticket_of(*args: object, **kwargs: object) -> str:
        found: str = signature.bind(*args, **kwargs).arguments.get(ticket, "")
        return found

    return ticket_of


def stays(error: Exception, retry: Retry) -> bool:
    """Whether the job that raised this runs again."""
    if isinstance(error, NotRun):
        return True
    return isinstance(error, retry) if isinstance(retry, type | tuple) else bool(retry(error))
