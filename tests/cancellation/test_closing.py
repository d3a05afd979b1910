"""A manager is closed in every state of its waiters and holders: nothing stays on the server, and no task is stuck."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from typing import Any

import pytest

from aiolock import LockLost, LockManager, NotAcquired
from aiolock.testing import MemoryBackend
from tests.unit.world import SlowBackend, assert_empty, later, lock_keys, runtime_of, settle

KINDS: dict[str, Callable[[LockManager], Any]] = {
    "lock": lambda manager: manager.lock("a"),
    "fair": lambda manager: manager.fair_lock("a"),
    "write": lambda manager: manager.rw_lock("a").write,
}
TURNS = 30
"""Long enough for everything to come and go."""


async def close_in(
    kind: str, turns: int, prepare: Callable[[SlowBackend, LockManager, LockManager], None]
) -> list[str]:
    """Let tasks of a process come and let `prepare` act; close the process's manager this many turns later.

    Returns:
        What is still held at the end.
    """
    backend = SlowBackend()
    locks, peer = LockManager(backend), LockManager(MemoryBackend(backend))
    make = KINDS[kind]
    async with peer:
        await locks.__aenter__()
        held = await make(peer).acquire()
        tasks = [asyncio.create_task(enter(make(locks))) for _ in range(3)]
        elsewhere = asyncio.create_task(enter(make(peer)))
        later(6, held.release)
        prepare(backend, locks, peer)
        for _ in range(turns):
            await asyncio.sleep(0)
        closing = asyncio.create_task(locks.aclose())
        await settle(backend)
        assert closing.done(), "closing is stuck"
        assert elsewhere.done(), "another process is stuck"
        assert all(task.done() for task in tasks), "a waiter is stuck"
        await asyncio.gather(closing, elsewhere)
        for task in tasks:
            with contextlib.suppress(NotAcquired, LockLost):  # while it waited, or while it held the lock
                await task
        assert_empty(locks)
        assert not runtime_of(locks).binding.bound
        return lock_keys(backend)


async def enter(lock: Any) -> None:
    async with lock:
        await asyncio.sleep(0)


def nothing(backend: SlowBackend, locks: LockManager, peer: LockManager) -> None:
    """Change nothing: all goes well."""


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("turns", range(TURNS))
async def test_while_some_wait(kind: str, turns: int) -> None:
    """Before a request is written, before it is answered, queued, granted, handing on, and after everything is over."""
    assert await close_in(kind, turns, nothing) == []


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("lost", ["request", "reply"])
@pytest.mark.parametrize("dies", range(1, TURNS, 4))
async def test_while_the_connection_dies(kind: str, lost: Any, dies: int) -> None:
    def prepare(backend: SlowBackend, locks: LockManager, peer: LockManager) -> None:
        later(dies, backend.die, lost)

    for turns in range(max(0, dies - 2), dies + 6):
        assert await close_in(kind, turns, prepare) == []
