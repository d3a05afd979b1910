"""A level of a hold, or a part of a semaphore's lease, is given back while the server's answers fail."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Literal, TypeVar

import pytest

from aiolock import BackendError, LockManager, LossReason
from aiolock.scripts.base import Call
from aiolock.testing import MemoryBackend

from .world import expect_loss, settle

R = TypeVar("R")


class Busy(MemoryBackend):
    """Refuses the next releases, temporarily."""

    refusals = 0

    def _execute(self, call: Call[R]) -> R | BackendError:
        if call.script.name == "release" and self.refusals:
            self.refusals -= 1
            return BackendError(call.name, "BUSY Redis is busy running a script", transient=True)
        return super()._execute(call)


@pytest.fixture
def backend() -> Busy:
    return Busy()


@pytest.fixture
async def locks(backend: Busy) -> AsyncIterator[LockManager]:
    async with LockManager(backend) as manager:
        yield manager


async def test_a_copy_after_the_whole_was_released_is_no_loss(backend: Busy, locks: LockManager) -> None:
    """Kept by Release.settle: the release that ends the hold afterwards reports losses."""
    lock = locks.lock("order:42")
    outer, inner = await lock.acquire(), await lock.acquire()
    backend.refusals = 1
    ending = inner.release()
    outer.release()
    await settle(backend)
    assert not await lock.is_locked()
    await backend.clock.advance(1.0)
    await ending
    assert (inner.lost, outer.lost) == (False, False)
    await outer.release()


async def test_one_that_finds_nothing_reports_it(backend: Busy, locks: LockManager) -> None:
    """Kept by Release._judge: `hold.loss()`."""
    lock = locks.lock("order:42")
    outer, inner = await lock.acquire(), await lock.acquire()
    backend.flush()
    for lease in (inner, outer):
        with expect_loss(LossReason.DELETED):
            await lease.release()


@pytest.mark.parametrize("lost", ["request", "reply"])
async def test_a_part_whose_release_died_unanswered_comes_back_once(
    backend: Busy, locks: LockManager, lost: Literal["request", "reply"]
) -> None:
    """It says how much stays, so that a copy of it takes nothing more."""
    semaphore = locks.semaphore("api", 5)
    lease = await semaphore.acquire(4)
    backend.fail_next(lost)
    await lease.release(2)
    assert (lease.permits, await semaphore.used()) == (2, 2)
    await lease.renew()
    await lease.release()
    assert await semaphore.used() == 0


async def test_parts_that_are_refused_and_written_again_come_back_in_any_order(
    backend: Busy, locks: LockManager
) -> None:
    semaphore = locks.semaphore("api", 5)
    lease = await semaphore.acquire(5)
    backend.refusals = 1
    first, second = lease.release(1), lease.release(3)
    await settle(backend)
    assert await semaphore.used() == 1
    await backend.clock.advance(1.0)
    await first
    await second
    assert (lease.permits, await semaphore.used()) == (1, 1)
    await lease.release()


async def test_the_rest_is_renewed(locks: LockManager) -> None:
    """So a loss is judged by its own weight. Kept by Gate._write_rest."""
    lease = await locks.semaphore("api", 5).acquire(4)
    lease.release(3)
    _, (_, (*_, weight)) = lease._hold.part()
    assert weight == 1
    await lease.release()
