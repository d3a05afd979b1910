"""A grant that is told past its deadline: the loop stood still, and the server has passed it on meanwhile."""

from __future__ import annotations

import asyncio

from aiolock import LockManager
from aiolock.testing import MemoryBackend

LATE = 2.8
"""Seconds: past the deadline of a grant that lasts for the liveness of 3 s, and the place still counts as alive."""


async def test_the_place_is_kept(aiolock_memory: MemoryBackend) -> None:
    """It asks the server, and ends nothing: a release in between would go past it. Kept by Place.told."""
    clock = aiolock_memory.clock
    async with LockManager(aiolock_memory) as locks:
        lock = locks.fair_lock("a")
        lease = await lock.acquire()
        waiter = asyncio.create_task(lock.acquire())
        await clock.advance(0)
        (place,) = locks._runtime.places.values()
        clock.jump(LATE)
        locks._runtime.on_manager_message(f"granted {place.owner} {place._serial + 10**9} 99 3000 0 1")
        await clock.advance(0)
        assert list(locks._runtime.places.values()) == [place]
        assert not waiter.done()
        await lease.release()
        await (await waiter).release()
