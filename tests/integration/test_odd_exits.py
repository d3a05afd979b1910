"""Blocks left in another task or another order: none that runs on is ended, no error masked, no task left cancelled."""

from __future__ import annotations

import asyncio
import logging
import sys
from collections.abc import Callable
from contextlib import AsyncExitStack
from typing import Any

import anyio
import pytest

from aiolock import ConfigurationError, Lease, LockLost, LockManager, LossReason, NotOwned
from aiolock.core.guarding import scope
from aiolock.testing import MemoryBackend
from tests.unit.world import expect_loss, lock_keys, settle

pytestmark = pytest.mark.any_loop

LOST = LossReason.TAKEN_OVER


def lose(lease: Lease) -> None:
    lease._hold.lose(LOST)


async def forever() -> None:
    await asyncio.Event().wait()


async def usable() -> None:
    """Check that the task continues as if nothing had happened, also for anyio."""
    task = asyncio.current_task()
    assert task is not None
    assert task.cancelling() == 0
    with anyio.move_on_after(1) as inner:
        await asyncio.wait_for(anyio.lowlevel.checkpoint_if_cancelled(), 1)
        for _ in range(3):
            await asyncio.sleep(0)
    assert not inner.cancelled_caught
    assert task not in scope._left


class Service:
    """Enters in one task and leaves in another."""

    def __init__(self, lock: Any) -> None:
        self.lock = lock
        self.lease: Lease | None = None

    async def start(self) -> None:
        self.lease = await self.lock.__aenter__()

    async def stop(self) -> None:
        await self.lock.__aexit__(None, None, None)


# Another task.


@pytest.mark.parametrize("lost", [False, True])
async def test_the_task_that_entered_continues(locks: LockManager, backend: MemoryBackend, lost: bool) -> None:
    """`_standing_in`: no scope is left in the task, cancelled or not."""
    service = Service(locks.lock("a"))
    started, stopped = asyncio.Event(), asyncio.Event()

    async def run() -> None:
        with anyio.CancelScope():
            await service.start()
            started.set()
            try:
                await stopped.wait()
            except asyncio.CancelledError:
                assert lost
                with anyio.CancelScope(shield=True):
                    await stopped.wait()
            await usable()

    running = asyncio.create_task(run())
    await started.wait()
    assert service.lease is not None
    if lost:
        lose(service.lease)
        await asyncio.sleep(0)
    stopping = asyncio.create_task(service.stop())
    await asyncio.wait({stopping})
    assert isinstance(stopping.exception(), LockLost if lost else type(None))
    stopped.set()
    if lost:
        await asyncio.wait({running})  # a scope inside it was open, so the cancellation was redelivered
    else:
        await running
    assert running not in scope._left
    assert lock_keys(backend) == []


async def test_a_cancelled_task_is_freed(locks: LockManager) -> None:
    """Issue 9: a scope that was cancelled and left elsewhere made anyio's checkpoint spin."""
    service = Service(locks.lock("a"))
    started, stopped = asyncio.Event(), asyncio.Event()

    async def run() -> None:
        await service.start()
        started.set()
        while not stopped.is_set():
            try:
                await stopped.wait()
            except asyncio.CancelledError:
                cancelled.set()
        await usable()

    cancelled = asyncio.Event()
    running = asyncio.create_task(run())
    await started.wait()
    assert service.lease is not None
    lose(service.lease)
    await cancelled.wait()
    with pytest.raises(LockLost):
        await asyncio.create_task(service.stop())
    stopped.set()
    await running


async def test_a_block_of_a_stack_whose_frame_has_ended(locks: LockManager) -> None:
    """A later frame may have its id: that block runs no more. Kept by Blocks._of: `guard.code`."""
    lock = locks.rw_lock("a").read
    inside, end = asyncio.Event(), asyncio.Event()

    async def reader() -> None:
        async with lock:
            inside.set()
            await end.wait()

    reading = asyncio.create_task(reader())
    await inside.wait()
    async with AsyncExitStack() as stack:
        lease = await stack.enter_async_context(lock)
        guard = next(guard for guard in lock._blocks.all() if guard.lease is lease)
        lock._blocks.pop(guard.frame)
        guard.frame = id(sys._getframe())
        lock._blocks.enter(guard, several=False)
    assert lease.released
    assert not reading.done()
    end.set()
    await reading


async def test_several_blocks_and_it_is_unclear_which_is_meant(
    locks: LockManager, backend: MemoryBackend, caplog: pytest.LogCaptureFixture
) -> None:
    """Issue 9: stop() of the one released the lease of the reader that ran on."""
    lock = locks.rw_lock("a").read
    service = Service(lock)
    started, end = asyncio.Event(), asyncio.Event()

    async def run() -> None:
        await service.start()
        started.set()
        await end.wait()

    async def reader() -> bool:
        async with lock as lease:
            inside.set()
            await end.wait()
            return lease.released

    inside = asyncio.Event()
    running, reading = asyncio.create_task(run()), asyncio.create_task(reader())
    await started.wait()
    await inside.wait()
    with pytest.raises(NotOwned, match="Keep the object that acquire"):
        await asyncio.create_task(service.stop())
    assert any("none was released" in record.getMessage() for record in caplog.records)
    with pytest.raises(ZeroDivisionError):  # an error is not masked
        await asyncio.create_task(_leave_by_error(lock))
    end.set()
    assert await reading is False
    await running
    await settle(backend)
    assert service.lease is not None
    assert service.lease.released  # with its task's end
    assert lock_keys(backend) == []


async def _leave_by_error(lock: Any) -> None:
    try:
        raise ZeroDivisionError
    except ZeroDivisionError as error:
        await lock.__aexit__(type(error), error, error.__traceback__)
        raise


async def test_stopped_inside_a_block_of_your_own(locks: LockManager) -> None:
    """`Blocks._of`: the task's innermost block runs on, because its frame is on the stack."""
    lock = locks.semaphore("a", 3)
    service = Service(lock)
    started, end = asyncio.Event(), asyncio.Event()

    async def run() -> None:
        await service.start()
        started.set()
        await end.wait()

    running = asyncio.create_task(run())
    await started.wait()
    async with lock as lease:
        with pytest.raises(NotOwned):
            await service.stop()
        assert not lease.released
    end.set()
    await running


@pytest.mark.parametrize("form", ["lock", "acquisition"])
async def test_on_another_loop(locks: LockManager, backend: MemoryBackend, form: str) -> None:
    lock = locks.lock("a")
    block = lock if form == "lock" else lock.acquire()
    lease = await block.__aenter__()

    def leave(error: BaseException | None) -> None:
        asyncio.run(block.__aexit__(None if error is None else type(error), error, None))

    with pytest.raises(ConfigurationError, match="another event loop"):
        await asyncio.to_thread(leave, None)
    assert not lease.released
    await lease.release()
    assert lock_keys(backend) == []
    block = lock if form == "lock" else lock.acquire()
    lease = await block.__aenter__()
    error = ValueError("the body's own")
    await asyncio.to_thread(leave, error)  # it goes on
    assert "another event loop" in error.__notes__[0]
    assert not lease.released
    await lease.release()


async def test_the_task_that_entered_has_ended(locks: LockManager, caplog: pytest.LogCaptureFixture) -> None:
    """Like a fixture's set-up and tear-down: its lease ended with its task, and is not confused with another's."""
    lock = locks.rw_lock("a").read
    one, two = Service(lock), Service(lock)
    await asyncio.create_task(one.start())
    await asyncio.create_task(two.start())
    await asyncio.sleep(0)
    assert one.lease is not None
    assert one.lease.released
    await asyncio.create_task(two.stop())
    await asyncio.create_task(one.stop())
    assert not lock._blocks
    assert len([record for record in caplog.records if record.levelno == logging.ERROR]) == 2


async def test_recursion(locks: LockManager) -> None:
    """Blocks of one lock object in several frames of one task, and in several tasks."""
    lock = locks.semaphore("a", 100)
    seen: list[bool] = []

    async def descend(depth: int) -> None:
        async with lock as outer, lock as inner:
            if depth:
                await descend(depth - 1)
            await asyncio.sleep(0)
            seen.append(outer.released or inner.released)

    await asyncio.gather(*(descend(3) for _ in range(5)))
    assert seen == [False] * 20
    assert not lock._blocks


# Another order.


async def test_left_in_another_order(locks: LockManager, backend: MemoryBackend) -> None:
    first, second = locks.lock("a").acquire(), locks.lock("b").acquire()
    with anyio.CancelScope():
        await first.__aenter__()
        await second.__aenter__()
        await first.__aexit__(None, None, None)
        await second.__aexit__(None, None, None)
        await usable()
    assert lock_keys(backend) == []


@pytest.mark.parametrize("order", ["012", "102", "021"])
async def test_three_in_another_order(locks: LockManager, backend: MemoryBackend, order: str) -> None:
    blocks = [locks.lock(name).acquire() for name in "abc"]
    with anyio.CancelScope():
        for block in blocks:
            await block.__aenter__()
        for number in order:
            await blocks[int(number)].__aexit__(None, None, None)
        await usable()
    assert lock_keys(backend) == []


async def test_the_bodys_error_is_not_masked(locks: LockManager, backend: MemoryBackend) -> None:
    first, second = locks.lock("a").acquire(), locks.lock("b").acquire()

    async def work() -> None:
        await first.__aenter__()
        await second.__aenter__()
        error = ValueError("the body's own")
        try:
            raise error
        finally:
            await first.__aexit__(ValueError, error, None)
            await second.__aexit__(ValueError, error, None)

    with pytest.raises(ValueError, match="the body's own") as caught:
        await work()
    assert caught.value.__context__ is None
    await usable()
    assert lock_keys(backend) == []


async def test_the_loss_of_what_was_left_first(locks: LockManager, backend: MemoryBackend) -> None:
    """It was still the scope around the second block: whoever it cancels is told its loss."""
    first, second = locks.lock("a").acquire(), locks.lock("b").acquire()
    lease = await first.__aenter__()
    await second.__aenter__()
    lose(lease)
    with pytest.raises(LockLost, match="'a'"):
        await first.__aexit__(None, None, None)
    cancelled = None
    try:
        await forever()
    except asyncio.CancelledError as error:
        cancelled = error
    with pytest.raises(LockLost, match="'a'"):
        await second.__aexit__(asyncio.CancelledError, cancelled, None)
    await usable()
    assert lock_keys(backend) == []


async def test_across_a_scope_of_your_own(locks: LockManager, backend: MemoryBackend) -> None:
    block = locks.lock("a").acquire()
    with pytest.raises(RuntimeError, match="cancel scope"), anyio.CancelScope():
        await block.__aenter__()
    await block.__aexit__(None, None, None)
    assert lock_keys(backend) == []


async def test_across_a_scope_of_your_own_that_ends_before_the_outer_block(
    locks: LockManager, caplog: pytest.LogCaptureFixture
) -> None:
    """Nothing is open in what was left first: it ends, and then the outer block. Kept by leave_scope: `while`."""
    outer, inner = locks.lock("a").acquire(), locks.lock("b").acquire()
    await outer.__aenter__()
    await inner.__aenter__()
    with anyio.CancelScope():
        await inner.__aexit__(None, None, None)
    assert "lock 'b' was left while" in caplog.text
    caplog.clear()
    await outer.__aexit__(None, None, None)
    await usable()
    assert caplog.text == ""


@pytest.mark.parametrize("together", [False, True])
async def test_the_outer_block_of_a_nest_is_left_first(locks: LockManager, together: bool) -> None:
    """`Guard._hand_on`: the inner block is still cancelled on a loss, and reports it."""
    lock = locks.lock("a")
    outer, inner = lock.acquire(), lock.acquire()
    await outer.__aenter__()
    lease = await inner.__aenter__()
    leave: Callable[[], Any] = lambda: outer.__aexit__(None, None, None)  # noqa: E731
    await (asyncio.create_task(leave()) if together else leave())
    asyncio.get_running_loop().call_soon(lose, lease)
    cancelled = None
    try:
        await forever()
    except asyncio.CancelledError as error:
        cancelled = error
    with expect_loss(LOST):
        await inner.__aexit__(asyncio.CancelledError, cancelled, None)
    await usable()


# The body's own error, at the end of a block that is cancelled.


async def test_an_error_in_a_cancelled_scope_is_not_masked(locks: LockManager, backend: MemoryBackend) -> None:
    """Waiting for the release's answer would be cancelled, and the scope would swallow that with the error in it."""

    async def work() -> None:
        with anyio.CancelScope() as outside:
            async with locks.lock("a"):
                outside.cancel()
                try:
                    await forever()
                finally:
                    raise ValueError("the body's own")

    with pytest.raises(ValueError, match="the body's own"):
        await work()
    await settle(backend)
    assert lock_keys(backend) == []


async def test_an_error_inside_a_lost_block_is_not_masked(locks: LockManager) -> None:
    async def work() -> None:
        async with locks.lock("a") as lease, locks.lock("b"):
            lose(lease)
            try:
                await forever()
            finally:
                raise ValueError("the body's own")

    with pytest.raises(ValueError, match="the body's own") as caught:
        await work()
    assert "lock 'a' was lost meanwhile" in caught.value.__notes__[0]


async def test_a_group_of_errors_says_what_was_lost(locks: LockManager) -> None:
    """anyio takes our cancellation out of a group, and raises the rest; before 4.13, it leaves it in."""

    async def work() -> None:
        async with locks.lock("a") as lease:
            lose(lease)
            try:
                await forever()
            except asyncio.CancelledError as error:
                raise BaseExceptionGroup("both", [error, ValueError("the body's own")]) from None

    with pytest.raises(BaseExceptionGroup) as caught:
        await work()
    assert [type(error) for error in caught.value.exceptions if not isinstance(error, asyncio.CancelledError)] == [
        ValueError
    ]
    assert "lock 'a' was lost meanwhile" in caught.value.__notes__[0]
    await usable()


async def test_called_without_a_python_frame_around(locks: LockManager, monkeypatch: pytest.MonkeyPatch) -> None:
    """As by an event loop in C without a Python frame."""

    def shallow(depth: int) -> Any:
        raise ValueError("call stack is not deep enough")

    monkeypatch.setattr("aiolock.core.guarding.blocks._getframe", shallow)
    monkeypatch.setattr("aiolock.core.guarding.blocks._getframe", shallow)
    lock = locks.lock("a")
    async with lock as lease, lock.acquire():
        pass
    assert lease.released
