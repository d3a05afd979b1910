"""The clock of a server is set: no lease ends later here than there."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from aiolock import LockLost, LockManager

from .database import Database


@pytest.mark.parametrize("direction", [-3600.0, -0.3, 0.3, 3600.0])
async def test_the_servers_clock_is_set(url: str, direction: float) -> None:
    """What is known of it is wrong then. A lease ends no later here than there. Kept by exchange_1: `used`, and
    GuessingEngine: `sent_at`.
    """
    async with LockManager(url, ttl=30) as locks:
        async with locks.lock("x"):
            pass
        engine: Any = locks._runtime.backend._engine  # type: ignore[attr-defined]
        engine._time._server_us -= int(direction * 1e6)  # as if it was set after the last answer
        lease = await locks.lock("x").acquire()
        assert lease.remaining() <= 27
        if direction == 0.3:
            assert lease.remaining() <= 26.7
        await lease.release()


@pytest.fixture
def stepped(database: Database) -> Database:
    """What it runs sees a clock that a test can set."""
    database.run("CREATE TABLE stepped(hours int)")
    database.run("INSERT INTO stepped VALUES(0)")
    database.equip(clock=f"({database.clock} + {database.stepped})")
    return database


async def test_the_servers_clock_is_set_forward_while_a_lease_runs(stepped: Database) -> None:
    """It ends early, and whoever holds it is told. Kept by ServerTime.learn."""
    async with LockManager(stepped.url, ttl=60) as one, LockManager(stepped.url) as two:
        async with two.lock("y"):
            pass  # it knows the time
        lease = await one.lock("x").acquire()
        stepped.run("UPDATE stepped SET hours = 1")
        async with two.lock("x").acquire(timeout=10) as later:
            assert later.fence > lease.fence
            with pytest.raises(LockLost):
                await lease.renew()


async def test_the_servers_clock_is_set_back_while_a_lease_runs(stepped: Database) -> None:
    """Nobody gets in before its time is over here, a waiter is told of the release, and fences rise. Kept by
    ServerTime.learn.
    """
    async with LockManager(stepped.url) as one, LockManager(stepped.url) as two:
        lease = await one.lock("x").acquire()
        stepped.run("UPDATE stepped SET hours = -1")
        waiter = asyncio.create_task(two.lock("x").acquire())
        await stepped.until_waiting("x")
        await lease.renew()
        await lease.release()
        later = await asyncio.wait_for(waiter, 10)
        assert later.fence > lease.fence
        await later.release()
