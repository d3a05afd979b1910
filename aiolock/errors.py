"""What can go wrong, as one tree.

    AiolockError                      carries the lock's name; the message says what to do
    ├─ ConfigurationError(ValueError) bad name, ttl, URL, option; raised before anything is held
    ├─ NotAcquired                    not held; a grant that is on its way is given back
    │  └─ AcquireTimeout(TimeoutError) `holder` is who had it; a known outage is `__cause__`
    ├─ WaitTimeout(TimeoutError)      a latch did not open, or nobody notified a condition, in time
    ├─ LockLost                       was held, but is no longer; `reason` says why
    ├─ NotOwned                       you released or renewed what you do not hold
    ├─ TransactionError               `fenced()`: the database, or the block, has ended the transaction
    ├─ CommitUnknown                  `fenced()`: no answer to COMMIT; `committed()` of its block finds out
    └─ BackendError                   Redis is unreachable or refuses; the client's error is `__cause__`
       └─ QuorumError                 too few servers of a quorum answered; `outcomes` says what each did

Contention, outage and loss are three different errors, never one `False`.
"""

from __future__ import annotations

import contextlib
import copy
import enum
from typing import Any

from .record import Record


class LossReason(enum.StrEnum):
    """Why a lease is no longer safe. Each is a string, too, for metrics and JSON."""

    EXPIRED = "expired"
    """Its time was over, since a fixed lease (`renew=False`) reached its deadline."""
    UNREACHABLE = "unreachable"
    """Renewals failed until the deadline (server down, network cut, or a command refused)."""
    DELETED = "deleted"
    """The server no longer has the key (flushed, evicted, restarted empty, or deleted)."""
    TAKEN_OVER = "taken_over"
    """Another owner holds the lock."""
    LOOP_BLOCKED = "loop_blocked"
    """This process did not run its event loop until after the deadline (a blocking call, or a stop)."""
    REVOKED = "revoked"
    """`force_release()` was called."""
    MAX_HOLD = "max_hold"
    """It was held for longer than the lock's `max_hold`."""
    CLOSED = "closed"
    """Its manager was closed."""


class AiolockError(Exception):
    """Base of every error of this library.

    Attributes:
        name: the lock's name, or `""` if the error concerns the manager.
        message: what happened and what to do about it.
    """

    def __init__(self, name: str, message: str) -> None:
        super().__init__(name, message)
        self.name = name
        self.message = message

    def __str__(self) -> str:
        return self.message

    def __reduce__(self) -> tuple[Any, ...]:
        # OSError, a base of every TimeoutError, would rebuild itself from (errno, strerror).
        return _rebuild, (type(self), self.__dict__.copy()), {"args": self.args}


def _rebuild(cls: type[AiolockError], state: dict[str, Any]) -> AiolockError:
    error = cls.__new__(cls)
    AiolockError.__init__(error, state["name"], state["message"])
    error.__dict__.update(state)
    return error


class ConfigurationError(AiolockError, ValueError):
    """A name, ttl, URL or option that cannot work, or a manager that is used outside its `async with`. Nothing is
    held.
    """


class NotAcquired(AiolockError):
    """The lock was not acquired. A grant that is on its way is given back, or ends with its ttl.

    A latch's `wait()` also raises this if its manager is closed.

    Attributes:
        name: the lock's name.
        message: what happened and what to do about it.
        transient: True if the same call may succeed later, or in another process; False if the task would wait for
            what it holds itself, or a task that started it: a mistake in its code.
    """

    def __init__(self, name: str, message: str, transient: bool = True) -> None:
        super().__init__(name, message)
        self.transient: bool = transient


class Holder(Record):
    """The holder of a lock, as it described itself.

    Attributes:
        name: the lock's name; for a multi lock, the name that is in the way.
        process: its host and pid, as "web-3:4711", or "shop@web-3:4711" if its manager has a name; `""` if it did not
            say.
        metadata: the `metadata` of its lock, or None.
    """

    name: str
    process: str
    metadata: str | None = None

    def __str__(self) -> str:
        """For people: "web-3:4711 nightly report"."""
        return " ".join(filter(None, (self.process, self.metadata))) or "an unnamed holder"


class AcquireTimeout(NotAcquired, TimeoutError):
    """Your timeout is over, and another owner held the lock when Redis last answered.

    If Redis could not be reached after that, `__cause__` says why. If no server has answered at all, you get a
    `BackendError` instead.

    Attributes:
        name: the lock's name.
        message: what happened and what to do about it.
        transient: False if the task itself holds the lock, or a task that started it; otherwise True.
        holder: who had the lock when Redis last answered; None if no majority of a quorum agreed on one.
    """

    def __init__(self, name: str, message: str, holder: Holder | None = None) -> None:
        super().__init__(name, message)
        self.holder = holder


class WaitTimeout(AiolockError, TimeoutError):
    """What you waited for did not come within your timeout.

    A latch did not open: the message says how many counts are missing. Nobody notified a condition: its lock is then
    held again. Or a lock was not free.
    """


class LockLost(AiolockError):
    """The lease was lost while you held it; another holder may now do what it guarded.

    Attributes:
        name: the lock's name.
        message: what happened and what to do about it.
        reason: why, for code.
    """

    def __init__(self, name: str, message: str, reason: LossReason) -> None:
        super().__init__(name, message)
        self.reason: LossReason = LossReason(reason)
        # Its `args`: task queues make errors again from these, perhaps from JSON.
        BaseException.__init__(self, name, message, self.reason)


class NotOwned(AiolockError):
    """You released, renewed or moved a lock that you do not hold, or resumed a ticket that is no longer valid."""


class TransactionError(AiolockError):
    """The transaction of a `fenced()` block did not begin, or was over before the block; the lease is not lost by that.

    The message says which: the database was locked, the connection was lost before COMMIT, or the block has committed
    or rolled back itself. The database's own error is `__cause__`.
    """


class CommitUnknown(AiolockError):
    """The COMMIT of a `fenced()` block got no answer: it may be done or not, and it may still be on its way.

    Before you do its work again, ask `committed()` of what `fenced()` returned. The database's own error is
    `__cause__`.
    """


class BackendError(AiolockError):
    """Redis could not be reached or refused a command; the client's own error is `__cause__`.

    Attributes:
        name: the lock's name.
        message: what happened and what to do about it.
        transient: True if the same call may succeed later (outage, loading, busy, out of memory, read-only replica, too
            few replicas).
    """

    def __init__(self, name: str, message: str, transient: bool = False) -> None:
        super().__init__(name, message)
        self.transient = transient


class QuorumError(BackendError):
    """Too few servers of a quorum answered. `__cause__` is the first failure.

    Attributes:
        name: the lock's name.
        message: what happened and what to do about it.
        transient: True if the same call may succeed later.
        outcomes: what happened on each server, in the order in which you gave them to `LockManager.quorum()`.
    """

    def __init__(self, name: str, message: str, transient: bool = False, outcomes: tuple[str, ...] = ()) -> None:
        super().__init__(name, message, transient)
        self.outcomes = outcomes


def repeated(error: BackendError) -> BackendError:
    """Return a copy of `error` for one more task: each adds its own frames to what it raises."""
    copied = copy.copy(error)
    copied.__cause__ = error.__cause__
    return copied


def note(error: BaseException, text: str) -> None:
    """Add `text` to a user's error, if it takes notes: a frozen dataclass does not. Never raises."""
    with contextlib.suppress(Exception):
        error.add_note(f"aiolock: {text}")


EXPLAINED: dict[LossReason, str] = {
    LossReason.EXPIRED: "its ttl ran out, and it is not renewed (renew=False): raise the ttl, or call lease.renew()",
    LossReason.UNREACHABLE: "renewals got no answer until its deadline: check the connection",
    LossReason.DELETED: "the server no longer has its key (flushed, evicted, restarted empty, or deleted)",
    LossReason.TAKEN_OVER: "another owner holds it now",
    LossReason.LOOP_BLOCKED: "the event loop was blocked, or the process stopped: move blocking calls to a thread",
    LossReason.REVOKED: "force_release() was called",
    LossReason.MAX_HOLD: "it was held for longer than max_hold",
    LossReason.CLOSED: "its manager was closed",
}


def explain_loss(reason: LossReason, blocked: float, failure: AiolockError | None) -> str:
    """Return the reason, and its remedy.

    Args:
        reason: why.
        blocked: seconds that the loop was blocked, if that is the reason.
        failure: what kept the last renewals from being judged; None if there was no answer at all.
    """
    if reason is LossReason.UNREACHABLE and failure is not None:
        return f"{reason.name}: no renewal succeeded until its deadline: {failure}"
    lasting = f" for at least {blocked:.1f} s" if reason is LossReason.LOOP_BLOCKED else ""
    return f"{reason.name}{lasting}: {EXPLAINED[reason]}"


def tells_of_losses(error: Exception) -> bool:
    """Whether it is a `LockLost`, or a group of nothing else, as a task group raises it."""
    if isinstance(error, ExceptionGroup):
        return error.split(LockLost)[1] is None
    return isinstance(error, LockLost)
