"""The observer for OpenTelemetry, on its SDK: what each event becomes."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest
from opentelemetry.metrics import NoOpMeterProvider
from opentelemetry.trace import NoOpTracerProvider, StatusCode

from aiolock import BackendError, Holder, LossReason
from aiolock.contrib.opentelemetry import OpenTelemetryObserver
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
from tests.support.telemetry import Telemetry

from .happenings import LOCK, acquired

KIND = {"aiolock.lock.kind": "lock"}


@pytest.fixture
def telemetry() -> Iterator[Telemetry]:
    made = Telemetry()
    yield made
    made.meters.shutdown()


def test_a_wait_and_a_hold_are_spans_of_the_caller(telemetry: Telemetry) -> None:
    with telemetry.tracer.start_as_current_span("buy") as caller:
        telemetry.tell(acquired(waited=0.25, requests=2, contended=True, abandoned=True))
    telemetry.tell(Released(**LOCK, depth=0, held=1.5, handed_on=True, detached=False))
    spans = telemetry.ended()
    wait, hold = spans["acquire lock"], spans["hold lock"]
    for span in (wait, hold):
        assert span.parent is not None
        assert span.parent.span_id == caller.get_span_context().span_id
        assert span.attributes is not None
        assert span.attributes["aiolock.lock.name"] == "order:42"
        assert span.status.status_code is StatusCode.UNSET
    assert wait.start_time is not None
    assert wait.end_time == hold.start_time == wait.start_time + 250_000_000
    assert [link.context.span_id for link in hold.links] == [wait.get_span_context().span_id]
    assert wait.attributes is not None
    assert wait.attributes["aiolock.acquire.outcome"] == "acquired"
    assert wait.attributes["aiolock.acquire.contended"] is True
    assert wait.attributes["aiolock.acquire.requests"] == 2
    assert hold.attributes is not None
    assert hold.attributes["aiolock.lock.fence"] == 7
    assert telemetry.value("aiolock.acquire.contended") == telemetry.value("aiolock.acquire.recovered") == 1


def test_who_waits_and_for_how_long(telemetry: Telemetry, monkeypatch: pytest.MonkeyPatch) -> None:
    """While they wait, whatever ends each. Kept by OpenTelemetryObserver._decided: `end`."""
    for wait in (1, 2, 3, 4):
        monkeypatch.setattr("aiolock.contrib.opentelemetry.monotonic", lambda now=100.0 * wait: now)
        telemetry.tell(Waiting("order:42", "lock", wait))
    seen = [(telemetry.value("aiolock.wait.active"), telemetry.value("aiolock.wait.longest"))]
    for end in (
        AcquireFailed("order:42", "lock", 1.0, asyncio.CancelledError(), 2),
        acquired(wait=1),
        TimedOut("order:42", "lock", 1.0, 1, None, 3),
        Passed("order:42", "lock", 1.0, 4),
    ):
        telemetry.tell(end)
        seen.append((telemetry.value("aiolock.wait.active"), telemetry.value("aiolock.wait.longest")))
    assert seen == [(4, 300.0), (3, 300.0), (2, 100.0), (1, 0.0), (0, 0.0)]


def test_runs(telemetry: Telemetry) -> None:
    telemetry.tell(Ran("nightly", "once", True, "failed"))
    telemetry.tell(Ran("nightly", "once", False, "failed"))
    outcomes = {point.attributes["aiolock.run.outcome"]: point.value for point in telemetry.points("aiolock.run")}
    assert outcomes == {"failed": 1, "skipped": 1}


def test_a_span_has_its_smallest_headroom(telemetry: Telemetry) -> None:
    telemetry.tell(acquired())
    for headroom in (17.0, 3.0, 16.5):
        telemetry.tell(Renewed(**LOCK, ttl=30.0, headroom=headroom, took=0.002))
    telemetry.tell(Released(**LOCK, depth=0, held=40.0, handed_on=False, detached=False))
    attributes = telemetry.ended()["hold lock"].attributes
    assert attributes is not None
    assert attributes["aiolock.renewal.headroom.min"] == 3.0
    (seconds,), (ratio,) = (
        telemetry.points("aiolock.renewal.headroom"),
        telemetry.points("aiolock.renewal.headroom_ratio"),
    )
    assert (seconds.count, seconds.min, ratio.min) == (3, 3.0, 0.1)
    (took,) = telemetry.points("aiolock.renewal.duration")
    assert took.sum == pytest.approx(0.006)


def test_a_timeout_is_an_error_that_names_the_holder(telemetry: Telemetry) -> None:
    telemetry.tell(TimedOut("order:42", "lock", 2.0, 3, Holder("order:42", "web-3:4711")))
    span = telemetry.ended()["acquire lock"]
    assert span.status.status_code is StatusCode.ERROR
    assert span.status.description == "not acquired in 2.000 s: held by web-3:4711"
    assert span.attributes is not None
    assert span.attributes["aiolock.holder.process"] == "web-3:4711"
    assert span.attributes["error.type"] == "aiolock.errors.AcquireTimeout"
    (point,) = telemetry.points("aiolock.acquire.duration")
    expected = {"aiolock.acquire.outcome": "timeout", "error.type": "aiolock.errors.AcquireTimeout"}
    assert point.attributes == KIND | expected
    assert telemetry.value("aiolock.acquire.contended") == 1


def test_a_timeout_without_an_answer_is_no_contention(telemetry: Telemetry) -> None:
    telemetry.tell(TimedOut("order:42", "lock", 2.0, 0, None))
    assert telemetry.ended()["acquire lock"].status.description == "not acquired in 2.000 s: the server did not answer"
    assert telemetry.value("aiolock.acquire.contended") == 0


def test_a_refusal_is_no_error(telemetry: Telemetry) -> None:
    telemetry.tell(Refused("order:42", "lock", 0.001, Holder("order:42", "web-3:4711")))
    span = telemetry.ended()["acquire lock"]
    assert span.status.status_code is StatusCode.UNSET
    assert span.attributes is not None
    assert span.attributes["aiolock.acquire.outcome"] == "refused"
    assert telemetry.value("aiolock.acquire.contended") == 1


def test_a_failure_is_recorded_but_a_cancellation_is_none(telemetry: Telemetry) -> None:
    telemetry.tell(AcquireFailed("order:42", "lock", 5.0, BackendError("order:42", "no answer")))
    telemetry.tell(AcquireFailed("order:42", "lock", 0.5, asyncio.CancelledError()))
    failed, cancelled = telemetry.spans.get_finished_spans()
    assert failed.status.status_code is StatusCode.ERROR
    assert [event.name for event in failed.events] == ["exception"]
    assert failed.attributes is not None
    assert failed.attributes["error.type"] == "aiolock.errors.BackendError"
    assert cancelled.status.status_code is StatusCode.UNSET
    assert cancelled.attributes is not None
    assert cancelled.attributes["aiolock.acquire.outcome"] == "cancelled"
    assert not cancelled.events


def test_a_loss_is_an_error_of_its_hold(telemetry: Telemetry) -> None:
    telemetry.tell(acquired())
    telemetry.tell(Lost(**LOCK, reason=LossReason.UNREACHABLE, held=27.0, late=0.0, explanation="no answer in time"))
    span = telemetry.ended()["hold lock"]
    assert (span.status.status_code, span.status.description) == (StatusCode.ERROR, "no answer in time")
    assert [event.name for event in span.events] == ["aiolock.loss"]
    (loss,) = telemetry.points("aiolock.hold.losses")
    assert (loss.value, loss.attributes) == (1, KIND | {"aiolock.loss.reason": "unreachable"})
    (held,) = telemetry.points("aiolock.hold.duration")
    assert held.attributes == KIND | {"error.type": "unreachable"}


def test_a_loss_after_the_release_is_counted(telemetry: Telemetry) -> None:
    telemetry.tell(acquired())
    telemetry.tell(Released(**LOCK, depth=0, held=1.0, handed_on=False, detached=False))
    telemetry.tell(Lost(**LOCK, reason=LossReason.DELETED, held=1.0, late=0.0, explanation="it is gone"))
    assert telemetry.value("aiolock.hold.losses") == 1
    assert telemetry.value("aiolock.hold.active") == 0
    (held,) = telemetry.points("aiolock.hold.duration")
    assert held.count == 1


@pytest.mark.parametrize(
    "end",
    [
        Released(**LOCK, depth=0, held=1.0, handed_on=False, detached=False),
        Released(**LOCK, depth=0, held=1.0, handed_on=False, detached=True),
        Lost(**LOCK, reason=LossReason.CLOSED, held=1.0, late=0.0, explanation="closed"),
        Abandoned(**LOCK, depth=0, held=1.0, collected=True),
    ],
    ids=["released", "detached", "lost", "abandoned"],
)
def test_nothing_is_kept_of_a_hold_that_ended(telemetry: Telemetry, end: Any) -> None:
    telemetry.tell(acquired())
    assert telemetry.value("aiolock.hold.active") == 1
    telemetry.tell(end)
    assert telemetry.value("aiolock.hold.active") == 0
    assert telemetry.tell._holds == {}
    assert "hold lock" in telemetry.ended()


def test_without_an_sdk() -> None:
    """The API alone measures nothing, and nothing stays."""
    observer = OpenTelemetryObserver(tracer_provider=NoOpTracerProvider(), meter_provider=NoOpMeterProvider())
    for event in (
        acquired(contended=True),
        Renewed(**LOCK, ttl=30.0, headroom=17.0, took=0.002),
        AcquireFailed("order:42", "lock", 5.0, BackendError("order:42", "no answer")),
        TimedOut("order:42", "lock", 2.0, 3, None),
        Lost(**LOCK, reason=LossReason.UNREACHABLE, held=27.0, late=0.0, explanation="no answer in time"),
    ):
        observer(event)
    assert observer._holds == {}


def test_a_nested_level_is_no_hold_of_its_own(telemetry: Telemetry) -> None:
    telemetry.tell(acquired())
    telemetry.tell(acquired(depth=2))
    telemetry.tell(acquired(depth=3))
    telemetry.tell(Released(**LOCK, depth=2, held=1.0, handed_on=False, detached=False))
    telemetry.tell(Abandoned(**LOCK, depth=1, held=1.0, collected=True))
    telemetry.tell(Dropped(**LOCK, held=10.0))
    assert telemetry.value("aiolock.hold.dropped") == 1
    assert telemetry.value("aiolock.hold.active") == 1
    telemetry.tell(Abandoned(**LOCK, depth=0, held=1.0, collected=False))
    assert [span.name for span in telemetry.spans.get_finished_spans()] == ["acquire lock", "hold lock"]
    assert telemetry.value("aiolock.hold.abandoned") == 2


def test_names_are_in_no_metric_unless_a_function_says_how() -> None:
    telemetry = Telemetry(label=lambda name: name.partition(":")[0])
    telemetry.tell(acquired())
    telemetry.tell(Lost(**LOCK, reason=LossReason.EXPIRED, held=1.0, late=0.0, explanation="over"))
    assert set(telemetry.ended()) == {"acquire order", "hold order"}
    labels = {point.attributes["aiolock.lock.label"] for point in telemetry.points("aiolock.acquire.duration")}
    assert (
        labels
        == {point.attributes["aiolock.lock.label"] for point in telemetry.points("aiolock.hold.losses")}
        == {"order"}
    )
    telemetry.meters.shutdown()


def test_a_label_that_raises_leaves_nothing_behind() -> None:
    def label(name: str) -> str:
        raise LookupError(name)

    telemetry = Telemetry(label=label)
    with pytest.raises(LookupError):
        telemetry.tell(acquired())
    assert telemetry.tell._holds == {}
    telemetry.tell(Released(**LOCK, depth=0, held=1.0, handed_on=False, detached=False))
    assert telemetry.spans.get_finished_spans() == ()
    assert telemetry.value("aiolock.hold.active") == 0
    telemetry.meters.shutdown()


def test_connections_and_the_loop(telemetry: Telemetry) -> None:
    telemetry.tell(Disconnected("redis:6379", ConnectionResetError(), "was reset"))
    telemetry.tell(Reconnected("redis:6379", 0.2))
    telemetry.tell(WokeLate(1.5))
    telemetry.tell(Granted("order:42", "lock", "me:1", 7))  # what is no part of it
    assert telemetry.value("aiolock.connection.losses") == 1
    (outage,), (lag,) = telemetry.points("aiolock.connection.outage.duration"), telemetry.points("aiolock.loop.lag")
    assert (outage.sum, outage.attributes) == (0.2, {"server.address": "redis", "server.port": 6379})
    assert lag.sum == 1.5


@pytest.mark.parametrize(
    ("address", "attributes"),
    [
        ("10.0.0.7:6380", {"server.address": "10.0.0.7", "server.port": 6380}),
        ("fd00::7:6380", {"server.address": "fd00::7", "server.port": 6380}),
        ("/run/redis.sock", {"server.address": "/run/redis.sock"}),
        ("mymaster", {"server.address": "mymaster"}),
    ],
)
def test_the_server_is_named_by_the_conventions(
    telemetry: Telemetry, address: str, attributes: dict[str, object]
) -> None:
    telemetry.tell(Disconnected(address, ConnectionResetError(), "was reset"))
    (losses,) = telemetry.points("aiolock.connection.losses")
    assert losses.attributes == attributes


def test_the_buckets_fit_locks(telemetry: Telemetry) -> None:
    """OpenTelemetry's own begin at 5 s: they are meant for milliseconds."""
    telemetry.tell(acquired(waited=0.003))
    (point,) = telemetry.points("aiolock.acquire.duration")
    assert point.explicit_bounds[point.bucket_counts.index(1)] == 0.005


def test_managers_are_told_apart_by_name(telemetry: Telemetry) -> None:
    telemetry.tell(acquired(manager="checkout"))
    telemetry.tell(Reconnected("redis:6379", 0.2, manager="checkout"))
    assert telemetry.ended()["acquire lock"].attributes["aiolock.manager.name"] == "checkout"  # type: ignore[index]
    (held,), (outage,) = telemetry.points("aiolock.hold.active"), telemetry.points("aiolock.connection.outage.duration")
    assert dict(held.attributes) == {"aiolock.manager.name": "checkout", **KIND}
    assert outage.attributes["aiolock.manager.name"] == "checkout"
