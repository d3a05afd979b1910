"""What the server granted to an owner."""

from __future__ import annotations

from typing import Protocol

from ..scripts.outcomes import Granted
from .calls import Calls
from .policy import Policy


class Asker(Protocol):
    """The terms of the grant: those of the outermost acquisition win."""

    calls: Calls
    policy: Policy
    metadata: str


class Entry(Protocol):
    """The entry that was granted."""

    owner: str
    tainted: bool

    @property
    def asker(self) -> Asker: ...


class Grant:
    """A name was granted to an owner.

    Args:
        outcome: the server's answer.
        sent_at: clock time before which it cannot have been granted.
        policy: of whoever takes it; no grant lasts longer than its ttl.
        provisional: it must be confirmed at once, by a renewal, to last for the policy's ttl.

    Attributes:
        deadline: clock time at which it is lost unless renewed.
        doubtful: its confirmation got no verdict.
        margin: seconds before the server's expiry at which it counts as lost here, by its policy; less for a
            provisional one, until it is renewed.
    """

    __slots__ = ("deadline", "doubtful", "margin", "outcome", "provisional", "sent_at")

    def __init__(self, outcome: Granted, sent_at: float, policy: Policy, provisional: bool = False) -> None:
        pttl, margin = outcome.pttl, policy.margin
        if provisional:
            margin = min(margin, pttl / 10_000)
        self.outcome: Granted = outcome
        self.sent_at: float = sent_at
        self.margin: float = margin
        self.provisional: bool = provisional
        self.doubtful: bool = False
        self.deadline: float = sent_at + (pttl if pttl < policy.ttl_ms else policy.ttl_ms) / 1000 - margin
