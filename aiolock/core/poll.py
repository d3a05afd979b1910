"""Waiting without messages: how long until the next attempt."""

from __future__ import annotations

import random
from dataclasses import dataclass

from ..errors import ConfigurationError
from .policy import check_duration


@dataclass(frozen=True, slots=True)
class Poll:
    """Waiters ask again and again instead of being told: for servers and proxies without pub/sub.

    Args:
        first: seconds before the second attempt; doubled from attempt to attempt.
        cap: seconds between two attempts at most.
        jitter: the share of each pause that is drawn at random, 0 to 1, so that processes spread.

    Raises:
        ConfigurationError: a number that cannot work.
    """

    first: float = 0.01
    cap: float = 0.5
    jitter: float = 0.5

    def __post_init__(self) -> None:
        check_duration("", "waiting=Poll(first=…)", self.first, least=0.001)
        check_duration("", "waiting=Poll(cap=…)", self.cap, least=self.first)
        if not 0 <= check_duration("", "waiting=Poll(jitter=…)", self.jitter) <= 1:
            raise ConfigurationError("", f"waiting=Poll(jitter={self.jitter}) must lie between 0 and 1")

    def pause(self, attempts: int) -> float:
        """Seconds to the next attempt, after so many in vain."""
        longest: float = min(self.cap, self.first * 2 ** min(attempts, 30))
        return longest * (1 - random.uniform(0, self.jitter))
