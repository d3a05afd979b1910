"""A task that waits for long while it holds something else: that is told, as two orders make a deadlock."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from aiolock import LockManager
from aiolock.testing import MemoryBackend

from .test_kin import warnings
from .world import Crew, settle

REMEDY = "take all of them at once, with multi_lock(), or in one order everywhere"


async def nested(outer: Any, inner: Any, go: asyncio.Event | None = None) -> None:
    async with outer:
        if go is not None:
            await go.wait()
        async with inner:
            pass


async def test_two_tasks_of_one_process(
    locks: LockManager, backend: MemoryBackend, crew: Crew, caplog: pytest.LogCaptureFixture
) -> None:
    """They are a deadlock, which is told once. Breaks without Meanwhile._circle, or without Gate.entangles."""
    go = asyncio.Event()
    first = crew.start(nested(locks.lock("a"), locks.lock("b"), go))
    second = crew.start(nested(locks.lock("b"), locks.lock("a"), go))
    first.set_name("first")
    second.set_name("second")
    await settle(backend)
    go.set()
    await settle(backend)
    await backend.clock.advance(4.5)
    assert warnings(caplog) == []
    await backend.clock.advance(60.0)
    assert warnings(caplog) == [
        "deadlock for 5 s: task 'first' waits for lock 'b' and holds 'a', for which task 'second' waits, which holds "
        f"the next: {REMEDY}"
    ]
    assert vars(caplog.records[-1])["lock_name"] == "b"


@pytest.mark.parametrize("kind", ["lock", "fair_lock", "rw", "semaphore"])
async def test_two_processes(
    locks: LockManager, peer: LockManager, backend: MemoryBackend, crew: Crew, caplog: pytest.LogCaptureFixture,
    kind: str,
) -> None:  # fmt: skip
    """Each names both. Breaks without LocalQueue.begin_wait: `entangles()`."""
    kinds: dict[str, Any] = {
        "lock": lambda of, name: of.lock(name),
        "fair_lock": lambda of, name: of.fair_lock(name),
        "rw": lambda of, name: of.rw_lock(name).write,
        "semaphore": lambda of, name: of.semaphore(name, 1),
    }
    make = kinds[kind]
    go = asyncio.Event()
    crew.start(nested(make(locks, "a"), make(locks, "b"), go)).set_name("first")
    crew.start(nested(make(peer, "b"), make(peer, "a"), go)).set_name("second")
    await settle(backend)
    go.set()
    await settle(backend)
    await backend.clock.advance(60.0)
    order = "whoever takes them in another order waits for it"
    assert sorted(warnings(caplog)) == [
        f"task 'first' has waited 5 s for lock 'b' while it holds 'a': {order}: {REMEDY}",
        f"task 'second' has waited 5 s for lock 'a' while it holds 'b': {order}: {REMEDY}",
    ]


async def test_a_wait_in_time_is_not_told(
    locks: LockManager, peer: LockManager, backend: MemoryBackend, crew: Crew, caplog: pytest.LogCaptureFixture
) -> None:
    """Nor is that of a task that holds nothing. Breaks without Meanwhile.over."""
    held = await peer.lock("b").acquire()
    task = crew.start(nested(locks.lock("a"), locks.lock("b")))
    idle = crew.start(nested(locks.lock("a"), locks.lock("c")))
    await backend.clock.advance(4.0)
    await held.release()
    await task
    await idle
    held = await locks.lock("c").acquire()
    late = crew.start(nested(peer.lock("c"), peer.lock("d")))
    await backend.clock.advance(60.0)
    assert warnings(caplog) == []
    await held.release()
    await late
