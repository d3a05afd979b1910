"""A block that begins with blocking work, entered from a queue on the server: no one else gets in."""

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
    "lock": lambda manager: manager.lock(NAME),
    "fair": lambda manager: manager.fair_lock(NAME),
    "write": lambda manager: manager.rw_lock(NAME).write,
    "semaphore": lambda manager: manager.semaphore(NAME, 1),
}


class Rival(threading.Thread):
    """As good as another process: it waits for the lock on a loop of its own."""

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


async def queued(locks: LockManager, kind: str, count: int) -> None:
    """Wait until this many are in the server's queue."""
    look = KINDS["fair" if kind == "lock" else kind](locks)  # it tells how many wait
    async with asyncio.timeout(ENOUGH):
        while (await look.info()).waiters < count:  # noqa: ASYNC110 - what servers do sets no event here
            await asyncio.sleep(0.002)


@pytest.mark.parametrize("awaits", [True, False])
@pytest.mark.parametrize("kind", KINDS)
async def test_no_one_enters_beside_it(redis_url: str, opened: Opener, kind: str, awaits: bool) -> None:
    """F1: before the block begins, the grant on the server is for the ttl, not for the liveness.

    Kept by QueueEntry.told: no block begins before the server has said so.
    """
    make = KINDS[kind]
    holding, waiting = [await opened(redis_url, liveness=LIVENESS) for _ in range(2)]
    lease, rival = await make(holding).acquire(), Rival(redis_url, make)

    async def work() -> float:
        async with make(waiting) as entered:
            time.sleep(BLOCKED)  # noqa: ASYNC251 - that is the matter
            assert not rival.entered.is_set()
            if not awaits:
                return 60.0
            await make(waiting).info()
            return entered.remaining()

    working = asyncio.create_task(work())
    await queued(holding, kind, 1)
    rival.start()
    await queued(holding, kind, 2)
    await lease.release()
    assert await working > 60.0 - 3.0 - BLOCKED - LIVENESS - 5.0
    await asyncio.to_thread(rival.join, ENOUGH)
    assert rival.entered.is_set()
