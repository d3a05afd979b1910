"""The testing kit's thief, on every primitive."""

from __future__ import annotations

from typing import Any

import pytest

from aiolock import LockLost, LockManager, LossReason
from aiolock.testing import MemoryBackend
from aiolock.testing.memory import Kind

from .world import Crew, settle

KINDS: list[Kind] = ["lock", "rw", "semaphore"]


def made(locks: LockManager, kind: Kind) -> Any:
    match kind:
        case "lock":
            return locks.lock("a")
        case "rw":
            return locks.rw_lock("a").read
    return locks.semaphore("a", 1)


@pytest.mark.parametrize("kind", KINDS)
async def test_a_stolen_lock_is_lost_at_the_next_renewal(
    locks: LockManager, backend: MemoryBackend, crew: Crew, kind: Kind
) -> None:
    lock = made(locks, kind)
    lease = await lock.acquire()
    assert backend.steal("a", kind) >= lease.fence
    await backend.clock.advance(11)
    assert lease.reason in (LossReason.TAKEN_OVER, LossReason.DELETED)
    with pytest.raises(LockLost):
        await lease.release()
    waiting = crew.start(made(locks, kind if kind != "rw" else "lock").acquire())
    await settle(backend)
    assert waiting.done() == (kind == "rw")
    backend.give_back("a", kind)
    await settle(backend)
    await (await waiting).release()


@pytest.mark.parametrize("kind", KINDS)
async def test_an_expired_name_is_free_and_was_abandoned(
    locks: LockManager, peer: LockManager, backend: MemoryBackend, kind: Kind
) -> None:
    lease = await made(locks, kind).acquire()
    backend.expire("a", kind)
    async with made(peer, kind) as other:
        assert other.abandoned == (kind != "rw")  # a reader leaves nothing half-written
    await backend.clock.advance(11)
    assert lease.reason is LossReason.DELETED
    with pytest.raises(LockLost):
        await lease.release()


@pytest.mark.parametrize("kind", KINDS)
async def test_a_free_name_can_be_stolen(locks: LockManager, backend: MemoryBackend, kind: Kind) -> None:
    backend.steal("a", kind)
    assert await made(locks, kind).try_acquire() is None
    backend.give_back("a", kind)
    async with made(locks, kind):
        pass


async def test_every_hold_of_a_semaphore_is_taken(locks: LockManager, backend: MemoryBackend) -> None:
    semaphore = locks.semaphore("a", 3)
    leases = [await semaphore.acquire(), await semaphore.acquire(2)]
    backend.steal("a", "semaphore")
    assert await semaphore.available() == 0
    await backend.clock.advance(11)
    assert all(lease.lost for lease in leases)
    for lease in leases:
        with pytest.raises(LockLost):
            await lease.release()
    backend.give_back("a", "semaphore")
    assert await semaphore.available() == 3
