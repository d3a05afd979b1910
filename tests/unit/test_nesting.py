"""What nests in one task: two lock objects of one name do."""

from __future__ import annotations

import asyncio

import pytest

from aiolock import AcquireTimeout, LockManager
from aiolock.testing import MemoryBackend

from .world import SlowBackend


@pytest.mark.parametrize("kind", ["lock", "fair_lock"])
async def test_two_objects_of_one_name_nest(locks: LockManager, kind: str) -> None:
    async with getattr(locks, kind)("order:42") as outer, getattr(locks, kind)("order:42") as inner:
        assert inner.depth == 2
        assert inner.fence == outer.fence


async def test_a_semaphore_of_one_does_not(locks: LockManager) -> None:
    async with locks.semaphore("order:42", 1):
        with pytest.raises(AcquireTimeout):
            await locks.semaphore("order:42", 1).acquire(timeout=0)


async def test_a_writer_that_nests_while_another_task_downgrades_still_writes() -> None:
    """The downgrade is written after the nested request, whose lease does not exist yet. Kept by Hold.nesting."""
    backend = SlowBackend()
    async with LockManager(backend) as locks, LockManager(MemoryBackend(backend)) as others:
        here, there = locks.rw_lock("catalogue"), others.rw_lock("catalogue")
        writing, reading = await here.write.acquire(), await here.read.acquire()
        nested = asyncio.create_task(here.write.acquire(owner=writing.owner))
        while writing.depth < 3:  # noqa: ASYNC110 - the turns of a loop, no time
            await asyncio.sleep(0)
        await writing.release()
        lease = await nested
        assert await there.read.try_acquire() is None
        info = await there.info()
        assert info is not None
        assert info.writing
        await lease.release()
        async with there.read.try_acquire() as beside:
            assert beside is not None
        await reading.release()
