"""A resumed lease has what the server moved, whatever its ticket says."""

from __future__ import annotations

from dataclasses import replace

import pytest

from aiolock import LockManager, NotAcquired, NotOwned
from aiolock.core.holding.ticket import Ticket
from aiolock.primitives.kinds import FULL

NAME = "order:42"


def forged(ticket: str, weight: int) -> str:
    return replace(Ticket.read(ticket), weight=weight).encode()


async def test_a_readers_ticket_makes_no_writer(locks: LockManager, others: LockManager) -> None:
    """Kept by resume(): `waiter.calls = outcome.calls`."""
    reading = await locks.rw_lock(NAME).read.acquire()
    ticket = forged(await reading.detach(), FULL)
    rw = others.rw_lock(NAME)
    async with locks.rw_lock(NAME).read:
        moved = await others.resume(ticket)
        with pytest.raises(NotAcquired, match="wait for itself"):
            await rw.write.acquire(timeout=0)
        with pytest.raises(NotOwned):
            await rw.write.release()
        info = await rw.info()
        assert info is not None
        assert (info.readers, info.writing) == (2, False)
        await rw.read.release()
        assert moved.released
    assert await rw.info() is None


async def test_a_writers_ticket_makes_no_reader(locks: LockManager, others: LockManager) -> None:
    writing = await locks.rw_lock(NAME).write.acquire()
    moved = await others.resume(forged(await writing.detach(), 1))
    async with others.rw_lock(NAME).write:
        pass
    assert moved._calls.weight == FULL
    await others.rw_lock(NAME).write.release()
    assert moved.released


@pytest.mark.parametrize("weight", [1, 3, 7])
async def test_a_semaphores_ticket_makes_no_permits(locks: LockManager, others: LockManager, weight: int) -> None:
    lease = await locks.semaphore(NAME, 5).acquire(2)
    moved = await others.resume(forged(await lease.detach(), weight))
    assert moved.permits == 2
    await moved.release(1)
    assert await others.semaphore(NAME, 5).used() == 1
    await moved.release()
    assert await others.semaphore(NAME, 5).used() == 0


async def test_a_resumed_semaphore_lease_asks_with_its_own_share_and_capacity(
    locks: LockManager, others: LockManager
) -> None:
    """So a server that lost their number does not take the lease's share for the total."""
    lease = await locks.semaphore(NAME, 5).acquire(2)
    moved = await others.resume(await lease.detach())
    _, (_, (*_, capacity, weight)) = moved._hold.part()
    assert (capacity, weight) == (5, 2)
    await moved.release()
