"""A writer that also reads: what the server knows of it, and reports."""

from __future__ import annotations

import asyncio

import pytest

from aiolock import LockLost, LockManager, LossReason, NotAcquired, RWLock

from .places import Place

NAME = "catalogue"


@pytest.fixture
def here(locks: LockManager) -> RWLock:
    return locks.rw_lock(NAME)


@pytest.fixture
def there(others: LockManager) -> RWLock:
    return others.rw_lock(NAME)


async def seen(lock: RWLock) -> tuple[bool, int] | None:
    info = await lock.info()
    return None if info is None else (info.writing, info.readers)


async def test_info_counts_the_writer_among_the_readers_while_it_reads(here: RWLock, there: RWLock) -> None:
    """It counts once, however often it reads, until its last read lease ends. Kept by calls.joint and decide()."""
    async with here.write:
        assert await seen(there) == (True, 0)
        async with here.read, here.write:
            assert await seen(there) == (True, 1)
            async with here.read:
                assert await seen(there) == (True, 1)
            assert await seen(there) == (True, 1)
        assert await seen(there) == (True, 0)
        assert await there.read.try_acquire() is None
    assert await seen(there) is None


async def test_a_downgrade_leaves_a_reader(here: RWLock, there: RWLock) -> None:
    writing = await here.write.acquire()
    outer, inner = await here.read.acquire(), await here.read.acquire()
    await writing.release()
    assert await seen(there) == (False, 1)
    async with there.read:
        assert await seen(there) == (False, 2)
        with pytest.raises(NotAcquired):
            await here.write.acquire()
        await inner.release()
        assert await seen(there) == (False, 2)
    await outer.release()
    assert await seen(there) is None


async def test_a_read_lease_that_outlives_two_write_leases(here: RWLock, there: RWLock) -> None:
    leases = [await here.write.acquire(), await here.write.acquire(), await here.read.acquire()]
    await leases[1].release()
    assert await seen(there) == (True, 1)
    await leases[0].release()
    assert await seen(there) == (False, 1)
    await leases[2].release()
    assert await seen(there) is None


async def test_a_child_task_that_shares_the_writers_hold_reads_with_it(here: RWLock, there: RWLock) -> None:
    async with here.write as lease:

        async def read() -> None:
            async with here.read.acquire(owner=lease.owner):
                assert await seen(there) == (True, 1)

        await asyncio.create_task(read())
        assert await seen(there) == (True, 0)


async def test_a_writer_that_reads_and_whose_key_is_gone_is_told_that_it_is_gone(here: RWLock, place: Place) -> None:
    """It is not told that another owner took it. Kept by `gone`: nothing is held, so no one took it."""
    writing = await here.write.acquire()
    reading = await here.read.acquire()
    place.side.flush()
    with pytest.raises(LockLost):
        await writing.renew()
    assert writing.reason is reading.reason is LossReason.DELETED
    for lease in (reading, writing):
        with pytest.raises(LockLost):
            await lease.release()


@pytest.mark.not_in_queues("there are no tickets")
async def test_a_writer_that_read_moves_as_a_writer(here: RWLock, there: RWLock, others: LockManager) -> None:
    writing = await here.write.acquire()
    async with here.read:
        pass
    moved = await others.resume(await writing.detach())
    assert await seen(here) == (True, 0)
    await there.write.release()
    assert moved.released
    assert await seen(here) is None
