"""A graceful shutdown that cancels every other task, and then runs on inside a guarded block."""

from __future__ import annotations

import asyncio

import pytest

from aiolock import AcquireTimeout, LockManager
from aiolock.testing.server import RedisServer

TTL = 2.0
"""Seconds: a third of it is waited for."""


async def cancel_all_others() -> None:
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)


async def go_on(locks: LockManager, elsewhere: LockManager) -> None:
    """Renewals, time limits, waiting and releasing work as before."""
    async with elsewhere.lock("kept", ttl=30.0) as kept, locks.lock("mine") as mine:
        await cancel_all_others()
        before, expiry = mine.fence, mine._hold.expiry
        async with asyncio.timeout(5):
            while mine._hold.expiry == expiry:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
            assert not mine.lost
            with pytest.raises(AcquireTimeout):
                await locks.lock("kept").acquire(timeout=0.02)
            waiter = asyncio.create_task(_hold_once(locks))
            await kept.release()
            await waiter
        assert mine.fence == before


async def _hold_once(locks: LockManager) -> None:
    async with locks.lock("kept"):
        pass


async def test_one_server(redis_url: str) -> None:
    async with LockManager(redis_url, ttl=TTL) as locks, LockManager(redis_url) as elsewhere:
        await go_on(locks, elsewhere)
        assert not await elsewhere.lock("mine").is_locked()


async def test_a_quorum(three_servers: list[RedisServer], three_urls: list[str]) -> None:
    async with LockManager.quorum(three_urls, ttl=TTL) as locks, LockManager.quorum(three_urls) as elsewhere:
        await go_on(locks, elsewhere)
        assert not await elsewhere.lock("mine").is_locked()
