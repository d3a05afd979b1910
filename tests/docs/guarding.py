"""Preludes of the pages about writes that a resource refuses."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import redis.asyncio

from aiolock import LockManager
from aiolock.recipes import guard

Namespace = dict[str, Any]


@asynccontextmanager
async def guarded(url: str) -> AsyncIterator[Namespace]:
    """A manager and a client of the same server, which has ten items of sku 7, for a block that writes."""
    async with LockManager(url) as locks, redis.asyncio.from_url(url) as own:
        await own.set("stock:7", 10)
        client = redis.asyncio.from_url(url)
        namespace = {"locks": locks, "client": client, "guard": guard}
        yield namespace
        for each in {client, namespace["client"]}:
            await each.aclose()
        assert len(await own.keys("*")) > 3  # the lock, its last write, and what was written
        assert not await locks.lock("order:42").is_locked()
