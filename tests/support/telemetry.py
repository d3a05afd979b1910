"""What observers have exported, as a test looks at it: OpenTelemetry's SDK in memory, a registry of Prometheus."""

from __future__ import annotations

from typing import Any

from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from prometheus_client import CollectorRegistry

from aiolock.contrib.opentelemetry import OpenTelemetryObserver
from aiolock.contrib.prometheus import PrometheusObserver


class Telemetry:
    """An SDK that keeps everything in memory, and an observer that uses it."""

    def __init__(self, **options: Any) -> None:
        self.spans, self.reader = InMemorySpanExporter(), InMemoryMetricReader()
        self.tracers, self.meters = TracerProvider(), MeterProvider([self.reader])
        self.tracers.add_span_processor(SimpleSpanProcessor(self.spans))
        self.tracer = self.tracers.get_tracer("test")
        self.tell = OpenTelemetryObserver(tracer_provider=self.tracers, meter_provider=self.meters, **options)

    def ended(self) -> dict[str, ReadableSpan]:
        """The spans that have ended, by name."""
        return {span.name: span for span in self.spans.get_finished_spans()}

    def points(self, name: str) -> list[Any]:
        """The data points of a metric."""
        data = self.reader.get_metrics_data()
        if data is None:
            return []
        metrics = [m for r in data.resource_metrics for s in r.scope_metrics for m in s.metrics if m.name == name]
        return [point for metric in metrics for point in metric.data.data_points]

    def value(self, name: str) -> float:
        """The sum of a counter's data points."""
        return sum(point.value for point in self.points(name))


class Exported:
    """A registry, and an observer that uses it."""

    def __init__(self, **options: Any) -> None:
        self.registry = CollectorRegistry()
        self.tell = PrometheusObserver(registry=self.registry, **options)

    def __call__(self, name: str, **labels: str) -> float | None:
        """A sample of kind `lock`, of a manager without a name; None if it is not exported."""
        return self.registry.get_sample_value(f"aiolock_{name}", {"manager": "", "kind": "lock", **labels})
