"""Redisson's permits that expire, between managers of ours and threads that Java left."""

# ruff: noqa: PT012 - what raises is the whole guarded block

from __future__ import annotations

import asyncio

import pytest

from aiolock import AcquireTimeout, ConfigurationError, LockLost, LockManager, LossReason
from aiolock.redisson import Redisson, RPermitExpirableSemaphore
from aiolock.scripts.bid import Bid
from aiolock.scripts.redisson.permits import PermitCalls

from .places import ClusterPlace, Place, PollingPlace, RedisPlace, renewed, until

NAME = "api:42"
IDS, CHANNEL = f"{{{NAME}}}:timeout", f"redisson_sc:{{{NAME}}}"
JAVA = "0d6f3b1f8a11"
FOR_GOOD = 922337203685477
ENOUGH = 5.0
"""Far longer than anything here needs, far shorter than any ttl or recheck that could help instead."""


@pytest.fixture
async def here(locks: LockManager) -> RPermitExpirableSemaphore:
    semaphore = Redisson(locks).permit_expirable_semaphore(NAME, ttl=60.0)
    assert await semaphore.try_set_permits(3)
    return semaphore


@pytest.fixture
def there(others: LockManager) -> RPermitExpirableSemaphore:
    return Redisson(others).permit_expirable_semaphore(NAME)


def waiting(semaphore: RPermitExpirableSemaphore, count: int, place: Place) -> bool:
    """So many of its tasks have been refused, and are told of free permits."""
    entries = semaphore._gate().entries
    if len(entries) != count or not all(entry.refused for entry in entries):
        return False
    if isinstance(place, PollingPlace):
        return True
    if isinstance(place, RedisPlace | ClusterPlace):
        return bool(place.subscribers(CHANNEL))
    return bool(place.side.store.numsub(CHANNEL))  # type: ignore[attr-defined]


def taken_by_java(place: Place, *scores: int) -> None:
    """Leave permits that Java acquired."""
    for number, score in enumerate(scores):
        place.side.score(IDS, f"{JAVA}{number}", score)
    place.side.set(NAME, str(3 - len(scores)))


async def test_no_more_than_there_are(
    here: RPermitExpirableSemaphore, there: RPermitExpirableSemaphore, place: Place
) -> None:
    async with here.acquire(2) as lease, there:
        assert lease.permits == 2
        assert await here.available() == 0
        info = await there.info()
        assert (info.permits, info.available, info.used) == (3, 0, 3)
        assert await here.try_acquire() is None
        with pytest.raises(AcquireTimeout, match=r"held by [0-9a-f]{32}:1"):
            await asyncio.create_task(_take(there, 1, timeout=0.01))
    assert (await here.available(), place.keys()) == (3, {NAME})


async def _take(semaphore: RPermitExpirableSemaphore, n: int, timeout: float = ENOUGH) -> None:
    async with semaphore.acquire(n, timeout=timeout):
        pass


async def test_how_many_there_are_is_said_once(here: RPermitExpirableSemaphore) -> None:
    assert not await here.try_set_permits(9)
    assert (await here.info()).permits == 3


async def test_a_task_that_waits_for_itself_is_told(here: RPermitExpirableSemaphore) -> None:
    """Kept by permits_acquire.lua, where it says how many there are."""
    async with here.acquire(2), here:
        with pytest.raises(AcquireTimeout, match="this task holds what it would need"):
            await here.acquire(timeout=0.01)


async def test_all_that_fit_are_let_in(
    here: RPermitExpirableSemaphore, there: RPermitExpirableSemaphore, place: Place
) -> None:
    """By one message. Kept by permits_release.lua: `PUBLISH`."""
    lease = await here.acquire(3)
    waiters = [asyncio.create_task(_take(there, 1)) for _ in range(3)]
    await until(lambda: waiting(there, 3, place))
    await lease.release()
    await asyncio.wait_for(asyncio.gather(*waiters), ENOUGH)
    assert await here.available() == 3


async def test_some_are_given_back(
    here: RPermitExpirableSemaphore, there: RPermitExpirableSemaphore, place: Place
) -> None:
    """And the others are still renewed."""
    lease = await here.acquire(3)
    waiter = asyncio.create_task(_take(there, 2))
    await until(lambda: waiting(there, 1, place))
    await lease.release(2)
    await waiter
    await renewed(lease)
    assert (lease.permits, len(place.side.scores(IDS))) == (1, 1)
    await lease.release()
    assert (await here.available(), place.keys()) == (3, {NAME})


async def test_they_wait_until_there_are_any(
    there: RPermitExpirableSemaphore, locks: LockManager, place: Place
) -> None:
    waiter = asyncio.create_task(_take(there, 2))
    await until(lambda: waiting(there, 1, place))
    with pytest.raises(AcquireTimeout, match="nobody: it has no more until someone sets"):
        await there.acquire(timeout=0.01)
    await Redisson(locks).permit_expirable_semaphore(NAME).try_set_permits(2)
    await waiter


async def test_a_dead_holder_is_outwaited(
    here: RPermitExpirableSemaphore, there: RPermitExpirableSemaphore, place: Place
) -> None:
    """No message says so. Kept by permits_acquire.lua, where it says when the next one expires."""
    taken_by_java(place, FOR_GOOD, FOR_GOOD)
    place.side.run(PermitCalls(NAME, 1).acquire(Bid("dead:1", 200, 0, "")))
    await asyncio.create_task(_take(there, 1))
    assert (await here.info()).used == 2


async def test_they_are_renewed(here: RPermitExpirableSemaphore, place: Place) -> None:
    """All that a lease has. Kept by permits_renew.lua: `ZADD`."""
    async with here.acquire(2) as lease:
        before = place.side.scores(IDS)
        for one in before:
            place.side.score(IDS, one, before[one] - 30_000)
        await renewed(lease)
        assert all(score >= before[one] for one, score in place.side.scores(IDS).items())


async def test_a_lost_one_is_noticed(here: RPermitExpirableSemaphore, place: Place) -> None:
    """Java's delete(): the next renewal finds out."""
    with pytest.raises(LockLost) as lost:
        async with asyncio.timeout(ENOUGH), here.acquire(2) as lease:
            place.side.delete(NAME, IDS)
            await lease.renew()
    assert lost.value.reason is LossReason.DELETED
    assert place.keys() == set()


async def test_a_cancelled_waiter_leaves_nothing(
    here: RPermitExpirableSemaphore, there: RPermitExpirableSemaphore, place: Place
) -> None:
    async with here.acquire(3):
        waiter = asyncio.create_task(_take(there, 1))
        await until(lambda: waiting(there, 1, place))
        waiter.cancel()
        await asyncio.gather(waiter, return_exceptions=True)
        assert there._runtime.gates == {}
    assert (await here.available(), place.keys()) == (3, {NAME})


async def test_what_cannot_be(here: RPermitExpirableSemaphore) -> None:
    with pytest.raises(ConfigurationError, match="must be at most 1000"):
        here.acquire(1001)
    with pytest.raises(ConfigurationError, match="must be a whole number"):
        await here.try_set_permits(0)
    async with here as lease:
        with pytest.raises(ConfigurationError, match="cannot be detached"):
            await lease.detach()
        with pytest.raises(ConfigurationError, match="has no fence"):
            _ = lease.fence
