"""What an uncontended `async with lock` costs this process without an observer and with each of them, side by side.

    python docs/examples/dashboard/cost.py redis://localhost:6379/0

It is CPU of all threads, that which exports spans among them. It needs opentelemetry-sdk and prometheus-client.
"""

from __future__ import annotations

import asyncio
import statistics
import sys
import time
from collections.abc import Sequence

from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF
from prometheus_client import CollectorRegistry

from aiolock import LockManager
from aiolock.contrib.opentelemetry import OpenTelemetryObserver
from aiolock.contrib.prometheus import PrometheusObserver

PAIRS = 500
ROUNDS = 21


class Nowhere(SpanExporter):
    """Takes all spans."""

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        return SpanExportResult.SUCCESS


async def seconds(locks: LockManager) -> float:
    """The CPU of one pair of acquire and release."""
    lock = locks.lock("order:42")
    began = time.process_time()
    for _ in range(PAIRS):
        async with lock:
            pass
    return (time.process_time() - began) / PAIRS


async def main(url: str) -> None:
    exported = TracerProvider()
    exported.add_span_processor(BatchSpanProcessor(Nowhere()))
    meters = MeterProvider([InMemoryMetricReader()])
    observers = {
        "no observer": None,
        "Prometheus": PrometheusObserver(registry=CollectorRegistry()),
        "OpenTelemetry, no SDK": OpenTelemetryObserver(),
        "its SDK, not sampled": OpenTelemetryObserver(
            tracer_provider=TracerProvider(sampler=ALWAYS_OFF), meter_provider=meters
        ),
        "its SDK": OpenTelemetryObserver(tracer_provider=exported, meter_provider=meters),
    }
    took: dict[str, list[float]] = {name: [] for name in observers}
    for _ in range(ROUNDS):
        for name, observer in observers.items():
            async with LockManager(url, observer=observer) as locks:
                took[name].append(await seconds(locks))
    plain = statistics.median(took["no observer"])
    for name, each in took.items():
        median = statistics.median(each)
        print(
            f"{name:22} {median * 1e6:5.0f} µs CPU a pair   {(median - plain) * 1e6:+4.0f} µs   {median / plain:.2f}×"
        )


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
