"""Redisson's fair lock: the lock of its name, for tasks and threads that enter in the order in which they came."""

from __future__ import annotations

import asyncio

import pytest

from aiolock import AcquireTimeout, LockManager
from aiolock.redisson import Redisson, RFairLock
from aiolock.scripts.redisson.keys import RedissonKeys

from .places import Place, until, waits

NAME = "order:42"
KEYS = RedissonKeys(NAME)
_, QUEUE, DEADLINES = KEYS.line
JAVA = "6b1c9a54-7c0e-4f3b-9c55-0d6f3b1f8a11:51"
ENOUGH = 5.0
"""Far longer than anything here needs, far shorter than any ttl or liveness that could help instead."""


@pytest.fixture
def here(locks: LockManager) -> RFairLock:
    return Redisson(locks).fair_lock(NAME, ttl=60.0)


@pytest.fixture
def there(others: LockManager) -> RFairLock:
    return Redisson(others).fair_lock(NAME)


async def in_line(place: Place, count: int) -> None:
    await until(lambda: len(place.side.items(QUEUE)) == count)


async def test_first_come_first_served(here: RFairLock, there: RFairLock, place: Place) -> None:
    """Task by task. Kept by `ordered` of FairCalls, and Place._turn."""
    entered: list[int] = []

    async def enter(lock: RFairLock, number: int) -> None:
        async with lock:
            entered.append(number)

    tasks = []
    async with here:
        for number in range(4):
            tasks.append(asyncio.create_task(enter((there, here)[number % 2], number)))
            await in_line(place, number + 1)
    await asyncio.wait_for(asyncio.gather(*tasks), ENOUGH)
    assert entered == [0, 1, 2, 3]
    assert place.keys() == set()


async def test_it_nests_in_the_lock_of_its_name(here: RFairLock, locks: LockManager, place: Place) -> None:
    """In one task, either way round: one gate. Kept by `kind` of FairCalls."""
    plain = Redisson(locks).lock(NAME)
    for outer, inner in ((here, plain), (plain, here)):
        async with outer, inner:
            assert list(place.side.hash(NAME).values()) == ["2"]
    assert place.keys() == set()


async def test_a_thread_in_java_is_first(here: RFairLock, place: Place) -> None:
    """A free lock with a queue is not free. Once it has gone, the place is ours without a message."""
    place.side.push(QUEUE, JAVA)
    place.side.score(DEADLINES, JAVA, 2**52)
    assert await here.try_acquire() is None
    with pytest.raises(AcquireTimeout, match=JAVA):
        await here.acquire(timeout=0.1)
    await until(lambda: place.side.items(QUEUE) == [JAVA])
    place.side.score(DEADLINES, JAVA, 1)
    async with asyncio.timeout(ENOUGH), here:
        assert place.side.items(QUEUE) == []


@waits
async def test_the_place_outlasts_its_deadline(here: RFairLock, there: RFairLock, place: Place) -> None:
    """By its heartbeats. Kept by fair_refresh.lua: `stay`."""
    lease = await there.acquire()
    waiter = asyncio.ensure_future(here.acquire())
    await in_line(place, 1)
    ((owner, deadline),) = place.side.scores(DEADLINES).items()
    place.side.score(DEADLINES, owner, deadline - 10_000)
    await until(lambda: place.side.scores(DEADLINES)[owner] > deadline - 5_000)
    await lease.release()
    await (await asyncio.wait_for(waiter, ENOUGH)).release()


async def test_who_has_it_and_who_waits(here: RFairLock, there: RFairLock, place: Place) -> None:
    assert await here.info() is None
    async with there:
        waiter = asyncio.ensure_future(here.acquire())
        await in_line(place, 1)
        async with asyncio.timeout(ENOUGH):
            while (seen := await here.info()) is None or seen.position is None:
                pass  # its answer is on the way
        other = await there.info()
        assert other is not None
        assert (seen.waiters, seen.position, other.position) == (1, 1, None)
        assert seen.holder == next(iter(place.side.hash(NAME)))
        waiter.cancel()
        await asyncio.gather(waiter, return_exceptions=True)
        await in_line(place, 0)


async def test_a_lost_place_is_taken_anew(here: RFairLock, there: RFairLock, place: Place) -> None:
    """As after a flush. Kept by `Gone`, and Place.rename: the new id has another channel."""
    lease = await there.acquire()
    waiter = asyncio.ensure_future(here.acquire())
    await in_line(place, 1)
    place.side.delete(QUEUE, DEADLINES)
    await in_line(place, 1)
    await lease.release()
    await (await asyncio.wait_for(waiter, ENOUGH)).release()
    assert not any("dead" not in key for key in sorted(place.keys()))


async def test_ended_by_force(here: RFairLock, there: RFairLock, place: Place) -> None:
    async with there:
        assert await here.force_release()
        place.side.hset(NAME, {next(iter(there._runtime.holds)): "1"})  # so that its own release finds it
    assert not await here.force_release()
    assert place.keys() == set()
