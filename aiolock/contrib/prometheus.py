"""Prometheus metrics, made with its client for Python. `pip install 'aiolock-redis[prometheus]'`."""

from __future__ import annotations

import math
from dataclasses import dataclass
from time import time
from typing import Literal

from .. import events
from ..errors import LossReason
from .extra import needs
from .measurement import COUNTERS, DURATIONS, HISTOGRAMS, OF_PROCESS, OUTCOMES, Decided, Exporter, Label

with needs("prometheus"):
    from prometheus_client import REGISTRY, CollectorRegistry, Counter, Gauge, Histogram


@dataclass(frozen=True, slots=True)
class _Series:
    """The metrics of one set of labels."""

    outcomes: dict[str, Counter]
    acquire: Histogram
    waiting: Gauge
    oldest: Gauge
    held: Gauge
    counters: dict[str, Counter]
    histograms: dict[str, Histogram]


class PrometheusObserver(Exporter[tuple[str, ...], _Series]):
    """Counts and measures what happens to locks.

    All metrics have the label `manager`, which is the manager's name, or empty if it has none. Those of locks have
    `kind` (`lock`, `semaphore`, …), too, and `lock` if you give `label`. All their
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
        super().__init__(label)
        self._metrics: _Metrics = _Metrics(() if label is None else ("lock",), registry)
        self._series: dict[tuple[str, ...], _Series] = {}

    def _begun(self, event: events.Waiting) -> None:
        series, labels = self._of(event), self._labels(event)
        self._waits.begin(event.wait, labels, time())
        series.waiting.inc()
        series.oldest.set(self._waits.oldest_of(labels))

    def _decided(self, event: Decided, outcome: str) -> _Series:
        series = self._of(event)
        series.outcomes[outcome].inc()
        if not isinstance(event, events.Refused):
            self._passed(event.wait)
            series.acquire.observe(event.waited)
        if isinstance(event, events.Acquired):
            series.held.inc()
        return series

    def _passed(self, wait: int) -> None:
        """A wait is over, if there was one."""
        labels = self._waits.end(wait)
        if labels is not None:
            series = self._series[labels]
            series.waiting.dec()
            series.oldest.set(self._waits.oldest_of(labels))

    def _end(
        self,
        hold: _Series,
        event: events.Released | events.Lost | events.Abandoned,
        error: str,
        explanation: str | None,
    ) -> None:
        hold.held.dec()
        hold.histograms["hold_seconds"].observe(event.held)

    def _count(self, name: str, event: events.Event, by: str = "") -> None:
        if not isinstance(event, events.LockEvent):
            self._metrics.counters[name].labels(event.manager).inc()
        elif by:
            self._metrics.counters[name].labels(*self._labels(event), by).inc()
        else:
            self._of(event).counters[name].inc()

    def _measure(self, name: str, value: float, event: events.Event, hold: _Series | None = None) -> None:
        histogram = self._metrics.histograms[name].labels(event.manager) if hold is None else hold.histograms[name]
        histogram.observe(value)

    def _labels(self, event: events.LockEvent) -> tuple[str, ...]:
        classes = () if self._label is None else (str(self._label(event.name)),)
        return event.manager, event.kind, *classes

    def _of(self, event: events.LockEvent) -> _Series:
        labels = self._labels(event)
        series = self._series.get(labels)
        if series is None:
            series = self._series[labels] = self._metrics.of(labels)
        return series


class _Metrics:
    """All metrics."""

    def __init__(self, labels: tuple[str, ...], registry: CollectorRegistry | None) -> None:
        by = ("manager", "kind", *labels)

        def of(name: str) -> tuple[str, ...]:
            return by[:1] if name in OF_PROCESS else by

        def gauge(name: str, about: str, mode: Literal["livesum", "livemin"]) -> Gauge:
            return Gauge(f"aiolock_{name}", about, by, registry=registry, multiprocess_mode=mode)

        self.acquires: Counter = Counter(
            "aiolock_acquires", "Acquires that ended, by outcome.", (*by, "outcome"), registry=registry
        )
        about = "How long acquires waited, unless they were refused."
        self.acquire: Histogram = Histogram("aiolock_acquire_seconds", about, by, registry=registry, buckets=DURATIONS)
        # The sum over the processes that live: what a dead one held, it holds no more.
        self.waiting: Gauge = gauge("waiting", "Tasks that wait now.", "livesum")
        self.held: Gauge = gauge("held", "Locks held now.", "livesum")
        about = "When the longest wait of now began; +Inf if there is none."
        self.oldest: Gauge = gauge("oldest_wait_timestamp_seconds", about, "livemin")
        self.counters: dict[str, Counter] = {}
        for name, counted in COUNTERS.items():
            ends = (counted.by.rpartition(".")[2],) if counted.by else ()
            self.counters[name] = Counter(f"aiolock_{name}", counted.about, (*of(name), *ends), registry=registry)
        self.histograms: dict[str, Histogram] = {
            name: Histogram(f"aiolock_{name}", measured.about, of(name), registry=registry, buckets=measured.buckets)
            for name, measured in HISTOGRAMS.items()
        }
        self._of_process("")

    def _of_process(self, manager: str) -> None:
        for name in OF_PROCESS:
            (self.counters.get(name) or self.histograms[name]).labels(manager)

    def of(self, labels: tuple[str, ...]) -> _Series:
        """Those of one set of labels; from now on they are exported."""
        self._of_process(labels[0])
        self.oldest.labels(*labels).set(math.inf)
        for reason in LossReason:
            self.counters["losses"].labels(*labels, reason.value)
        return _Series(
            outcomes={outcome: self.acquires.labels(*labels, outcome) for outcome in OUTCOMES},
            acquire=self.acquire.labels(*labels),
            waiting=self.waiting.labels(*labels),
            oldest=self.oldest.labels(*labels),
            held=self.held.labels(*labels),
            counters={
                name: self.counters[name].labels(*labels)
                for name, counted in COUNTERS.items()
                if name not in OF_PROCESS and not counted.by
            },
            histograms={
                name: metric.labels(*labels) for name, metric in self.histograms.items() if name not in OF_PROCESS
            },
        )
