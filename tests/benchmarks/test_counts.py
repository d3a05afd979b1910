"""The regression guard: counts of the benchmark's rows, which must not grow. Times are never checked."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from aiolock import LockManager
from aiolock.testing.server import RedisServer
from benchmarks.idle import wait_idly
from benchmarks.peers.adapter import opened
from benchmarks.peers.aiolock import Lock
from benchmarks.served import of_a_pair, of_an_acquisition
from benchmarks.server_stats import ServerStats
from tests.support.proxy import FaultProxy

OURS = "benchmarks.peers.aiolock:Lock"
PAIRS = 20
WAITERS = 200
PINGS = 2
"""What a stalled machine may add."""


@pytest.fixture
async def stats(redis_url: str) -> AsyncIterator[ServerStats]:
    async with ServerStats(redis_url, Lock.scripted, {"ping"}) as stats:
        yield stats


@contextmanager
def tasks_made() -> Iterator[list[str]]:
    """Record the names of the tasks that are made in the block."""
    made: list[str] = []
    loop = asyncio.get_running_loop()

    def make(loop: asyncio.AbstractEventLoop, work: Any, **more: Any) -> asyncio.Task[Any]:
        made.append(repr(work))
        return asyncio.Task(work, loop=loop, **more)

    loop.set_task_factory(make)
    try:
        yield made
    finally:
        loop.set_task_factory(None)


async def enter(locks: LockManager, name: str) -> None:
    async with locks.lock(name):
        pass


async def test_a_free_lock(redis_url: str, stats: ServerStats) -> None:
    """Row A: two commands per pair, no task, and no connection but the manager's."""
    async with LockManager(redis_url) as locks:
        await enter(locks, "warm")
        await stats.reset()
        with tasks_made() as made:
            for _ in range(PAIRS):
                await enter(locks, "free")
        assert await stats.commands() == 2 * PAIRS
        assert await stats.connections() == 0
        assert made == []


async def test_round_trips_of_a_free_lock(redis_server: RedisServer, redis_url: str) -> None:
    """Row A: each pair is two requests, each in one write."""
    async with FaultProxy(redis_server.host, redis_server.port) as proxy, LockManager(proxy.url) as locks:
        await enter(locks, "warm")
        requests, chunks = proxy.requests, proxy.chunks
        for _ in range(PAIRS):
            await enter(locks, "free")
        assert 2 * PAIRS <= proxy.requests - requests <= 2 * PAIRS + PINGS
        assert 2 * PAIRS <= proxy.chunks - chunks <= 2 * PAIRS + PINGS


async def test_round_trips_of_many_tasks(redis_server: RedisServer, redis_url: str) -> None:
    """Row B: what tasks ask in one turn of the loop leaves in one write."""
    async with FaultProxy(redis_server.host, redis_server.port) as proxy, LockManager(proxy.url) as locks:
        await enter(locks, "warm")
        chunks = proxy.chunks
        await asyncio.gather(*(enter(locks, f"name:{number}") for number in range(WAITERS)))
        assert proxy.chunks - chunks < WAITERS


async def test_a_contended_handoff(redis_url: str, stats: ServerStats) -> None:
    """Row C: one command each, and no task; at most one in `handoff_limit` costs more."""
    async with LockManager(redis_url) as locks:
        async with locks.lock("busy"):
            await enter(locks, "warm")
            waiting = [asyncio.create_task(enter(locks, "busy")) for _ in range(PAIRS)]
            await asyncio.sleep(0)
            await stats.reset()
        with tasks_made() as made:
            await asyncio.gather(*waiting)
        assert await stats.commands() <= PAIRS + 5
        assert made == []


@pytest.mark.parametrize(
    ("kind", "pair"), [("Lock", 11), ("Fair", 11), ("Read", 19), ("Write", 19), ("Semaphore", 19), ("Multi", 26)]
)
async def test_commands_on_the_server_for_a_pair(kind: str, pair: int, redis_url: str, stats: ServerStats) -> None:
    """Row S: those in scripts included, with no waiters."""
    async with opened(f"benchmarks.peers.aiolock:{kind}", redis_url) as library:
        assert await of_a_pair(library, stats, "free", PAIRS) == pair


@pytest.mark.parametrize(("kind", "all_of_them"), [("Lock", 704), ("Fair", 1812)])
async def test_commands_on_the_server_for_many_tasks(
    kind: str, all_of_them: int, redis_url: str, stats: ServerStats
) -> None:
    """Row S: 20 tasks of one process that enter five times each. On a machine that stalls they refresh their entries,
    and more of them find the lock taken: that adds a little.
    """
    async with opened(f"benchmarks.peers.aiolock:{kind}", redis_url) as library:
        cost = min([100 * await of_an_acquisition(library, stats, f"busy:{n}", 20, 5) for n in range(2)])
        assert all_of_them * 0.98 <= cost <= all_of_them * 1.03


async def test_commands_on_the_server_while_many_wait_for_a_fair_lock(redis_url: str) -> None:
    """Row E: the arrival costs some, each further second next to nothing."""
    idle = await wait_idly(redis_url, "benchmarks.peers.aiolock:Fair", WAITERS, 2.0)
    assert idle.executed_arriving <= 3_250
    assert idle.executed - idle.executed_arriving <= 450


async def test_waiting(redis_url: str) -> None:
    """Row E: 200 waiters use one connection and next to no commands, however long they wait."""
    idle = await wait_idly(redis_url, OURS, WAITERS, 2.0)
    assert idle.connections == 1
    assert idle.commands <= 6


async def test_nothing_for_the_garbage_collector(redis_url: str) -> None:
    """A pair leaves no reference cycle and no garbage: otherwise the collector's work is part of its cost."""
    async with LockManager(redis_url) as locks:
        lock = locks.lock("tidy")
        await enter(locks, "warm")
        gc.collect()
        gc.disable()
        try:
            before = gc.get_count()[0]
            for _ in range(10 * PAIRS):
                async with lock:
                    pass
            kept = gc.get_count()[0] - before
            circles = gc.collect()
        finally:
            gc.enable()
    assert circles < 10 * PAIRS  # not one object a pair; a worker's other threads leave a few
    assert kept < 50 * PAIRS  # of about forty objects that a pair makes
