"""Metrics and spans of real locks on a real server."""

from __future__ import annotations

import asyncio
import gc
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from aiolock import AcquireTimeout, LockLost, LockManager
from aiolock.events import Acquired, Event, Reconnected
from tests.support import redis_cli
from tests.support.telemetry import Exported, Telemetry

ROOT = Path(__file__).parents[2]
TWO_WORKERS = """
import os

from prometheus_client import CollectorRegistry, multiprocess

from aiolock.contrib.prometheus import PrometheusObserver
from tests.unit.happenings import acquired


def total():
    registry = CollectorRegistry()
    multiprocess.MultiProcessCollector(registry)
    value = registry.get_sample_value
    labels = {"manager": "", "kind": "lock"}
    taken = value("aiolock_acquires_total", {**labels, "outcome": "acquired"})
    print(value("aiolock_held", labels), taken, value("aiolock_acquire_seconds_sum", labels))


observer = PrometheusObserver()
workers = []
for worker in range(2):
    if not (pid := os.fork()):
        observer(acquired(waited=0.5))
        os._exit(0)
    workers.append(pid)
    os.waitpid(pid, 0)
total()
multiprocess.mark_process_dead(workers[0])
total()
"""


@pytest.fixture
def telemetry() -> Iterator[Telemetry]:
    made = Telemetry()
    yield made
    made.meters.shutdown()


@pytest.fixture
def exported() -> Exported:
    return Exported()


def nothing_open(telemetry: Telemetry, exported: Exported) -> bool:
    """Whether no hold is counted any more, by either."""
    forgotten = not telemetry.tell._holds and not exported.tell._holds
    return forgotten and telemetry.value("aiolock.hold.active") == exported("held") == 0


async def test_waits_and_holds_belong_to_their_callers(
    redis_url: str, telemetry: Telemetry, exported: Exported
) -> None:
    """Of two tasks one waits for the other; a third gives up, and a fourth does not wait."""
    began = asyncio.Event()

    async def buy(customer: str) -> None:
        with telemetry.tracer.start_as_current_span(customer):
            async with locks.lock("order:42"):
                began.set()
                await asyncio.sleep(0.05)

    async with LockManager(redis_url, observer=[telemetry.tell, exported.tell]) as locks:
        first = asyncio.create_task(buy("ada"))
        await began.wait()
        second = asyncio.create_task(buy("bob"))
        with pytest.raises(AcquireTimeout):
            await locks.lock("order:42").acquire(timeout=0.01)
        assert await locks.lock("order:42").try_acquire() is None
        await asyncio.gather(first, second)
    spans = telemetry.spans.get_finished_spans()
    callers = {span.context.span_id: span.name for span in spans if span.context and span.name in ("ada", "bob")}
    whose = [(callers.get(span.parent.span_id), span.name) for span in spans if span.parent is not None]
    assert sorted(whose) == [(who, what) for who in ("ada", "bob") for what in ("acquire lock", "hold lock")]
    outcomes = {outcome: exported("acquires_total", outcome=outcome) for outcome in ("acquired", "timeout", "refused")}
    assert outcomes == {"acquired": 2, "timeout": 1, "refused": 1}
    assert exported("contended_total") == telemetry.value("aiolock.acquire.contended") == 3
    (held,) = telemetry.points("aiolock.hold.duration")
    assert held.sum == pytest.approx(exported("hold_seconds_sum"))
    assert held.sum >= 0.1
    assert nothing_open(telemetry, exported)


async def revoked(locks: LockManager, elsewhere: LockManager) -> None:
    async with locks.lock("revoked"):
        await elsewhere.lock("revoked").force_release()
        await asyncio.Event().wait()


async def deleted(locks: LockManager, url: str) -> None:
    async with locks.lock("deleted") as lease:
        with redis_cli.client(url) as client:
            client.delete("aiolock:lock:{deleted}")
        await lease.renew()


async def dropped(locks: LockManager) -> None:
    """A task ends, and no one knows its lease any more."""
    await asyncio.create_task(asyncio.wait_for(locks.lock("dropped").acquire(), 5.0))
    gc.collect()
    await asyncio.sleep(0)


async def test_however_a_hold_ends_nothing_is_kept(redis_url: str, telemetry: Telemetry, exported: Exported) -> None:
    """Released level by level, handed on, revoked, deleted, moved to another process, dropped, and closed around."""
    both = [telemetry.tell, exported.tell]
    async with LockManager(redis_url, observer=both) as locks, LockManager(redis_url, observer=both) as elsewhere:
        async with locks.lock("nested"), locks.lock("nested"):
            assert exported("held") == 1

        async def in_turn() -> None:
            async with locks.lock("handed on"):
                await asyncio.sleep(0)

        await asyncio.gather(*(in_turn() for _ in range(5)))
        for losing in (revoked(locks, elsewhere), deleted(locks, redis_url)):
            with pytest.raises(LockLost):
                await losing
        lease = await locks.lock("moved").acquire()
        async with await elsewhere.resume(await lease.detach()):
            assert exported("held") == 1
        with pytest.warns(ResourceWarning, match="dropped"):
            await dropped(locks)
        kept = await locks.lock("closed around").acquire()
    assert kept.released or kept.lost
    assert nothing_open(telemetry, exported)
    assert exported("acquires_total", outcome="acquired") == exported("hold_seconds_count") == 12
    assert exported("losses_total", reason="revoked") == exported("losses_total", reason="deleted") == 1
    assert len([span for span in telemetry.spans.get_finished_spans() if span.name == "hold lock"]) == 12


async def test_renewals_and_a_lost_connection(redis_url: str, telemetry: Telemetry, exported: Exported) -> None:
    """A renewal in time comes before half of the ttl is over; a connection that was cut is counted when it is back."""
    back = asyncio.Event()

    def watch(event: Event) -> None:
        if isinstance(event, Reconnected):
            back.set()

    locks = LockManager(redis_url, observer=[telemetry.tell, exported.tell, watch])
    async with locks, locks.lock("order:42", ttl=30.0) as lease:
        await lease.renew()
        with redis_cli.client(redis_url) as client:
            client.client_kill_filter(_type="pubsub")
        await asyncio.wait_for(back.wait(), 10)
    (ratio,) = telemetry.points("aiolock.renewal.headroom_ratio")
    assert 0.6 < ratio.min <= 0.9
    assert exported("renewal_headroom_ratio_count") == ratio.count
    assert exported.registry.get_sample_value("aiolock_disconnects_total", {"manager": ""}) == 1
    assert exported.registry.get_sample_value("aiolock_outage_seconds_count", {"manager": ""}) == 1
    assert telemetry.value("aiolock.connection.losses") == 1


def test_processes_add_up(tmp_path: Path) -> None:
    """In prometheus_client's multiprocess mode, made before the fork: one that is gone holds nothing."""
    environment = os.environ | {"PROMETHEUS_MULTIPROC_DIR": str(tmp_path)}
    command = [sys.executable, "-c", TWO_WORKERS]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=60)
    assert done.stdout.splitlines() == ["2.0 2.0 1.0", "1.0 2.0 1.0"], done.stderr


async def test_an_acquisition_counts_its_answer_when_it_was_written_with_others(redis_url: str) -> None:
    """Both requests of a turn leave together. Kept by QueueEntry.answers: `_heard`."""
    told: list[Event] = []
    async with LockManager(redis_url, observer=told.append) as locks:
        leases = await asyncio.gather(locks.lock("a").acquire(), locks.lock("b").acquire())
        for lease in leases:
            await lease.release()
    assert [event.requests for event in told if isinstance(event, Acquired)] == [1, 1]
