"""Redisson's read-write lock: many readers or one writer, between managers of ours and readers that Java left."""

# ruff: noqa: PT012 - what raises is the whole guarded block

from __future__ import annotations

import asyncio

import pytest

from aiolock import AcquireTimeout, LockLost, LockManager, NotAcquired, NotOwned
from aiolock.redisson import Redisson, RReadWriteLock
from aiolock.scripts.bid import Bid
from aiolock.scripts.redisson.rw import RWCalls

from .places import Place, renewed, revoked, until

NAME = "order:42"
CHANNEL = f"redisson_rwlock:{{{NAME}}}"
ENOUGH = 5.0
"""Far longer than anything here needs, far shorter than any ttl that could help instead."""


@pytest.fixture
def here(locks: LockManager) -> RReadWriteLock:
    return Redisson(locks).rw_lock(NAME, ttl=60.0)


@pytest.fixture
def there(others: LockManager) -> RReadWriteLock:
    return Redisson(others).rw_lock(NAME)


def refused(rw: RReadWriteLock, count: int) -> bool:
    """So many of its tasks have been refused, and wait."""
    entries = rw.read._gate().entries
    return len(entries) == count and all(entry.refused for entry in entries)


async def test_readers_share_and_writers_do_not(here: RReadWriteLock, there: RReadWriteLock, place: Place) -> None:
    async with here.read, there.read, here.read:
        assert await there.info() is not None
        with pytest.raises(AcquireTimeout):
            await asyncio.create_task(_enter(there.write.acquire(timeout=0.01)))
    async with there.write:
        assert await here.read.try_acquire() is None
        assert await here.write.try_acquire() is None
        info = await here.info()
        assert info is not None
        assert (info.writing, info.readers) == (True, 0)
    assert place.keys() == set()
    assert not await here.is_locked()


async def _enter(acquiring: object) -> None:
    async with acquiring:  # type: ignore[attr-defined]
        pass


async def test_all_that_wait_are_let_in(here: RReadWriteLock, there: RReadWriteLock, place: Place) -> None:
    """Each task of a process asks by itself, when one message comes. Kept by Race.signal: `entries`."""
    writing = await there.write.acquire()
    inside = asyncio.Barrier(4)

    async def read() -> None:
        async with here.read:
            await inside.wait()

    readers = [asyncio.create_task(read()) for _ in range(3)]
    await until(lambda: refused(here, 3))
    await writing.release()
    async with asyncio.timeout(ENOUGH):
        await inside.wait()
        await asyncio.gather(*readers)
    assert place.keys() == set()


async def test_a_writer_goes_on_reading(here: RReadWriteLock, there: RReadWriteLock, place: Place) -> None:
    """And lets other readers in at once."""
    writing = await here.write.acquire()
    reading = await here.read.acquire()
    waiter = asyncio.ensure_future(there.read.acquire())
    await until(lambda: refused(there, 1))
    await writing.release()
    other = await asyncio.wait_for(waiter, ENOUGH)
    await renewed(reading)
    await other.release()
    await reading.release()
    assert place.keys() == set()


async def test_a_reader_does_not_wait_for_itself(here: RReadWriteLock) -> None:
    async with here.read:
        with pytest.raises(NotAcquired, match="held for reading by this owner"):
            await here.write.acquire()
        with pytest.raises(NotOwned, match="only one to read"):
            await here.write.release()


async def test_both_are_renewed(here: RReadWriteLock, place: Place) -> None:
    """The hash, and a reader's timeout. Kept by rw_renew.lua."""
    for side in (here.read, here.write):
        async with side as lease:
            for key in sorted(place.keys()):
                place.side.shorten(key, 30_000)
            await renewed(lease)
            assert all(place.side.pttl(key) > 50_000 for key in sorted(place.keys()))


@revoked
@pytest.mark.parametrize("writes", [False, True])
async def test_an_end_by_force_is_heard(here: RReadWriteLock, place: Place, writes: bool) -> None:
    """Kept by `watches` of its contention."""
    with pytest.raises(LockLost):
        async with asyncio.timeout(ENOUGH), here.write if writes else here.read:
            place.side.run(RWCalls(NAME, 1).force_release())
            await asyncio.Event().wait()
    assert place.keys() == set()


def test_what_it_is_called(locks: LockManager) -> None:
    """Never as our own. Kept by TwoSides.__repr__, and that of a side."""
    rw = Redisson(locks).rw_lock(NAME, ttl=60.0)
    assert [repr(rw), repr(rw.read), repr(rw.write)] == [
        f"<RReadWriteLock {NAME!r} {words}>" for words in ("ttl=60", "read ttl=60", "write ttl=60")
    ]
    assert rw.name == NAME


async def test_ending_it_by_force(here: RReadWriteLock, there: RReadWriteLock, place: Place) -> None:
    assert not await here.force_release()
    for owner in ("java:1", "java:2"):
        place.side.run(RWCalls(NAME, 1).acquire(Bid(owner, 60_000, 0, "")))
    assert await there.read.force_release()
    assert place.keys() == set()
