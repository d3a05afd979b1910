"""A grant that arrives past its deadline: the loop stood still, and the server has meanwhile granted to another."""

from __future__ import annotations

import asyncio

from aiolock import LockManager
from aiolock.core.manager_channel import ManagerChannel
from aiolock.testing import MemoryBackend, VirtualClock

LATE = 2.8
"""Seconds: past the deadline of a grant that lasts for the liveness of 3 s, while the waiter still counts as alive."""


async def test_the_entry_is_kept(aiolock_memory: MemoryBackend, aiolock_clock: VirtualClock) -> None:
    """It asks the server, and ends nothing: a release in between would go past it. Kept by QueueEntry.told."""
    clock = aiolock_clock
    async with LockManager(aiolock_memory) as locks:
        lock = locks.fair_lock("a")
        lease = await lock.acquire()
        waiter = asyncio.create_task(lock.acquire())
        await clock.advance(0)
        (entry,) = locks._runtime.queue_entries.values()
        clock.jump(LATE)
        ManagerChannel(locks._runtime).on_message(f"granted {entry.owner} {entry.waits().serial + 10**9} 99 3000 0 1")
        await clock.advance(0)
        assert list(locks._runtime.queue_entries.values()) == [entry]
        assert not waiter.done()
        await lease.release()
        await (await waiter).release()
