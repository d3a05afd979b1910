"""What scripts answer, decoded: shared by every primitive."""

from __future__ import annotations

from typing import NamedTuple

from ..errors import LossReason


class Granted(NamedTuple):
    """The owner holds the lock; `pttl` ms were left after the script, `others` managers listen for a release."""

    fence: int
    pttl: int
    abandoned: bool
    others: int = 0


class Refused(NamedTuple):
    """Somebody else holds it, for `pttl` ms more (-1: without expiry); `holder` is what they said of themselves.

    `spent`: some servers of a quorum granted it, or may have, so the owner must be ended and never sent again. With
    `pttl` 0 nobody has it: a split vote.
    """

    pttl: int
    fence: int
    holder: str
    spent: bool = False


class Lost(NamedTuple):
    """A nested acquisition found that its hold is gone."""

    reason: LossReason


class Finished(NamedTuple):
    """The owner has a tombstone: it ended, and this request came too late."""


class Released(NamedTuple):
    """The lock is free, or was freed by an earlier copy of this request."""

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
    """The server could not judge this key: `error` is its text. Not a verdict."""

    error: str


class Held(NamedTuple):
    """A look at a held lock."""

    owner: str
    depth: int
    pttl: int
    fence: int
    holder: str


AcquireOutcome = Granted | Refused | Lost | Finished
ReleaseOutcome = Released | Kept | Missing
TransferOutcome = Granted | Missing | Finished
RenewOutcome = Renewed | Missing | Failed
