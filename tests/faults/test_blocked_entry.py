"""A block that begins with blocking work, entered from a queue that the server keeps: nobody else gets in."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from aiolock import LockManager

from .scene import ENOUGH, NAME, Opener

LIVENESS = 0.3
BLOCKED = 1.6 * LIVENESS
"""Longer than a grant that must be renewed to last."""
KINDS: dict[str, Callable[[LockManager], Any]] = {
    "fair": lambda manager: manager.fair_lock(NAME),
    "write": lambda manager: manager.rw_lock(NAME).write,
    "semaphore": lambda manager: manager.semaphore(NAME, 1),
}


class Rival(threading.Thread):
    """Another process, as good as: waits for the lock on a loop of its own."""

    def __init__(self, url: str, make: Callable[[LockManager], Any]) -> None:
        super().__init__(daemon=True)
        self._url = url
        self._make = make
        self.entered = threading.Event()

    def run(self) -> None:
        asyncio.run(self._enter())

    async def _enter(self) -> None:
        async with LockManager(self._url, liveness=LIVENESS, acquire_timeout=ENOUGH) as locks, self._make(locks):
            self.entered.set()


async def queued(lock: Any, count: int) -> None:
    """Wait until so many are in the server's queue."""
    async with asyncio.timeout(ENOUGH):
        while (await lock.info()).waiters < count:  # noqa: ASYNC110 - what servers do sets no event here
            await asyncio.sleep(0.002)


@pytest.mark.parametrize("make", KINDS.values(), ids=KINDS)
async def test_nobody_enters_beside_it(redis_url: str, opened: Opener, make: Callable[[LockManager], Any]) -> None:
    """F1: the grant is for the ttl, not for the liveness. Kept by turn.lua: `heard[channel] > 0`."""
    holding, waiting = [await opened(redis_url, liveness=LIVENESS) for _ in range(2)]
    lease, rival = await make(holding).acquire(), Rival(redis_url, make)

    async def work() -> float:
        async with make(waiting) as entered:
            time.sleep(BLOCKED)  # noqa: ASYNC251 - that is the matter
            assert not rival.entered.is_set()
            return entered.remaining()

    working = asyncio.create_task(work())
    await queued(make(holding), 1)
    rival.start()
    await queued(make(holding), 2)
    await lease.release()
    assert await working > 60.0 - 3.0 - BLOCKED - LIVENESS - 5.0
    await asyncio.to_thread(rival.join, ENOUGH)
    assert rival.entered.is_set()
