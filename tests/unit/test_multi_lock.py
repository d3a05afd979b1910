"""The multi lock in one process: queues that overlap, whose turn it is, and what hears of what."""

from __future__ import annotations

import asyncio

import pytest

from aiolock import LockManager, LossReason, MultiLock
from aiolock.testing import MemoryBackend

from .world import DEADLINE, TTL, Crew, Holder, assert_empty, expect_loss, inside, lock_keys, settle


@pytest.mark.parametrize("elsewhere", [False, True])
async def test_waiters_elsewhere_are_not_kept_out(
    backend: MemoryBackend, locks: LockManager, peer: LockManager, crew: Crew, elsewhere: bool
) -> None:
    """Each entry of a process goes to the end of the queues. Kept by MultiCalls.transfers: a release is a release."""
    order: list[str] = []

    async def enter(lock: MultiLock, who: str) -> None:
        async with lock:
            order.append(who)
            await asyncio.sleep(0)

    first = Holder(crew, (peer if elsewhere else locks).multi_lock("a", "b"))
    await first.entered
    here = [crew.start(enter(locks.multi_lock("a", "b"), "here")) for _ in range(12)]
    await backend.clock.advance(0.001)
    there = crew.start(enter(peer.multi_lock("b", "c"), "there"))
    await settle(backend)
    await first.end()
    await asyncio.gather(there, *here)
    assert order.index("there") == (1 if elsewhere else 0)
    await settle(backend)
    assert_empty(locks)


async def test_no_pause_without_other_waiters(backend: MemoryBackend, locks: LockManager, crew: Crew) -> None:
    """No time has to pass."""
    holders = [Holder(crew, locks.multi_lock("a", "b")) for _ in range(40)]
    for holder in holders:
        holder.leave.set()
    for _ in holders:
        await settle(backend)
    assert all(holder.task.done() for holder in holders)


async def test_the_queue_of_each_set_is_one_step(backend: MemoryBackend, locks: LockManager, crew: Crew) -> None:
    """No local deadlock: a task that waits for {a, b} holds neither."""
    holders = [Holder(crew, locks.lock("a")), Holder(crew, locks.multi_lock("a", "b"))]
    await settle(backend)
    holders.append(Holder(crew, locks.lock("b")))
    await settle(backend)
    assert inside(holders) == [True, False, True]
    await holders[0].end()
    await settle(backend)
    assert not holders[1].entered.done()
    await holders[2].end()
    await settle(backend)
    assert holders[1].entered.done()
    await holders[1].end()


async def test_one_attempt_per_release(backend: MemoryBackend, locks: LockManager, crew: Crew) -> None:
    """The release and the next one's request, and nothing else."""
    holders = [Holder(crew, locks.multi_lock("a", "b")) for _ in range(3)]
    await settle(backend)
    for holder in holders:
        backend.calls.clear()
        await holder.end()
        await settle(backend)
        assert backend.calls == ["release", "acquire"][: 2 if holder is not holders[-1] else 1]


async def test_a_lost_part_is_noticed_at_the_next_renewal(backend: MemoryBackend, locks: LockManager) -> None:
    with expect_loss(LossReason.DELETED):
        async with locks.multi_lock("a", "b"):
            backend.store.delete("aiolock:lock:{b}")
            await backend.clock.advance(TTL / 3 + 0.1)
            await asyncio.Event().wait()
    await settle(backend)
    assert lock_keys(backend) == []


async def test_it_lives_by_the_deadline_in_an_outage(backend: MemoryBackend, locks: LockManager) -> None:
    with expect_loss(LossReason.UNREACHABLE):
        async with locks.multi_lock("a", "b"):
            with backend.outage():
                await backend.clock.advance(DEADLINE + 0.1)
                await asyncio.Event().wait()
    await backend.clock.advance(TTL)
    assert lock_keys(backend) == []


async def test_managers_of_two_servers_do_not_collide(locks: LockManager) -> None:
    """Names of another server are other locks. Kept by refusal.overlapping: `runtime.holds`."""
    async with LockManager(MemoryBackend()) as elsewhere, locks.lock("a"), elsewhere.multi_lock("a", "b") as lease:
        assert not lease.lost
        assert not await locks.lock("b").is_locked()
