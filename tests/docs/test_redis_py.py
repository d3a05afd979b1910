"""The README's table against redis-py's lock, shown on both."""

from __future__ import annotations

import asyncio
import inspect
import time

import pytest
import redis.asyncio
from redis.asyncio.lock import Lock as TheirLock
from redis.exceptions import LockError, LockNotOwnedError

from aiolock import AcquireTimeout, LockLost, LockManager
from tests.support.locks import parse
from tests.support.redis_cli import CommandStats

NAME = "order:42"
KEY = "aiolock:lock:{order:42}"


async def test_waiting(raw: redis.asyncio.Redis, redis_url: str, commandstats: CommandStats) -> None:
    """Theirs asks again and again; ours sends nothing while it waits."""
    assert inspect.signature(TheirLock).parameters["sleep"].default == 0.1
    async with asyncio.TaskGroup() as tasks:
        holder = TheirLock(raw, "theirs")
        await holder.acquire()
        await commandstats.reset()
        tasks.create_task(TheirLock(raw, "theirs", sleep=0.01).acquire())
        await sent(commandstats, "set", 5)
        await holder.release()

    managers = LockManager(redis_url), LockManager(redis_url)
    async with managers[0] as one, managers[1] as other, one.lock(NAME), asyncio.TaskGroup() as tasks:
        await commandstats.reset()
        waiters = [tasks.create_task(other.lock(NAME).acquire()) for _ in range(5)]
        await sent(commandstats, "evalsha", 1)  # they queue here, and their process queues on the server
        await commandstats.reset()
        await asyncio.sleep(0.1)
        assert (await commandstats.sent())["evalsha"] == 0
        assert not any(waiter.done() for waiter in waiters)
        for waiter in waiters:
            waiter.cancel()


async def sent(stats: CommandStats, command: str, times: int) -> None:
    """Wait until this command was sent this often."""
    async with asyncio.timeout(10):
        while (await stats.counts())[command] < times:  # noqa: ASYNC110 - the server does not announce it
            await asyncio.sleep(0.01)


async def test_holder_killed(raw: redis.asyncio.Redis, redis_url: str) -> None:
    """Theirs has no expiry unless you give it one; ours always has one."""
    await TheirLock(raw, "theirs").acquire()
    assert await raw.pttl("theirs") == -1
    async with LockManager(redis_url) as locks, locks.lock(NAME):
        assert 0 < parse(await raw.hgetall(KEY), now_ms=time.time_ns() // 1_000_000).pttl <= 30_000
        assert await raw.pttl(KEY) > 0


async def test_lost_while_held(raw: redis.asyncio.Redis, redis_url: str) -> None:
    """Their body runs on and finds out at its end; ours is cancelled."""
    reached: list[str] = []

    async def theirs() -> None:
        async with TheirLock(raw, "theirs", timeout=30):
            await raw.delete("theirs")
            await asyncio.sleep(0.3)
            reached.append("theirs")

    async def ours() -> None:
        async with LockManager(redis_url) as locks, locks.lock(NAME, ttl=0.5):
            await raw.delete(KEY)
            await asyncio.sleep(5)
            reached.append("ours")

    with pytest.raises(LockNotOwnedError):
        await theirs()
    with pytest.raises(LockLost):
        await ours()
    assert reached == ["theirs"]


async def test_gave_up(raw: redis.asyncio.Redis, redis_url: str) -> None:
    """Theirs returns False, or raises an error that does not name the holder."""
    async with TheirLock(raw, "theirs"):
        other = TheirLock(raw, "theirs", blocking_timeout=0)
        assert await other.acquire() is False
        with pytest.raises(LockError, match="Unable to acquire lock"):
            await other.__aenter__()
    async with LockManager(redis_url) as one, LockManager(redis_url) as other_manager, one.lock(NAME):
        with pytest.raises(AcquireTimeout, match=r"held by \S+:\d+"):
            await other_manager.lock(NAME).acquire(timeout=0)


async def test_one_object_for_several_tasks(raw: redis.asyncio.Redis, redis_url: str) -> None:
    """With a shared lock object of theirs, a task that was overtaken releases the other task's lock."""
    shared = TheirLock(raw, "theirs", timeout=30)
    await shared.acquire()
    await raw.delete("theirs")  # it expired
    await asyncio.create_task(shared.acquire())
    await shared.release()  # the first one's
    assert not await raw.exists("theirs")

    async with LockManager(redis_url) as locks, LockManager(redis_url) as elsewhere:
        lock = locks.lock(NAME, renew=False)
        first = await lock.acquire()
        await raw.delete(KEY)
        async with elsewhere.lock(NAME):
            with pytest.raises(LockLost):
                await first.release()
            assert parse(await raw.hgetall(KEY), now_ms=time.time_ns() // 1_000_000).holder


async def test_nested(raw: redis.asyncio.Redis, redis_url: str) -> None:
    """Theirs waits for itself."""
    async with TheirLock(raw, "theirs") as lock:
        assert await lock.acquire(blocking_timeout=0) is False
    async with LockManager(redis_url) as locks, locks.lock(NAME), locks.lock(NAME) as lease:
        assert lease.depth == 2


async def test_requests(raw: redis.asyncio.Redis, redis_url: str, commandstats: CommandStats) -> None:
    """Two requests for each, once the server knows their scripts."""
    async with TheirLock(raw, "theirs"):
        pass
    async with LockManager(redis_url) as locks:
        async with locks.lock(NAME):
            pass
        await commandstats.reset()
        async with locks.lock(NAME):
            pass
        assert await commandstats.sent() == {"evalsha": 2}
    await commandstats.reset()
    async with TheirLock(raw, "theirs"):
        pass
    counts = await commandstats.counts()
    assert counts["set"] + counts["evalsha"] == 2
