"""A renewal of names in several slots: a line in the request to each, and one verdict."""

from __future__ import annotations

import math
from typing import Any, Protocol

from ..errors import BackendError
from ..scripts.outcomes import Missing, Renewed


class Judged(Protocol):
    """What is renewed."""

    def judged(self, outcome: Any, sent_at: float) -> None:
        """The verdict on a request written at `sent_at`."""

    def unknown(self, error: BackendError) -> None:
        """No verdict: try again."""


class JointRenewal:
    """Passes on a loss as soon as one slot tells of it, and an extension once all slots have extended it.

    Args:
        renewal: what is renewed.
        count: in how many slots.
    """

    __slots__ = ("_doubtful", "_left", "_pttl", "_renewal", "_sent_at")

    def __init__(self, renewal: Judged, count: int) -> None:
        self._renewal = renewal
        self._left = count
        self._pttl = math.inf
        self._sent_at = math.inf
        self._doubtful = False  # one slot gave no verdict, and the renewal knows

    def judged(self, outcome: Any, sent_at: float) -> None:
        """The verdict of one slot on what was written at `sent_at`."""
        if isinstance(outcome, Renewed):
            self._left -= 1
            self._pttl, self._sent_at = min(self._pttl, outcome.pttl), min(self._sent_at, sent_at)
            if not self._left:
                self._renewal.judged(Renewed(int(self._pttl)), self._sent_at)
        elif isinstance(outcome, Missing) or not self._doubtful:
            self._doubtful = True
            self._renewal.judged(outcome, sent_at)

    def unknown(self, error: BackendError) -> None:
        """One slot gave no verdict."""
        if not self._doubtful:
            self._doubtful = True
            self._renewal.unknown(error)
