"""What the server runs for a lock, those commands included that scripts call."""

from __future__ import annotations

import asyncio

from .peers.adapter import Adapter
from .server_stats import ServerStats
from .turns import TTL


async def of_a_pair(library: Adapter, stats: ServerStats, name: str, pairs: int) -> float:
    """Commands of one acquire and release that nobody disturbs; the name was used before."""
    lock = library.lock(name, TTL)
    async with lock:
        pass
    await stats.reset()
    for _ in range(pairs):
        async with lock:
            pass
    return await stats.executed() / pairs


async def of_an_acquisition(library: Adapter, stats: ServerStats, name: str, tasks: int, each: int) -> float:
    """Commands of one entry and leave, where so many tasks of this process each want so many."""

    async def visitor(times: int) -> None:
        lock = library.lock(name, TTL)
        for _ in range(times):
            async with lock:
                await asyncio.sleep(0)

    await asyncio.gather(*(visitor(1) for _ in range(tasks)))  # the scripts are there
    await stats.reset()
    await asyncio.gather(*(visitor(each) for _ in range(tasks)))
    return await stats.executed() / (tasks * each)
