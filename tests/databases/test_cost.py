"""How often managers ask a database, alone and in a crowd."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

import pytest

from aiolock import LockManager

from .database import Database, exchanges


async def test_what_only_we_have_changed_takes_one_exchange(url: str) -> None:
    async with LockManager(url) as locks:
        lock = locks.lock("mine")
        async with lock:
            pass
        asked, stale = exchanges(locks)
        for _ in range(20):
            async with lock:
                pass
        assert exchanges(locks) == (asked + 40, stale)


async def test_what_another_has_changed_takes_two(url: str) -> None:
    async with LockManager(url) as one, LockManager(url) as two:
        fences = []
        for locks in (one, two, one, two):
            async with locks.lock("ours") as lease:
                fences.append(lease.fence)
        assert exchanges(one)[1] <= 2
    assert fences == sorted(set(fences))


@pytest.mark.parametrize("crowd", [5, 20])
async def test_what_many_ask_for_at_once(database: Database, crowd: int) -> None:
    """However many they are, each asks a few times: what it costs does not grow with their square. Kept by
    exchange_1: `crowd`.
    """
    async with contextlib.AsyncExitStack() as stack:
        with_patience: Any = {"liveness": 60, "request_timeout": 60, "ttl": 120}
        managers = [await stack.enter_async_context(LockManager(database.url, **with_patience)) for _ in range(crowd)]
        lease = await managers[0].lock("x").acquire()
        for manager in managers[1:]:  # none has to learn the time
            await (await manager.lock(f"mine {id(manager)}").acquire()).release()
        before = sum(exchanges(manager)[0] for manager in managers)
        waiters = [asyncio.create_task(manager.lock("x").acquire()) for manager in managers[1:]]
        await database.until_waiting("x", crowd - 1)
        assert sum(exchanges(manager)[0] for manager in managers) - before < 8 * crowd
        await lease.release()
        for waiter in asyncio.as_completed(waiters):
            await (await waiter).release()


@pytest.mark.slow
async def test_many_that_wait(url: str) -> None:
    """Each says now and then that it still waits, and reads what the others have written before: two exchanges. Kept by
    exchange_1: `crowd`, and GuessingEngine._ask: who is answered at once does not wait in step with the others.
    """
    async with contextlib.AsyncExitStack() as stack:
        managers = [await stack.enter_async_context(LockManager(url, liveness=1.5, ttl=60)) for _ in range(12)]
        lease = await managers[0].lock("x").acquire()
        waiters = [asyncio.create_task(manager.lock("x").acquire()) for manager in managers[1:]]

        def asked() -> tuple[int, int]:
            counts = [exchanges(manager) for manager in managers]
            return sum(count for count, _ in counts), sum(stale for _, stale in counts)

        async with asyncio.timeout(60):
            while asked()[0] < 100:  # noqa: ASYNC110 - nothing tells; all are in the queue
                await asyncio.sleep(0.05)
            before, late = asked()
            while (now := asked())[0] < before + 100:  # noqa: ASYNC110 - nothing tells
                await asyncio.sleep(0.05)
        assert now[0] - before <= 3 * (now[0] - before - (now[1] - late))
        await lease.release()
        for waiter in asyncio.as_completed(waiters):
            await (await waiter).release()


async def test_hundreds_of_names_at_once(url: str) -> None:
    """The server takes a lock for each name of an exchange, and has room for some thousands. Kept by TOGETHER."""
    async with LockManager(url, ttl=120, request_timeout=60) as locks:
        leases = await asyncio.gather(*(locks.lock(f"many:{n}").acquire() for n in range(500)))
        await asyncio.gather(*(lease.release() for lease in leases))
        assert exchanges(locks)[0] < 100
