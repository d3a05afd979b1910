"""Which error a wait ends with: the caller's timeout is one, a server that does not answer is another."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from aiolock import AcquireTimeout, BackendError, LockManager, WaitTimeout
from aiolock.testing import MemoryBackend

from .world import Crew, assert_empty, lock_keys, settle

KINDS: dict[str, Callable[[LockManager], Any]] = {
    "lock": lambda manager: manager.lock("a"),
    "fair": lambda manager: manager.fair_lock("a"),
    "write": lambda manager: manager.rw_lock("a").write,
    "read": lambda manager: manager.rw_lock("a").read,
    "semaphore": lambda manager: manager.semaphore("a", 2),
    "multi": lambda manager: manager.multi_lock("a", "b"),
}


@pytest.fixture(params=KINDS)
def lock(locks: LockManager, request: pytest.FixtureRequest) -> Any:
    return KINDS[request.param](locks)


async def acquire(lock: Any, **options: Any) -> Any:
    return await lock.acquire(**options)


async def test_a_timeout_before_the_first_answer(
    locks: LockManager, backend: MemoryBackend, crew: Crew, lock: Any
) -> None:
    """Kept by `Waiter.on_due`: `Expired`."""
    with backend.outage():
        task = crew.start(acquire(lock, timeout=0.05))
        await backend.clock.advance(0.06)
        with pytest.raises(AcquireTimeout, match=r"within 0.05 s: Redis has not answered yet"):
            await task
    await settle(backend)
    assert lock_keys(backend) == []
    assert_empty(locks)


async def test_a_timeout_before_the_first_answer_behind_another_task(
    locks: LockManager, backend: MemoryBackend, crew: Crew
) -> None:
    """A task that waits behind it in this process had no answer either. Kept by `obtain`: `_timeout`."""
    with backend.outage():
        tasks = [crew.start(acquire(locks.lock("a"), timeout=timeout)) for timeout in (2.0, 0.5)]
        await backend.clock.advance(2.1)
        for task in tasks:
            with pytest.raises(AcquireTimeout, match="Redis has not answered yet"):
                await task
    await settle(backend)


@pytest.mark.parametrize("timeout", [None, 0, 5.0, 60.0])
async def test_no_answer_within_request_timeout(
    locks: LockManager, backend: MemoryBackend, crew: Crew, lock: Any, timeout: float | None
) -> None:
    """One attempt, with `timeout=0`, waits for its answer as long as any request does. Kept by
    `Waiter.overdue`: `self.impatient`.
    """
    with backend.outage():
        task = crew.start(acquire(lock, timeout=timeout))
        await backend.clock.advance(4.9)
        assert not task.done()
        await backend.clock.advance(0.2)
        with pytest.raises(BackendError, match="got no answer within 5 s"):
            await task
    await settle(backend)
    assert lock_keys(backend) == []
    assert_empty(locks)


@pytest.mark.parametrize(("timeout", "error"), [(0.05, WaitTimeout), (None, BackendError), (60.0, BackendError)])
async def test_a_latch_without_an_answer(
    locks: LockManager, backend: MemoryBackend, crew: Crew, timeout: float | None, error: type[Exception]
) -> None:
    """Kept by Latch.wait: `expires <= patience`."""
    with backend.outage():
        task = crew.start(locks.latch("a", 2).wait(timeout))
        await backend.clock.advance(5.1)
        with pytest.raises(error, match="not answered yet" if error is WaitTimeout else "no answer within 5 s"):
            await task
    await settle(backend)
    assert_empty(locks)


@pytest.mark.parametrize(("timeout", "error"), [(0.05, AcquireTimeout), (0, BackendError), (60.0, BackendError)])
async def test_a_nested_acquire_without_an_answer(
    locks: LockManager, backend: MemoryBackend, crew: Crew, timeout: float, error: type[Exception]
) -> None:
    """The outer one lives on, one level deep. Kept by `_nest`: `timeout < seconds`."""
    async with locks.lock("a") as lease:
        with backend.outage():
            task = crew.start(acquire(locks.lock("a"), owner=lease.owner, timeout=timeout))
            await backend.clock.advance(0.06)
            assert task.done() == (error is AcquireTimeout)
            await backend.clock.advance(5.0)
            with pytest.raises(error, match="not answered yet" if error is AcquireTimeout else "no answer within 5 s"):
                await task
        await settle(backend)
        assert not lease.lost
        assert lease.depth == 1
    await settle(backend)
    assert lock_keys(backend) == []
