"""Which permits a lease has, wherever the semaphore is kept."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from aiolock import ConfigurationError, LockManager

from .places import Place, nobody_waits
from .strangers import queued

NAME = "gpu"
ENOUGH = 10.0


def pool(locks: LockManager, permits: int = 3, **options: Any) -> Any:
    return locks.semaphore(NAME, permits, slots=True, **options)


@pytest.fixture
def here(locks: LockManager) -> Any:
    return pool(locks)


@pytest.fixture
def there(others: LockManager) -> Any:
    return pool(others)


async def test_nobody_else_has_it(here: Any, there: Any) -> None:
    """The lowest that is free. Kept by assign in slots.lua."""
    leases = [await here.acquire(), await there.acquire(), await here.acquire()]
    assert [lease.slot for lease in leases] == [0, 1, 2]
    await leases[1].release()
    async with here as lease:
        assert (lease.slot, lease.slots) == (1, (1,))
    await leases[0].release()
    async with there as lease, here as other:
        assert (lease.slot, other.slot) == (0, 1)
    await leases[2].release()


async def test_several_permits_have_several(here: Any, there: Any) -> None:
    """What comes back first are the highest. Kept by fewer in slots.lua, and Gate.lessen."""
    lease = await here.acquire(3)
    assert (lease.slot, lease.slots) == (0, (0, 1, 2))
    await lease.release(2)
    assert lease.slots == (0,)
    async with there.acquire(2, timeout=ENOUGH) as other:
        assert other.slots == (1, 2)
        await other.renew()
        await lease.release()
        async with here as third:
            assert third.slot == 0


@nobody_waits
async def test_those_that_wait_get_one(here: Any, there: Any) -> None:
    """Also if another process has let them in. Kept by assign in ask.lua: of an owner that holds already."""
    leases = [await here.acquire() for _ in range(3)]
    waiting = [asyncio.create_task(there.acquire()) for _ in range(2)]
    await queued(here, 2)
    await leases[1].release()
    await leases[2].release()
    async with asyncio.timeout(ENOUGH):
        entered = [await task for task in waiting]
    assert sorted(lease.slot for lease in entered) == [1, 2]
    for lease in (leases[0], *entered):
        await lease.release()


async def test_a_shrunk_pool_loses_its_highest_first(here: Any, there: Any) -> None:
    """Nobody gets one beyond the number. Kept by assign: it begins at 0."""
    leases = [await here.acquire() for _ in range(3)]
    await here.set_permits(2)
    await leases[0].release()
    assert await there.try_acquire() is None
    await leases[1].release()
    async with there as lease:
        assert lease.slot == 0
        assert await here.try_acquire() is None
    await leases[2].release()
    async with there as lease, here as other:
        assert (lease.slot, other.slot) == (0, 1)


@pytest.mark.parametrize("place", ["memory", "redis"], indirect=True)
async def test_a_pool_shrinks_while_one_is_let_in(here: Any, there: Any) -> None:
    """It has no number yet, and waits on if none is left below the new limit. Kept by unseat in slots.lua."""
    leases = [await here.acquire(), await here.acquire(), await there.acquire()]
    waiting = asyncio.create_task(there.acquire())
    await queued(here, 1)
    released = leases[2].release()
    await there.set_permits(2)  # written behind that on the same connection, before it can ask
    await released
    await queued(here, 1)
    assert not waiting.done()
    await leases[0].release()
    async with asyncio.timeout(ENOUGH), await waiting as lease:
        assert lease.slot == 0
    await leases[1].release()


async def test_a_ticket_carries_them(locks: LockManager, others: LockManager) -> None:
    """Kept by transfer.lua: `says`."""
    here = pool(locks, 4)
    first, moving = await here.acquire(), await here.acquire(2)
    ticket = await moving.detach()
    async with await others.resume(ticket) as moved, here as last:
        assert (moved.slots, last.slot) == ((1, 2), 3)
        await first.release()
        await moved.release(1)
        async with here.acquire(2) as both:
            assert both.slots == (0, 2)


async def test_who_has_which(locks: LockManager, here: Any, there: Any) -> None:
    """Kept by told: SLOTS, and by QueueInspection: slots_of."""
    async with pool(locks, metadata="nightly #7") as lease:
        (holder,) = await there.holders()
        assert "#" not in holder.process
        assert (holder.metadata, holder.slots) == ("nightly #7", lease.slots)
        assert lease.slot == 0
        async with here.acquire(2) as other, locks.semaphore("api", 3):
            assert [one.slots for one in await there.holders()] == [(0,), (1, 2)]
            assert [one.slots for one in await locks.semaphore("api", 3).holders()] == [()]
            await other.release(1)
            assert [one.slots for one in await there.holders()] == [(0,), (1,)]


async def test_one_that_asks_for_none(locks: LockManager, there: Any) -> None:
    """It takes a permit without a number. Kept by `first_slot()`."""
    async with locks.semaphore(NAME, 3) as lease, there as other:
        assert (lease.slots, other.slots) == ((), (0,))
        with pytest.raises(ConfigurationError, match="slots=True"):
            lease.slot  # noqa: B018
    with pytest.raises(ConfigurationError, match="1000"):
        locks.semaphore(NAME, 1001, slots=True)
    with pytest.raises(ConfigurationError, match="True or False"):
        locks.semaphore(NAME, 3, slots=1)  # type: ignore[arg-type]


async def test_a_holder_that_vanished_gives_it_back(place: Place, here: Any, there: Any) -> None:
    """When its ttl is over. Kept by prune.lua."""
    async with place.manager(ttl=place.ttl) as locks:
        gone = await pool(locks, ttl=0.5, renew=False, cancel_on_loss=False).acquire()
        async with here as kept:
            assert (gone.slot, kept.slot) == (0, 1)
            await gone.wait_lost()
            async with asyncio.timeout(ENOUGH):
                leases = [await there.acquire() for _ in range(2)]
            assert sorted(lease.slot for lease in leases) == [0, 2]
            for lease in leases:
                await lease.release()
        with pytest.raises(Exception, match="lost"):
            await gone.release()


@pytest.mark.parametrize("place", ["queues"], indirect=True)
async def test_a_store_with_queues_of_its_own_refuses(locks: LockManager) -> None:
    """Kept by LockFactory.semaphore: need_scripts."""
    with pytest.raises(ConfigurationError, match="slots of a semaphore are not offered"):
        pool(locks)
