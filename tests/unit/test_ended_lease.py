"""What you hear if you ask about a lease that has ended: released, detached, or its manager closed."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from aiolock import Lease, LockManager, LossReason, NotOwned
from aiolock.testing import MemoryBackend

from .world import DEADLINE, Crew, Holder, expect_loss, settle


async def release(lease: Lease) -> None:
    await lease.release()


async def detach(lease: Lease) -> None:
    await lease.detach()


ENDINGS = pytest.mark.parametrize(("end", "said"), [(release, "released"), (detach, "detached")])


@ENDINGS
async def test_you_cannot_wait_for_the_loss_of_a_released_lease(
    locks: LockManager, end: Callable[[Lease], Awaitable[None]], said: str
) -> None:
    lease = await locks.lock("a").acquire()
    await end(lease)
    with pytest.raises(NotOwned, match=said):
        await lease.wait_lost()


@ENDINGS
async def test_a_wait_for_a_loss_reports_the_end(
    locks: LockManager, backend: MemoryBackend, crew: Crew, end: Callable[[Lease], Awaitable[None]], said: str
) -> None:
    lease = await locks.lock("a").acquire()
    watching = [crew.start(lease.wait_lost()) for _ in range(3)]
    await settle(backend)
    watching[1].cancel()
    await end(lease)
    await settle(backend)
    assert all(task.done() for task in watching)
    for task in (watching[0], watching[2]):
        with pytest.raises(NotOwned, match=said):
            await task


async def test_the_end_of_a_block_reports_it(locks: LockManager, backend: MemoryBackend, crew: Crew) -> None:
    holder = Holder(crew, locks.lock("a"))
    watching = crew.start((await holder.entered).wait_lost())
    await settle(backend)
    await holder.end()
    with pytest.raises(NotOwned, match="released"):
        await watching


async def test_each_lease_of_a_nest_has_its_own_end(locks: LockManager, backend: MemoryBackend, crew: Crew) -> None:
    lock = locks.lock("a", renew=False)
    outer, inner = await lock.acquire(), await lock.acquire()
    of_outer, of_inner = crew.start(outer.wait_lost()), crew.start(inner.wait_lost())
    await settle(backend)
    await inner.release()
    with pytest.raises(NotOwned, match="released"):
        await of_inner
    assert not of_outer.done()
    await backend.clock.advance(DEADLINE + 1)
    assert await of_outer is LossReason.EXPIRED
    with expect_loss(LossReason.EXPIRED):
        await outer.release()


async def test_a_loss_stays_one_after_the_release(locks: LockManager, backend: MemoryBackend, crew: Crew) -> None:
    lease = await locks.lock("a", renew=False).acquire()
    watching = crew.start(lease.wait_lost())
    await backend.clock.advance(DEADLINE + 1)
    with expect_loss(LossReason.EXPIRED):
        await lease.release()
    assert await watching is LossReason.EXPIRED
    assert await lease.wait_lost() is LossReason.EXPIRED


async def test_closing_is_a_loss_only_of_open_leases(backend: MemoryBackend) -> None:
    async with LockManager(backend) as locks:
        gone, kept = await locks.lock("gone").acquire(), await locks.lock("kept").acquire()
        await gone.release()
        watching = asyncio.create_task(kept.wait_lost())
        await settle(backend)
    assert await watching is LossReason.CLOSED
    assert await kept.wait_lost() is LossReason.CLOSED
    with pytest.raises(NotOwned, match="released"):
        await gone.wait_lost()


async def test_a_renewal_that_a_release_overtakes_reports_it(locks: LockManager, crew: Crew) -> None:
    """Whether it was extended or not, it is no longer held when the answer arrives."""
    lease = await locks.lock("a").acquire()
    renewing = crew.start(lease.renew())
    await asyncio.sleep(0)
    assert not renewing.done()
    releasing = lease.release()
    with pytest.raises(NotOwned, match="released"):
        await renewing
    await releasing


async def test_a_nested_renewal_reports_it_too(locks: LockManager, crew: Crew) -> None:
    lock = locks.lock("a")
    outer, inner = await lock.acquire(), await lock.acquire()
    renewing, other = crew.start(inner.renew()), crew.start(outer.renew())
    await asyncio.sleep(0)
    releasing = inner.release()
    with pytest.raises(NotOwned, match="released"):
        await renewing
    await other
    await releasing
    await outer.release()
