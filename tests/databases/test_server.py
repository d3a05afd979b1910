"""The server ends, stands still, or its answer is lost: no lease is lost that lasts, and none outlives its time."""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import Iterator
from typing import Any

import pytest

from aiolock import AcquireTimeout, BackendError, Lease, LockLost, LockManager
from tests.support.proxy import FaultProxy

from .database import Database, OwnServer


@pytest.fixture(scope="module")
def server(product: type[Database]) -> Iterator[OwnServer]:
    server = product.server()
    yield server
    server.close()


async def until_it_answers(locks: LockManager) -> None:
    """Return once the manager has found that it can be used again."""
    async with asyncio.timeout(30):
        while locks._runtime.backend.unreachable:  # type: ignore[attr-defined]  # noqa: ASYNC110 - nothing tells
            await asyncio.sleep(0.01)


async def acquired(locks: LockManager) -> Lease:
    """Acquire a lock. A first attempt that nobody answers ends with an error, and is undone."""
    async with asyncio.timeout(20):
        while True:
            try:
                return await locks.lock("x").acquire(timeout=10)
            except BackendError:
                await until_it_answers(locks)


async def until_it_is_lost(lease: Lease) -> None:
    while not lease.lost:  # noqa: ASYNC110 - the deadline, not an event
        await asyncio.sleep(0.01)


@pytest.mark.slow
async def test_it_is_restarted(product: type[Database], server: OwnServer) -> None:
    """A long lease lives, a short one is lost in time, a waiter goes on, and fences rise."""
    async with LockManager(server.url, ttl=60) as one, LockManager(server.url, ttl=60) as two:
        long = await one.lock("long").acquire()
        waiter = asyncio.create_task(two.lock("long").acquire())
        await product(server.url).until_waiting("long")
        short = await one.lock("short", ttl=1.0).acquire()
        with server.away():
            lost = time.monotonic()
            await until_it_is_lost(short)
            assert time.monotonic() - lost < 5
        with pytest.raises(LockLost):
            await short.release()
        await until_it_answers(two)
        async with two.lock("short").acquire(timeout=30) as next_one:
            assert next_one.fence > short.fence
        assert not long.lost
        await long.release()
        lease = await asyncio.wait_for(waiter, 30)
        assert lease.fence > long.fence
        await lease.release()


async def test_nothing_listens_there(product: type[Database]) -> None:
    """The error says so in words of ours, and what to look at: the system's reason alone does not name the server."""
    with socket.socket() as bound:  # takes the port, and no connections
        bound.bind(("127.0.0.1", 0))
        port = bound.getsockname()[1]
        why = rf":{port}/app: {product.called} cannot be reached: .*\(.*({port}|refused|failed).*\)"
        with pytest.raises(BackendError, match=why) as caught:
            await LockManager(f"{product.scheme}://127.0.0.1:{port}/app").open()
    assert caught.value.transient


@pytest.mark.slow
async def test_it_stands_still(server: OwnServer) -> None:
    """A lease whose time is over meanwhile is lost, says its holder, before the server says so to anybody."""
    async with LockManager(server.url, ttl=1.5, request_timeout=1.0) as one, LockManager(server.url) as two:
        lease = await one.lock("x").acquire()
        waiter = asyncio.create_task(two.lock("x").acquire())
        with server.frozen():
            await until_it_is_lost(lease)
        following = await asyncio.wait_for(waiter, 30)
        assert following.fence > lease.fence
        with pytest.raises(LockLost):
            await lease.release()
        await following.release()


@pytest.fixture
def losing(product: type[Database], monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The numbers of exchanges, counted from now, whose answers are lost: the server has committed."""
    numbers: list[int] = []
    ask = product.engines.ask
    seen = 0

    async def lossy(self: Any, session: Any, *asked: Any) -> Any:
        nonlocal seen
        answer = await ask(self, session, *asked)
        if numbers:
            seen += 1
            if seen in numbers:
                session.end()
                raise product.gone
        return answer

    monkeypatch.setattr(product.engines, "ask", lossy)
    return numbers


@pytest.mark.parametrize("number", range(1, 8))
async def test_an_answer_is_lost(database: Database, losing: list[int], number: int) -> None:
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
    assert database.run(f"SELECT * FROM {database.locks}") == []


async def test_a_hand_off_whose_answer_is_lost(database: Database, losing: list[int]) -> None:
    async with LockManager(database.url) as one, LockManager(database.url) as two:
        lease = await one.lock("x").acquire()
        waiter = asyncio.create_task(two.lock("x").acquire())
        await database.until_waiting("x")
        losing.append(1)
        await lease.release()
        following = await asyncio.wait_for(waiter, 10)
        assert following.fence > lease.fence
        assert not following.lost
        await following.release()
    assert database.run(f"SELECT * FROM {database.locks}") == []


@pytest.mark.parametrize("action", ["cut", pytest.param("lose_reply", marks=pytest.mark.slow)])
async def test_the_network_loses_an_answer(database: Database, action: str) -> None:
    """The server has committed. Kept by Unavailable: `ran`."""
    async with FaultProxy(*database.where, framing=database.framing) as proxy:
        behind = database.behind(proxy.port)
        patience = 2.0 if action == "lose_reply" else 10.0  # for an answer that does not come
        async with LockManager(behind, request_timeout=patience) as one, LockManager(database.url) as two:
            async with one.lock("x") as before:
                pass
            rule = getattr(proxy, action)(matching=database.writes)
            lease = await acquired(one)
            assert rule.frames
            assert lease.fence > before.fence
            with pytest.raises(AcquireTimeout):
                await two.lock("x").acquire(timeout=0)
            rule = getattr(proxy, action)(matching=database.writes)
            await lease.release()
            async with two.lock("x").acquire(timeout=10) as following:
                assert following.fence > lease.fence
            assert rule.frames
