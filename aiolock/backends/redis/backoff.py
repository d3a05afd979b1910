"""How long to wait before the next attempt to connect."""

from __future__ import annotations

import random

FIRST = 0.01
CAP = 0.8
"""Seconds. A holder must know within a second of the new master that its lock is lost."""
LASTED = 0.25
"""Seconds after which a connection no longer counts as a failed attempt."""


class Backoff:
    """Capped exponential backoff with full jitter; the first attempt is immediate.

    Full jitter keeps the clients of a server that comes back from arriving all at once.
    Source: AWS Architecture Blog, "Exponential Backoff And Jitter".
    """

    __slots__ = ("_attempts",)

    def __init__(self) -> None:
        self._attempts = 0

    def next(self) -> float:
        """Seconds to wait before this attempt."""
        attempts, self._attempts = self._attempts, self._attempts + 1
        if attempts == 0:
            return 0.0
        return random.uniform(0.0, min(CAP, FIRST * 2.0 ** min(attempts - 1, 30)))

    def reset(self) -> None:
        """A connection has lasted: the next attempt counts as a first one again."""
        self._attempts = 0
