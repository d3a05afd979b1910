"""Stretches of time."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple


class Period(NamedTuple):
    """From when until when, in seconds of the clock that all processes share."""

    since: float
    until: float

    @property
    def seconds(self) -> float:
        return max(0.0, self.until - self.since)

    def __contains__(self, moment: object) -> bool:
        return isinstance(moment, float) and self.since <= moment <= self.until

    def meets(self, other: Period) -> bool:
        """Whether they have a moment in common."""
        return self.since <= other.until and other.since <= self.until

    def without(self, others: Iterable[Period]) -> list[Period]:
        """What is left of it: parts in order, of which none is empty."""
        left, since = [], self.since
        for other in sorted(others):
            if other.until <= since:
                continue
            if other.since >= self.until:
                break
            if other.since > since:
                left.append(Period(since, other.since))
            since = max(since, other.until)
        if since < self.until:
            left.append(Period(since, self.until))
        return left


def union(periods: Iterable[Period]) -> list[Period]:
    """What they cover together: parts in order, of which no two meet."""
    found: list[Period] = []
    for period in sorted(periods):
        if found and period.since <= found[-1].until:
            found[-1] = Period(found[-1].since, max(found[-1].until, period.until))
        else:
            found.append(period)
    return found
