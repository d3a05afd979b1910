"""OpenTelemetry: a span for each wait and each hold, and metrics. `pip install 'aiolock-redis[otel]'`."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from time import monotonic, time_ns

from .. import __version__
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
    ERROR,
    HEADROOM,
    HEADROOM_SECONDS,
    LATENESS,
    PASSED,
    REFUSED,
    ROUND_TRIPS,
    SKIPPED,
    TIMEOUT,
    Label,
    Waits,
    how_it_failed,
)

with needs("otel", "opentelemetry"):
    from opentelemetry.metrics import (
        CallbackOptions,
        Counter,
        Histogram,
        Meter,
        MeterProvider,
        Observation,
        UpDownCounter,
        get_meter,
    )
    from opentelemetry.trace import Link, Span, StatusCode, Tracer, TracerProvider, get_tracer

Attributes = dict[str, str | bool | int | float]
SECOND = 1_000_000_000


@dataclass(slots=True)
class _OpenHold:
    """What must be known when it ends; `headroom` is the smallest one of its renewals."""

    span: Span
    attributes: Attributes
    headroom: float | None = None


class OpenTelemetryObserver:
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
        self._label: Label | None = label
        self._tracer: Tracer = get_tracer("aiolock", __version__, tracer_provider)
        meter = get_meter("aiolock", __version__, meter_provider)
        self._instruments: _Instruments = _Instruments(meter)
        self._waits: Waits[frozenset[tuple[str, str | bool | int | float]]] = Waits()
        meter.create_observable_gauge(
            "aiolock.wait.longest", [self._longest], "s", "How long the oldest wait has lasted."
        )
        self._holds: dict[str, _OpenHold] = {}

    def __call__(self, event: Event, /) -> None:
        """Take one event."""
        match event:
            case Waiting():
                attributes = self._attributes(event)
                self._waits.begin(event.wait, frozenset(attributes.items()), monotonic())
                self._instruments.waiting.add(1, attributes)
            case Passed():
                self._passed(event)
            case Ran():
                outcome = event.status if event.ran else SKIPPED
                self._instruments.runs.add(1, {**self._attributes(event), "aiolock.run.outcome": outcome})
            case Acquired():
                self._acquired(event)
            case Released():
                if event.depth == 0:
                    self._ended(event.owner, event.held)
            case Renewed():
                self._renewed(event)
            case Refused():
                self._refused(event)
            case TimedOut():
                self._timed_out(event)
            case AcquireFailed():
                self._failed(event)
            case Lost():
                self._lost(event)
            case Abandoned():
                self._abandoned(event)
            case Dropped():
                self._instruments.dropped.add(1, self._attributes(event))
            case WokeLate():
                self._instruments.lag.record(event.late)
            case Disconnected():
                self._instruments.disconnects.add(1, _server(event.address))
            case Reconnected():
                self._instruments.outage.record(event.after, _server(event.address))
            case _:
                pass

    # How acquires end. This is told in their tasks, so the current span is the caller's.

    def _passed(self, event: Passed) -> None:
        now = time_ns()
        self._waited(event, event.waited, self._attributes(event), PASSED, now).end(now)

    def _acquired(self, event: Acquired) -> None:
        if event.depth > 1:
            return
        attributes, now, instruments = self._attributes(event), time_ns(), self._instruments
        wait = self._waited(event, event.waited, attributes, ACQUIRED, now)
        wait.set_attribute("aiolock.acquire.contended", event.contended)
        wait.set_attribute("aiolock.acquire.requests", event.requests)
        wait.set_attribute("aiolock.acquire.recovered", event.abandoned)
        wait.end(now)
        span = self._tracer.start_span(
            _span_name("hold", attributes),
            links=[Link(wait.get_span_context())],
            attributes={**attributes, "aiolock.lock.name": event.name, "aiolock.lock.fence": event.fence},
            start_time=now,
        )
        self._holds[event.owner] = _OpenHold(span, attributes)
        instruments.held.add(1, attributes)
        if event.contended:
            instruments.contended.add(1, attributes)
        if event.abandoned:
            instruments.recovered.add(1, attributes)

    def _refused(self, event: Refused) -> None:
        attributes, now = self._attributes(event), time_ns()
        wait = self._waited(event, event.waited, attributes, REFUSED, now)
        if event.holder is not None:
            wait.set_attribute("aiolock.holder.process", event.holder.process)
        wait.end(now)
        self._instruments.contended.add(1, attributes)

    def _timed_out(self, event: TimedOut) -> None:
        attributes, now = self._attributes(event), time_ns()
        wait = self._waited(event, event.waited, attributes, TIMEOUT, now, "aiolock.errors.AcquireTimeout")
        wait.set_attribute("aiolock.acquire.requests", event.requests)
        held_by = "the server did not answer"
        if event.holder is not None:
            wait.set_attribute("aiolock.holder.process", event.holder.process)
            held_by = f"held by {event.holder}"
            self._instruments.contended.add(1, attributes)
        wait.set_status(StatusCode.ERROR, f"not acquired in {event.waited:.3f} s: {held_by}")
        wait.end(now)

    def _failed(self, event: AcquireFailed) -> None:
        attributes, now, outcome = self._attributes(event), time_ns(), how_it_failed(event.error)
        kind = type(event.error)
        error_type = f"{kind.__module__}.{kind.__qualname__}" if outcome == ERROR else None
        wait = self._waited(event, event.waited, attributes, outcome, now, error_type)
        if outcome == ERROR:
            wait.record_exception(event.error)
            wait.set_status(StatusCode.ERROR, str(event.error))
        wait.end(now)

    def _longest(self, options: CallbackOptions) -> Iterable[Observation]:
        now = monotonic()
        for attributes, since in self._waits.oldest():
            yield Observation(max(0.0, now - since), dict(attributes))

    def _waited(
        self,
        event: Acquired | Refused | TimedOut | AcquireFailed | Passed,
        waited: float,
        attributes: Attributes,
        outcome: str,
        now: int,
        error_type: str | None = None,
    ) -> Span:
        """Measure how long an acquire took, and return its span."""
        if not isinstance(event, Refused) and self._waits.end(event.wait) is not None:
            self._instruments.waiting.add(-1, attributes)
        ended: Attributes = {**attributes, "aiolock.acquire.outcome": outcome}
        if error_type is not None:
            ended["error.type"] = error_type
        self._instruments.acquire.record(waited, ended)
        return self._tracer.start_span(
            _span_name("acquire", attributes),
            attributes={**ended, "aiolock.lock.name": event.name},
            start_time=now - int(waited * SECOND),
        )

    # What happens to holds.

    def _renewed(self, event: Renewed) -> None:
        hold, instruments = self._holds.get(event.owner), self._instruments
        if hold is None:
            return
        hold.headroom = event.headroom if hold.headroom is None else min(hold.headroom, event.headroom)
        instruments.headroom.record(event.headroom, hold.attributes)
        instruments.headroom_ratio.record(event.headroom / event.ttl, hold.attributes)
        instruments.renewal.record(event.took, hold.attributes)

    def _lost(self, event: Lost) -> None:
        self._ended(event.owner, event.held, event.reason.value, event.explanation)
        self._instruments.losses.add(1, {**self._attributes(event), "aiolock.loss.reason": event.reason.value})

    def _abandoned(self, event: Abandoned) -> None:
        if event.depth == 0:
            self._ended(event.owner, event.held, "abandoned", "its task ended, or dropped it, without releasing it")
        self._instruments.abandoned.add(1, self._attributes(event))

    def _ended(self, owner: str, held: float, error_type: str | None = None, explanation: str | None = None) -> None:
        """End a hold's span, with an error if there is one. It may be lost after it was released."""
        hold = self._holds.pop(owner, None)
        if hold is None:
            return
        attributes, span = hold.attributes, hold.span
        if hold.headroom is not None:
            span.set_attribute("aiolock.renewal.headroom.min", hold.headroom)
        if error_type is not None:
            attributes = {**attributes, "error.type": error_type}
            span.add_event("aiolock.loss", {"aiolock.loss.reason": error_type})
            span.set_attribute("error.type", error_type)
            span.set_status(StatusCode.ERROR, explanation)
        span.end()
        self._instruments.hold.record(held, attributes)
        self._instruments.held.add(-1, hold.attributes)

    def _attributes(self, event: LockEvent) -> Attributes:
        attributes: Attributes = {"aiolock.lock.kind": event.kind}
        if self._label is not None:
            attributes["aiolock.lock.label"] = str(self._label(event.name))
        return attributes


def _span_name(operation: str, attributes: Attributes) -> str:
    return f"{operation} {attributes.get('aiolock.lock.label', attributes['aiolock.lock.kind'])}"


def _server(address: str) -> Attributes:
    """What the conventions say of a server: the path of a socket and the name of a service have no port."""
    host, _, port = address.rpartition(":")
    return {"server.address": host, "server.port": int(port)} if port.isdecimal() else {"server.address": address}


class _Instruments:
    """The metrics, by the units and names of OpenTelemetry's conventions."""

    def __init__(self, meter: Meter) -> None:
        def histogram(name: str, unit: str, buckets: tuple[float, ...], description: str) -> Histogram:
            return meter.create_histogram(name, unit, description, explicit_bucket_boundaries_advisory=buckets)

        self.acquire: Histogram = histogram("aiolock.acquire.duration", "s", DURATIONS, "How long acquires took.")
        self.waiting: UpDownCounter = meter.create_up_down_counter(
            "aiolock.wait.active", "{wait}", "Tasks that wait now."
        )
        self.runs: Counter = meter.create_counter("aiolock.run", "{run}", "Calls of once().run(), by outcome.")
        self.contended: Counter = meter.create_counter(
            "aiolock.acquire.contended", "{acquire}", "Acquires that met another owner."
        )
        self.recovered: Counter = meter.create_counter(
            "aiolock.acquire.recovered", "{acquire}", "Acquires of a lock whose last holder never released it."
        )
        self.hold: Histogram = histogram("aiolock.hold.duration", "s", DURATIONS, "How long locks were held.")
        self.held: UpDownCounter = meter.create_up_down_counter("aiolock.hold.active", "{hold}", "Locks held now.")
        self.losses: Counter = meter.create_counter("aiolock.hold.losses", "{hold}", "Locks lost while they were held.")
        self.abandoned: Counter = meter.create_counter(
            "aiolock.hold.abandoned", "{hold}", "Locks whose task ended without releasing them."
        )
        self.dropped: Counter = meter.create_counter(
            "aiolock.hold.dropped", "{hold}", "Locks whose lease was dropped while its task or thread lived on."
        )
        self.headroom: Histogram = histogram(
            "aiolock.renewal.headroom", "s", HEADROOM_SECONDS, "How long before the loss of its lease a renewal came."
        )
        self.headroom_ratio: Histogram = histogram(
            "aiolock.renewal.headroom_ratio", "1", HEADROOM, "How near that was, as a part of the ttl."
        )
        self.renewal: Histogram = histogram(
            "aiolock.renewal.duration", "s", ROUND_TRIPS, "How long the server took to renew."
        )
        self.lag: Histogram = histogram("aiolock.loop.lag", "s", LATENESS, "How late the event loop called a timer.")
        self.disconnects: Counter = meter.create_counter(
            "aiolock.connection.losses", "{connection}", "Connections lost."
        )
        self.outage: Histogram = histogram(
            "aiolock.connection.outage.duration", "s", DURATIONS, "How long a lost connection was away."
        )
