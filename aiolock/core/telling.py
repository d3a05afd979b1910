"""What observers are told about locks: the events, made of what the core knows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from typing import TYPE_CHECKING, Protocol

from ..errors import AcquireTimeout, Holder, WaitTimeout
from ..events import (
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

if TYPE_CHECKING:
    from .calls import Calls
    from .hold import Hold
    from .runtime import Runtime

_numbers = count(1)
"""Of waits; an observer may serve several managers."""


class Named(Protocol):
    """What is waited for, or run."""

    @property
    def kind(self) -> str: ...

    @property
    def name(self) -> str: ...


def tell_waiting(runtime: Runtime, what: Named) -> int:
    """A task waits; return the number of its wait, 0 if nobody wants to know."""
    if not runtime.observers.wants(Waiting):
        return 0
    number = next(_numbers)
    runtime.observers.tell(Waiting(what.name, what.kind, number))
    return number


@contextmanager
def told_of(runtime: Runtime, what: Named) -> Iterator[None]:
    """Tell of a wait, which is the block, and gives nothing to hold."""
    began, number = runtime.clock.now(), tell_waiting(runtime, what)
    try:
        yield
    except BaseException as error:
        tell_failed(runtime, what, error, began, wait=number)
        raise
    if runtime.observers.wants(Passed):
        runtime.observers.tell(Passed(what.name, what.kind, _since(runtime, began), number))


def tell_ran(runtime: Runtime, what: Named, ran: bool, status: str) -> None:
    """A call of a job has run it, or not."""
    if runtime.observers.wants(Ran):
        runtime.observers.tell(Ran(what.name, what.kind, ran, status))


def tell_acquired(
    runtime: Runtime, hold: Hold, waited: float, requests: int = 1, contended: bool = False, wait: int = 0
) -> None:
    """A task has a hold, or one more level of one. The caller has asked whether anyone wants to know.

    Args:
        runtime: the manager's.
        hold: it.
        waited: seconds since the task asked.
        requests: how many answers of the server that took.
        contended: another had it meanwhile.
        wait: the number of its wait; 0 if it was not told of.
    """
    name, kind, depth = hold.calls.name, hold.calls.kind, hold.depth
    event = Acquired(name, kind, hold.owner, hold.fence, depth, waited, requests, contended, hold.abandoned, wait)
    runtime.observers.tell(event)


def tell_failed(
    runtime: Runtime,
    what: Named,
    error: BaseException,
    began: float | None = None,
    requests: int = 0,
    wait: int = 0,
) -> None:
    """A task does not get what it wants, because of `error`; it has waited since clock time `began`, if at all."""
    observers, name, kind = runtime.observers, what.name, what.kind
    waited = _since(runtime, began)
    if not isinstance(error, AcquireTimeout | WaitTimeout):
        if observers.wants(AcquireFailed):
            observers.tell(AcquireFailed(name, kind, waited, error, wait))
    elif observers.wants(TimedOut):
        holder = error.holder if isinstance(error, AcquireTimeout) else None
        observers.tell(TimedOut(name, kind, waited, requests, holder, wait))


def tell_refused(runtime: Runtime, calls: Calls, began: float | None, holder: Callable[[], Holder | None]) -> None:
    """The only attempt of a task, which began at clock time `began` if it asked at all, has found another owner."""
    if runtime.observers.wants(Refused):
        runtime.observers.tell(Refused(calls.name, calls.kind, _since(runtime, began), holder()))


def _since(runtime: Runtime, began: float | None) -> float:
    return 0.0 if began is None else runtime.clock.now() - began


def tell_granted(runtime: Runtime, calls: Calls, owner: str, fence: int) -> None:
    """A message says that `owner` was granted a name that it waited for, with this fence."""
    if runtime.observers.wants(Granted):
        runtime.observers.tell(Granted(calls.name, calls.kind, owner, fence))


def tell_renewed(runtime: Runtime, hold: Hold, deadline: float, pttl: int, sent_at: float) -> None:
    """A hold was extended, as `Term` says."""
    if not runtime.observers.wants(Renewed):
        return
    now = runtime.clock.now()
    name, kind = hold.calls.name, hold.calls.kind
    event = Renewed(name, kind, hold.owner, hold.fence, pttl / 1000, deadline - now, now - sent_at)
    runtime.observers.tell(event)


def tell_released(runtime: Runtime, hold: Hold, handed_on: bool, detached: bool = False) -> None:
    """One level of a hold was given back. The caller has asked whether anyone wants to know."""
    held = runtime.clock.now() - hold.began
    name, kind = hold.calls.name, hold.calls.kind
    runtime.observers.tell(Released(name, kind, hold.owner, hold.fence, hold.depth, held, handed_on, detached))


def tell_abandoned(runtime: Runtime, hold: Hold, collected: bool = False) -> None:
    """One level of a hold was given back, and not by its user."""
    held = runtime.clock.now() - hold.began
    name, kind = hold.calls.name, hold.calls.kind
    runtime.observers.tell(Abandoned(name, kind, hold.owner, hold.fence, hold.depth, held, collected))


def tell_dropped(runtime: Runtime, hold: Hold) -> None:
    """A lease of a hold that is renewed was dropped."""
    held, calls = runtime.clock.now() - hold.began, hold.calls
    runtime.observers.tell(Dropped(calls.name, calls.kind, hold.owner, hold.fence, held))


def tell_lost(runtime: Runtime, hold: Hold) -> None:
    """A hold is lost."""
    assert hold.reason is not None
    now = runtime.clock.now()
    name, kind, late = hold.calls.name, hold.calls.kind, max(0.0, now - hold.deadline)
    event = Lost(name, kind, hold.owner, hold.fence, hold.reason, now - hold.began, late, hold.explain())
    runtime.observers.tell(event)
