"""The observer for Prometheus, on its client's registry: what each event becomes."""

from __future__ import annotations

import asyncio
import importlib.util
import math
import sys
from pathlib import Path
from typing import Any

import pytest

import aiolock
from aiolock import BackendError, Holder, LossReason
from aiolock.contrib.prometheus import PrometheusObserver
from aiolock.events import (
    Abandoned,
    AcquireFailed,
    Disconnected,
    Dropped,
    Granted,
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
from tests.support.telemetry import Exported

from .happenings import LOCK, acquired

HOLDER = Holder("order:42", "web-3:4711")


@pytest.fixture
def exported() -> Exported:
    return Exported()


def test_a_wait_and_a_hold(exported: Exported) -> None:
    exported.tell(acquired(waited=0.25, contended=True, abandoned=True))
    assert exported("held") == 1
    exported.tell(Released(**LOCK, depth=0, held=1.5, handed_on=True, detached=False))
    assert exported("held") == 0
    assert exported("acquires_total", outcome="acquired") == 1
    assert exported("contended_total") == exported("recovered_total") == 1
    assert (exported("acquire_seconds_sum"), exported("hold_seconds_sum")) == (0.25, 1.5)


def test_who_waits_and_since_when(exported: Exported, monkeypatch: pytest.MonkeyPatch) -> None:
    """While they wait, whatever ends each, and in whatever order. Kept by Waits."""
    for wait in (1, 2, 3, 4):
        monkeypatch.setattr("aiolock.contrib.prometheus.time", lambda now=100.0 * wait: now)
        exported.tell(Waiting("order:42", "lock", wait))
    seen = [(exported("waiting"), exported("oldest_wait_timestamp_seconds"))]
    for end in (
        AcquireFailed("order:42", "lock", 1.0, asyncio.CancelledError(), 2),
        acquired(wait=1),
        TimedOut("order:42", "lock", 1.0, 1, HOLDER, 3),
        Passed("order:42", "lock", 1.0, 4),
        Passed("order:42", "lock", 1.0, 0),  # nobody listened when it began
    ):
        exported.tell(end)
        seen.append((exported("waiting"), exported("oldest_wait_timestamp_seconds")))
    assert seen == [(4, 100.0), (3, 100.0), (2, 300.0), (1, 400.0), (0, math.inf), (0, math.inf)]
    assert exported.tell._waits._labels == {}
    assert exported("acquires_total", outcome="passed") == 2


def test_runs(exported: Exported) -> None:
    exported.tell(Ran("nightly", "lock", True, "failed"))
    exported.tell(Ran("nightly", "lock", False, "failed"))
    assert (exported("runs_total", outcome="failed"), exported("runs_total", outcome="skipped")) == (1, 1)


def test_headroom_shows_how_near_a_loss_was(exported: Exported) -> None:
    exported.tell(acquired())
    for headroom in (17.0, 2.9):
        exported.tell(Renewed(**LOCK, ttl=30.0, headroom=headroom, took=0.002))
    assert exported("renewal_headroom_ratio_bucket", le="0.1") == 1
    assert exported("renewal_headroom_ratio_count") == 2
    assert exported("renewal_headroom_seconds_bucket", le="3.0") == 1
    assert exported("renewal_seconds_sum") == pytest.approx(0.004)


def test_waits_that_get_nothing(exported: Exported) -> None:
    exported.tell(TimedOut("order:42", "lock", 2.0, 3, HOLDER))
    exported.tell(TimedOut("order:42", "lock", 2.0, 0, None))  # no server: no contention either
    exported.tell(Refused("order:42", "lock", 0.001, HOLDER))
    exported.tell(AcquireFailed("order:42", "lock", 5.0, BackendError("order:42", "no answer")))
    exported.tell(AcquireFailed("order:42", "lock", 0.5, asyncio.CancelledError()))
    seen = {
        outcome: exported("acquires_total", outcome=outcome) for outcome in ("timeout", "refused", "error", "cancelled")
    }
    assert seen == {"timeout": 2, "refused": 1, "error": 1, "cancelled": 1}
    assert exported("contended_total") == 2
    assert exported("acquire_seconds_sum") == 9.5  # a refusal is no wait
    assert exported("acquire_seconds_count") == 4


def test_every_loss_can_be_seen_to_happen(exported: Exported) -> None:
    """Broken by counters that come into being with their first count: Prometheus sees no increase then."""
    exported.tell(acquired())
    assert [exported("losses_total", reason=reason.value) for reason in LossReason] == [0] * len(LossReason)
    assert exported("acquires_total", outcome="timeout") == exported("abandoned_total") == 0
    assert exported("dropped_total") == 0
    exported.tell(Dropped(**LOCK, held=10.0))
    assert (exported("dropped_total"), exported("held")) == (1, 1)
    exported.tell(Lost(**LOCK, reason=LossReason.UNREACHABLE, held=27.0, late=0.0, explanation=""))
    assert exported("losses_total", reason="unreachable") == 1


def test_a_loss_after_the_release_is_counted(exported: Exported) -> None:
    exported.tell(acquired())
    exported.tell(Released(**LOCK, depth=0, held=1.0, handed_on=False, detached=False))
    exported.tell(Lost(**LOCK, reason=LossReason.DELETED, held=1.0, late=0.0, explanation=""))
    assert exported("losses_total", reason="deleted") == 1
    assert (exported("held"), exported("hold_seconds_count")) == (0, 1)


@pytest.mark.parametrize(
    "end",
    [
        Released(**LOCK, depth=0, held=1.0, handed_on=False, detached=True),
        Lost(**LOCK, reason=LossReason.CLOSED, held=1.0, late=0.0, explanation=""),
        Abandoned(**LOCK, depth=0, held=1.0, collected=True),
    ],
    ids=["detached", "lost", "abandoned"],
)
def test_nothing_is_kept_of_a_hold_that_ended(exported: Exported, end: Any) -> None:
    exported.tell(acquired())
    exported.tell(end)
    assert exported("held") == 0
    assert exported("hold_seconds_count") == 1
    assert exported.tell._holds == {}


def test_a_nested_level_is_no_hold_of_its_own(exported: Exported) -> None:
    exported.tell(acquired())
    exported.tell(acquired(depth=2))
    exported.tell(Released(**LOCK, depth=1, held=1.0, handed_on=False, detached=False))
    assert (exported("held"), exported("acquire_seconds_count"), exported("hold_seconds_count")) == (1, 1, 0)
    exported.tell(Abandoned(**LOCK, depth=1, held=1.0, collected=True))
    assert (exported("held"), exported("abandoned_total")) == (1, 1)


def test_names_are_no_label_unless_a_function_says_how() -> None:
    exported = Exported(label=lambda name: name.partition(":")[0])
    exported.tell(acquired())
    assert exported("held", lock="order") == 1
    assert exported("held") is None


def test_a_label_that_raises_leaves_nothing_behind() -> None:
    def label(name: str) -> str:
        raise LookupError(name)

    exported = Exported(label=label)
    with pytest.raises(LookupError):
        exported.tell(acquired())
    assert exported.tell._holds == {}
    exported.tell(Released(**LOCK, depth=0, held=1.0, handed_on=False, detached=False))
    samples = [sample for metric in exported.registry.collect() for sample in metric.samples]
    assert not [sample for sample in samples if "kind" in sample.labels]


def test_connections_and_the_loop(exported: Exported) -> None:
    exported.tell(Disconnected("redis:6379", ConnectionResetError(), "was reset"))
    exported.tell(Reconnected("redis:6379", 0.2))
    exported.tell(WokeLate(1.5))
    exported.tell(Granted("order:42", "lock", "me:1", 7))  # what is no part of it
    exported.tell(Disconnected("redis:6379", ConnectionResetError(), "was reset", manager="checkout"))
    value = exported.registry.get_sample_value
    assert value("aiolock_disconnects_total", unnamed := {"manager": ""}) == 1
    assert value("aiolock_disconnects_total", {"manager": "checkout"}) == 1
    assert (value("aiolock_outage_seconds_sum", unnamed), value("aiolock_loop_lag_seconds_sum", unnamed)) == (0.2, 1.5)


def test_every_loss_of_a_connection_can_be_seen_to_happen(exported: Exported) -> None:
    value = exported.registry.get_sample_value
    assert value("aiolock_disconnects_total", {"manager": ""}) == 0
    exported.tell(Waiting("order:42", "lock", 1, manager="checkout"))
    assert value("aiolock_disconnects_total", {"manager": "checkout"}) == 0


def test_managers_are_told_apart_by_name(exported: Exported) -> None:
    exported.tell(acquired(manager="checkout"))
    assert (exported("held"), exported("held", manager="checkout")) == (None, 1)


def test_two_observers_cannot_share_a_registry(exported: Exported) -> None:
    with pytest.raises(ValueError, match="Duplicated"):
        PrometheusObserver(registry=exported.registry)
    assert PrometheusObserver(registry=None) is not None


@pytest.mark.parametrize(
    ("module", "needed", "extra"),
    [("prometheus", "prometheus_client", "prometheus"), ("opentelemetry", "opentelemetry.metrics", "otel")],
)
def test_without_its_extra_it_says_what_to_install(
    module: str, needed: str, extra: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = Path(aiolock.__file__).parent / f"contrib/{module}.py"
    spec = importlib.util.spec_from_file_location(f"aiolock.contrib.{module}", path)
    assert spec is not None
    assert spec.loader is not None
    monkeypatch.setitem(sys.modules, needed, None)
    with pytest.raises(ImportError, match=rf'contrib\.{module} needs .*pip install "aiolock-redis\[{extra}\]"'):
        spec.loader.exec_module(importlib.util.module_from_spec(spec))
