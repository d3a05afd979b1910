"""Asking all holders of a semaphore or a read-write lock to finish."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from typing import Any

import pytest

from aiolock import ConfigurationError, Lease, LockManager, Semaphore
from aiolock.primitives.revocation import AT_ONCE

from .places import Place

NAME = "order:42"
ENOUGH = 10.0

pytestmark = pytest.mark.not_polling("a manager that polls hears no messages")


async def test_all_holders_of_a_semaphore_are_asked(locks: LockManager, others: LockManager) -> None:
    """Whatever their processes; those that come later are not. Kept by request_release.lua."""
    pool = locks.semaphore(NAME, 5)
    assert await pool.request_release()
    async with asyncio.timeout(ENOUGH):
        async with pool, others.semaphore(NAME, 5).acquire(2) as other:
            asking = asyncio.ensure_future(pool.request_release(grace=60.0))
            await other.wait_wanted()
            late = await pool.acquire()
            assert not asking.done()
        assert await asking
        assert not late.wanted
        await late.release()


async def test_readers_and_writers_are_asked(locks: LockManager, others: LockManager) -> None:
    """Either side, and the lock itself, ask all."""
    here, there = locks.rw_lock(NAME), others.rw_lock(NAME)
    async with asyncio.timeout(ENOUGH):
        async with here.read as mine, there.read as its:
            assert not await there.request_release()
            await mine.wait_wanted()
            await its.wait_wanted()
        async with here.write as lease:
            assert not await there.read.request_release(grace=0.02)
            await lease.wait_wanted()
        assert await there.write.request_release()


async def test_a_message_that_was_lost_is_sent_again(locks: LockManager, others: LockManager) -> None:
    """Only to those that still hold. Kept by `request_release`: it asks again while it waits."""
    async with asyncio.timeout(ENOUGH), locks.semaphore(NAME, 2) as lease:
        asking = asyncio.ensure_future(others.semaphore(NAME, 2).request_release(grace=60.0))
        await lease.wait_wanted()
        lease._hold.wanted = False  # as if the message had not come
        await lease.wait_wanted()
        asking.cancel()


@pytest.mark.parametrize("place", ["memory", "redis"], indirect=True)
async def test_more_holders_than_one_request_looks_at(locks: LockManager, place: Place) -> None:
    """Kept by the loop over `parts`."""
    pool = locks.semaphore(NAME, 600)
    async with AsyncExitStack() as stack:
        leases = [await stack.enter_async_context(pool.acquire()) for _ in range(520)]
        assert not await pool.request_release(grace=0.05)
        async with asyncio.timeout(ENOUGH):
            await asyncio.gather(*(lease.wait_wanted() for lease in leases))
    assert await pool.request_release()


@pytest.mark.parametrize("place", ["memory", "redis"], indirect=True)
async def test_holders_that_leave_while_the_others_are_asked(
    locks: LockManager, others: LockManager, place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody is passed over, and True means that all have ended. Kept by request_release.lua: it tells all who hold."""
    pool, ask = others.semaphore(NAME, 600), Semaphore._ask
    ended: list[Lease] = []
    left = asyncio.Event()

    async def hold(lease: Lease) -> None:
        async with lease:
            await lease.wait_wanted()
        ended.append(lease)
        if len(ended) >= AT_ONCE:
            left.set()

    async def see_them_leave(*args: Any) -> Any:
        answer = await ask(*args)
        await left.wait()
        return answer

    monkeypatch.setattr(Semaphore, "_ask", see_them_leave)
    async with asyncio.timeout(ENOUGH), asyncio.TaskGroup() as group:
        for _ in range(520):
            group.create_task(hold(await locks.semaphore(NAME, 600).acquire()))
        assert await pool.request_release(grace=60.0)
        assert await pool.used() == 0


async def test_what_cannot_be(locks: LockManager) -> None:
    with pytest.raises(ConfigurationError, match="grace"):
        await locks.semaphore(NAME, 1).request_release(-1.0)
    elsewhere = LockManager("etcd://localhost")
    with pytest.raises(ConfigurationError, match="requests to all holders"):
        await elsewhere.rw_lock(NAME).request_release()
