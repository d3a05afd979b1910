"""How long an uncontended `async with lock` takes without an observer and with each of them, side by side.

    python docs/examples/dashboard/cost.py redis://localhost:6379/0

It needs opentelemetry-sdk and prometheus-client.
"""

from __future__ import annotations

import asyncio
import statistics
import sys
import time

from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF
from prometheus_client import CollectorRegistry

from aiolock import LockManager
from aiolock.contrib.opentelemetry import OpenTelemetryObserver
from aiolock.contrib.prometheus import PrometheusObserver

PAIRS = 500
ROUNDS = 21


async def seconds(locks: LockManager) -> float:
    """How long one pair of acquire and release takes."""
    lock = locks.lock("order:42")
    began = time.perf_counter()
    for _ in range(PAIRS):
        async with lock:
            pass
    return (time.perf_counter() - began) / PAIRS


async def main(url: str) -> None:
    meters = MeterProvider([InMemoryMetricReader()])
    observers = {
        "no observer": None,
        "Prometheus": PrometheusObserver(registry=CollectorRegistry()),
        "OpenTelemetry, no SDK": OpenTelemetryObserver(),
        "its SDK, not sampled": OpenTelemetryObserver(
            tracer_provider=TracerProvider(sampler=ALWAYS_OFF), meter_provider=meters
        ),
        "its SDK": OpenTelemetryObserver(tracer_provider=TracerProvider(), meter_provider=meters),
    }
    took: dict[str, list[float]] = {name: [] for name in observers}
    for _ in range(ROUNDS):
        for name, observer in observers.items():
            async with LockManager(url, observer=observer) as locks:
                took[name].append(await seconds(locks))
    plain = statistics.median(took["no observer"])
    for name, each in took.items():
        median = statistics.median(each)
        print(f"{name:22} {median * 1e6:5.0f} µs a pair   {(median - plain) * 1e6:+4.0f} µs   {median / plain:.2f}×")


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
