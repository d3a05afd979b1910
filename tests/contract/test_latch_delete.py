"""Deleting a latch, on every backend that offers it."""

from __future__ import annotations

import asyncio

import pytest

from aiolock import BackendError, LockManager
from aiolock.testing import MemoryBackend
from tests.unit.world import SlowBackend, settle

from .places import Place, keys_of, until

NAME = "import:7"
KEY = keys_of(NAME, "latch").lock


async def test_its_name_then_means_a_fresh_latch_with_its_own_count(
    locks: LockManager, others: LockManager, place: Place
) -> None:
    """Whether it was open or not; a client that counted before counts again."""
    here, there = locks.latch(NAME, 2), others.latch(NAME, 3)
    for counts in (1, 2):
        for number in range(counts):
            await here.count_down(by=f"shard {number}")
        assert await there.delete()
        assert place.keys() == set()
    assert await there.count_down(by="shard 0") == 2
    assert await there.delete()


async def test_there_is_none(locks: LockManager, place: Place) -> None:
    latch = locks.latch(NAME, 2)
    assert not await latch.delete()
    await latch.count_down()
    assert await latch.delete()
    assert not await latch.delete()
    assert place.keys() == set()


async def test_a_waiter_continues_to_wait_for_the_fresh_one(
    locks: LockManager, others: LockManager, place: Place
) -> None:
    """As after an expiry."""
    here, there = locks.latch(NAME, 2), others.latch(NAME, 2)
    await there.count_down(by="shard 0")
    task = asyncio.create_task(here.wait(timeout=10.0))
    await until(lambda: place.listeners(NAME, "latch"))
    assert await there.delete()
    assert await there.count_down(by="shard 0") == 1
    assert not task.done()
    assert await there.count_down(by="shard 1") == 0
    await task


async def test_a_deletion_that_died_unanswered_is_not_repeated() -> None:
    """It would delete a latch that was made since. Kept by LatchCalls.delete: it says nothing of `unanswered`."""
    backend = SlowBackend(turns=20)
    async with LockManager(backend) as locks, LockManager(MemoryBackend(backend)) as others:
        latch = locks.latch(NAME, 2)
        await latch.count_down()
        deleting = asyncio.create_task(latch.delete())
        while backend.store.exists(KEY):  # noqa: ASYNC110 - the turns of a loop, no time
            await asyncio.sleep(0)
        assert await others.latch(NAME, 2).count_down() == 1
        backend.die("reply")
        await settle(backend)
        with pytest.raises(BackendError):
            await deleting
        assert await latch.count() == 1
