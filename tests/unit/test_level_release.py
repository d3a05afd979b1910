"""A level of a hold, or a part of a semaphore's lease, is given back while the server's answers fail."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import TypeVar

import pytest

from aiolock import BackendError, LockManager
from aiolock.scripts.base import Call
from aiolock.testing import MemoryBackend

from .world import settle

R = TypeVar("R")


class Busy(MemoryBackend):
    """Refuses the next so many releases, for the moment."""

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


async def test_one_that_is_repeated_after_the_whole_was_released_is_no_loss(backend: Busy, locks: LockManager) -> None:
    """Kept by Release._settle: who ends the hold afterwards is told of losses."""
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
