"""How a lease is given back: at once, by its own task, not under a block; and how a task continues after a loss."""

from __future__ import annotations

import asyncio
from typing import Any

import anyio
import pytest

from aiolock import ConfigurationError, Lease, LockLost, LockManager, LossReason, NotOwned
from aiolock.testing import MemoryBackend
from tests.support.installed import at_least

from .world import DEADLINE, Crew, expect_loss, lock_keys, settle

KINDS = ["lock", "fair_lock", "multi_lock", "semaphore", "read", "write"]


def of(locks: LockManager, kind: str, **options: Any) -> Any:
    if kind == "semaphore":
        return locks.semaphore("a", 2, **options)
    if kind in ("read", "write"):
        return getattr(locks.rw_lock("a", **options), kind)
    return getattr(locks, kind)("a", **options)


def held(backend: MemoryBackend) -> list[str]:
    return [key for key in lock_keys(backend) if not key.endswith((":expiry", ":queue", ":waiting", ":fences"))]


# release(): one rule for the lock and the lease.


@pytest.mark.parametrize("kind", KINDS)
async def test_it_is_written_when_called(locks: LockManager, backend: MemoryBackend, kind: str) -> None:
    lock = of(locks, kind)
    for lease_itself in (False, True):
        lease = await lock.acquire()
        (lease if lease_itself else lock).release()
        assert lease.released
        await settle(backend)
        assert held(backend) == []


async def test_a_task_can_be_made_of_it(locks: LockManager, backend: MemoryBackend) -> None:
    lock = locks.lock("a")
    lease = await lock.acquire()
    await asyncio.create_task(lease.release())
    await lock.acquire()
    await asyncio.create_task(lock.release())
    assert held(backend) == []
    await lock.acquire()
    async with asyncio.TaskGroup() as group:
        group.create_task(lock.release())
    if at_least("anyio", 4, 14):  # older groups take nothing but coroutines of `async def`
        lease = await lock.acquire()
        async with anyio.create_task_group() as anyios:
            anyios.start_soon(lease.release)
    lease = await lock.acquire()
    await asyncio.shield(asyncio.wait_for(lease.release(), 1))
    assert held(backend) == []


async def test_a_task_of_it_is_told_the_loss(locks: LockManager, backend: MemoryBackend) -> None:
    lease = await locks.lock("a").acquire()
    backend.steal("a")
    await backend.clock.advance(10)
    with pytest.raises(LockLost):
        await asyncio.create_task(lease.release())
    with pytest.raises(LockLost):
        await lease.release()


@pytest.mark.parametrize("kind", KINDS)
async def test_a_stranger_releases_nothing(locks: LockManager, backend: MemoryBackend, kind: str) -> None:
    """Issue 9, `Primitive._find`: even if the task that acquired has ended."""
    lock = of(locks, kind)
    keep: list[Lease] = []

    async def acquire() -> None:
        keep.append(await lock.acquire())

    await asyncio.create_task(acquire())
    for _ in range(3):
        with pytest.raises(NotOwned, match="this task has no lease"):
            lock.release()
        await asyncio.sleep(0)
    assert not keep[0].released
    await keep[0].release()


# release() under a block.


@pytest.mark.parametrize("kind", KINDS)
async def test_a_lock_is_not_released_under_its_block(locks: LockManager, backend: MemoryBackend, kind: str) -> None:
    """Issue 9: the rest of the body ran without the lock, and no one was told."""
    lock = of(locks, kind)
    async with lock as lease:
        with pytest.raises(NotOwned, match="Leave the block"):
            lock.release()
        assert not lease.released
        assert held(backend) != []
        inner = await lock.acquire()
        await lock.release()  # the innermost is a plain one
        assert inner.released
        assert not lease.released
    assert held(backend) == []


async def test_a_lease_may_be_released_early(locks: LockManager, peer: LockManager, backend: MemoryBackend) -> None:
    async with locks.lock("a") as lease:
        await lease.release()
        async with peer.lock("a").acquire(timeout=0):
            await backend.clock.advance(DEADLINE)  # nothing is held, so nothing is lost
        assert (lease.released, lease.lost) == (True, False)
    assert held(backend) == []


async def test_permits_may_be_given_back_under_a_block(locks: LockManager, backend: MemoryBackend) -> None:
    semaphore = locks.semaphore("a", 5)
    async with semaphore.acquire(3) as lease:
        await semaphore.release(2)
        assert await semaphore.used() == 1
        with pytest.raises(NotOwned, match="Leave the block"):
            semaphore.release(1)
        with pytest.raises(ConfigurationError):
            semaphore.release(2)
        assert lease.permits == 1
    assert await semaphore.used() == 0


# owned().


@pytest.mark.parametrize("kind", KINDS)
async def test_owned_counts_the_leases_of_the_task(locks: LockManager, backend: MemoryBackend, kind: str) -> None:
    lock = of(locks, kind)
    backend.calls.clear()
    assert lock.owned() == 0
    async with lock:
        assert lock.owned() == 1
        plain = await lock.acquire()
        assert lock.owned() == 2
        assert await asyncio.create_task(_owned(lock)) == 0
        plain.release()
        assert lock.owned() == 1
    assert lock.owned() == 0
    assert not any("info" in call for call in backend.calls)


async def _owned(lock: Any) -> int:
    return int(lock.owned())


async def test_owned_counts_one_side(locks: LockManager) -> None:
    rw = locks.rw_lock("a")
    async with rw.write, rw.read:
        assert (rw.write.owned(), rw.read.owned()) == (1, 1)
    async with rw.read:
        assert (rw.write.owned(), rw.read.owned()) == (0, 1)


async def test_what_is_lost_is_not_owned(locks: LockManager, backend: MemoryBackend) -> None:
    lock = locks.lock("a", renew=False)
    lease = await lock.acquire()
    backend.clock.jump(DEADLINE)
    assert lock.owned() == 0
    with pytest.raises(LockLost):
        await lease.release()


async def test_a_shared_hold_is_owned_by_each_task(locks: LockManager) -> None:
    lock = locks.lock("a")

    async def child(owner: Any) -> tuple[int, int]:
        async with lock.acquire(owner=owner) as lease:
            return lock.owned(), lease.depth

    async with lock as lease, lock:
        assert await asyncio.create_task(child(lease.owner)) == (1, 3)


# A plain lease that was lost.


@pytest.mark.parametrize("kind", ["lock", "fair_lock", "multi_lock", "read", "write"])
@pytest.mark.parametrize("attempt", ["acquire", "try_acquire", "block"])
async def test_a_worker_continues_after_a_loss(
    locks: LockManager, backend: MemoryBackend, kind: str, attempt: str
) -> None:
    """Issue 9: each later acquire() raised LockLost, until a release() that raised it, too. It is raised once."""
    lock = of(locks, kind, renew=False)
    lease = await lock.acquire()
    await backend.clock.advance(DEADLINE + 5)
    with expect_loss(LossReason.EXPIRED):
        await lock.acquire()
    if attempt == "block":
        async with lock as again:
            assert lock.owned() == 1
    else:
        again = await getattr(lock, attempt)()
        assert lock.owned() == 1
        await lock.release()
    assert again.fence > lease.fence or kind == "read"
    assert again.released
    assert lease.released
    with expect_loss(LossReason.EXPIRED):
        await lease.release()  # its meaning was lost
    await settle(backend)
    assert held(backend) == []


@pytest.mark.parametrize("told", ["ensure", "wait_lost", "renew"])
async def test_it_may_have_learned_of_it_in_another_way(locks: LockManager, backend: MemoryBackend, told: str) -> None:
    lock = locks.lock("a", renew=False)
    lease = await lock.acquire()
    await backend.clock.advance(DEADLINE + 5)
    if told == "wait_lost":
        assert await lease.wait_lost() is LossReason.EXPIRED
    elif told == "renew":
        with pytest.raises(LockLost):
            await lease.renew()
    else:
        with pytest.raises(LockLost):
            lease.ensure()
    again = await lock.acquire()
    await again.release()


async def test_a_release_after_the_failed_acquire_raises_lock_lost(locks: LockManager, backend: MemoryBackend) -> None:
    """`finally: await lock.release()` does not turn the loss into NotOwned."""
    lock = locks.lock("a", renew=False)
    await lock.acquire()
    await backend.clock.advance(DEADLINE + 5)
    with expect_loss(LossReason.EXPIRED):
        await lock.acquire()
    with expect_loss(LossReason.EXPIRED):
        await lock.release()
    await (await lock.acquire()).release()


async def test_the_old_key_is_not_waited_for(locks: LockManager, backend: MemoryBackend) -> None:
    """`_nesting`: a hold that was lost for `max_hold` still has its key, which is released first."""
    lock = locks.lock("a", max_hold=1.0)
    lease = await lock.acquire()
    await backend.clock.advance(2)
    with expect_loss(LossReason.MAX_HOLD):
        lease.ensure()
    again = await lock.acquire(timeout=0)
    assert again.abandoned
    await again.release()


async def test_a_lost_block_is_left_first(locks: LockManager, backend: MemoryBackend) -> None:
    """A block runs on in the loss: none of its tasks enters anew under it."""
    lock = locks.lock("a", renew=False, cancel_on_loss=False)
    with expect_loss(LossReason.EXPIRED):
        async with lock:
            await backend.clock.advance(DEADLINE + 5)
            for _ in range(3):
                with expect_loss(LossReason.EXPIRED):
                    await lock.acquire()


async def test_other_tasks_that_share_the_hold_are_not_ended(
    locks: LockManager, backend: MemoryBackend, crew: Crew
) -> None:
    lock = locks.lock("a", renew=False)
    lease = await lock.acquire()
    child_has, end = asyncio.Event(), asyncio.Event()

    async def child() -> Lease:
        shared = await lock.acquire(owner=lease.owner)
        child_has.set()
        await end.wait()
        assert not shared.released
        with expect_loss(LossReason.EXPIRED):
            await shared.release()
        return shared

    task = crew.start(child())
    await child_has.wait()
    await backend.clock.advance(DEADLINE + 5)
    with expect_loss(LossReason.EXPIRED):
        lease.ensure()
    again = await lock.acquire(timeout=0)
    end.set()
    await task
    assert not again.lost
    await again.release()
