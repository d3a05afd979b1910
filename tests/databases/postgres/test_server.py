"""The server ends, stands still, or its answer is lost: no lease is lost that lasts, and none outlives its time."""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import Iterator
from typing import Any

import asyncpg
import pytest

from aiolock import BackendError, LockLost, LockManager
from tests.support.postgres import OwnServer

from .database import PostgresDatabase


@pytest.fixture(scope="module")
def server() -> Iterator[OwnServer]:
    server = OwnServer()
    yield server
    server.close()


@pytest.mark.slow
async def test_it_is_restarted(server: OwnServer) -> None:
    """A long lease lives, a short one is lost in time, a waiter goes on, and fences rise."""
    async with LockManager(server.url, ttl=60) as one, LockManager(server.url, ttl=60) as two:
        long = await one.lock("long").acquire()
        waiter = asyncio.create_task(two.lock("long").acquire())
        short = await one.lock("short", ttl=1.0).acquire()
        with server.away():
            lost = time.monotonic()
            while not short.lost:  # noqa: ASYNC110 - the deadline, not an event
                await asyncio.sleep(0.01)
            assert time.monotonic() - lost < 5
        with pytest.raises(LockLost):
            await short.release()
        async with two.lock("short").acquire(timeout=30) as next_one:
            assert next_one.fence > short.fence
        assert not long.lost
        await long.release()
        lease = await asyncio.wait_for(waiter, 30)
        assert lease.fence > long.fence
        await lease.release()


async def test_nothing_listens_there() -> None:
    """The error says so in words of ours, and what to look at: the system's reason alone does not name PostgreSQL."""
    with socket.socket() as bound:  # takes the port, and no connections
        bound.bind(("127.0.0.1", 0))
        port = bound.getsockname()[1]
        with pytest.raises(
            BackendError, match=rf":{port}/app: PostgreSQL cannot be reached: .*\(.*{port}.*\)"
        ) as caught:
            await LockManager(f"postgresql://127.0.0.1:{port}/app").open()
    assert caught.value.transient


@pytest.mark.slow
async def test_it_stands_still(server: OwnServer) -> None:
    """A lease whose time is over meanwhile is lost, says its holder, before the server says so to anybody."""
    async with LockManager(server.url, ttl=1.5, request_timeout=1.0) as one, LockManager(server.url) as two:
        lease = await one.lock("x").acquire()
        waiter = asyncio.create_task(two.lock("x").acquire())
        with server.frozen():
            while not lease.lost:  # noqa: ASYNC110 - the deadline, not an event
                await asyncio.sleep(0.01)
        following = await asyncio.wait_for(waiter, 30)
        assert following.fence > lease.fence
        with pytest.raises(LockLost):
            await lease.release()
        await following.release()


@pytest.fixture
def losing(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The numbers of exchanges, counted from now, whose answers are lost: the server has committed."""
    numbers: list[int] = []
    fetch = asyncpg.Connection.fetch
    seen = 0

    async def lossy(self: Any, query: str, *values: Any, **options: Any) -> Any:
        nonlocal seen
        answer = await fetch(self, query, *values, **options)
        if "exchange_1" in query and numbers:
            seen += 1
            if seen in numbers:
                self.terminate()
                raise asyncpg.ConnectionDoesNotExistError("connection was closed in the middle of operation")
        return answer

    monkeypatch.setattr(asyncpg.Connection, "fetch", lossy)
    return numbers


@pytest.mark.parametrize("number", range(1, 8))
async def test_an_answer_is_lost(database: PostgresDatabase, losing: list[int], number: int) -> None:
    """What was committed is done once. Kept by Unavailable: `ran`, and `lost`."""
    async with LockManager(database.url) as one, LockManager(database.url) as two:
        async with one.lock("x"):
            pass
        losing.append(number)
        fences = []
        for locks in (one, two, one):
            async with locks.lock("x").acquire(timeout=10) as lease:
                fences.append(lease.fence)
                async with locks.lock("x").acquire() as inner:
                    assert inner.fence == lease.fence
        assert fences == sorted(set(fences))
    assert database.run("SELECT * FROM aiolock.locks") == []


async def test_a_hand_off_whose_answer_is_lost(database: PostgresDatabase, losing: list[int]) -> None:
    async with LockManager(database.url) as one, LockManager(database.url) as two:
        lease = await one.lock("x").acquire()
        waiter = asyncio.create_task(two.lock("x").acquire())
        await database.until_one_waits("x")
        losing.append(1)
        await lease.release()
        following = await asyncio.wait_for(waiter, 10)
        assert following.fence > lease.fence
        assert not following.lost
        await following.release()
    assert database.run("SELECT * FROM aiolock.locks") == []
