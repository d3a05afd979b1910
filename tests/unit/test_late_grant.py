"""A grant that arrives past its deadline: the loop stood still, and the server has meanwhile granted to another."""

from __future__ import annotations

import asyncio

import pytest

from aiolock import AcquireTimeout, BackendError, LockManager
from aiolock.testing import MemoryBackend

from .world import SlowBackend, settle, turns


async def test_the_first_in_line_stays_the_first() -> None:
    """Its grant is undone, and the others of its process wait behind it. Kept by Gate.rejoin."""
    backend, entered = SlowBackend(), list[int]()
    async with LockManager(backend) as locks:

        async def work(number: int) -> None:
            async with locks.lock("a", ttl=1.0):
                entered.append(number)

        tasks = [asyncio.create_task(work(number)) for number in range(3)]
        await turns(2)
        backend.clock.jump(0.95)
        await asyncio.gather(*tasks)
    assert backend.calls.count("acquire") == 2
    assert entered == [0, 1, 2]


@pytest.mark.parametrize("kind", ["lock", "fair_lock"])
async def test_a_ttl_shorter_than_the_liveness(kind: str) -> None:
    """It is over although the grant is not: no block begins with a lost lease. Kept by admit(): `hold.check()`.

    Found by simulation.
    """
    backend = SlowBackend()
    async with LockManager(backend) as locks, LockManager(MemoryBackend(backend)) as peer:
        lease = await peer.lock("a").acquire()
        waiter = asyncio.create_task(getattr(locks, kind)("a", ttl=1.0).acquire())
        await settle(backend)
        released = lease.release()
        await turns(1)
        backend.clock.jump(0.95)  # before the message is read
        later = await waiter
        assert not later.lost
        await later.release()
        await released


async def test_a_task_with_a_shorter_ttl_than_the_one_that_asked() -> None:
    """It takes over the grant, and has its own margin at once. Kept by LocalQueue.granted: `first.policy`."""
    backend = SlowBackend(turns=10)
    async with LockManager(backend) as locks:
        asking = asyncio.create_task(locks.lock("a", ttl=30.0).acquire())
        other = asyncio.create_task(locks.lock("a", ttl=1.0).acquire())
        await turns(2)
        asking.cancel()
        lease = await other
        for _ in range(3):  # the confirmation takes longer
            backend.clock.jump(0.002)
            await turns(1)
        assert not lease.lost
        assert 0.8 < lease.remaining() < 1.0
        await lease.release()


async def test_a_grant_on_the_terms_of_another_that_has_gone() -> None:
    """The server keeps it for as long as that one asked; its own ttl is over.

    Kept by LocalQueue.granted: `deadline`.
    """
    backend = SlowBackend(turns=6)
    async with LockManager(backend) as locks, LockManager(MemoryBackend(backend)) as peer:
        lease = await peer.lock("a").acquire()
        first = asyncio.create_task(locks.lock("a").acquire())
        await settle(backend)
        second = asyncio.create_task(locks.lock("a", ttl=1.0).acquire())
        await settle(backend)
        lease.release()
        for asked in (2, 3):
            while backend.calls.count("acquire") < asked:
                await turns(1)
            first.cancel()
        backend.clock.jump(2.0)
        taken = await second
        assert not taken.lost
        assert taken.remaining() > 0
        await taken.release()


@pytest.mark.parametrize("timeout", [5.0, 0.0])
async def test_its_time_to_wait_is_over_as_well(timeout: float) -> None:
    """It asks anew, but for no longer than it may; if it may not wait, the server must answer once more.

    Kept by Waiter.wait_again.
    """
    backend = SlowBackend()
    async with LockManager(backend) as locks, LockManager(MemoryBackend(backend)) as peer:
        waiter = asyncio.create_task(locks.lock("a", ttl=1.0).acquire(timeout=timeout))
        while not locks._runtime.holds:
            await turns(1)
        assert not waiter.done()
        backend.turns = 10**6  # from now on it does not answer
        backend.clock.jump(6.0)
        await backend.clock.advance(0)  # timers first
        await backend.clock.advance(5.0)
        with pytest.raises((AcquireTimeout, BackendError)):
            await waiter
        backend.turns = 2
        async with peer.lock("a"):
            pass
