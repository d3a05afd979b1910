"""A name that a job has from when it is enqueued to its end, over all its attempts.

Who holds the name, and as what:

- **reserved**: the owner in the ticket, which nobody renews, until `within` is over.
- **running**: a lease of the worker, resumed from that; its job's id goes with it.
- **to be tried again**: an owner that nobody renews, which the lease was handed to; it has the same id.

Each step moves the name from one owner and fence to a new one, so one of two deliveries gets it, and a late copy of a
request changes nothing. A job that got to its end leaves the name free; one that did not leaves it abandoned: it may
run once more, if nobody has had the name to an end since.
"""

from __future__ import annotations

import base64
import inspect
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from functools import wraps
from typing import ParamSpec, TypeVar, cast

from ..core.holding.telling import tell_released
from ..core.holding.ticket import Ticket
from ..core.lease import Lease
from ..core.policy import check_metadata, check_ttl, milliseconds
from ..core.resume import read, resume, worthless
from ..core.runtime import KINDS
from ..errors import AiolockError, ConfigurationError, Holder, LockLost, LossReason, NotOwned
from ..log import Log
from ..manager import LockManager
from ..primitives.looking import look
from ..scripts.base import Ending
from ..scripts.bid import JOB, Bid, job_of
from ..scripts.lock import LockCalls
from ..scripts.outcomes import Granted, Held, Released, ReleaseOutcome, TransferOutcome
from .current import running_under
from .exclusion import Exclusive
from .not_run import Busy, NotRun, before_it_runs
from .taking import take

P = ParamSpec("P")
R = TypeVar("R")
Retry = type[Exception] | tuple[type[Exception], ...] | Callable[[Exception], bool]

AGAIN = "+"
"""Behind the id of a job that waits to be tried again."""

logger: Log = Log("aiolock.reserved")


async def reserve(
    locks: LockManager, name: str, *, within: float | timedelta, metadata: str | None = None
) -> str | None:
    """Reserve a name for a job that you enqueue now: nobody else can, until the job has ended.

    The name is locked, by a ticket that stays valid: give it to the job as an argument, and decorate the job with
    `reserved()`. If you cannot enqueue it, call `unreserve()`.

    Args:
        locks: the manager.
        name: of the lock. Not one that the job itself takes: that would wait for its own reservation.
        within: seconds until a worker must begin the job, 0.1 s to 30 days. Then the name is free for others. If none
            takes it, the job still runs.
        metadata: what `locks.lock(name).info()` says of the job to those who are refused, until it has ended: its id.

    Returns:
        The ticket; None if the name is taken: its job waits or runs.

    Raises:
        BackendError: Redis is unreachable or refuses; nothing is reserved.
        ConfigurationError: `within` or `metadata` cannot be; this task holds the name; or a store or manager without
            tickets.
        LockLost: `within` was over before the answers had come.

    Cancellation: the reservation is given back at once; in an outage it ends with `within`. Cost: two round trips, or
    one if the name is taken.

    Example:
        ```python
        ticket = await reserve(locks, f"job:ship:{order}", within=timedelta(hours=6), metadata=job_id)
        if ticket is not None:
            await queue.enqueue_job("ship", order, ticket=ticket, _job_id=job_id)
        ```
    """
    within, metadata = check_ttl(name, within), check_metadata(name, metadata)
    lock = locks.lock(name)
    policy = lock._policy  # a time is never shortened, so it must not be acquired for longer
    ttl, margin = min(policy.ttl, within), min(policy.margin, within / 10)
    lock._policy = replace(policy, ttl=ttl, margin=margin, metadata=metadata)
    locks._runtime.backend.abilities.need_scripts(name, "tickets")
    lease = await lock.try_acquire()
    if lease is None:
        return None
    try:
        ticket = await lease.detach(within)
    except BaseException:
        lease.release()
        raise
    return f"{ticket}.{base64.urlsafe_b64encode(metadata.encode()).decode()}" if metadata else ticket


def reserved(
    locks: LockManager | Callable[..., LockManager],
    *,
    within: float | timedelta,
    retry: Retry = (),
    ticket: str = "ticket",
) -> Exclusive:
    """Run a job under the reservation that its ticket stands for, which ends with the job. Put it next to the job.

    While it runs, the job has a lease of the name with the manager's ttl: it is renewed, and the job is cancelled if it
    is lost. `current_lease()` returns it. The ticket is as good for each retry, and for a job that is delivered again
    after its worker died or stopped, unless another has had the name to its end since. A job that has run to its end,
    or was revoked, is not run again.

    Args:
        locks: the manager; or a function that gets the job's first argument: `get_locks` of arq's `ctx`.
        within: seconds that the wait for the next attempt may last, 0.1 s to 30 days.
        retry: errors after which the job runs again, as a class or several: the reservation stays. Or a function of the
            error that says so; it must know which attempt is the last. It also stays if another decorator did not run
            the job (`NotRun`).
        ticket: the name of the argument that has the ticket.

    Returns:
        A decorator, which keeps the function's signature.

    Raises:
        ConfigurationError, TypeError: on decorating: an option that cannot work; not a coroutine function; or it has no
            such argument.

    The decorated function raises what the function raises, and `LockLost` if it was cancelled because it lost the name.
    Before it runs:

    - `NotOwned`: the reservation has ended.
    - `Busy`, a `NotRun`: the job was delivered twice, and runs; or its worker died less than a ttl ago.
    - `Unavailable`, a `NotRun`: Redis could not be asked. The reservation stays.
    - `ConfigurationError`: no ticket, or one of another namespace, database or kind.

    If Redis does not learn of the job's end, a WARNING says so, and the name is free after the ttl.

    Cancellation: the name is free. Cost: one round trip before the job, and one after it; three before a retry.

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
            lease = await reservation.begin()
            done: list[R] = []
            with at_its_end(reservation.name, done):
                async with lease:  # nothing is awaited between the grant and this line
                    try:
                        with running_under(lease):
                            done.append(await fn(*args, **kwargs))
                    except BaseException as error:
                        await reservation.ended_by(error, lease, seconds, retry)
                        raise
            return done[0]

        return call

    return decorate


async def unreserve(locks: LockManager, ticket: str) -> bool:
    """End a reservation: revoke its job, or give the name back if you could not enqueue it.

    A job that already runs goes on: `locks.lock(name).force_release()` cancels it.

    Args:
        locks: the manager.
        ticket: what `reserve()` returned.

    Returns:
        True if it was in force, and its job does not run.

    Raises:
        BackendError: Redis is unreachable or refuses.
        ConfigurationError: no ticket, or one of another namespace, database or kind.

    Cancellation: it still ends, if it is the first attempt's. Cost: one round trip; three after a retry.
    """
    return await Reservation(locks, ticket).end()


class Reservation:
    """What a ticket stands for.

    Args:
        locks: the manager.
        ticket: as text.

    Raises:
        ConfigurationError: no ticket, or one of another namespace, database or kind.
    """

    __slots__ = ("_calls", "_lock", "_metadata", "_runtime", "_ticket")

    def __init__(self, locks: LockManager, ticket: str) -> None:
        self._runtime = locks._runtime
        text, self._metadata = unpack(ticket)
        self._ticket = known = read(self._runtime, text)
        if known.kind != "lock":
            raise ConfigurationError(known.name, f"the ticket of {known.name!r} is none that reserve() returned")
        self._lock = locks.lock(known.name)
        self._lock._policy = replace(self._lock._policy, metadata=f"{self._metadata}{JOB}{known.owner}")
        self._calls = cast(LockCalls, KINDS["lock"].calls(self._runtime, known.name, 1, 1))

    @property
    def name(self) -> str:
        """The lock's name."""
        return self._ticket.name

    async def begin(self) -> Lease:
        """Return the lease under which the job runs.

        Raises:
            NotOwned: the reservation has ended.
            Busy: the job runs elsewhere, or has begun to.
            Unavailable: Redis is unreachable or refuses.
        """
        with before_it_runs():
            try:
                return await resume(self._runtime, self._lock._policy, self._ticket)
            except NotOwned:
                held = await self._held()
            if held is None:
                return await self._recover()
            match job_of(held.holder).partition(self._ticket.owner):
                case ("", _, mark) if mark == AGAIN:
                    return await self._continue(held)
                case ("", owner, "") if owner:
                    raise self._busy(held)
                case _:
                    raise worthless(self.name, LossReason.TAKEN_OVER)

    async def end(self) -> bool:
        """End it, unless its job runs; return whether it was in force. Written when this is called."""
        ticket = self._ticket
        if await self._release(ticket.owner, "clean", ticket.tainted):
            return True
        held = await self._held()
        if held is None or job_of(held.holder) != ticket.owner + AGAIN:
            return False
        return await self._release(held.owner, "clean", True)

    def give_up(self) -> None:
        """End it before its job was enqueued, without waiting for the answer."""
        ticket = self._ticket
        self._runtime.backend.post(
            self._calls.release(ticket.owner, self._lock._policy.ttl_ms, 0, "clean", ticket.tainted)
        )

    async def ended_by(self, error: BaseException, lease: Lease, within: float, retry: Retry) -> None:
        """The job raised this: what is left of its reservation, if it is not over."""
        if lease.released or lease.lost:
            return
        if not isinstance(error, Exception):  # a worker that stops has its jobs delivered again
            lease._give_up("dirty")
        elif stays(error, retry):
            await self.wait_again(lease, within)

    async def wait_again(self, lease: Lease, within: float) -> None:
        """Keep the name for the next attempt for so long. If that fails, it is abandoned: the attempt may still run."""
        if lease.depth > 1:  # a task that the job has started still has it
            return
        runtime, hold = self._runtime, lease._hold
        metadata = f"{runtime.binding.holder}\n{self._metadata}{JOB}{self._ticket.owner}{AGAIN}"
        heir = runtime.binding.new_owner(self._calls.mark)
        bid = Bid(heir, milliseconds(within), runtime.fences.floor, metadata)
        call = self._calls.resume(hold.owner, hold.fence, bid, hold.tainted)
        lease._result, lease._detached = lease._gate.detach(lease), True  # or a renewal takes the hand-over for a loss
        tell_released(runtime, hold, False, detached=True)
        kept = False
        try:
            outcome: TransferOutcome = await runtime.ask(call, "keeping the reservation of")
            kept = isinstance(outcome, Granted)
        except AiolockError as error:
            logger.warning(
                "the reservation of %r was not kept for the next attempt: it runs unless another has: %s",
                self.name,
                error,
                extra={"lock_name": self.name},
            )
        finally:
            if not kept and runtime.binding.usable:
                runtime.backend.post(self._calls.release(hold.owner, hold.ttl_ms, 0, "dirty", True))

    async def _held(self) -> Held | None:
        return (await self._runtime.ask(self._calls.info(), "looking at the reservation of")).held

    async def _continue(self, held: Held) -> Lease:
        """Begin the next attempt."""
        ticket: Ticket = replace(self._ticket, owner=held.owner, fence=held.fence, tainted=False)
        try:
            return await resume(self._runtime, self._lock._policy, ticket)
        except NotOwned:
            raise self._busy(held) from None

    async def _recover(self) -> Lease:
        """Begin again, if the name was left by one that did not get to its end."""
        seen = await look(self._runtime, self._calls)
        if seen is None or seen.state != "abandoned":
            raise worthless(self.name, LossReason.DELETED)
        lease = await take(self._lock, "raise", None)
        if not lease.abandoned:
            lease.release()
            raise worthless(self.name, LossReason.DELETED)
        return lease

    async def _release(self, owner: str, ending: Ending, tainted: bool) -> bool:
        call = self._calls.release(owner, self._lock._policy.ttl_ms, 0, ending, tainted)
        outcome: ReleaseOutcome = await self._runtime.ask(call, "ending the reservation of")
        return isinstance(outcome, Released)

    def _busy(self, held: Held) -> Busy:
        holder = Holder(self.name, *held.told())
        why = f"the job of {self.name!r} was delivered twice: {holder} runs it, or has died less than a ttl ago"
        return Busy(self.name, f"{why}; it was not run here: deliver it again later", holder)


@contextmanager
def at_its_end(name: str, done: list[R]) -> Iterator[None]:
    """The end of a job's lease; if it fails, that does not spoil what the job did, unless the lease was lost."""
    try:
        yield
    except AiolockError as error:
        if not done or (isinstance(error, LockLost) and error.reason is not LossReason.CLOSED):
            raise
        logger.warning(
            "the job of %r has ended, but its reservation lasts until the ttl is over: %s",
            name,
            error,
            extra={"lock_name": name},
        )


def unpack(ticket: object) -> tuple[str, str]:
    """Return the ticket of the lease, and the metadata behind it."""
    text = ticket if isinstance(ticket, str) else ""
    head, _, packed = text.rpartition(".")
    if "." not in head:
        return text, ""
    try:
        return head, base64.urlsafe_b64decode(packed).decode()
    except ValueError:
        return "", ""


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
