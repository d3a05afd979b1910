"""Whose number of permits counts: that of those who hold or wait; if nobody does, that of whoever comes."""

from __future__ import annotations

import logging

import pytest

from aiolock import LockManager, Semaphore, SemaphoreInfo

from .places import Place

NAME = "api"


@pytest.fixture
def ten(locks: LockManager) -> Semaphore:
    return locks.semaphore(NAME, 10)


@pytest.fixture
def fifteen(others: LockManager) -> Semaphore:
    return others.semaphore(NAME, 15)


async def test_it_counts_anew_when_nobody_holds_or_waits(
    ten: Semaphore, fifteen: Semaphore, caplog: pytest.LogCaptureFixture
) -> None:
    """After a redeploy the new code's number counts. Kept by state.lua: `fit`."""
    async with ten.acquire(10):
        assert (await fifteen.info()).permits == 10
        assert await fifteen.available() == 0
        async with fifteen.try_acquire() as lease:
            assert lease is None
    told = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    assert [text for text in told if "permits" in text] == [
        "semaphore 'api' has 10 permits, not the 15 it was made with here, until nobody holds it or waits for it; "
        "change it for all with set_permits()"
    ]
    async with fifteen.acquire(15) as all_of_them:
        assert all_of_them.permits == 15
        assert (await ten.info()).permits == 15
    async with ten.acquire(10):
        assert (await fifteen.info()).permits == 10


async def test_a_number_that_was_set_for_all_stays(ten: Semaphore, fifteen: Semaphore) -> None:
    """Kept by state.lua: `resized`."""
    await ten.set_permits(7)
    assert (await fifteen.info()).permits == 7
    async with fifteen.acquire(7):
        assert await ten.available() == 0
    assert (await fifteen.info()).permits == 7


async def test_a_look_leaves_nothing(ten: Semaphore, fifteen: Semaphore, place: Place) -> None:
    """And says which number counts."""
    assert [(seen.permits, seen.declared) for seen in (await ten.info(), await fifteen.info())] == [(10, 10), (15, 15)]
    assert not place.keys()
    async with ten:
        seen = await fifteen.info()
        assert (seen.permits, seen.declared) == (10, 15)


async def test_a_look_sees_what_would_count(ten: Semaphore, fifteen: Semaphore) -> None:
    """While nobody holds or waits: what whoever looks says. Kept by info.lua: `fit`."""
    async with ten:
        pass
    assert [(await semaphore.info()).permits for semaphore in (fifteen, ten)] == [15, 10]
    assert await fifteen.available() == 15


async def test_a_look_changes_nothing_that_exists(ten: Semaphore, fifteen: Semaphore) -> None:
    async with ten.acquire(4) as lease:
        for _ in range(2):
            assert await fifteen.info() == SemaphoreInfo(
                permits=10, declared=15, available=6, used=4, holders=1, waiters=0, position=None
            )
        await lease.renew()
    async with ten as again:
        assert again.fence > lease.fence
        assert not again.abandoned
