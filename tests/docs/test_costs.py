"""The cost table of how-it-works.md: the rows that it marks, counted on a real server."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest

from aiolock import Lock, LockManager
from tests.support.redis_cli import CommandStats

NAME = "order:42"


@pytest.fixture
async def locks(redis_url: str) -> AsyncIterator[LockManager]:
    """A manager whose scripts the server knows."""
    async with LockManager(redis_url) as manager:
        lock = manager.lock("warm")
        async with lock as lease, lock:
            waiter = asyncio.create_task(enter(lock))
            await asyncio.sleep(0)
            await lease.renew()
            await lock.info()
            await lock.request_release()
        await waiter
        await lock.force_release()
        yield manager


async def enter(lock: Lock) -> None:
    async with lock:
        pass


@pytest.mark.parametrize("make", [LockManager.lock, LockManager.fair_lock])
async def test_a_free_lock(
    locks: LockManager, commandstats: CommandStats, make: Callable[[LockManager, str], Lock]
) -> None:
    """Broken by any request more than the acquire and the release, or any command more than twelve in them."""
    await commandstats.reset()
    await enter(make(locks, NAME))
    assert await commandstats.sent() == {"evalsha": 2}
    counts = await commandstats.counts()
    del counts["ping"]
    assert counts.total() == 12


async def test_nested(locks: LockManager, commandstats: CommandStats) -> None:
    async with locks.lock(NAME):
        await commandstats.reset()
        await enter(locks.lock(NAME))
        assert await commandstats.sent() == {"evalsha": 2}


@pytest.mark.parametrize("make", [LockManager.lock, LockManager.fair_lock])
async def test_behind_another_process(
    locks: LockManager, redis_url: str, commandstats: CommandStats, make: Callable[[LockManager, str], Lock]
) -> None:
    """One request to queue, and one that confirms the grant, whose message the release brings."""
    async with LockManager(redis_url, liveness=60.0) as elsewhere:
        async with make(locks, NAME):
            await commandstats.reset()
            waiter = asyncio.ensure_future(make(elsewhere, NAME).acquire())
            async with asyncio.timeout(10):
                while (await requests(commandstats)).get("evalsha", 0) < 1:  # noqa: ASYNC110
                    await asyncio.sleep(0.01)
            await asyncio.sleep(0.1)
            assert await requests(commandstats) == {"evalsha": 1}
            await commandstats.reset()
        lease = await waiter
        await lease.renew()  # behind what confirms it
        counts = await commandstats.counts()
        # The holder's release, the confirmation, and the renewal above.
        assert (await requests(commandstats), counts["publish"]) == ({"evalsha": 3}, 1)
        await lease.release()


async def requests(stats: CommandStats) -> dict[str, int]:
    """What was sent, without a manager's introduction of its scripts."""
    sent = await stats.sent()
    return {name: count for name, count in sent.items() if name != "script|load"}


async def test_behind_a_task_of_this_process(locks: LockManager, commandstats: CommandStats) -> None:
    async with locks.lock(NAME):
        await commandstats.reset()
        waiter = asyncio.ensure_future(locks.lock(NAME).acquire())
        await asyncio.sleep(0.1)
        assert await commandstats.sent() == {}
    lease = await waiter
    assert await requests(commandstats) == {"evalsha": 1}
    await lease.release()


@pytest.mark.parametrize(
    "ask",
    [
        lambda lock: lock.info(),
        lambda lock: lock.is_locked(),
        lambda lock: lock.force_release(),
        lambda lock: lock.request_release(),
    ],
    ids=["info", "is_locked", "force_release", "request_release"],
)
async def test_one_request(
    locks: LockManager, commandstats: CommandStats, ask: Callable[[Lock], Awaitable[object]]
) -> None:
    await commandstats.reset()
    await ask(locks.lock(NAME))
    assert await commandstats.sent() == {"evalsha": 1}


async def test_a_lease(locks: LockManager, commandstats: CommandStats) -> None:
    """Only renewing by hand asks the server."""
    async with locks.lock(NAME) as lease:
        await commandstats.reset()
        assert lease.remaining() > 0
        assert not lease.lost
        lease.ensure(1.0)
        assert await commandstats.sent() == {}
        await lease.renew()
        assert await commandstats.sent() == {"evalsha": 1}


async def test_trying(locks: LockManager, commandstats: CommandStats) -> None:
    lock = locks.lock(NAME)
    await commandstats.reset()
    async with lock.try_acquire() as lease:
        assert lease is not None
        assert await commandstats.sent() == {"evalsha": 1}
        other = await asyncio.create_task(attempt(lock))
        assert other is None
        assert await commandstats.sent() == {"evalsha": 1}


async def attempt(lock: Lock) -> object:
    return await lock.try_acquire()
