"""What observers are told about locks: the events, made of what the core knows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from typing import Protocol

from ...errors import AcquireTimeout, Holder, WaitTimeout
from ...events import (
    Abandoned,
    Acquired,
    AcquireFailed,
    Dropped,
    Granted,
    Lost,
    Passed,
    Ran,
    Refused,
    Released,
    Renewed,
    TimedOut,
    Waiting,
)
from ..calls import Calls
from ..services import Services
from .hold import Hold

_numbers = count(1)
"""Of waits; an observer may serve several managers."""


class Named(Protocol):
    """What is waited for, or run."""

    @property
    def kind(self) -> str: ...

    @property
    def name(self) -> str: ...


def tell_waiting(services: Services, what: Named) -> int:
    """A task waits; return the number of its wait, 0 if nobody wants to know."""
    if not services.observers.wants(Waiting):
        return 0
    number = next(_numbers)
    services.observers.tell(Waiting(what.name, what.kind, number))
    return number


@contextmanager
def told_of(services: Services, what: Named) -> Iterator[None]:
    """Tell of a wait, which is the block, and gives nothing to hold."""
    began, number = services.clock.now(), tell_waiting(services, what)
    try:
        yield
    except BaseException as error:
        tell_failed(services, what, error, began, wait=number)
        raise
    if services.observers.wants(Passed):
        services.observers.tell(Passed(what.name, what.kind, _since(services, began), number))


def tell_ran(services: Services, what: Named, ran: bool, status: str) -> None:
    """A call of a job has run it, or not."""
    if services.observers.wants(Ran):
        services.observers.tell(Ran(what.name, what.kind, ran, status))


def tell_acquired(
    services: Services, hold: Hold, waited: float, requests: int = 1, contended: bool = False, wait: int = 0
) -> None:
    """A task has a hold, or one more level of one. The caller has asked whether anyone wants to know.

    Args:
        services: the manager's.
        hold: it.
        waited: seconds since the task asked.
        requests: how many answers of the server that took.
        contended: another had it meanwhile.
        wait: the number of its wait; 0 if it was not told of.
    """
    event = Acquired(*_of(hold), hold.depth, waited, requests, contended, hold.abandoned, wait)
    services.observers.tell(event)


def tell_failed(
    services: Services,
    what: Named,
    error: BaseException,
    began: float | None = None,
    requests: int = 0,
    wait: int = 0,
) -> None:
    """A task does not get what it wants, because of `error`; it has waited since clock time `began`, if at all."""
    observers, name, kind = services.observers, what.name, what.kind
    waited = _since(services, began)
    if not isinstance(error, AcquireTimeout | WaitTimeout):
        if observers.wants(AcquireFailed):
            observers.tell(AcquireFailed(name, kind, waited, error, wait))
    elif observers.wants(TimedOut):
        holder = error.holder if isinstance(error, AcquireTimeout) else None
        observers.tell(TimedOut(name, kind, waited, requests, holder, wait))


def tell_refused(services: Services, calls: Calls, began: float | None, holder: Callable[[], Holder | None]) -> None:
    """The only attempt of a task, which began at clock time `began` if it asked at all, has found another owner."""
    if services.observers.wants(Refused):
        services.observers.tell(Refused(calls.name, calls.kind, _since(services, began), holder()))


def _since(services: Services, began: float | None) -> float:
    return 0.0 if began is None else services.clock.now() - began


def tell_granted(services: Services, calls: Calls, owner: str, fence: int) -> None:
    """A message says that `owner` was granted a name that it waited for, with this fence."""
    if services.observers.wants(Granted):
        services.observers.tell(Granted(calls.name, calls.kind, owner, fence))


def tell_renewed(services: Services, hold: Hold, deadline: float, pttl: int, sent_at: float) -> None:
    """A hold was extended, as `Hold` says."""
    if services.observers.wants(Renewed):
        now = services.clock.now()
        services.observers.tell(Renewed(*_of(hold), pttl / 1000, deadline - now, now - sent_at))


def tell_released(services: Services, hold: Hold, handed_on: bool, detached: bool = False) -> None:
    """One level of a hold was returned. The caller has asked whether anyone wants to know."""
    held = _since(services, hold.began)
    services.observers.tell(Released(*_of(hold), hold.depth, held, handed_on, detached))


def tell_abandoned(services: Services, hold: Hold, collected: bool = False) -> None:
    """One level of a hold was returned, and not by its user."""
    services.observers.tell(Abandoned(*_of(hold), hold.depth, _since(services, hold.began), collected))


def tell_dropped(services: Services, hold: Hold) -> None:
    """A lease of a hold that is renewed was dropped."""
    services.observers.tell(Dropped(*_of(hold), _since(services, hold.began)))


def tell_lost(services: Services, hold: Hold) -> None:
    """A hold is lost."""
    assert hold.reason is not None
    now = services.clock.now()
    late = max(0.0, now - hold.deadline)
    services.observers.tell(Lost(*_of(hold), hold.reason, now - hold.began, late, hold.explain()))


def _of(hold: Hold) -> tuple[str, str, str, int]:
    """What all events of a hold begin with."""
    return hold.calls.name, hold.calls.kind, hold.owner, hold.fence
