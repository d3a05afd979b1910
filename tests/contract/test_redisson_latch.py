"""Redisson's latch, between managers of ours and threads in Java that count."""

from __future__ import annotations

import asyncio

import pytest

from aiolock import BackendError, ConfigurationError, LockManager, WaitTimeout
from aiolock.redisson import RCountDownLatch, Redisson
from aiolock.scripts.redisson.latch import RLatchCalls

from .places import ClusterPlace, Place, PollingPlace, RedisPlace, until

NAME = "import:7"
CHANNEL = f"redisson_countdownlatch__channel__{{{NAME}}}"
ENOUGH = 5.0
"""Far longer than anything here needs, far shorter than any recheck that could help instead."""


@pytest.fixture
async def here(locks: LockManager) -> RCountDownLatch:
    latch = Redisson(locks).count_down_latch(NAME)
    assert await latch.try_set_count(3)
    return latch


@pytest.fixture
def there(others: LockManager) -> RCountDownLatch:
    return Redisson(others).count_down_latch(NAME)


async def waiting(place: Place, latch: RCountDownLatch) -> asyncio.Task[None]:
    """Return a task that waits, and that hears of the opening."""
    task = asyncio.create_task(latch.wait(timeout=ENOUGH))
    await until(lambda: _hears(place, latch))
    return task


def _hears(place: Place, latch: RCountDownLatch) -> bool:
    if isinstance(place, PollingPlace):
        return bool(latch._runtime.gates)
    if isinstance(place, RedisPlace | ClusterPlace):
        return bool(place.subscribers(CHANNEL))
    return bool(place.side.store.numsub(CHANNEL))  # type: ignore[attr-defined]


async def test_opens_with_the_last_count(here: RCountDownLatch, there: RCountDownLatch, place: Place) -> None:
    """Whoever counts it, and leaves nothing."""
    assert place.side.get(NAME) == "3"
    task = await waiting(place, there)
    assert await here.count_down() == 2
    place.side.run(RLatchCalls(NAME).count_down())
    assert await there.count() == 1
    assert not task.done()
    assert await here.count_down() == 0
    await task
    assert place.keys() == set()
    assert there._runtime.gates == {}


async def test_one_that_is_open(here: RCountDownLatch, there: RCountDownLatch, place: Place) -> None:
    """As Redisson's, it is nothing at all, whether it was counted or never set; and it can be set again."""
    for left in (2, 1, 0, 0):
        assert await here.count_down() == left
    await asyncio.gather(here.wait(), there.wait(timeout=0))
    assert place.keys() == set()
    assert await there.try_set_count(1)
    assert not await here.try_set_count(5)
    assert await here.count() == 1


async def test_all_waiters_continue(here: RCountDownLatch, there: RCountDownLatch, place: Place) -> None:
    tasks = [await waiting(place, there) for _ in range(3)]
    await asyncio.gather(*(here.count_down() for _ in range(3)), *tasks)


async def test_it_does_not_open_in_time(here: RCountDownLatch) -> None:
    for timeout in (0, 0.01):
        with pytest.raises(WaitTimeout, match=r"did not open within .* s: 3 counts are missing"):
            await here.wait(timeout=timeout)
    assert here._runtime.gates == {}


async def test_a_cancelled_waiter_leaves_nothing(here: RCountDownLatch, place: Place) -> None:
    task = await waiting(place, here)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert here._runtime.gates == {}
    assert place.keys() == {NAME}


async def test_what_is_no_number(here: RCountDownLatch, place: Place) -> None:
    place.side.set(NAME, "a text")
    with pytest.raises(BackendError):
        await here.count_down()
    assert place.side.get(NAME) == "a text"


@pytest.mark.parametrize("count", [0, -1, 2**31, 1.0, True, "3"])
async def test_bad_counts(here: RCountDownLatch, count: int) -> None:
    with pytest.raises(ConfigurationError, match=f"latch {NAME!r} must be a whole number from 1"):
        await here.try_set_count(count)


def test_bad_names(locks: LockManager) -> None:
    with pytest.raises(ConfigurationError, match="name"):
        Redisson(locks).count_down_latch("")
    assert repr(Redisson(locks).count_down_latch("a")) == "<RCountDownLatch 'a'>"
