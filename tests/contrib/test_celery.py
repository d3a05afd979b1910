"""Celery: real workers with a broker in memory, and locks on a real server."""

from __future__ import annotations

import asyncio
import os
import subprocess
import threading
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import celery
import pytest
from celery.contrib.testing.worker import start_worker
from celery.signals import worker_shutdown

from aiolock import ConfigurationError, LockLost, LossReason
from aiolock.contrib.celery import current_lease, exclusive, opened
from aiolock.recipes import Busy, Unavailable
from aiolock.sync import LockManager
from aiolock.sync.recipes import reserve, reserved
from tests.support import redis_cli
from tests.support.forked import ROOT, Forked
from tests.support.locks import nothing_held

pytestmark = pytest.mark.slow

ENOUGH = 10.0

PREFORK = """
import os, sys, time
import redis
from celery import Celery
from celery.contrib.testing.worker import start_worker
from celery.signals import worker_process_init
from aiolock.contrib.celery import current_lease, exclusive
from aiolock.sync import LockManager
from aiolock.sync.recipes import reserve, reserved

url = sys.argv[1]
app = Celery("prefork", broker="memory://")
app.conf.update(worker_hijack_root_logger=False, broker_transport_options={"polling_interval": 0.01})
locks = LockManager(url)
client = redis.Redis.from_url(url)

@app.task(shared=False, max_retries=None)
@exclusive(locks, key="counter", busy="wait")
def add():
    seen = int(client.get("count") or 0)
    time.sleep(0.005)
    client.set("count", seen + 1)
    client.rpush("entries", f"{current_lease().fence} {os.getpid()}")

options = {"perform_ping_check": False, "shutdown_timeout": 60.0, "loglevel": "ERROR"}
with start_worker(app, pool="prefork", concurrency=2, **options):
    for _ in range(12):
        add.delay()
    ends = time.monotonic() + 20
    while client.llen("entries") < 12 and time.monotonic() < ends:
        time.sleep(0.01)
assert not locks._portal.here  # the parent has opened nothing
entries = [entry.split() for entry in client.lrange("entries", 0, -1)]
fences = [int(fence) for fence, _ in entries]
assert int(client.get("count")) == 12, entries
assert fences == sorted(set(fences)), entries
pids = {int(pid) for _, pid in entries}
print(len(pids), os.getpid() in pids)
"""


@pytest.fixture
def app() -> Any:
    made = celery.Celery("tests", broker="memory://", backend="cache+memory://")
    made.conf.update(worker_hijack_root_logger=False, task_default_queue=uuid.uuid4().hex)
    made.conf.broker_transport_options = {"polling_interval": 0.01}
    return made


@pytest.fixture
def locks(redis_url: str) -> Iterator[LockManager]:
    """For tasks: nothing opens it but they; and nothing closes it but the end of the worker."""
    manager = LockManager(redis_url)
    yield manager
    assert not manager._portal.here
    with redis_cli.client(redis_url) as client:
        assert nothing_held(client)


@pytest.fixture
def other(redis_url: str) -> Iterator[LockManager]:
    """Another process's."""
    with LockManager(redis_url) as manager:
        yield manager


@contextmanager
def running(app: Any, pool: str) -> Iterator[None]:
    """A worker, which stops for good at the end: the test's worker of Celery leaves out that signal."""
    with start_worker(app, shutdown_timeout=60.0, pool=pool, perform_ping_check=False, loglevel="CRITICAL"):
        yield
    worker_shutdown.send(sender=None)


class Tasks:
    """What a worker runs."""

    def __init__(self, app: Any, locks: LockManager, other: LockManager) -> None:
        self.tries: list[str] = []
        self.steps: list[str] = []
        self.held = other.lock("order:1").acquire()

        def key(order: str) -> str:
            self.tries.append(order)
            if len(self.tries) == 2:
                self.held.release()
            return f"order:{order}"

        @app.task(shared=False, max_retries=None, default_retry_delay=0.01)
        @exclusive(locks, key=key)
        def ship(order: str) -> int:
            lease = current_lease()
            assert lease is not None
            lease.ensure()
            return lease.fence

        @app.task(shared=False, bind=True)
        @exclusive(locks, key="{self.name}:{order}")
        def loses(self: Any, order: str) -> None:
            assert other.lock(f"{self.name}:{order}").force_release()
            lease = current_lease()
            assert lease is not None
            steps.append(lease.wait_lost())
            lease.ensure()
            steps.append("unreachable")

        @app.task(shared=False, max_retries=2)
        @exclusive(LockManager("redis://127.0.0.1:1", request_timeout=0.1), key=self.away_key, countdown=0.01)
        def away(order: str) -> None:
            steps.append("ran")

        def made(busy: Any, **options: Any) -> Any:
            @app.task(shared=False, name=busy, max_retries=1)
            @exclusive(locks, key="order:{order}", busy=busy, **options)
            def task(order: str) -> str:
                return order

            return task

        steps = self.steps
        self.ship, self.loses, self.away = ship, loses, away
        self.skips, self.raises, self.waits = made("skip"), made("raise"), made("wait")
        self.gives_up = made("retry", countdown=0.01)

    def away_key(self, order: str) -> str:
        self.tries.append(order)
        return order


@pytest.mark.parametrize("pool", ["solo", "threads"])
def test_a_worker(app: Any, locks: LockManager, other: LockManager, pool: str) -> None:
    """Kept by `_take()`, `_retry()`, and `opened()`."""
    tasks = Tasks(app, locks, other)
    with running(app, pool):
        # A busy task comes again.
        assert tasks.ship.delay("1").get(timeout=ENOUGH) > tasks.held.fence
        assert tasks.tries == ["1", "1"]
        # Or it does what it was told.
        with other.lock("order:42"):
            assert tasks.skips.delay("42").get(timeout=ENOUGH) is None
            for task in (tasks.raises, tasks.gives_up):
                with pytest.raises(Busy) as busy:
                    task.delay("42").get(timeout=ENOUGH)
                assert "is held by" in str(busy.value)
            with pytest.raises(Busy):  # called here, where no task runs
                tasks.gives_up("42")
            waiting = tasks.waits.delay("42")
            assert not waiting.ready()
        assert waiting.get(timeout=ENOUGH) == "42"
        assert tasks.skips.delay("42").get(timeout=ENOUGH) == "42"
        # One that loses its lock runs on to its next look, and fails.
        with pytest.raises(LockLost) as lost:
            tasks.loses.delay("42").get(timeout=ENOUGH)
        assert lost.value.reason is LossReason.REVOKED
        assert tasks.steps == [LossReason.REVOKED]
        # Without Redis none runs, and it comes again, too.
        with pytest.raises(Unavailable):
            tasks.away.delay("2").get(timeout=ENOUGH)
        assert tasks.tries == ["1", "1", "2", "2", "2"]
        assert tasks.steps == [LossReason.REVOKED]
        assert current_lease() is None


def test_the_first_tasks_of_a_worker(locks: LockManager, monkeypatch: pytest.MonkeyPatch) -> None:
    """One of them opens the manager, and the others wait for that. Kept by `opened()`: Portal.ready."""
    opens, waits, connect = threading.Event(), threading.Event(), locks._core.open

    class Mutex:
        def __enter__(self) -> None:
            if opens.is_set():
                waits.set()
            mutex.acquire()

        def __exit__(self, *error: object) -> None:
            mutex.release()

    async def slowly(strict: bool) -> None:
        opens.set()
        await asyncio.to_thread(waits.wait, ENOUGH)
        await connect(strict=strict)

    mutex = threading.Lock()
    monkeypatch.setattr("aiolock.contrib.celery._mutex", Mutex())
    monkeypatch.setattr(locks._core, "open", slowly)
    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(opened, locks)
        assert opens.wait(ENOUGH)
        second = pool.submit(lambda: opened(locks).lock("a").is_locked())
        assert second.result(ENOUGH) is False
        assert first.result(ENOUGH) is locks
    worker_shutdown.send(sender=None)


def test_what_cannot_work(locks: LockManager) -> None:
    """Raised on decorating."""
    for wrong in ({"busy": "no"}, {"timeout": 1.0}, {"busy": "skip", "countdown": 1}):
        with pytest.raises(ConfigurationError):
            exclusive(locks, key="a", **wrong)
    with pytest.raises(ConfigurationError, match=r"aiolock\.sync"):
        exclusive(lambda: locks, key="a")
    with pytest.raises(ConfigurationError, match="'order'"):
        exclusive(locks, key="{order}")(lambda number: None)
    with pytest.raises(TypeError, match="ttl="):
        exclusive(locks, key="a", expire=1)


def test_a_prefork_worker(redis_url: str) -> None:
    """Each of its processes opens the manager after the fork. Kept by `opened()`."""
    words = ["-c", PREFORK, redis_url]
    process = Forked(words, env=dict(os.environ), cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    told, errors = process.communicate(timeout=100)
    assert process.returncode == 0, errors.decode()
    assert told.split() == [b"2", b"False"]


def test_a_task_is_unique_from_enqueue_to_its_end(app: Any, locks: LockManager, other: LockManager) -> None:
    """Over Celery's own retries, and free when one is given up. Kept by `reserved()`, below `@app.task`."""
    tries: list[tuple[str, str | None]] = []

    @app.task(shared=False, bind=True, max_retries=2)
    @reserved(lambda *_: opened(locks), within=60.0, retry=celery.exceptions.Retry)
    def ship(self: Any, order: str, *, ticket: str) -> None:
        tries.append((order, reserve(other, f"job:{order}", within=60.0)))
        if len(tries) != 2:
            raise self.retry(exc=OSError(order), countdown=0.01)

    def enqueued(order: str) -> Any:
        ticket = reserve(other, f"job:{order}", within=60.0)
        assert ticket is not None
        return ship.delay(order, ticket=ticket)

    with running(app, "solo"):
        assert enqueued("1").get(timeout=ENOUGH) is None
        with pytest.raises(OSError):  # noqa: PT011
            enqueued("2").get(timeout=ENOUGH)
    assert tries == [("1", None)] * 2 + [("2", None)] * 3
