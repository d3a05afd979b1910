"""What happens to locks and connections, as an observer is told of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from .errors import Holder, LossReason


@dataclass(frozen=True, slots=True)
class Event:
    """What every event is. All durations are seconds."""


@dataclass(frozen=True, slots=True)
class LockEvent(Event):
    """Something happened to one lock.

    Attributes:
        name: the lock's.
        kind: of what primitive it is: `lock`, `rw`, `semaphore`, `multi`, …, as the server's keys have it.
    """

    name: str
    kind: str


@dataclass(frozen=True, slots=True)
class HoldEvent(LockEvent):
    """Something happened to a lock that this process holds.

    Attributes:
        owner: tells this hold from all others, anywhere.
        fence: its fencing token.
    """

    owner: str
    fence: int


@dataclass(frozen=True, slots=True)
class Acquired(HoldEvent):
    """A task got the lock; told in that task, before its block begins.

    Attributes:
        depth: 1, or how deep the task nests in what it held already.
        waited: how long the acquire took.
        requests: how often this process asked the server for this task; 0 if another task of it handed the lock on.
        contended: whether it had to wait for another owner.
        abandoned: whether its last holder died without releasing it.
    """

    depth: int
    waited: float
    requests: int
    contended: bool
    abandoned: bool


@dataclass(frozen=True, slots=True)
class Refused(LockEvent):
    """`try_acquire()` found another owner; told in the task.

    Attributes:
        waited: how long the attempt took.
        holder: who has it, if known.
    """

    waited: float
    holder: Holder | None


@dataclass(frozen=True, slots=True)
class TimedOut(LockEvent):
    """An acquire waited for as long as it was allowed to; told in the task.

    Attributes:
        waited: how long it waited.
        requests: how often this process asked the server for this task.
        holder: who has it, if known.
    """

    waited: float
    requests: int
    holder: Holder | None


@dataclass(frozen=True, slots=True)
class AcquireFailed(LockEvent):
    """An acquire ended for another reason: an error, or its task was cancelled; told in the task.

    Attributes:
        waited: how long it waited.
        error: what it raises.
    """

    waited: float
    error: BaseException


@dataclass(frozen=True, slots=True)
class Granted(LockEvent):
    """A release elsewhere gave the lock to this process, which waited in the queue on the server.

    Attributes:
        owner: who has it now.
        fence: its fencing token.
    """

    owner: str
    fence: int


@dataclass(frozen=True, slots=True)
class Renewed(HoldEvent):
    """The server confirmed that the lock is held on.

    Attributes:
        ttl: how long the server keeps it from now.
        headroom: how long before the lease would have been lost the answer came. The smallest one is the warning: a
            lease is lost when it is 0.
        took: how long the answer took.
    """

    ttl: float
    headroom: float
    took: float


@dataclass(frozen=True, slots=True)
class Released(HoldEvent):
    """A task gave the lock back; told when the request is on its way.

    Attributes:
        depth: how many levels its owner still has; 0: it holds it no more.
        held: how long its owner has held it.
        handed_on: whether another task of this process has it now.
    """

    depth: int
    held: float
    handed_on: bool


@dataclass(frozen=True, slots=True)
class Lost(HoldEvent):
    """A lock was lost while it was held; told after its guarded block was cancelled.

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


@dataclass(frozen=True, slots=True)
class Abandoned(HoldEvent):
    """A task ended, or its lease was garbage collected, without a release: the lock expires, or is given back now.

    Attributes:
        held: how long its owner had held it.
    """

    held: float


@dataclass(frozen=True, slots=True)
class Disconnected(Event):
    """A connection was lost; it is opened again.

    Attributes:
        address: of the server.
        error: why.
    """

    address: str
    error: BaseException


@dataclass(frozen=True, slots=True)
class Reconnected(Event):
    """A lost connection is open again.

    Attributes:
        address: of the server.
        after: how long it was away.
    """

    address: str
    after: float


@dataclass(frozen=True, slots=True)
class WokeLate(Event):
    """The event loop was blocked, or the process stopped: a timer of aiolock's was called late.

    Attributes:
        late: by how much.
    """

    late: float


class Observer(Protocol):
    """Anything that can be called with an event: a function, a bound method, an object with `__call__`.

    It is called on the event loop, after what it is told of has been done, and must return at once: while it runs,
    nothing else does. What it raises is logged, and changes nothing.
    """

    def __call__(self, event: Event, /) -> object: ...
