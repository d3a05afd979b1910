"""The latch's contract, on every backend that offers it: two managers that share a store are two processes."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Literal

import pytest

from aiolock import BackendError, Latch, LockManager, NotAcquired, WaitTimeout
from tests.support import acl
from tests.support.redis_cli import CommandStats

from .places import Place, RedisPlace, keys_of, until

NAME = "import:7"
KEY = keys_of(NAME, "latch").lock
ENOUGH = 5.0
"""Far longer than anything here needs, far shorter than any ttl or recheck that could help instead."""


@pytest.fixture
def here(locks: LockManager) -> Latch:
    return locks.latch(NAME, 3)


@pytest.fixture
def there(others: LockManager) -> Latch:
    return others.latch(NAME, 3)


async def waiting(place: Place, latch: Latch) -> asyncio.Task[Literal[True]]:
    """Return a task that waits, and whose subscription is confirmed."""
    task = asyncio.create_task(latch.wait(timeout=ENOUGH))
    await until(lambda: place.listeners(NAME, "latch"))
    return task


async def test_opens_with_the_last_count(here: Latch, there: Latch, place: Place) -> None:
    task = await waiting(place, there)
    assert await here.count() == 3
    assert await here.count_down() == 2
    assert await there.count_down() == 1
    assert not task.done()
    assert await here.count_down() == 0
    assert await task is True
    assert await there.count() == 0
    assert await here.wait() is True
    assert await here.wait(timeout=0) is True


async def test_an_open_latch_stays_open(here: Latch, there: Latch) -> None:
    for left in (2, 1, 0, 0, 0):
        assert await here.count_down() == left
    await asyncio.gather(here.wait(), there.wait(), there.wait(timeout=0))


async def test_all_waiters_continue(here: Latch, there: Latch, place: Place) -> None:
    tasks = [await waiting(place, latch) for latch in (here, there) for _ in range(20)]
    await asyncio.gather(*(latch.count_down() for latch in (here, there, here)))
    await asyncio.gather(*tasks)
    assert await here.count() == 0
    await until(lambda: place.listeners(NAME, "latch") == 0)


async def test_simultaneous_counts_all_count(here: Latch, there: Latch, locks: LockManager) -> None:
    many = locks.latch("many", 100)
    lefts = await asyncio.gather(*(many.count_down() for _ in range(100)))
    assert sorted(lefts) == list(range(100))
    await many.wait()


async def test_a_timeout(here: Latch, there: Latch, place: Place) -> None:
    await there.count_down()
    task = await waiting(place, here)
    with pytest.raises(WaitTimeout, match="2 of 3 counts are missing"):
        await here.wait(timeout=0.3)
    with pytest.raises(WaitTimeout, match="2 of 3 counts are missing"):
        await here.wait(timeout=0)
    assert not task.done()
    assert [await there.count_down() for _ in range(2)] == [1, 0]
    await task
    await until(lambda: place.listeners(NAME, "latch") == 0)


async def test_a_client_that_counts_twice_counts_once(here: Latch, there: Latch) -> None:
    assert await here.count_down(by="shard 1") == 2
    assert await there.count_down(by="shard 1") == 2
    assert await there.count_down(by="shard 2") == 1


async def test_one_key_that_expires(here: Latch, locks: LockManager, place: Place) -> None:
    """Invariant 8."""
    await here.count_down()
    assert place.keys() == {KEY}
    assert 23 * 3_600_000 < place.side.pttl(KEY) <= 24 * 3_600_000
    place.side.expire(KEY)
    assert await locks.latch(NAME, 2, ttl=2.0).count() == 2
    assert 0 < place.side.pttl(KEY) <= 2000


@pytest.mark.not_polling("each look refreshes it")
async def test_waiting_keeps_it_alive(place: Place) -> None:
    """The ttl is shorter than the recheck. Kept by LatchWatcher._next_query."""
    async with place.manager(recheck=60.0) as locks:
        task = asyncio.create_task(locks.latch(NAME, 2, ttl=2.0).wait())
        await until(lambda: place.side.exists(KEY))
        place.side.shorten(KEY, 1200)
        await until(lambda: place.side.pttl(KEY) > 1300)  # for good: a third of its 2 s later it is refreshed
        task.cancel()
        await asyncio.wait({task})


async def test_a_lost_message_costs_a_recheck(place: Place) -> None:
    async with place.manager(recheck=0.1) as locks:
        task = await waiting(place, locks.latch(NAME, 2))
        place.side.hset(KEY, {"left": "0"})
        await task


async def test_a_cancelled_waiter_leaves_nothing(here: Latch, locks: LockManager, place: Place) -> None:
    task = await waiting(place, here)
    task.cancel()
    await asyncio.wait({task})
    assert task.cancelled()
    await until(lambda: place.listeners(NAME, "latch") == 0)
    assert locks._runtime.gates == {}


async def test_closing_ends_the_waits(place: Place) -> None:
    async with place.manager() as locks:
        task = await waiting(place, locks.latch(NAME, 2))
    assert task.done()
    with pytest.raises(NotAcquired, match="its manager was closed"):
        await task


async def test_locks_of_the_same_name_are_independent(here: Latch, locks: LockManager) -> None:
    async with locks.lock(NAME):
        assert await here.count_down() == 2
        assert await locks.lock(NAME).is_locked()


async def test_a_key_of_another_type(here: Latch, place: Place) -> None:
    place.side.set(KEY, "a string")
    for use in (here.count(), here.count_down(), here.wait()):
        with pytest.raises(BackendError, match=NAME) as caught:
            await use
        assert not caught.value.transient


async def test_what_it_costs(redis_place: RedisPlace, commandstats: CommandStats) -> None:
    """100 tasks wait, as docs/how-to/primitives.md says."""
    async with redis_place.manager() as locks, redis_place.manager() as others:
        warm = locks.latch("warm", 1)
        await warm.count()
        await warm.count_down()
        await commandstats.reset()
        here, there = locks.latch(NAME, 2), others.latch(NAME, 2)
        tasks = [asyncio.create_task(here.wait()) for _ in range(100)]
        await until(lambda: redis_place.listeners(NAME, "latch"))
        await asyncio.sleep(0.2)
        assert await sent(commandstats) == Counter(evalsha=2, subscribe=1)
        await there.count_down()
        await there.count_down()
        await asyncio.gather(*tasks)
        await until(lambda: redis_place.listeners(NAME, "latch") == 0)
        assert await sent(commandstats) == Counter(evalsha=5, subscribe=1, unsubscribe=1)
        await commandstats.reset()
        await here.wait()
        await here.count()
        assert await sent(commandstats) == Counter(evalsha=2)


async def sent(stats: CommandStats) -> Counter[str]:
    """What managers sent for latches."""
    found = await stats.sent()
    return Counter({name: count for name, count in found.items() if name in ("evalsha", "subscribe", "unsubscribe")})


@pytest.fixture
def limited(redis_place: RedisPlace) -> Iterator[Callable[[str], LockManager]]:
    """Return a manager for a user with all rights, changed by this rule."""

    def manager(rule: str) -> LockManager:
        rules = acl.setuser(redis_place.link, "aiolock-test", *acl.EVERYTHING, *rule.split())
        redis_place.link.execute_command(*rules)
        return LockManager(redis_place.url.replace("redis://", "redis://aiolock-test:secret@"))

    yield manager
    redis_place.link.execute_command("ACL", "DELUSER", "aiolock-test")


async def test_a_denied_command_is_told(limited: Callable[[str], LockManager]) -> None:
    """Kept by LatchWatcher._settle."""
    async with limited("-hmget") as locks:
        for _ in range(2):
            tasks = [asyncio.create_task(locks.latch(NAME, 2).wait()) for _ in range(5)]
            async with asyncio.timeout(ENOUGH):
                errors = await asyncio.gather(*tasks, return_exceptions=True)
            for error in errors:
                assert isinstance(error, BackendError)
                assert "ACL" in str(error)
                assert error.name == NAME
        assert locks._runtime.gates == {}


async def test_a_denied_channel_is_polled_for(limited: Callable[[str], LockManager]) -> None:
    """Kept by ReleaseListener._on_confirmed."""
    async with limited("resetchannels &aiolock:manager:*") as locks:
        tasks = [asyncio.create_task(locks.latch(NAME, 1).wait()) for _ in range(5)]
        await until(lambda: locks._runtime.waiting.poll is not None)
        await locks.latch(NAME, 1).count_down()
        async with asyncio.timeout(ENOUGH):
            await asyncio.gather(*tasks)
        assert locks._runtime.gates == {}
