"""You give back part of a semaphore's lease, and the lease continues with the rest."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from aiolock import ConfigurationError, LockLost, LockManager, LossReason, NotOwned, Semaphore

from .places import Place, revoked
from .strangers import queued

NAME = "api"
ENOUGH = 10.0


@pytest.fixture
def here(locks: LockManager) -> Semaphore:
    return locks.semaphore(NAME, 4)


@pytest.fixture
def there(others: LockManager) -> Semaphore:
    return others.semaphore(NAME, 4)


async def test_the_lease_continues_with_the_rest(here: Semaphore, there: Semaphore) -> None:
    lease = await here.acquire(4)
    fence = lease.fence
    await lease.release(1)
    assert (lease.permits, lease.released, lease.fence) == (3, False, fence)
    assert await there.available() == 1
    await lease.renew()
    await lease.release(2)
    assert (lease.permits, lease.released) == (1, False)
    async with there.acquire(3, timeout=0):
        assert await here.available() == 0
    await lease.release()
    assert (lease.permits, lease.released) == (0, True)
    assert await there.available() == 4


async def test_a_waiter_that_fits_is_let_in_at_once(here: Semaphore, there: Semaphore) -> None:
    lease = await here.acquire(4)
    waiters = [asyncio.create_task(there.acquire(n)) for n in (2, 2)]
    await queued(here, 2)
    await lease.release(2)
    async with asyncio.timeout(ENOUGH):
        first = await waiters[0]
    assert not waiters[1].done()
    await first.release()
    async with asyncio.timeout(ENOUGH):
        await (await waiters[1]).release()
    await lease.release()


async def test_all_of_them_is_the_whole_lease(here: Semaphore) -> None:
    lease = await here.acquire(3)
    await lease.release(1)
    await lease.release(2)
    assert lease.released
    assert await here.available() == 4
    await lease.release()


async def test_inside_a_block(here: Semaphore, there: Semaphore) -> None:
    async with here.acquire(3) as lease:
        await lease.release(2)
        assert await there.available() == 3
    assert await there.available() == 4


async def test_you_need_not_await_it(here: Semaphore, there: Semaphore) -> None:
    """It is written when you call it; a cancelled caller has given the permits back all the same."""
    lease = await here.acquire(4)
    lease.release(1)
    assert lease.permits == 3
    while await there.available() != 1:  # noqa: ASYNC110 - the release is not awaited
        await asyncio.sleep(0)

    async def give_back() -> None:
        await lease.release(1)

    giving = asyncio.create_task(give_back())
    await asyncio.sleep(0)
    giving.cancel()
    await asyncio.wait({giving})
    while await there.available() != 2:  # noqa: ASYNC110
        await asyncio.sleep(0)
    await lease.release()


@pytest.mark.parametrize("n", [0, -1, 3, True, 1.5, "1"])
async def test_what_cannot_be_given_back(here: Semaphore, n: Any) -> None:
    lease = await here.acquire(2)
    with pytest.raises(ConfigurationError, match=f"this lease of semaphore '{NAME}' has 2 permits: release 1 to 2"):
        lease.release(n)
    assert lease.permits == 2
    assert await here.available() == 2
    await lease.release()


async def test_a_lease_that_is_over_gives_nothing_back(here: Semaphore) -> None:
    lease = await here.acquire(2)
    await lease.release()
    with pytest.raises(NotOwned, match="was released"):
        lease.release(1)


@pytest.mark.parametrize("kind", ["lock", "fair_lock"])
async def test_other_leases_have_no_parts(locks: LockManager, kind: str) -> None:
    async with getattr(locks, kind)(NAME) as lease:
        assert lease.permits == 1
        with pytest.raises(ConfigurationError, match="only a semaphore's lease"):
            lease.release(1)


async def test_neither_has_a_writers_lease(locks: LockManager) -> None:
    async with locks.rw_lock(NAME).write as lease:
        assert lease.permits == 1
        with pytest.raises(ConfigurationError, match="only a semaphore's lease"):
            lease.release(1)


async def test_release_by_name_applies_to_the_innermost_lease(here: Semaphore) -> None:
    outer, inner = await here.acquire(2), await here.acquire(2)
    await here.release(1)
    assert (outer.permits, inner.permits) == (2, 1)
    with pytest.raises(ConfigurationError, match="has 1 permit: release 1 to 1"):
        await here.release(2)
    await here.release()
    await here.release()
    assert await here.available() == 4


@revoked
async def test_a_lost_lease_says_so(here: Semaphore, there: Semaphore) -> None:
    lease = await here.acquire(2)
    assert await there.force_release()
    assert await lease.wait_lost() is LossReason.REVOKED
    with pytest.raises(LockLost):
        await lease.release(1)
    assert await there.available() == 4
    with pytest.raises(LockLost):
        await lease.release()


async def test_a_loss_is_found_by_giving_back(here: Semaphore, place: Place) -> None:
    lease = await here.acquire(2)
    place.side.flush()
    with pytest.raises(LockLost):
        await lease.release(1)
    assert lease.reason is LossReason.DELETED
    with pytest.raises(LockLost):
        await lease.release()


@pytest.mark.not_in_queues("there are no tickets")
async def test_the_rest_moves_with_a_ticket(here: Semaphore, others: LockManager) -> None:
    lease = await here.acquire(3)
    await lease.release(1)
    moved = await others.resume(await lease.detach())
    assert moved.permits == 2
    assert await here.available() == 2
    await moved.release(1)
    assert await here.available() == 3
    await moved.release()
    assert await here.available() == 4
