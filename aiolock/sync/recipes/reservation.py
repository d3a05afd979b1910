"""A name that a job has from when it is enqueued to its end, for threads."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from functools import partial, wraps
from typing import ParamSpec, TypeVar

from ...errors import ConfigurationError
from ...recipes import reservation as core
from ...recipes.reservation import Reservation, Retry, at_its_end, check_options, finder
from ..lease import Lease
from ..manager import LockManager
from .current import running_under
from .exclusion import Exclusive, check_plain

P = ParamSpec("P")
R = TypeVar("R")


def reserve(locks: LockManager, name: str, *, within: float | timedelta, metadata: str | None = None) -> str | None:
    """Reserve a name for a job that you enqueue now, as `aiolock.recipes.reserve` does.

    Args:
        locks: the manager.
        name: of the lock; not one that the job itself takes.
        within: seconds until a worker must begin the job, 0.1 s to 30 days. Then the name is free for others.
        metadata: what `locks.lock(name).info()` says of the job to those who are refused, until it has ended: its id.

    Returns:
        The ticket, for the job; None if the name is taken: its job waits or runs.

    Raises:
        BackendError: Redis is unreachable or refuses; nothing is reserved.
        ConfigurationError: `within` or `metadata` cannot be; this thread holds the name; or a store or manager without
            tickets.
        LockLost: `within` was over before the answers had come.

    If a signal interrupts it, nothing is reserved. Cost: two round trips, or one if the name is taken.
    """

    def unclaimed(ticket: str | None) -> None:
        if ticket is not None:
            Reservation(locks._core, ticket).give_up()

    return locks._portal.call(
        name, lambda: core.reserve(locks._core, name, within=within, metadata=metadata), unclaimed
    )


def reserved(
    locks: LockManager | Callable[..., LockManager],
    *,
    within: float | timedelta,
    retry: Retry = (),
    ticket: str = "ticket",
) -> Exclusive:
    """Run a job under the reservation that its ticket stands for, which ends with the job. Put it next to the job.

    As `aiolock.recipes.reserved`, which explains the arguments, for plain functions. A thread cannot be cancelled, so
    look at `current_lease().ensure()` before each step that must not run twice.

    Args:
        locks: the manager; or a function that gets the job's first argument, if there is one: in Celery
            `lambda *_: opened(locks)`.
        within: seconds that the wait for the next attempt may last, 0.1 s to 30 days.
        retry: errors after which the job runs again, or a function of the error that says so: the reservation stays. It
            also stays if another decorator did not run the job (`NotRun`).
        ticket: the name of the argument that has the ticket.

    Returns:
        A decorator, which keeps the function's signature.

    Raises:
        ConfigurationError, TypeError: on decorating: an option that cannot work; a coroutine function or generator; or
            it has no such argument.

    The decorated function raises what the function raises, and `LockLost` if it ran to its end, but had lost the name.
    Before it runs: `NotOwned` (the reservation has ended), `Busy` or `Unavailable` (each a `NotRun`), or
    `ConfigurationError` (no ticket, or one of another namespace). Cost: one round trip before the job, and one after
    it; three before a retry.

    Example:
        ```python
        @app.task(bind=True)
        @reserved(lambda *_: opened(locks), within=3600, retry=celery.exceptions.Retry)
        def ship(self, order: str, *, ticket: str) -> None: ...
        ```
    """
    seconds = check_options(locks, LockManager, within, retry)

    def decorate(fn: Callable[P, R]) -> Callable[P, R]:
        check_plain(fn, "reserved()")
        ticket_of = finder(fn, ticket)

        @wraps(fn)
        def call(*args: P.args, **kwargs: P.kwargs) -> R:
            manager = locks if isinstance(locks, LockManager) else locks(*args[:1])
            reservation = Reservation(manager._core, ticket_of(*args, **kwargs))
            portal, name = manager._portal, reservation.name

            async def begin() -> Lease:
                return Lease(portal, await reservation.begin())

            lease = portal.call(name, begin, Lease._take_back)
            done: list[R] = []
            with at_its_end(name, done), lease, running_under(lease):
                try:
                    done.append(fn(*args, **kwargs))
                except BaseException as error:
                    with suppress(ConfigurationError):  # the manager was closed meanwhile
                        portal.call(name, partial(reservation.ended_by, error, lease._core, seconds, retry))
                    raise
            return done[0]

        return call

    return decorate


def unreserve(locks: LockManager, ticket: str) -> bool:
    """End a reservation: revoke its job, or give the name back if you could not enqueue it.

    A job that already runs goes on: `locks.lock(name).force_release()` takes its lease.

    Args:
        locks: the manager.
        ticket: what `reserve()` returned.

    Returns:
        True if it was in force, and its job does not run.

    Raises:
        BackendError: Redis is unreachable or refuses.
        ConfigurationError: no ticket, or one of another namespace, database or kind.

    If a signal interrupts it, it still ends. Cost: one round trip; three after a retry.
    """
    reservation = Reservation(locks._core, ticket)
    return locks._portal.call(reservation.name, reservation.end, certain=True)
