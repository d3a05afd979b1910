"""Prometheus metrics, made with its client for Python. `pip install 'aiolock-redis[prometheus]'`."""

from __future__ import annotations

import math
from dataclasses import dataclass
from time import time

from ..errors import LossReason
from ..events import (
    Abandoned,
    Acquired,
    AcquireFailed,
    Disconnected,
    Dropped,
    Event,
    LockEvent,
    Lost,
    Passed,
    Ran,
    Reconnected,
    Refused,
    Released,
    Renewed,
    TimedOut,
    Waiting,
    WokeLate,
)
from .extra import needs
from .measurement import (
    ACQUIRED,
    DURATIONS,
    HEADROOM,
    HEADROOM_SECONDS,
    LATENESS,
    OUTCOMES,
    PASSED,
    REFUSED,
    ROUND_TRIPS,
    SKIPPED,
    TIMEOUT,
    Label,
    Waits,
    how_it_failed,
)

with needs("prometheus"):
    from prometheus_client import REGISTRY, CollectorRegistry, Counter, Gauge, Histogram


class PrometheusObserver:
    """Counts and measures what happens to locks.

    All metrics of locks have the label `kind` (`lock`, `semaphore`, …), and `lock` if you give `label`. All their
    counters are there, at 0, once a lock of such labels was first met: `increase()` sees the first loss. Nested
    acquires count in no metric.

    One observer serves all managers of a process. It works in prometheus_client's multiprocess mode, made before a fork
    or after it.

    Args:
        label: maps a lock's name to one of few classes, the label `lock`. Default: metrics tell only kinds of locks
            apart.
        registry: where the metrics are registered; None: nowhere.

    Raises:
        ValueError: `registry` has such metrics already.

    Example:
        ```python
        observer = PrometheusObserver(label=lambda name: name.partition(":")[0])
        locks = LockManager("redis://localhost:6379/0", observer=observer)
        ```
    """

    def __init__(self, *, label: Label | None = None, registry: CollectorRegistry | None = REGISTRY) -> None:
        self._label: Label | None = label
        self._metrics: _Metrics = _Metrics(() if label is None else ("lock",), registry)
        self._series: dict[tuple[str, ...], _Series] = {}
        self._holds: dict[str, _Series] = {}  # by owner
        self._waits: Waits[tuple[str, ...]] = Waits()

    def __call__(self, event: Event, /) -> None:
        """Take one event."""
        match event:
            case Waiting():
                self._waiting(event)
            case Passed():
                self._passed(event.wait)
                series = self._of(event)
                series.outcomes[PASSED].inc()
                series.acquire.observe(event.waited)
            case Ran():
                self._metrics.runs.labels(*self._labels(event), event.status if event.ran else SKIPPED).inc()
            case Acquired():
                self._passed(event.wait)
                if event.depth == 1:
                    self._acquired(event)
            case Released():
                if event.depth == 0:
                    self._ended(event.owner, event.held)
            case Renewed():
                self._renewed(event)
            case Refused():
                series = self._of(event)
                series.outcomes[REFUSED].inc()
                series.contended.inc()
            case TimedOut():
                series = self._not_acquired(event, TIMEOUT)
                if event.holder is not None:
                    series.contended.inc()
            case AcquireFailed():
                self._not_acquired(event, how_it_failed(event.error))
            case Lost():
                self._ended(event.owner, event.held)
                self._of(event).losses[event.reason].inc()
            case Abandoned():
                if event.depth == 0:
                    self._ended(event.owner, event.held)
                self._of(event).abandoned.inc()
            case Dropped():
                self._of(event).dropped.inc()
            case WokeLate():
                self._metrics.lag.observe(event.late)
            case Disconnected():
                self._metrics.disconnects.inc()
            case Reconnected():
                self._metrics.outage.observe(event.after)
            case _:
                pass

    def _waiting(self, event: Waiting) -> None:
        series, labels = self._of(event), self._labels(event)
        self._waits.begin(event.wait, labels, time())
        series.waiting.inc()
        series.oldest.set(self._waits.oldest_of(labels))

    def _passed(self, wait: int) -> None:
        """A wait is over, if there was one."""
        labels = self._waits.end(wait)
        if labels is not None:
            series = self._series[labels]
            series.waiting.dec()
            series.oldest.set(self._waits.oldest_of(labels))

    def _acquired(self, event: Acquired) -> None:
        self._holds[event.owner] = series = self._of(event)
        series.held.inc()
        series.outcomes[ACQUIRED].inc()
        series.acquire.observe(event.waited)
        if event.contended:
            series.contended.inc()
        if event.abandoned:
            series.recovered.inc()

    def _not_acquired(self, event: TimedOut | AcquireFailed, outcome: str) -> _Series:
        self._passed(event.wait)
        series = self._of(event)
        series.outcomes[outcome].inc()
        series.acquire.observe(event.waited)
        return series

    def _renewed(self, event: Renewed) -> None:
        series = self._holds.get(event.owner)
        if series is not None:
            series.headroom.observe(event.headroom)
            series.headroom_ratio.observe(event.headroom / event.ttl)
            series.renewal.observe(event.took)

    def _ended(self, owner: str, held: float) -> None:
        """Measure the end of a hold; it may be lost after it was released."""
        series = self._holds.pop(owner, None)
        if series is not None:
            series.held.dec()
            series.hold.observe(held)

    def _labels(self, event: LockEvent) -> tuple[str, ...]:
        return (event.kind,) if self._label is None else (event.kind, str(self._label(event.name)))

    def _of(self, event: LockEvent) -> _Series:
        labels = self._labels(event)
        series = self._series.get(labels)
        if series is None:
            series = self._series[labels] = self._metrics.of(labels)
        return series


@dataclass(frozen=True, slots=True)
class _Series:
    """The metrics of one set of labels."""

    outcomes: dict[str, Counter]
    acquire: Histogram
    waiting: Gauge
    oldest: Gauge
    contended: Counter
    recovered: Counter
    hold: Histogram
    held: Gauge
    losses: dict[LossReason, Counter]
    abandoned: Counter
    dropped: Counter
    headroom: Histogram
    headroom_ratio: Histogram
    renewal: Histogram


class _Metrics:
    """All metrics.

    Args:
        labels: of each metric of a lock, besides its kind.
        registry: where they are registered.
    """

    def __init__(self, labels: tuple[str, ...], registry: CollectorRegistry | None) -> None:
        by = ("kind", *labels)

        def counter(name: str, about: str, labels: tuple[str, ...] = by) -> Counter:
            return Counter(f"aiolock_{name}", about, labels, registry=registry)

        def histogram(name: str, buckets: tuple[float, ...], about: str, labels: tuple[str, ...] = by) -> Histogram:
            return Histogram(f"aiolock_{name}", about, labels, registry=registry, buckets=buckets)

        self.acquires: Counter = counter("acquires", "Acquires that ended, by outcome.", (*by, "outcome"))
        self.acquire: Histogram = histogram(
            "acquire_seconds", DURATIONS, "How long acquires waited, unless they were refused."
        )
        self.waiting: Gauge = Gauge(
            "aiolock_waiting", "Tasks that wait now.", by, registry=registry, multiprocess_mode="livesum"
        )
        self.oldest: Gauge = Gauge(
            "aiolock_oldest_wait_timestamp_seconds",
            "When the longest wait of now began; +Inf if there is none.",
            by,
            registry=registry,
            multiprocess_mode="livemin",
        )
        self.runs: Counter = counter("runs", "Calls of once().run(), by what became of them.", (*by, "outcome"))
        self.contended: Counter = counter("contended", "Acquires that met another owner.")
        self.recovered: Counter = counter("recovered", "Acquires of a lock whose last holder never released it.")
        self.hold: Histogram = histogram("hold_seconds", DURATIONS, "How long locks were held.")
        # The sum over the processes that live: what a dead one held, it holds no more.
        self.held: Gauge = Gauge("aiolock_held", "Locks held now.", by, registry=registry, multiprocess_mode="livesum")
        self.losses: Counter = counter("losses", "Locks lost while they were held, by reason.", (*by, "reason"))
        self.abandoned: Counter = counter("abandoned", "Locks whose task ended without releasing them.")
        self.dropped: Counter = counter("dropped", "Locks whose lease was dropped while its task or thread lived on.")
        self.headroom: Histogram = histogram(
            "renewal_headroom_seconds", HEADROOM_SECONDS, "How long before the loss of its lease a renewal came."
        )
        self.headroom_ratio: Histogram = histogram(
            "renewal_headroom_ratio", HEADROOM, "How near that was, as a part of the ttl."
        )
        self.renewal: Histogram = histogram("renewal_seconds", ROUND_TRIPS, "How long the server took to renew.")
        self.lag: Histogram = histogram("loop_lag_seconds", LATENESS, "How late the event loop called a timer.", ())
        self.disconnects: Counter = counter("disconnects", "Connections to the server that were lost.", ())
        self.outage: Histogram = histogram("outage_seconds", DURATIONS, "How long a lost connection was away.", ())

    def of(self, labels: tuple[str, ...]) -> _Series:
        """Those of one set of labels; from now on they are exported."""
        self.oldest.labels(*labels).set(math.inf)
        return _Series(
            outcomes={outcome: self.acquires.labels(*labels, outcome) for outcome in OUTCOMES},
            acquire=self.acquire.labels(*labels),
            waiting=self.waiting.labels(*labels),
            oldest=self.oldest.labels(*labels),
            contended=self.contended.labels(*labels),
            recovered=self.recovered.labels(*labels),
            hold=self.hold.labels(*labels),
            held=self.held.labels(*labels),
            losses={reason: self.losses.labels(*labels, reason.value) for reason in LossReason},
            abandoned=self.abandoned.labels(*labels),
            dropped=self.dropped.labels(*labels),
            headroom=self.headroom.labels(*labels),
            headroom_ratio=self.headroom_ratio.labels(*labels),
            renewal=self.renewal.labels(*labels),
        )
