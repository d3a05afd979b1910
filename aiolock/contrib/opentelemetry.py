"""OpenTelemetry: a span for each wait and each hold, and metrics. `pip install 'aiolock-redis[otel]'`."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from time import monotonic, time_ns

from .. import __version__, events
from .extra import needs
from .measurement import COUNTERS, DURATIONS, ERROR, HISTOGRAMS, Decided, Exporter, Label, how_it_failed

with needs("otel", "opentelemetry"):
    from opentelemetry.metrics import CallbackOptions, MeterProvider, Observation, get_meter
    from opentelemetry.trace import Link, Span, StatusCode, Tracer, TracerProvider, get_tracer

Attributes = dict[str, str | bool | int | float]
SECOND = 1_000_000_000


@dataclass(slots=True)
class _OpenHold:
    """What must be known when it ends; `headroom` is the smallest one of its renewals."""

    span: Span
    attributes: Attributes
    headroom: float | None = None


class OpenTelemetryObserver(Exporter[frozenset[tuple[str, str | bool | int | float]], _OpenHold]):
    """Makes spans and metrics of what happens to locks.

    Each outermost acquire makes a span `acquire …`, and what it got makes a span `hold …`. Both are children of the
    span that was current where you acquired, and the hold links to its acquire. The hold is not current inside your
    block: a lease may end elsewhere, and in another order, than a context can. Nested acquires make no span, and count
    in no metric.

    Spans have the lock's name, metrics never do.

    One observer serves all managers of a process.

    Args:
        tracer_provider: where spans go; default: the global one.
        meter_provider: where metrics go; default: the global one.
        label: maps a lock's name to one of few classes. Metrics have it as the attribute `aiolock.lock.label`, and
            spans also in their name. Default: they tell only kinds of locks apart.

    Example:
        ```python
        observer = OpenTelemetryObserver(label=lambda name: name.partition(":")[0])
        locks = LockManager("redis://localhost:6379/0", observer=observer)
        ```
    """

    def __init__(
        self,
        *,
        tracer_provider: TracerProvider | None = None,
        meter_provider: MeterProvider | None = None,
        label: Label | None = None,
    ) -> None:
        super().__init__(label)
        self._tracer: Tracer = get_tracer("aiolock", __version__, tracer_provider)
        meter = get_meter("aiolock", __version__, meter_provider)
        meter.create_observable_gauge(
            "aiolock.wait.longest", [self._longest], "s", "How long the oldest wait has lasted."
        )
        self._waiting = meter.create_up_down_counter("aiolock.wait.active", "{wait}", "Tasks that wait now.")
        self._held = meter.create_up_down_counter("aiolock.hold.active", "{hold}", "Locks held now.")
        self._counters = {
            name: meter.create_counter(f"aiolock.{one.otel}", f"{{{one.otel.partition('.')[0]}}}", one.about)
            for name, one in COUNTERS.items()
        }
        self._histograms = {
            name: meter.create_histogram(
                f"aiolock.{one.otel}", one.unit, one.about, explicit_bucket_boundaries_advisory=one.buckets
            )
            for name, one in HISTOGRAMS.items()
        }
        self._acquire = meter.create_histogram(
            "aiolock.acquire.duration", "s", "How long acquires took.", explicit_bucket_boundaries_advisory=DURATIONS
        )

    def _begun(self, event: events.Waiting) -> None:
        attributes = self._attributes(event)
        self._waits.begin(event.wait, frozenset(attributes.items()), monotonic())
        self._waiting.add(1, attributes)

    def _longest(self, options: CallbackOptions) -> Iterable[Observation]:
        now = monotonic()
        for attributes, since in self._waits.oldest():
            yield Observation(max(0.0, now - since), dict(attributes))

    # This is told in the tasks that acquire, so the current span is the caller's.
    def _decided(self, event: Decided, outcome: str) -> _OpenHold | None:
        attributes, now = self._attributes(event), time_ns()
        if not isinstance(event, events.Refused) and self._waits.end(event.wait) is not None:
            self._waiting.add(-1, attributes)
        ended: Attributes = {**attributes, "aiolock.acquire.outcome": outcome, **_error_of(event)}
        self._acquire.record(event.waited, ended)
        wait = self._tracer.start_span(
            _span_name("acquire", attributes),
            attributes={**ended, "aiolock.lock.name": event.name},
            start_time=now - int(event.waited * SECOND),
        )
        _describe(wait, event)
        wait.end(now)
        return self._hold(event, wait, attributes, now) if isinstance(event, events.Acquired) else None

    def _hold(self, event: events.Acquired, wait: Span, attributes: Attributes, now: int) -> _OpenHold:
        span = self._tracer.start_span(
            _span_name("hold", attributes),
            links=[Link(wait.get_span_context())],
            attributes={**attributes, "aiolock.lock.name": event.name, "aiolock.lock.fence": event.fence},
            start_time=now,
        )
        self._held.add(1, attributes)
        return _OpenHold(span, attributes)

    def _renewed(self, hold: _OpenHold, event: events.Renewed) -> None:
        super()._renewed(hold, event)
        hold.headroom = event.headroom if hold.headroom is None else min(hold.headroom, event.headroom)

    def _end(
        self,
        hold: _OpenHold,
        event: events.Released | events.Lost | events.Abandoned,
        error: str,
        explanation: str | None,
    ) -> None:
        attributes, span = hold.attributes, hold.span
        if hold.headroom is not None:
            span.set_attribute("aiolock.renewal.headroom.min", hold.headroom)
        if error:
            attributes = {**attributes, "error.type": error}
            span.add_event("aiolock.loss", {"aiolock.loss.reason": error})
            span.set_attribute("error.type", error)
            span.set_status(StatusCode.ERROR, explanation)
        span.end()
        self._histograms["hold_seconds"].record(event.held, attributes)
        self._held.add(-1, hold.attributes)

    def _count(self, name: str, event: events.Event, by: str = "") -> None:
        ended: Attributes = {f"aiolock.{COUNTERS[name].by}": by} if by else {}
        self._counters[name].add(1, {**self._attributes(event), **ended})

    def _measure(self, name: str, value: float, event: events.Event, hold: _OpenHold | None = None) -> None:
        self._histograms[name].record(value, self._attributes(event) if hold is None else hold.attributes)

    def _attributes(self, event: events.Event) -> Attributes:
        attributes: Attributes = {"aiolock.manager.name": event.manager} if event.manager else {}
        if isinstance(event, events.Disconnected | events.Reconnected):
            attributes |= _server(event.address)
        elif isinstance(event, events.LockEvent):
            attributes["aiolock.lock.kind"] = event.kind
            if self._label is not None:
                attributes["aiolock.lock.label"] = str(self._label(event.name))
        return attributes


def _error_of(event: Decided) -> Attributes:
    match event:
        case events.TimedOut():
            return {"error.type": "aiolock.errors.AcquireTimeout"}
        case events.AcquireFailed() if how_it_failed(event.error) == ERROR:
            kind = type(event.error)
            return {"error.type": f"{kind.__module__}.{kind.__qualname__}"}
    return {}


def _describe(wait: Span, event: Decided) -> None:
    """Say in the span of an acquire what its event knows."""
    match event:
        case events.Acquired():
            wait.set_attribute("aiolock.acquire.contended", event.contended)
            wait.set_attribute("aiolock.acquire.recovered", event.abandoned)
        case events.AcquireFailed() if _error_of(event):
            wait.record_exception(event.error)
            wait.set_status(StatusCode.ERROR, str(event.error))
        case events.TimedOut():
            held_by = "the server did not answer" if event.holder is None else f"held by {event.holder}"
            wait.set_status(StatusCode.ERROR, f"not acquired in {event.waited:.3f} s: {held_by}")
    if isinstance(event, events.Acquired | events.TimedOut):
        wait.set_attribute("aiolock.acquire.requests", event.requests)
    if isinstance(event, events.Refused | events.TimedOut) and event.holder is not None:
        wait.set_attribute("aiolock.holder.process", event.holder.process)


def _span_name(operation: str, attributes: Attributes) -> str:
    return f"{operation} {attributes.get('aiolock.lock.label', attributes['aiolock.lock.kind'])}"


def _server(address: str) -> Attributes:
    """What the conventions say of a server: the path of a socket and the name of a service have no port."""
    host, _, port = address.rpartition(":")
    return {"server.address": host, "server.port": int(port)} if port.isdecimal() else {"server.address": address}
