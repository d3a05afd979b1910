"""What a semaphore, a read-write lock and a fair lock cost, counted on a real server."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest

from aiolock import LockManager
from aiolock.scripts import lock, queue
from tests.support import redis_cli
from tests.support.redis_cli import CommandStats

NAME = "order:42"
SLOW = 60.0
"""So long a liveness that no refresh happens during a test."""
KINDS: dict[str, Callable[[LockManager], Any]] = {
    "fair": lambda manager: manager.fair_lock(NAME, ttl=SLOW),
    "read": lambda manager: manager.rw_lock(NAME, ttl=SLOW).read,
    "write": lambda manager: manager.rw_lock(NAME, ttl=SLOW).write,
    "semaphore": lambda manager: manager.semaphore(NAME, 1, ttl=SLOW),
}
HOLDER = {"read": "write"}
"""What keeps one out, where that is not its like."""


@pytest.fixture(autouse=True)
def scripts_are_known(redis_url: str) -> None:
    with redis_cli.client(redis_url) as client:
        for script in (*lock.SCRIPTS, *queue.SCRIPTS):
            client.script_load(script.lua)


@pytest.fixture
async def locks(redis_url: str) -> AsyncIterator[LockManager]:
    async with LockManager(redis_url, liveness=SLOW) as manager:
        yield manager


@pytest.fixture
async def others(redis_url: str) -> AsyncIterator[LockManager]:
    async with LockManager(redis_url, liveness=SLOW) as manager:
        yield manager


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


async def requests(stats: CommandStats) -> dict[str, int]:
    """What was sent, but for heartbeats and a connection's first words."""
    sent = await stats.sent()
    return {name: count for name, count in sent.items() if name not in ("ping", "script|load")}


async def enter(lock: Any) -> None:
    async with lock:
        pass


async def queued(manager: LockManager, waiters: int) -> None:
    async with asyncio.timeout(5.0):
        while len(manager._runtime.queue_entries) < waiters:  # noqa: ASYNC110 - it sets no event
            await asyncio.sleep(0.001)


async def test_a_free_one(locks: LockManager, commandstats: CommandStats, kind: str) -> None:
    lock = KINDS[kind](locks)
    await enter(lock)
    await commandstats.reset()
    for _ in range(10):
        await enter(lock)
    assert await requests(commandstats) == {"evalsha": 20}


async def test_waiting_and_the_handoff(
    locks: LockManager, others: LockManager, commandstats: CommandStats, kind: str
) -> None:
    """One request to queue, one message and one request to enter. Broken by any attempt more than that."""
    holder = await KINDS[HOLDER.get(kind, kind)](locks).acquire()
    await commandstats.reset()
    waiters = [asyncio.ensure_future(KINDS[kind](others).acquire()) for _ in range(5)]
    await queued(others, 5)
    await asyncio.sleep(0.05)
    assert await requests(commandstats) == {"evalsha": 5}
    # The release lets one in; all of the readers.
    entering = 5 if kind == "read" else 1
    await holder.release()
    leases = [await waiter for waiter in waiters[:entering]]
    await asyncio.sleep(0.05)
    counts = await commandstats.counts()
    assert counts["publish"] == entering
    assert (await requests(commandstats))["evalsha"] == 5 + 1 + entering
    await commandstats.reset()
    for waiter in waiters[entering:]:
        waiter.cancel()
    await asyncio.gather(*waiters[entering:], return_exceptions=True)
    await asyncio.sleep(0.05)
    assert await requests(commandstats) == ({"evalsha": 5 - entering} if entering < 5 else {})
    for lease in leases:
        await lease.release()


async def test_two_hundred_waiters_cost_one_request_a_beat(
    locks: LockManager, redis_url: str, commandstats: CommandStats
) -> None:
    """On many names, each come at another moment. Kept by QueueEntry.schedule."""
    async with LockManager(redis_url, liveness=3.0) as waiting:  # who dies, comes back by a request of its own
        leases = [await locks.fair_lock(f"n{i}", ttl=SLOW).acquire() for i in range(10)]
        tasks = []
        for i in range(200):
            tasks.append(asyncio.create_task(enter(waiting.fair_lock(f"n{i % 10}", ttl=SLOW))))
            if i % 20 == 0:
                await asyncio.sleep(0.05)
        await queued(waiting, 200)
        await asyncio.sleep(1.2)
        began = time.monotonic()
        await commandstats.reset()
        await asyncio.sleep(2.2)
        sent = await requests(commandstats)
        assert 1 <= sent["evalsha"] <= time.monotonic() - began + 2, sent  # a beat is a third of 3 s
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for lease in leases:
            await lease.release()


@pytest.mark.parametrize(
    "ask",
    [
        lambda lock: lock.info(),
        lambda lock: lock.force_release(),
        lambda lock: lock.try_acquire(),
    ],
    ids=["info", "force_release", "try_acquire"],
)
async def test_one_request(
    locks: LockManager, others: LockManager, commandstats: CommandStats, kind: str, ask: Callable[[Any], Awaitable[Any]]
) -> None:
    lease = await KINDS[HOLDER.get(kind, kind)](others).acquire()
    await commandstats.reset()
    assert await ask(KINDS[kind](locks)) is not lease
    assert await requests(commandstats) == {"evalsha": 1}
    lease.release()


async def test_a_semaphores_own(locks: LockManager, commandstats: CommandStats) -> None:
    semaphore = locks.semaphore(NAME, 3)
    await commandstats.reset()
    assert await semaphore.available() == 3
    await semaphore.set_permits(4)
    assert await requests(commandstats) == {"evalsha": 2}


async def test_a_downgrade(locks: LockManager, commandstats: CommandStats) -> None:
    lock = locks.rw_lock(NAME)
    await enter(lock.write)
    await commandstats.reset()
    writing = await lock.write.acquire()
    reading = await lock.read.acquire()
    await writing.release()
    await reading.release()
    assert await requests(commandstats) == {"evalsha": 4}
