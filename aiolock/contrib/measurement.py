"""What the exporters of metrics measure alike: which events count for what, by which labels and buckets."""

from __future__ import annotations

import asyncio
import math
from abc import ABC, abstractmethod
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator
from typing import Generic, NamedTuple, TypeVar

from .. import events

L = TypeVar("L", bound=Hashable)
H = TypeVar("H")

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


class Counted(NamedTuple):
    """A counter.

    Attributes:
        otel: its name in OpenTelemetry, after "aiolock."; Prometheus has the key in `COUNTERS`.
        about: what it counts.
        by: the attribute that says how it ended, if any does; the last part of it is the label of Prometheus.
    """

    otel: str
    about: str
    by: str = ""


COUNTERS = {
    "contended": Counted("acquire.contended", "Acquires that met another owner."),
    "recovered": Counted("acquire.recovered", "Acquires of a lock whose last holder never released it."),
    "abandoned": Counted("hold.abandoned", "Locks whose task ended without releasing them."),
    "dropped": Counted("hold.dropped", "Locks whose lease was dropped while its task or thread lived on."),
    "losses": Counted("hold.losses", "Locks lost while they were held, by reason.", "loss.reason"),
    "runs": Counted("run", "Calls of once().run(), by outcome.", "run.outcome"),
    "disconnects": Counted("connection.losses", "Connections to the server that were lost."),
}


class Measured(NamedTuple):
    """A histogram.

    Attributes:
        otel: its name in OpenTelemetry, after "aiolock."; Prometheus has the key in `HISTOGRAMS`.
        unit: "s", or "1" for a share.
        buckets: their upper limits.
        about: what it measures.
    """

    otel: str
    unit: str
    buckets: tuple[float, ...]
    about: str


HISTOGRAMS = {
    "hold_seconds": Measured("hold.duration", "s", DURATIONS, "How long locks were held."),
    "renewal_headroom_seconds": Measured(
        "renewal.headroom", "s", HEADROOM_SECONDS, "How long before the loss of its lease a renewal came."
    ),
    "renewal_headroom_ratio": Measured("renewal.headroom_ratio", "1", HEADROOM, "The same, as a share of the ttl."),
    "renewal_seconds": Measured("renewal.duration", "s", ROUND_TRIPS, "How long the server took to renew."),
    "loop_lag_seconds": Measured("loop.lag", "s", LATENESS, "How late the event loop called a timer."),
    "outage_seconds": Measured("connection.outage.duration", "s", DURATIONS, "How long a lost connection was down."),
}
OF_PROCESS = frozenset({"disconnects", "loop_lag_seconds", "outage_seconds"})
"""What is about no lock."""

Decided = events.Acquired | events.Passed | events.Refused | events.TimedOut | events.AcquireFailed
"""How an acquire ends."""


class Exporter(ABC, Generic[L, H]):
    """An observer that decides which event counts for what. Nested acquires count nowhere.

    Args:
        label: see `Label`; None to tell only kinds of locks apart.
    """

    def __init__(self, label: Label | None) -> None:
        self._label: Label | None = label
        self._waits: Waits[L] = Waits()
        self._holds: dict[str, H] = {}  # by owner

    def __call__(self, event: events.Event, /) -> None:
        """Take one event."""
        match event:
            case events.Waiting():
                self._begun(event)
            case events.Passed():
                self._decided(event, PASSED)
            case events.Acquired(depth=1):
                if (hold := self._decided(event, ACQUIRED)) is not None:
                    self._holds[event.owner] = hold
                if event.contended:
                    self._count("contended", event)
                if event.abandoned:
                    self._count("recovered", event)
            case events.Refused():
                self._decided(event, REFUSED)
                self._count("contended", event)
            case events.TimedOut():
                self._decided(event, TIMEOUT)
                if event.holder is not None:
                    self._count("contended", event)
            case events.AcquireFailed():
                self._decided(event, how_it_failed(event.error))
            case events.Ran():
                self._count("runs", event, event.status if event.ran else SKIPPED)
            case events.Renewed():
                if (hold := self._holds.get(event.owner)) is not None:
                    self._renewed(hold, event)
            case events.Released(depth=0):
                self._ended(event)
            case events.Lost():
                self._ended(event, event.reason.value, event.explanation)
                self._count("losses", event, event.reason.value)
            case events.Abandoned():
                if event.depth == 0:
                    self._ended(event, "abandoned", "its task ended, or dropped it, without releasing it")
                self._count("abandoned", event)
            case events.Dropped():
                self._count("dropped", event)
            case events.WokeLate():
                self._measure("loop_lag_seconds", event.late, event)
            case events.Disconnected():
                self._count("disconnects", event)
            case events.Reconnected():
                self._measure("outage_seconds", event.after, event)

    def _renewed(self, hold: H, event: events.Renewed) -> None:
        self._measure("renewal_headroom_seconds", event.headroom, event, hold)
        self._measure("renewal_headroom_ratio", event.headroom / event.ttl, event, hold)
        self._measure("renewal_seconds", event.took, event, hold)

    def _ended(
        self, event: events.Released | events.Lost | events.Abandoned, error: str = "", explanation: str | None = None
    ) -> None:
        """Measure the end of a hold; it may be lost after it was released."""
        hold = self._holds.pop(event.owner, None)
        if hold is not None:
            self._end(hold, event, error, explanation)

    @abstractmethod
    def _begun(self, event: events.Waiting) -> None: ...

    @abstractmethod
    def _decided(self, event: Decided, outcome: str) -> H | None:
        """An acquire has ended; if it got something, return what must be known when that hold ends."""

    @abstractmethod
    def _end(
        self, hold: H, event: events.Released | events.Lost | events.Abandoned, error: str, explanation: str | None
    ) -> None:
        """A hold has ended, with an error or "" for none."""

    @abstractmethod
    def _count(self, name: str, event: events.Event, by: str = "") -> None:
        """Add one to a counter of `COUNTERS`."""

    @abstractmethod
    def _measure(self, name: str, value: float, event: events.Event, hold: H | None = None) -> None:
        """Add a value to a histogram of `HISTOGRAMS`, which is about a hold or about the process."""
