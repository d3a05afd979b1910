"""A lock whose holder was killed."""

from __future__ import annotations

import asyncio

from redis.asyncio import Redis

from .crew import crew
from .peers.adapter import opened

LOOK = 0.01
MARK = "benchmarks:taken:{}"


async def orphan(url: str, adapter: str, name: str, ttl: float) -> None:
    """Have a process acquire the lock, and kill it while it holds the lock."""
    async with Redis.from_url(url) as raw:
        with crew(1) as (holder,):
            holder.send("benchmarks.orphan:take", url=url, adapter=adapter, name=name, ttl=ttl)
            async with asyncio.timeout(60):
                while not await raw.delete(MARK.format(name)):  # noqa: ASYNC110 - another process makes it
                    await asyncio.sleep(LOOK)


async def take(url: str, adapter: str, name: str, ttl: float) -> None:
    """Acquire the lock, say so, and keep it: runs in a process that is killed next."""
    async with opened(adapter, url) as library, library.lock(name, ttl), Redis.from_url(url) as raw:
        await raw.set(MARK.format(name), 1)
        await asyncio.Event().wait()
