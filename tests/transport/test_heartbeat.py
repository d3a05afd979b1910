"""A server that is connected and says nothing."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest
import redis.asyncio

from aiolock import LockManager
from aiolock.backends.redis import session
from aiolock.backends.redis.heartbeat import Heartbeat
from aiolock.backends.redis.replies import Echo
from aiolock.errors import BackendError
from aiolock.events import Disconnected, Event
from aiolock.testing.server import RedisServer
from tests.support.proxy import FaultProxy
from tests.support.redis_cli import CommandStats

from .calls import Log, echo, result, until
from .conftest import Connect

TIMEOUT = 0.5
NOTICED = TIMEOUT * 2 + TIMEOUT  # and some looks at the clock
LATE = 3.0
"""Seconds for which a noisy machine may stand still."""


@pytest.mark.parametrize("busy", [False, True])
async def test_a_frozen_server_is_noticed(
    own_server: RedisServer, connect: Connect, reconnected: Log, busy: bool
) -> None:
    backend = await connect(own_server.url, request_timeout=TIMEOUT)
    await backend.run(echo("warm"))
    own_server.freeze()
    began = time.monotonic()
    asked: list[float] = []
    future = backend.run(echo("x", lambda: note(asked))) if busy else None
    await until(lambda: "connected" not in repr(backend))
    took = time.monotonic() - began
    assert TIMEOUT * 0.9 <= took <= 2 * NOTICED + LATE  # a process that stood still gives the server a fresh period
    if future is not None:
        assert isinstance(await result(future), BackendError)
        assert len(asked) == 1
    own_server.thaw()
    await reconnected.has(1)
    assert await result(backend.run(echo("y"))) == "y"


@pytest.mark.parametrize("direction", ["requests", "replies"])
async def test_a_path_dead_in_one_direction_is_noticed(
    connect: Connect, proxy: FaultProxy, reconnected: Log, direction: str
) -> None:
    backend = await connect(proxy.url, request_timeout=TIMEOUT)
    hole = proxy.blackhole("requests" if direction == "requests" else "replies")
    await hole.hit()  # the PING, or its answer
    hole.lift()
    await reconnected.has(1)
    assert await result(backend.run(echo("x"))) == "x"


async def test_messages_do_not_stand_in_for_answers(
    connect: Connect, proxy: FaultProxy, raw: redis.asyncio.Redis, reconnected: Log
) -> None:
    backend = await connect(proxy.url, request_timeout=TIMEOUT)
    woken = Log()
    await backend.subscribe("c", woken)
    hole = proxy.blackhole("requests")
    future = backend.run(echo("x"))
    while not future.done():
        await raw.publish("c", "still here")
        await asyncio.sleep(TIMEOUT / 20)
    assert len(woken.items) > 5
    assert isinstance(await result(future), BackendError)
    hole.lift()
    await reconnected.has(1)


async def test_an_idle_connection_is_kept(connect: Connect, commandstats: CommandStats) -> None:
    backend = await connect(request_timeout=TIMEOUT)
    async with asyncio.timeout(10):
        while (await commandstats.sent())["ping"] < 3:  # noqa: ASYNC110
            await asyncio.sleep(0.02)
    assert backend._dialer.opened == 1
    assert await backend.run(echo("x")) == "x"


async def test_a_busy_connection_needs_no_ping(connect: Connect, commandstats: CommandStats) -> None:
    backend = await connect(request_timeout=1.0)
    until_time = time.monotonic() + 1.3
    while time.monotonic() < until_time:
        await backend.run(echo("x"))
    assert (await commandstats.sent())["ping"] == 0


async def test_a_wrong_echo_closes_the_connection(
    connect: Connect, reconnected: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(session, "Echo", lambda nonce: Echo(b"another"))
        backend = await connect(request_timeout=TIMEOUT)
        await reconnected.has(1)
    assert await result(backend.run(echo("x"))) == "x"


async def test_a_blocked_loop_is_not_the_servers_fault(connect: Connect, reconnected: Log) -> None:
    backend = await connect(request_timeout=0.2)
    future = backend.run(echo("x"))
    for _ in range(3):
        await asyncio.sleep(0)
        time.sleep(0.7)  # noqa: ASYNC251
    assert await result(future) == "x"
    for _ in range(5):
        await asyncio.sleep(0.01)
        time.sleep(0.3)  # noqa: ASYNC251
    assert await result(backend.run(echo("y"))) == "y"
    assert backend._dialer.opened == 1


def note(times: list[float]) -> bool:
    times.append(time.monotonic())
    return False


class Manual:
    """A heartbeat whose loop time the test sets."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, timeout: float = 1.0) -> None:
        self.idle = timeout
        self.now = 0.0
        self.outstanding = False
        self.events: list[str] = []
        monkeypatch.setattr(asyncio.get_running_loop(), "time", lambda: self.now)
        self.beat = Heartbeat(
            timeout, lambda: self.outstanding, self.ask, lambda: self.events.append("dead"), lambda: self.idle
        )
        self.beat._timer.cancel()

    def ask(self) -> None:
        self.events.append("ping")
        self.outstanding = True
        self.beat.heard = True

    def tick(self, after: float) -> None:
        self.now += after
        self.beat._on_tick()
        self.beat._timer.cancel()


async def test_ping_after_a_period_and_death_after_another(monkeypatch: pytest.MonkeyPatch) -> None:
    manual = Manual(monkeypatch)
    for _ in range(9):
        manual.tick(0.1)
    assert manual.events == []
    manual.tick(0.11)
    assert manual.events == ["ping"]
    for _ in range(10):
        manual.tick(0.1)
    assert manual.events == ["ping"]
    manual.tick(0.11)
    manual.tick(0.1)
    assert manual.events == ["ping", "dead"]
    assert manual.now <= 2.4


async def test_who_needs_nothing_asks_later(monkeypatch: pytest.MonkeyPatch) -> None:
    """And at once if it then does, because it has been quiet for longer. Kept by Heartbeat: `idle`."""
    manual = Manual(monkeypatch)
    manual.idle = 30.0
    for _ in range(250):
        manual.tick(0.1)
    assert manual.events == []
    manual.idle = 1.0
    manual.tick(0.1)
    assert manual.events == ["ping"]
    manual.idle = 30.0
    for _ in range(12):
        manual.tick(0.1)
    assert manual.events == ["ping", "dead"]


async def test_an_idle_manager_asks_less_often(redis_url: str, commandstats: CommandStats) -> None:
    """Every `keepalive`, 30 s by default; as before while something is held. Kept by RedisBackend._idle."""
    async with LockManager(redis_url, request_timeout=0.1, ttl=60.0) as locks:
        await asyncio.sleep(0.6)
        assert (await commandstats.sent())["ping"] == 0
        async with locks.lock("a"):
            await pings(commandstats, 2)
    await commandstats.reset()
    async with LockManager(redis_url, request_timeout=0.1, keepalive=0.3):
        await pings(commandstats, 2)


async def test_a_dead_path_is_noticed_while_something_is_held(proxy: FaultProxy) -> None:
    """As soon as before: a message that says that the lock was taken, or is wanted, comes on it."""
    events: asyncio.Queue[Event] = asyncio.Queue()
    options: dict[str, Any] = {"request_timeout": 0.2, "ttl": 60.0}
    async with LockManager(proxy.url, observer=events.put_nowait, **options) as locks, locks.lock("a", renew=False):
        while not events.empty():
            events.get_nowait()
        hole = proxy.blackhole("replies")
        async with asyncio.timeout(10):
            assert isinstance(await events.get(), Disconnected)
        hole.lift()


async def pings(commandstats: CommandStats, least: int) -> None:
    """Wait for as many PINGs."""
    async with asyncio.timeout(10):
        while (await commandstats.sent())["ping"] < least:  # noqa: ASYNC110
            await asyncio.sleep(0.02)


async def test_time_counts_from_the_tick_after_an_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    manual = Manual(monkeypatch)
    for _ in range(5):
        manual.tick(0.1)
    manual.beat.heard = True
    for _ in range(10):
        manual.tick(0.1)
    assert manual.events == []
    manual.tick(0.11)
    assert manual.events == ["ping"]


async def test_an_answer_read_at_the_last_moment_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    manual = Manual(monkeypatch)
    manual.outstanding = True
    for _ in range(11):
        manual.tick(0.1)
    manual.beat.heard = True
    manual.tick(0.1)
    assert manual.events == []


async def test_a_stopped_process_gives_a_fresh_period(monkeypatch: pytest.MonkeyPatch) -> None:
    manual = Manual(monkeypatch)
    manual.outstanding = True
    for _ in range(9):
        manual.tick(0.1)
    manual.tick(3600.0)
    for _ in range(9):
        manual.tick(0.1)
    assert manual.events == []
    for _ in range(3):
        manual.tick(0.1)
    assert manual.events == ["dead"]
