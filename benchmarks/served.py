"""What the server runs for a lock, including the commands that scripts call."""

from __future__ import annotations

import asyncio

from .peers.adapter import Adapter
from .server_stats import ServerStats
from .turns import TTL


async def of_a_pair(library: Adapter, stats: ServerStats, name: str, pairs: int) -> float:
    """Commands of one undisturbed acquire and release on a name that was used before."""
    lock = library.lock(name, TTL)
    async with lock:
        pass
    await stats.reset()
    for _ in range(pairs):
        async with lock:
            pass
    return await stats.executed() / pairs


async def of_an_acquisition(library: Adapter, stats: ServerStats, name: str, tasks: int, each: int) -> float:
    """Commands per entry and leave, where this many tasks of this process enter this often each."""

    async def visitor(times: int) -> None:
        lock = library.lock(name, TTL)
        for _ in range(times):
            async with lock:
                await asyncio.sleep(0)

    await asyncio.gather(*(visitor(1) for _ in range(tasks)))  # now the server has the scripts
    await stats.reset()
    await asyncio.gather(*(visitor(each) for _ in range(tasks)))
    return await stats.executed() / (tasks * each)
