"""What happens to locks and connections, as reported to an observer."""

from __future__ import annotations

from dataclasses import field
from typing import Protocol

from .errors import Holder, LossReason
from .record import Record

__all__ = [
    "Abandoned",
    "AcquireFailed",
    "Acquired",
    "Disconnected",
    "Dropped",
    "Event",
    "Granted",
    "HoldEvent",
    "LockEvent",
    "Lost",
    "Observer",
    "Passed",
    "Ran",
    "Reconnected",
    "Refused",
    "Released",
    "Renewed",
    "TimedOut",
    "Waiting",
    "WokeLate",
]


class Event(Record):
    """What every event is. All durations are seconds.

    Attributes:
        manager: the name of the manager that tells it; empty if it has none.
    """

    manager: str = field(default="", kw_only=True, repr=False, compare=False)


class LockEvent(Event):
    """Something happened to one lock.

    Attributes:
        name: the lock's.
        kind: of what primitive it is: `lock`, `rw`, `semaphore`, `multi`, …, as the server's keys have it.
    """

    name: str
    kind: str


class HoldEvent(LockEvent):
    """Something happened to a lock that this process holds.

    Attributes:
        owner: tells this hold from all others, anywhere.
        fence: its fencing token; 0 if it has none, as Redisson's plain locks.
    """

    owner: str
    fence: int


class Waiting(LockEvent):
    """A task has to wait: for a lock that it did not get at once, a latch that is not open, or a condition.

    Its end is an `Acquired`, `TimedOut`, `AcquireFailed` or `Passed` with the same number.

    Attributes:
        wait: the number of this wait; no other one of this process has it.
    """

    wait: int


class Passed(LockEvent):
    """A wait for a latch or a condition is over: the latch is open, or the task was notified; reported in the task.

    Attributes:
        waited: how long it waited.
        wait: the number of its `Waiting`; 0 if nobody listened when it began.
    """

    waited: float
    wait: int


class Acquired(HoldEvent):
    """A task got the lock; reported in that task, before its block begins.

    So does one that resumed a ticket, and one whose wait for a condition is over.

    Attributes:
        depth: 1, or how deep the owner nests in what it held already.
        waited: how long the acquire took.
        requests: how many answers of the server it took; 0 if another task of this process handed the lock on.
        contended: whether it had to wait for another owner.
        abandoned: whether its last holder died without releasing it.
        wait: the number of its `Waiting`; 0 if there was none.
    """

    depth: int
    waited: float
    requests: int
    contended: bool
    abandoned: bool
    wait: int = 0


class Refused(LockEvent):
    """`try_acquire()` found another owner; reported in the task.

    Attributes:
        waited: how long the attempt took.
        holder: who has it, if known.
    """

    waited: float
    holder: Holder | None


class TimedOut(LockEvent):
    """An acquire waited for as long as it was allowed to; reported in the task.

    Attributes:
        waited: how long it waited.
        requests: how many answers of the server it got.
        holder: who has it, if known.
        wait: the number of its `Waiting`; 0 if there was none.
    """

    waited: float
    requests: int
    holder: Holder | None
    wait: int = 0


class AcquireFailed(LockEvent):
    """An acquire ended for another reason: an error, or its task was cancelled; reported in the task.

    Attributes:
        waited: how long it waited.
        error: what it raises.
        wait: the number of its `Waiting`; 0 if there was none.
    """

    waited: float
    error: BaseException
    wait: int = 0


class Ran(LockEvent):
    """A call of `once().run()` was decided; reported in its task.

    Attributes:
        ran: whether this call ran the function. Otherwise its window had had its run, or another call runs it.
        status: how the run of the window is: `succeeded`, `failed`, `interrupted` or `running`.
    """

    ran: bool
    status: str


class Granted(LockEvent):
    """A release elsewhere gave the lock to this process, which waited in the queue on the server.

    Reported when the message has come, and the process asks the server; the task that gets the lock reports `Acquired`.

    Attributes:
        owner: who has it now.
        fence: its fencing token.
    """

    owner: str
    fence: int


class Renewed(HoldEvent):
    """The server has extended the lease, by itself or by `lease.renew()`.

    Attributes:
        ttl: how long the server keeps it from now.
        headroom: how long before the lease would have been lost the answer came. The smallest one is the warning: a
            lease is lost when it is 0.
        took: how long the answer took.
    """

    ttl: float
    headroom: float
    took: float


class Released(HoldEvent):
    """A task released the lock, or detached it; reported when the request is on its way.

    A lock that was lost is not released: `Lost` is its end. Releasing a part of a semaphore is no release either.

    Attributes:
        depth: how many levels its owner still has; 0: it holds it no more.
        held: how long its owner has held it.
        handed_on: whether the request gives it to another task of this process, unless it is the turn of others.
        detached: whether a ticket continues it.
    """

    depth: int
    held: float
    handed_on: bool
    detached: bool


class Lost(HoldEvent):
    """A lock was lost while it was held; reported after its guarded block was cancelled.

    If only the answer to the release says so, it comes after `Released`.

    Attributes:
        reason: why.
        held: how long its owner had held it.
        late: how long after its deadline this was noticed; 0 if before.
        explanation: the reason in words, and its remedy.
    """

    reason: LossReason
    held: float
    late: float
    explanation: str


class Abandoned(HoldEvent):
    """A task ended inside its block, or a lease was garbage collected, without a release: it is released now.

    Attributes:
        depth: how many levels its owner still has; 0: it holds it no more.
        held: how long its owner had held it.
        collected: whether it was garbage collected.
    """

    depth: int
    held: float
    collected: bool


class Dropped(HoldEvent):
    """Nothing refers to a lease that was not released, or to the lock object through which it was acquired. Its task or
    thread lives on, which may call `release()` of another object: the hold is still renewed. Reported once for a hold,
    by a renewal.

    Attributes:
        held: how long its owner has held it.
    """

    held: float


class Disconnected(Event):
    """A connection was lost; it is opened again. A manager of several servers, or with `min_replicas`, has several.

    Attributes:
        address: of the server: host and port, or the path of its socket; or of the file. With Sentinels the name of the
            service.
        error: why.
        explanation: what became of the connection, in words.
    """

    address: str
    error: BaseException
    explanation: str


class Reconnected(Event):
    """A lost connection is open again.

    Attributes:
        address: as in `Disconnected`.
        after: how long it was unreachable.
    """

    address: str
    after: float


class WokeLate(Event):
    """The event loop was blocked, or the process stopped: a timer of aiolock's was called late.

    Attributes:
        late: by how much, more than 0.05. The log warns if it is more than 1.
    """

    late: float


class Observer(Protocol):
    """Anything that can be called with an event: a function, a bound method, an object with `__call__`.

    It is called on the event loop, after the event has taken effect, and must return at once: while it runs,
    nothing else does. It may call aiolock; what happens through that is reported once all observers know of this event.
    What it raises is logged once for each type of error, and changes nothing; `KeyboardInterrupt` and `SystemExit` end
    the event loop in its next turn, as if a callback of the loop had raised them.

    Example:
        ```python
        def alarm(event: Event) -> None:
            if isinstance(event, Renewed) and event.headroom < event.ttl / 6:
                print(f"{event.name!r} was renewed only {event.headroom:.1f} s before it would have been lost")

        locks = LockManager("redis://localhost:6379/0", observer=alarm)
        ```
    """

    def __call__(self, event: Event, /) -> object:
        """Take note of `event`; what this returns is ignored."""
