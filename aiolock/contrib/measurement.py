"""What the exporters of metrics measure alike: labels, outcomes of an acquire, and buckets."""

from __future__ import annotations

import asyncio
import math
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator
from typing import Generic, TypeVar

L = TypeVar("L", bound=Hashable)

Label = Callable[[str], str]
"""Maps a lock's name to one of few classes, which become a label: `lambda name: name.partition(":")[0]`."""

ACQUIRED = "acquired"
PASSED = "passed"
REFUSED = "refused"
TIMEOUT = "timeout"
CANCELLED = "cancelled"
ERROR = "error"
OUTCOMES = (ACQUIRED, PASSED, REFUSED, TIMEOUT, CANCELLED, ERROR)
"""How an acquire can end."""
SKIPPED = "skipped"
"""What became of a call of a job that another call ran, or runs; the others have the status of their run."""

DURATIONS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0)
"""Buckets in seconds: a lock on a near server takes less than the first, a nightly job more than the last."""
ROUND_TRIPS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0)
"""Buckets in seconds, up to the default `request_timeout`."""
HEADROOM = (0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5, 0.55, 0.6, 0.7)
"""Buckets as a part of the ttl: renewals in time come near 0.57, and what matters is how far below."""
HEADROOM_SECONDS = (0.1, 0.25, 0.5, 1.0, 2.0, 3.0, 5.0, 7.5, 10.0, 15.0, 20.0, 30.0, 60.0)
"""Buckets in seconds."""
LATENESS = (0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
"""Buckets in seconds, from what a busy loop does to what loses locks."""


def how_it_failed(error: BaseException) -> str:
    """The outcome of an acquire that raises `error`."""
    return CANCELLED if isinstance(error, asyncio.CancelledError) else ERROR


class Waits(Generic[L]):
    """Who waits, and since when, by the labels of metrics."""

    def __init__(self) -> None:
        self._labels: dict[int, L] = {}  # by the number of the wait
        self._begun: dict[L, OrderedDict[int, float]] = {}  # a dict is slow at its first item when it is a queue

    def begin(self, wait: int, labels: L, now: float) -> None:
        """A wait begins."""
        self._labels[wait] = labels
        self._begun.setdefault(labels, OrderedDict())[wait] = now

    def end(self, wait: int) -> L | None:
        """A wait is over; return its labels, or None if its beginning was not told."""
        labels = self._labels.pop(wait, None)
        if labels is not None:
            del self._begun[labels][wait]
        return labels

    def oldest(self) -> Iterator[tuple[L, float]]:
        """All labels that ever had a wait, and when the one began that goes on for longest; infinity for none."""
        for labels in list(self._begun):
            yield labels, self.oldest_of(labels)

    def oldest_of(self, labels: L) -> float:
        """The same for some labels."""
        return next(iter(self._begun[labels].values()), math.inf)
