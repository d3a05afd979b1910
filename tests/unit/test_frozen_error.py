"""An error that cannot be changed, such as a frozen dataclass, takes no note, but is raised all the same."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

import pytest

from aiolock import LockManager
from aiolock.testing import MemoryBackend

from .world import TTL, Crew


@dataclass(frozen=True)
class Frozen(Exception):
    """What a user's project may raise."""

    code: int


async def test_a_loss_does_not_hide_it(locks: LockManager) -> None:
    async def work() -> None:
        async with locks.lock("a"):
            try:
                await locks.lock("a").force_release()
            finally:
                raise Frozen(7)

    with pytest.raises(Frozen):
        await work()


async def test_a_clean_up_that_was_cancelled_does_not_hide_it(
    locks: LockManager, backend: MemoryBackend, crew: Crew
) -> None:
    @asynccontextmanager
    async def transaction() -> AsyncIterator[None]:
        try:
            yield
        finally:
            await asyncio.Event().wait()

    async def work() -> None:
        async with locks.lock("a", renew=False) as lease, lease.shielded(transaction()):
            raise Frozen(7)

    working = crew.start(work())
    await backend.clock.advance(TTL + 1)
    with pytest.raises(Frozen):
        await working
