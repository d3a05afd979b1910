"""The cost table of quorum.md: the rows that it marks, counted on real servers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack

import pytest

from aiolock import Lock, LockManager
from tests.support import redis_cli
from tests.support.redis_cli import CommandStats

from .world import NAME


class Costs:
    """What all nodes together received."""

    def __init__(self, stats: list[CommandStats]) -> None:
        self._stats = stats

    async def reset(self) -> None:
        """Start counting, once the nodes that were not waited for are done, too."""
        await self.each()
        for stats in self._stats:
            await stats.reset()

    async def each(self) -> list[int]:
        """Return how many scripts ran on each node, once the count is stable."""
        before: list[int] = []
        while (found := [(await stats.sent())["evalsha"] for stats in self._stats]) != before:
            before = found
            await asyncio.sleep(0.15)
        return found


@pytest.fixture
async def costs(three_urls: list[str]) -> AsyncIterator[Costs]:
    async with AsyncExitStack() as stack:
        clients = [redis_cli.async_client(url) for url in three_urls]
        for client in clients:
            stack.push_async_callback(client.aclose)
        costs = Costs([CommandStats(client) for client in clients])
        yield costs


@pytest.fixture
async def lock(three_urls: list[str]) -> AsyncIterator[Lock]:
    """A manager whose scripts all servers know."""
    async with LockManager.quorum(three_urls, ttl=60.0) as manager:
        lock = manager.lock("warm")
        for _ in range(4):  # until each node was told a fence
            async with lock as lease:
                await lease.renew()
                await lock.info()
        await lock.force_release()
        yield manager.lock(NAME)


async def test_a_free_lock(lock: Lock, costs: Costs) -> None:
    """Broken by any request more than the acquires, the confirmations and the releases."""
    await costs.reset()
    async with lock:
        pass
    each = await costs.each()
    assert all(2 <= count <= 3 for count in each)
    assert 6 <= sum(each) <= 8  # the node that minted the greatest fence need not be told


async def test_nested(lock: Lock, costs: Costs) -> None:
    async with lock:
        await costs.reset()
        async with lock:
            pass
        assert await costs.each() == [2, 2, 2]


@pytest.mark.parametrize("ask", [lambda lock: lock.info(), lambda lock: lock.force_release()])
async def test_one_request(lock: Lock, costs: Costs, ask: Callable[[Lock], Awaitable[object]]) -> None:
    await costs.reset()
    await ask(lock)
    assert await costs.each() == [1, 1, 1]


async def test_a_renewal(lock: Lock, costs: Costs) -> None:
    async with lock as lease:
        await costs.reset()
        await lease.renew()
        assert await costs.each() == [1, 1, 1]
