"""What the server granted to an owner."""

from __future__ import annotations

from ..scripts.outcomes import Granted
from .policy import Policy


class Grant:
    """A name was granted to an owner.

    Args:
        outcome: the server's answer.
        sent_at: clock time before which it cannot have been granted.
        policy: of whoever takes it; no grant lasts longer than its ttl.

    Attributes:
        deadline: clock time at which it is lost unless renewed.
    """

    __slots__ = ("deadline", "outcome", "sent_at")

    def __init__(self, outcome: Granted, sent_at: float, policy: Policy) -> None:
        pttl = outcome.pttl
        self.outcome: Granted = outcome
        self.sent_at: float = sent_at
        self.deadline: float = sent_at + (pttl if pttl < policy.ttl_ms else policy.ttl_ms) / 1000 - policy.margin
