"""Preludes of the pages about metrics and traces."""

from __future__ import annotations

import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import prometheus_client
import pytest
from opentelemetry import metrics, trace
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from tests.support.telemetry import Telemetry

Namespace = dict[str, Any]


@asynccontextmanager
async def exporting(url: str) -> AsyncIterator[Namespace]:
    """For a block that defines `locks` with an observer, and serves its metrics: they are in the default registry."""
    registry, namespace = prometheus_client.CollectorRegistry(), dict[str, Any]()
    served: list[int] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(prometheus_client, "start_http_server", served.append)
        patch.setattr(
            "aiolock.contrib.prometheus.PrometheusObserver.__init__.__kwdefaults__",
            {"registry": registry, "label": None},
        )
        yield namespace
    async with namespace["locks"] as manager, manager.lock("order:42"):
        labels = {"kind": "lock", "lock": "order"}
        assert registry.get_sample_value("aiolock_held", labels) == 1
    assert registry.get_sample_value("aiolock_held", labels) == 0
    assert served == [9464]


@asynccontextmanager
async def gunicorn_hook(url: str) -> AsyncIterator[Namespace]:
    """For a block that defines `child_exit`: it removes what a worker that ended still held."""
    namespace: Namespace = {}
    yield namespace
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setenv("PROMETHEUS_MULTIPROC_DIR", folder)
        held = Path(folder) / "gauge_livesum_4711.db"
        held.touch()
        namespace["child_exit"](None, SimpleNamespace(pid=4711))
        assert not held.exists()


@asynccontextmanager
async def measured(url: str) -> AsyncIterator[Namespace]:
    """For a block that defines `locks` with an observer that uses the global providers."""
    telemetry, namespace = Telemetry(), dict[str, Any]()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(trace, "_TRACER_PROVIDER", telemetry.tracers)
        patch.setattr(metrics._internal, "_METER_PROVIDER", telemetry.meters)
        yield namespace
    async with namespace["locks"] as manager, manager.lock("order:42"):
        pass
    assert len(telemetry.spans.get_finished_spans()) == 2
    assert [point.count for point in telemetry.points("aiolock.hold.duration")] == [1]
    telemetry.meters.shutdown()


@asynccontextmanager
async def traced(url: str) -> AsyncIterator[Namespace]:
    """For a block that defines `main()`, and the `provider` of its tracer: three customers, two of which pay."""
    spans, namespace = InMemorySpanExporter(), {"__name__": "traced"}
    yield namespace
    provider: Any = namespace["provider"]
    provider.add_span_processor(SimpleSpanProcessor(spans))
    main: Any = namespace["main"]
    await main()
    provider.shutdown()
    found = spans.get_finished_spans()
    callers = [span.name for span in found if span.parent is None]
    assert sorted(callers) == ["pay ada", "pay bob", "pay eve"]
    assert sorted(span.name for span in found if span.parent) == ["acquire lock"] * 3 + ["hold lock"] * 2
    assert [span.name for span in found if not span.status.is_unset] == ["acquire lock"]
