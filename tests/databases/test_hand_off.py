"""What it takes to hand a lock on, and what waiting for one takes meanwhile."""

from __future__ import annotations

import asyncio
from typing import Any

from aiolock import Lease, LockManager

from .database import PATIENT, Database, exchanges


async def queued(database: Database, locks: LockManager) -> asyncio.Task[Lease]:
    """Wait for the lock that another manager has; return once the answer to that is there."""
    waiter = asyncio.create_task(locks.lock("x").acquire())
    await database.until_waiting("x")
    async with asyncio.timeout(10):
        while exchanges(locks)[0] < 2:  # noqa: ASYNC110 - nothing tells
            await asyncio.sleep(0.005)
    return waiter


async def test_a_hand_off(database: Database) -> None:
    """The release reads who waits, and passes the lock on; its message brings the rows, so whoever gets it asks once.
    Nobody asks while nothing happens. Kept by GuessingEngine.message.
    """
    async with LockManager(database.url, **PATIENT) as one, LockManager(database.url, **PATIENT) as two:
        lease = await one.lock("x").acquire()
        waiter = await queued(database, two)
        before = exchanges(one), exchanges(two)
        await asyncio.sleep(0.3)
        assert (exchanges(one), exchanges(two)) == before
        await lease.release()
        following = await asyncio.wait_for(waiter, 10)
        ((asked, _), (was_asked, was_stale)) = before
        assert exchanges(one)[0] == asked + 2
        assert exchanges(two) == (was_asked + 1, was_stale)
        await following.release()


async def test_whoever_has_handed_it_on_wants_it_again(database: Database) -> None:
    """And is faster than whom it has told, who must not ask twice for that. Kept by Plan.decide: `touched`."""
    async with LockManager(database.url, **PATIENT) as one, LockManager(database.url, **PATIENT) as two:
        lease = await one.lock("x").acquire()
        waiter = await queued(database, two)
        engine: Any = two._runtime.backend._engine  # type: ignore[attr-defined]
        exchange, joined = engine.exchange, asyncio.Event()

        async def later(*asked: Any) -> Any:
            await joined.wait()
            return await exchange(*asked)

        engine.exchange = later
        before = exchanges(two)
        await lease.release()
        again = asyncio.create_task(one.lock("x").acquire())
        await database.until_waiting("x")
        joined.set()
        following = await asyncio.wait_for(waiter, 10)
        assert exchanges(two) == (before[0] + 1, before[1])
        await following.release()
        await (await asyncio.wait_for(again, 10)).release()
