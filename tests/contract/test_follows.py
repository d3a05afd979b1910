"""What a holder learns that lost its lock and takes it again: whether anybody had it meanwhile."""

# ruff: noqa: PT012 - what raises is the whole guarded block

from __future__ import annotations

import asyncio

import pytest

from aiolock import ConfigurationError, Lease, Lock, LockLost, LockManager, LossReason, NotOwned
from aiolock.recipes import follows
from tests.support.locks import let_expire

from .places import Place, renew_now, until

NAME = "order:42"


async def lost(here: Lock) -> Lease:
    """A lease that was lost in its block, as after a sleep; nobody has the lock."""
    with pytest.raises(LockLost):
        async with here as lease:
            lease._hold.lose(LossReason.LOOP_BLOCKED)
            await asyncio.sleep(60.0)
    return lease


async def test_nobody_had_it(here: Lock, place: Place) -> None:
    """Kept by follows.lua, and by `before`, which acquire_free.lua keeps with the grant."""
    old = await lost(here)
    async with here as lease:
        assert lease.fence > old.fence + 1  # no fence says so by itself
        assert await follows(lease, old.fence)
        renew_now(lease)
        async with here as nested:
            assert await follows(nested, old.fence)
    async with here as third:
        assert await follows(third, lease.fence)
        assert not await follows(third, old.fence)


async def test_its_time_ran_out_and_its_process_is_gone(place: Place, locks: LockManager, others: LockManager) -> None:
    """The fence is all that a new process needs."""
    lease = await locks.lock(NAME).acquire()
    fence = lease.fence
    let_expire(place.side, NAME)
    async with others.lock(NAME) as again:
        assert again.abandoned
        assert await follows(again, fence)
    with pytest.raises(LockLost):
        await lease.release()


async def test_another_had_it(here: Lock, there: Lock) -> None:
    """However short, and although it has released it since."""
    old = await lost(here)
    async with there:
        pass
    async with here as lease:
        assert not await follows(lease, old.fence)


async def test_another_had_it_while_this_one_waited(here: Lock, there: Lock, locks: LockManager) -> None:
    old = await lost(here)
    async with there:
        waiter = asyncio.ensure_future(here.acquire())
        await until(locks.waiting)
    lease = await waiter
    assert not await follows(lease, old.fence)
    await lease.release()


async def test_another_task_of_this_process_had_it(here: Lock, locks: LockManager) -> None:
    """And handed it on within the process, with a fence of its own. Kept by `before` in transfer_local.lua."""
    old = await lost(here)
    async with here as other:
        waiter = asyncio.ensure_future(here.acquire())
        await until(locks.waiting)
    lease = await waiter
    assert not await follows(lease, old.fence)
    assert await follows(lease, other.fence)
    await lease.release()


async def test_the_server_has_forgotten_it(here: Lock, place: Place) -> None:
    old = await lost(here)
    place.side.delete(*place.keys())
    async with here as lease:
        assert not await follows(lease, old.fence)


async def test_what_cannot_be_asked(here: Lock, locks: LockManager) -> None:
    async with here as lease:
        pass
    with pytest.raises(NotOwned):
        await follows(lease, 1)
    with pytest.raises(LockLost):
        await follows(await lost(here), 1)
    with pytest.raises(ConfigurationError, match="the lease that acquire"):
        await follows(here, 1)  # type: ignore[arg-type]
    async with locks.semaphore(NAME, 1) as permit:
        with pytest.raises(ConfigurationError, match="needs a lease of a lock"):
            await follows(permit, 1)
