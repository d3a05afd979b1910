"""`async with lease`: a block guarded by a lease that was acquired before, by this task or another."""

from __future__ import annotations

import asyncio
import gc

import pytest

from aiolock import ConfigurationError, LockManager, LossReason, NotOwned
from aiolock.testing import MemoryBackend

from .world import MARGIN, TTL, Crew, assert_empty, expect_loss, lock_keys, settle


async def test_a_block_begins_with_its_lease_and_releases_it(
    locks: LockManager, peer: LockManager, backend: MemoryBackend
) -> None:
    lease = await locks.lock("a").acquire()
    async with lease as entered:
        assert entered is lease
        assert not lease.released
    assert lease.released
    assert backend.calls == ["acquire", "release"]
    assert not await peer.lock("a").is_locked()


@pytest.mark.parametrize("nested", [False, True])
async def test_a_loss_cancels_the_block(locks: LockManager, backend: MemoryBackend, crew: Crew, nested: bool) -> None:
    """The outer block, if another is inside it. Kept by Lease.__aenter__: `Guard`."""
    inside = asyncio.Event()
    reached: list[str] = []

    async def work() -> None:
        async with await locks.lock("a").acquire():
            if nested:
                async with await locks.lock("a").acquire():
                    inside.set()
                    await asyncio.Event().wait()
                reached.append("after the inner block")
            inside.set()
            await asyncio.Event().wait()

    task = crew.start(work())
    await inside.wait()
    backend.steal("a")
    await backend.clock.advance(TTL / 3)
    assert task.done()
    with expect_loss(LossReason.TAKEN_OVER):
        await task
    assert reached == []


async def test_a_lost_lease_is_not_entered_but_given_up(
    locks: LockManager, backend: MemoryBackend, peer: LockManager
) -> None:
    """No one else would: the block that would release it never begins. Kept by Lease.__aenter__: `_give_up`."""
    lease = await locks.lock("a", renew=False).acquire()
    backend.clock.jump(TTL - MARGIN)
    with expect_loss(LossReason.EXPIRED):
        async with lease:
            pytest.fail("entered")
    assert lease.released
    assert_empty(locks)
    await settle(backend)
    async with peer.lock("a").acquire(timeout=0):
        pass


async def test_what_cannot_be_entered(locks: LockManager, backend: MemoryBackend) -> None:
    lease = await locks.lock("a").acquire()
    async with lease:
        with pytest.raises(ConfigurationError, match="guards a block already"):
            async with lease:
                pytest.fail("entered")
        assert not lease.released
    with pytest.raises(NotOwned, match="was released"):
        async with lease:
            pytest.fail("entered")
    async with locks.lock("a") as lease:
        with pytest.raises(ConfigurationError, match="guards a block already"):
            await lease.__aenter__()
    moved = await locks.lock("a").acquire()
    ticket = await moved.detach()
    with pytest.raises(NotOwned, match="was detached"):
        await moved.__aenter__()
    async with await locks.resume(ticket) as resumed:
        assert resumed.fence > moved.fence


async def test_the_task_that_enters_has_it(locks: LockManager, backend: MemoryBackend, crew: Crew) -> None:
    """A loss cancels that task; the other holds nothing any more. Kept by Lease.__aenter__: `tasks.add`."""
    lock = locks.lock("a")
    lease = await lock.acquire()
    inside = asyncio.Event()

    async def work() -> None:
        async with lease:
            assert lock.owned() == 1
            async with lock:  # nests
                assert lease.depth == 2
            inside.set()
            await asyncio.Event().wait()

    task = crew.start(work())
    await inside.wait()
    assert lock.owned() == 0
    with pytest.raises(NotOwned):
        lock.release()
    lease._hold.lose(LossReason.DELETED)
    with expect_loss(LossReason.DELETED):
        await task


async def test_acquired_by_a_task_that_has_ended(locks: LockManager, backend: MemoryBackend) -> None:
    """As `asyncio.wait_for` does on Python 3.11: it is renewed, and guards. Kept by LeasesByTask.remove: `strays`."""
    lease = await asyncio.create_task(locks.lock("a").acquire())
    await settle(backend)
    assert lease._task is None
    async with lease:
        gc.collect()
        await backend.clock.advance(2 * TTL)
        assert lease.remaining() > 0
    assert lock_keys(backend) == []


async def test_a_task_that_ends_inside_gives_it_up(
    locks: LockManager, backend: MemoryBackend, caplog: pytest.LogCaptureFixture
) -> None:
    lease = await locks.lock("a").acquire()

    async def work() -> None:
        await lease.__aenter__()

    await asyncio.create_task(work())
    await settle(backend)
    assert lease.released
    assert "ended inside `async with`" in caplog.text


async def test_released_inside(locks: LockManager, backend: MemoryBackend) -> None:
    """The rest of the block runs without the lock, as in any other."""
    async with await locks.lock("a").acquire() as lease:
        with pytest.raises(NotOwned, match="`async with` block"):
            locks.lock("a").release()
        await lease.release()
        assert lock_keys(backend) == []
    assert backend.calls == ["acquire", "release"]


async def test_an_error_of_the_block_passes(locks: LockManager, backend: MemoryBackend) -> None:
    lease = await locks.lock("a").acquire()
    with pytest.raises(ZeroDivisionError):
        async with lease:
            raise ZeroDivisionError
    assert lock_keys(backend) == []


async def test_on_another_loop(locks: LockManager) -> None:
    lease = await locks.lock("a").acquire()

    async def main() -> None:
        with pytest.raises(ConfigurationError, match="on another event loop"):
            async with lease:
                pytest.fail("entered")

    await asyncio.to_thread(asyncio.run, main())
    assert not lease.released
    async with lease:
        pass


async def test_without_cancellation(locks: LockManager, backend: MemoryBackend) -> None:
    """`cancel_on_loss=False`: the block runs on, and ends with `LockLost`."""
    lease = await locks.lock("a", cancel_on_loss=False).acquire()
    reached = False
    with expect_loss(LossReason.TAKEN_OVER):
        async with lease:
            backend.steal("a")
            await backend.clock.advance(TTL / 3)
            reached = True
    assert reached


async def test_over_a_yield(locks: LockManager) -> None:
    """An async generator that holds it gets a warning, as with `async with lock`. Kept by Lease.__aenter__:
    `caller`.
    """

    async def pages() -> object:
        async with await locks.lock("a").acquire():
            yield 1

    with pytest.warns(RuntimeWarning, match="over a `yield`"):
        assert [page async for page in pages()] == [1]  # type: ignore[attr-defined]


async def test_of_a_semaphore(locks: LockManager, backend: MemoryBackend) -> None:
    """A block with what is left of the permits."""
    semaphore = locks.semaphore("a", 3)
    async with await semaphore.acquire(3) as lease:
        await lease.release(2)
        assert await semaphore.available() == 2
    assert await semaphore.available() == 3
