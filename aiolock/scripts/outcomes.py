"""What scripts answer, decoded: shared by every primitive."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import NamedTuple, TypeVar

from ..errors import BackendError, LossReason
from .base import PartRefused
from .bid import told
from .foreign import foreign

T = TypeVar("T")

_REPLICA = re.compile(r"\b(READONLY|MASTERDOWN) ")


@dataclass(slots=True)
class Granted:
    """The owner holds the lock; `pttl` ms were left after the script.

    `capacity` is the stored one, and `weight` what was moved to the owner, if the kind has either; `slots` are the
    numbers of its permits, if it wants them.
    """

    fence: int
    pttl: int
    abandoned: bool
    capacity: int = 0
    weight: int = 0
    slots: tuple[int, ...] = ()


class Refused(NamedTuple):
    """Another owner holds it for `pttl` ms more, -1 without an end; `holder` is what it said of itself.

    `spent`: some servers of a quorum granted it, or may have, so the owner must be ended and never sent again. With
    `pttl` 0 no one has it: a split vote. `part` is the name they hold, if several were requested.
    """

    pttl: int
    fence: int
    holder: str
    spent: bool = False
    part: str = ""


class Queued(NamedTuple):
    """The owner waits on the server, `rank` from 1. A later grant has a higher serial than `serial`.

    The first holder expires in `pttl` ms (-1: unknown). 0: more come and go now than one request may admit or end, so
    another must follow at once. Locks have no serials; only multi locks report the number. `part` is the name that is
    in the way for the longest, if several were requested.
    """

    serial: int = 0
    queue_number: int = 0
    rank: int = 0
    fence: int = 0
    holder: str = ""
    pttl: int = -1
    part: str = ""


class Passed(NamedTuple):
    """Another owner of the queue was granted the lock, for `pttl` ms; the intended successor is in the queue, with this
    number.
    """

    queue_number: int
    pttl: int


class Gone(NamedTuple):
    """The owner neither holds nor waits: the server has forgotten it, or it came too late."""


class Impossible(NamedTuple):
    """The request asked for more than the name has."""

    capacity: int


class Lost(NamedTuple):
    """A nested acquisition found that its hold is gone."""

    reason: LossReason


class Finished(NamedTuple):
    """The owner has a tombstone: it ended, and this request came too late."""


@dataclass(slots=True)
class Released:
    """The lock is free, or was freed by an earlier copy of this request; others have `heard` it, as they wait."""

    fence: int
    heard: bool = False


class Asked(NamedTuple):
    """Who was asked to finish, and its fence; the empty owner if no one holds the name."""

    owner: str
    fence: int


class Kept(NamedTuple):
    """One level less; still held for `pttl` ms."""

    pttl: int


class Missing(NamedTuple):
    """The owner did not hold the lock."""

    reason: LossReason


class Renewed(NamedTuple):
    """Still held, for `pttl` ms from now."""

    pttl: int


class Failed(NamedTuple):
    """The server could not judge this key: `error` is its text. Not a verdict; if `transient`, the next may be one."""

    error: str
    transient: bool = False


def failed(text: str) -> Failed:
    """Return the answer for a key that is an error.

    Raises:
        PartRefused: the server no longer is a master: nothing ran, and it may not judge the other keys either.
    """
    if _REPLICA.search(text):
        raise PartRefused(text)
    return Failed(foreign(text) or text)


class Held(NamedTuple):
    """A view of a held lock."""

    owner: str
    depth: int
    pttl: int
    fence: int
    holder: str

    def told(self) -> tuple[str, str | None]:
        """What the holder said of itself: host and pid, and its metadata."""
        return told(self.holder)


class Ended(NamedTuple):
    """This many holds were ended by force, and this many are left for the next request: one request ends only some."""

    ended: int
    left: int


class Standing(NamedTuple):
    """A view of a name with a queue: `held` is the holder that holds it longest from now; `rank` is that of one waiter,
    from 1.
    """

    holders: int
    used: int
    capacity: int
    fence: int
    waiters: int
    rank: int | None
    held: Held | None


AcquireOutcome = Granted | Queued | Refused | Impossible | Lost | Finished
ReleaseOutcome = Released | Kept | Missing
RefreshOutcome = Granted | Queued | Gone | Failed
TransferOutcome = Granted | Passed | Missing | Finished
RenewOutcome = Renewed | Missing | Failed


_WAITING = (Queued, Passed)


def awaits(result: object) -> bool:
    """Whether an answer, or one of several in a list, says that its owner now waits for a message."""
    if type(result) is list:
        return any(isinstance(one, _WAITING) for one in result)
    return isinstance(result, _WAITING)


# What an outcome is worth if too few replicas have it. Only grants and extensions are promises: the rest stays.


def no_grant(outcome: T, doubt: BackendError) -> T | BackendError:
    return doubt if isinstance(outcome, Granted) else outcome


def no_nesting(outcome: Kept | Missing, doubt: BackendError) -> Kept | Missing | BackendError:
    return doubt if isinstance(outcome, Kept) else outcome


def no_renewal(outcomes: list[RenewOutcome], doubt: BackendError) -> list[RenewOutcome]:
    failed = Failed(doubt.message, doubt.transient)
    return [failed if isinstance(outcome, Renewed) else outcome for outcome in outcomes]
