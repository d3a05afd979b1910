"""The read-write lock's own contract. test_exclusive.py has what its write side shares with a lock."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from aiolock import Lease, LockLost, LockManager, LossReason, NotAcquired, RWLock, RWLockInfo

from .places import TTL, Place, renewed, revoked, until, waits
from .strangers import QueueStranger, queued

NAME = "catalogue"
ENOUGH = 10.0


@pytest.fixture
def here(locks: LockManager) -> RWLock:
    return locks.rw_lock(NAME)


@pytest.fixture
def there(others: LockManager) -> RWLock:
    return others.rw_lock(NAME)


@pytest.fixture
def reader(place: Place) -> QueueStranger:
    return QueueStranger(place, "rw", NAME, weight=1)


async def tried(side: Any) -> bool:
    async with side.try_acquire() as lease:
        return lease is not None


async def enter(side: Any) -> Lease:
    async with side as lease:
        return lease  # type: ignore[no-any-return]


async def test_many_readers_or_one_writer(here: RWLock, there: RWLock) -> None:
    async with here.read, there.read:
        assert await asyncio.create_task(tried(here.read))
        assert not await asyncio.create_task(tried(here.write))
        assert not await asyncio.create_task(tried(there.write))
    async with here.write:
        assert not await tried(there.read)
        assert not await tried(there.write)
    assert await tried(there.write)


async def test_readers_that_come_after_a_waiting_writer_wait(here: RWLock, there: RWLock) -> None:
    """Writers are not starved. Kept by ask.lua: `state.waiters == 0 and …`."""
    reading = await here.read.acquire()
    order: list[str] = []

    async def take(side: Any, who: str) -> None:
        async with side:
            order.append(who)
            await asyncio.sleep(0)

    tasks = [asyncio.create_task(take(there.write, "writer"))]
    await queued(here, 1)
    assert not await asyncio.create_task(tried(here.read))
    tasks += [asyncio.create_task(take(side.read, "reader")) for side in (here, there)]
    await queued(here, 3)
    assert not order
    await reading.release()
    async with asyncio.timeout(ENOUGH):
        await asyncio.gather(*tasks)
    assert order == ["writer", "reader", "reader"]


async def test_a_writer_that_gives_up_lets_the_readers_behind_it_in(here: RWLock, there: RWLock) -> None:
    """It lets them in at once: its end wakes them all. Kept by release.lua's settle."""
    reading = await here.read.acquire()
    writer = asyncio.create_task(enter(there.write))
    await queued(here, 1)
    inside = asyncio.Event()
    readers = [asyncio.create_task(_read_until(lock, inside)) for lock in (here, there, there)]
    await queued(here, 4)
    writer.cancel()
    async with asyncio.timeout(0.9 * ENOUGH):
        await until(lambda: here_readers(here, there) == 4)
    assert not reading.released
    inside.set()
    await asyncio.gather(*readers, reading.release())


def here_readers(*locks: RWLock) -> int:
    return sum(len(lock.read._runtime.holds) for lock in locks)


async def _read_until(lock: RWLock, done: asyncio.Event) -> None:
    async with lock.read:
        await done.wait()


@waits
async def test_a_waiting_writer_that_died_frees_the_readers(here: RWLock, there: RWLock, place: Place) -> None:
    """A waiter's intent has a lease. Kept by turn.lua: `tonumber(alive) > NOW`."""
    async with here.read:
        QueueStranger(place, "rw", NAME, liveness=0.3).queue()
        assert not await tried(there.read)
        async with asyncio.timeout(ENOUGH), there.read:
            pass


async def test_a_release_that_lets_several_readers_in_wakes_them_all(here: RWLock, there: RWLock) -> None:
    """H16: one message would strand the others. Kept by turn.lua: settle's loop."""
    writing = await here.write.acquire()
    done = asyncio.Event()
    readers = [asyncio.create_task(_read_until(lock, done)) for lock in (here, there) * 4]
    await queued(here, 8)
    last = asyncio.create_task(enter(here.write))
    await queued(here, 9)
    await writing.release()
    await until(lambda: here_readers(here, there) == 8)
    assert not last.done()
    done.set()
    async with asyncio.timeout(ENOUGH):
        await asyncio.gather(*readers, last)


@pytest.mark.not_in_queues("each finds out by itself that it is in")
async def test_the_release_itself_lets_them_in(here: RWLock, place: Place) -> None:
    """The same script lets them in, up to the next writer, so none has to ask. Kept by turn.lua: settle's loop."""
    writing = await here.write.acquire()
    strangers = [
        QueueStranger(place, "rw", NAME, weight=weight, owner=f"r:{i}") for i, weight in enumerate((1, 1, 1, None))
    ]
    for stranger in strangers:
        stranger.queue()
    await writing.release()
    assert [stranger.holds for stranger in strangers] == [True, True, True, False]
    for stranger in strangers:
        stranger.leave()
    assert await tried(here.write)


@waits
@pytest.mark.not_polling("the server cannot see that a polling process is dead")
@pytest.mark.not_in_queues("it looks at records of Redis")
async def test_a_crashed_reader_delays_a_writer_by_its_own_ttl(
    here: RWLock, there: RWLock, reader: QueueStranger
) -> None:
    """Each reader has its own lease: renewals of others do not keep it. Kept by holders.lua: `prune`."""
    living = await here.read.acquire()
    reader.take(ttl=1.0)
    writer = asyncio.create_task(enter(there.write))
    await queued(here)
    await living.release()
    assert reader.holds
    assert not writer.done()
    async with asyncio.timeout(ENOUGH):
        lease = await writer
    assert not lease.abandoned  # a reader leaves nothing half-done


async def test_reentrant_both_ways(here: RWLock, there: RWLock) -> None:
    async with here.read as one, here.read as two:
        assert (one.fence, one.depth) == (two.fence, 2)
        writer = asyncio.create_task(enter(there.write))
        await queued(here)
        async with asyncio.timeout(ENOUGH), here.read:  # although a writer waits: it would wait for itself
            pass
    async with asyncio.timeout(ENOUGH):
        await writer
    async with here.write as one, here.write as two, here.read as three:
        assert one.fence == two.fence == three.fence
        assert one.depth == 3
    assert await tried(there.write)


async def test_a_downgrade_lets_other_readers_in_and_keeps_writers_out(here: RWLock, there: RWLock) -> None:
    """Kept by Gate.lower: `max(leases, weight)`, and release.lua: `still`."""
    writing = await here.write.acquire()
    reading = await here.read.acquire()
    behind = asyncio.create_task(there.read.acquire())
    await queued(here)
    await writing.release()
    async with asyncio.timeout(ENOUGH):
        other = await behind
    assert other.fence == reading.fence == writing.fence
    assert not await tried(there.write)
    info = await here.info()
    assert info is not None
    assert (info.readers, info.writing) == (2, False)
    with pytest.raises(NotAcquired, match="release it first"):
        await here.write.acquire()
    await reading.release()
    await other.release()
    async with there.write.acquire(timeout=ENOUGH) as lease:
        assert not lease.abandoned
        assert lease.fence > writing.fence


async def test_a_downgrade_of_leases_whose_task_has_ended(here: RWLock, there: RWLock) -> None:
    """Kept by Gate.lower: a lease that ends no longer counts in `max(leases, weight)`."""

    async def both() -> tuple[Lease, Lease]:
        return await here.write.acquire(), await here.read.acquire()

    writing, reading = await asyncio.create_task(both())
    await until(lambda: writing._task is None)
    await writing.release()
    assert await tried(there.read)
    assert not await tried(there.write)
    await reading.release()
    assert await tried(there.write)


@revoked
async def test_a_downgrade_is_renewed_and_lost_as_a_reader(locks: LockManager, there: RWLock) -> None:
    here = locks.rw_lock(NAME)
    writing = await here.write.acquire()
    reading = await here.read.acquire()
    await writing.release()
    await renewed(reading)
    assert not reading.lost
    assert await tried(there.read)
    assert await there.force_release()
    async with asyncio.timeout(ENOUGH):
        assert await reading.wait_lost() is LossReason.REVOKED
    with pytest.raises(LockLost):
        await reading.release()


async def test_an_upgrade_raises_at_once(here: RWLock, there: RWLock) -> None:
    """It would wait for itself. Kept by acquisition._nest: `calls.weight > hold.calls.weight`."""

    async def child(owner: object) -> None:
        with pytest.raises(NotAcquired, match=f"'{NAME}'.*release it first"):
            await here.write.acquire(owner=owner)  # type: ignore[arg-type]

    async with here.read as lease:
        for attempt in (here.write.acquire, here.write.try_acquire, lambda: here.write.acquire(timeout=0)):
            with pytest.raises(NotAcquired, match="release it first"):
                await attempt()
        await asyncio.create_task(child(lease.owner))
        assert (lease.depth, lease.lost) == (1, False)
    assert await tried(there.write)


async def test_fences(here: RWLock, there: RWLock) -> None:
    """A write has its own fence; a read has that of the last write. Kept by holders.lua: `if mints == '1' …`."""
    async with here.read as first:
        assert first.fence > 0
    async with here.write as writing:
        assert writing.fence > first.fence
    for lock in (here, there):
        async with lock.read as reading:
            assert reading.fence == writing.fence
    async with there.write as again:
        assert again.fence > writing.fence
        waiter = asyncio.create_task(enter(here.read))
        await queued(here)
    async with asyncio.timeout(ENOUGH):
        assert (await waiter).fence == again.fence


async def test_a_crashed_writer_is_known_until_the_next_write(here: RWLock, there: RWLock, place: Place) -> None:
    QueueStranger(place, "rw", NAME).take(ttl=0.02)
    await asyncio.sleep(0.03)
    async with there.read.acquire(timeout=ENOUGH) as lease:
        assert lease.abandoned
    async with there.write as lease:
        assert lease.abandoned
    async with here.read as lease:
        assert not lease.abandoned


@revoked
async def test_force_release_tells_every_reader(here: RWLock, there: RWLock) -> None:
    one, two = await here.read.acquire(), await there.read.acquire()
    writer = asyncio.create_task(enter(here.write))
    await asyncio.sleep(0)
    assert await there.force_release()
    async with asyncio.timeout(ENOUGH):
        assert [await lease.wait_lost() for lease in (one, two)] == [LossReason.REVOKED] * 2
        await writer
    for lease in (one, two):
        with pytest.raises(LockLost):
            await lease.release()
    assert not await here.force_release()


async def test_info(locks: LockManager, there: RWLock) -> None:
    here = locks.rw_lock(NAME, metadata="nightly")
    assert await there.info() is None
    assert not await there.is_locked()
    async with here.read as lease, there.read:
        info = await here.info()
        assert isinstance(info, RWLockInfo)
        assert (info.readers, info.writing, info.fence, info.waiters) == (2, False, lease.fence, 0)
        assert await there.is_locked()
    async with here.write as lease:
        info = await there.read.info()
        assert info is not None
        assert (info.readers, info.writing, info.fence, info.position) == (0, True, lease.fence, None)
        assert (info.holder, info.metadata) == (locks._runtime.binding.holder, "nightly")
        assert 0 < info.ttl <= TTL
    assert "RWLock" in repr(here)
    assert "write" in repr(here.write)


@pytest.fixture
async def processes(place: Place) -> AsyncIterator[list[LockManager]]:
    async with place.manager() as one, place.manager() as two:
        yield [one, two]


async def test_a_writer_is_alone_under_load(processes: list[LockManager]) -> None:
    """2 managers × 6 tasks: never a writer together with another holder; fences rise from write to write."""
    writers = readers = most = 0
    fences: list[int] = []

    async def work(number: int) -> None:
        nonlocal writers, readers, most
        lock = processes[number % 2].rw_lock(NAME)
        for turn in range(6):
            if (number + turn) % 4 == 0:
                async with lock.write as lease:
                    writers += 1
                    assert (writers, readers) == (1, 0)
                    fences.append(lease.fence)
                    await asyncio.sleep(0)
                    writers -= 1
            else:
                async with lock.read as lease:
                    readers += 1
                    most = max(most, readers)
                    assert writers == 0
                    assert not fences or lease.fence == fences[-1]
                    await asyncio.sleep(0.001)
                    readers -= 1

    async with asyncio.timeout(20), asyncio.TaskGroup() as group:
        for number in range(12):
            group.create_task(work(number))
    assert fences == sorted(set(fences))
    assert most > 1
