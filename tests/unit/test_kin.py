"""A task that waits for what it holds itself, or a task that started it: that is told, as such a wait may never end."""

from __future__ import annotations

import asyncio
import contextvars
import logging
from collections.abc import Callable
from typing import Any

import pytest

from aiolock import AcquireTimeout, LockManager
from aiolock.testing import MemoryBackend

from .world import Crew, settle

SHARE = "a task that started this one holds it: pass owner=lease.owner to acquire() to share it"
PERMITS = "holds what it would need: release that first"
PAIRS: dict[str, tuple[Callable[[LockManager], Any], Callable[[LockManager], Any], str]] = {
    "lock": (lambda locks: locks.lock("a"), lambda locks: locks.lock("a"), SHARE),
    "fair": (lambda locks: locks.fair_lock("a"), lambda locks: locks.fair_lock("a"), SHARE),
    "rw": (
        lambda locks: locks.rw_lock("a").read,
        lambda locks: locks.rw_lock("a").write,
        "a task that started this one holds it for reading: release that first",
    ),
    "writer": (lambda locks: locks.rw_lock("a").write, lambda locks: locks.rw_lock("a").read, SHARE),
    "semaphore": (
        lambda locks: locks.semaphore("a", 1),
        lambda locks: locks.semaphore("a", 1),
        f"a task that started this one {PERMITS}",
    ),
    "multi": (
        lambda locks: locks.multi_lock("b", "a"),
        lambda locks: locks.lock("a"),
        "a task that started this one holds 'a + b', which overlaps with it: release that first, or take all names "
        "at once",
    ),
}
each = pytest.mark.parametrize("pair", PAIRS)


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]


async def enter(lock: Any, **options: Any) -> None:
    async with lock.acquire(**options):
        pass


@each
async def test_it_is_told_once(
    locks: LockManager, backend: MemoryBackend, crew: Crew, caplog: pytest.LogCaptureFixture, pair: str
) -> None:
    """Kept by KinWatch; the child goes in once its parent has left, as it may have to wait for no more than that."""
    outer, inner, why = PAIRS[pair]
    async with outer(locks):
        child = crew.start(enter(inner(locks)))
        child.set_name("the child")
        await backend.clock.advance(0.9)
        assert warnings(caplog) == []
        await backend.clock.advance(0.2)
        assert warnings(caplog) == [f"task 'the child' waits for lock 'a', perhaps without end: {why}"]
        assert vars(caplog.records[-1])["lock_name"] == "a"
        await backend.clock.advance(60.0)
        assert len(warnings(caplog)) == 1
    await child


@each
async def test_no_later_try_can_mend_it(locks: LockManager, backend: MemoryBackend, crew: Crew, pair: str) -> None:
    """Kept by Refusal.error: `transient`."""
    outer, inner, why = PAIRS[pair]
    async with outer(locks):
        child = crew.start(enter(inner(locks), timeout=0.5))
        await backend.clock.advance(0.6)
        with pytest.raises(AcquireTimeout) as caught:
            await child
    assert not caught.value.transient
    assert str(caught.value).endswith(why)


async def test_a_task_waits_for_its_own_permit(
    locks: LockManager, backend: MemoryBackend, crew: Crew, caplog: pytest.LogCaptureFixture
) -> None:
    """Kept by Kin.of: `holds.task() is task`."""

    async def twice() -> None:
        permits = locks.semaphore("a", 3)
        async with permits.acquire(2):
            await permits.acquire(2, timeout=2.0)

    waiting = crew.start(twice())
    await backend.clock.advance(2.1)
    with pytest.raises(AcquireTimeout, match=f"this task {PERMITS}") as caught:
        await waiting
    assert not caught.value.transient
    assert [f"this task {PERMITS}" in line for line in warnings(caplog)] == [True]


async def test_others_may_give_permits_back(
    locks: LockManager, peer: LockManager, backend: MemoryBackend, crew: Crew, caplog: pytest.LogCaptureFixture
) -> None:
    """What its parent holds is not in its way. Kept by Kin.of: `capacity`."""
    async with locks.semaphore("a", 2), peer.semaphore("a", 2):
        child = crew.start(enter(locks.semaphore("a", 2), timeout=2.0))
        await backend.clock.advance(2.1)
        with pytest.raises(AcquireTimeout, match="held by") as caught:
            await child
    assert caught.value.transient
    assert warnings(caplog) == []


async def test_its_parent_has_released_it(
    locks: LockManager, peer: LockManager, backend: MemoryBackend, crew: Crew, caplog: pytest.LogCaptureFixture
) -> None:
    """Before it is told; and now it waits for a stranger. Kept by KinWatch.on_due: `Kin.of`."""
    async with locks.fair_lock("a"):
        stranger = await _waiting(crew, peer.fair_lock("a"), backend)
        child = crew.start(enter(locks.fair_lock("a")))
        await backend.clock.advance(0.5)
    await settle(backend)
    lease = await stranger
    await backend.clock.advance(5.0)
    assert not child.done()
    await lease.release()
    await child
    assert warnings(caplog) == []


async def _waiting(crew: Crew, lock: Any, backend: MemoryBackend) -> asyncio.Task[Any]:
    async def acquire() -> Any:
        return await lock.acquire()

    task = crew.start(acquire())
    await settle(backend)
    return task


async def test_a_stranger_is_waited_for_in_silence(
    locks: LockManager, backend: MemoryBackend, crew: Crew, caplog: pytest.LogCaptureFixture
) -> None:
    """A task that was started elsewhere, a child that waits for another name, and one in a context of its own."""
    free = asyncio.Event()

    async def stranger(name: str) -> None:
        async with locks.lock(name):
            await free.wait()

    first = crew.start(stranger("a"))
    await settle(backend)
    second = crew.start(stranger("a"))
    async with locks.lock("b"):
        child = crew.start(enter(locks.lock("a")))
        alone = asyncio.create_task(enter(locks.lock("b")), context=contextvars.Context())
        await backend.clock.advance(5.0)
        free.set()
        await asyncio.gather(first, second, child)
    await alone
    assert warnings(caplog) == []


async def test_it_goes_in_before_it_is_told(
    locks: LockManager, backend: MemoryBackend, crew: Crew, caplog: pytest.LogCaptureFixture
) -> None:
    """And waits for something else then, under the same parent, who has it again. Kept by KinWatch.on_due: `done()`."""
    lock = locks.lock("a")
    async with lock:
        child = crew.start(enter(lock))
        await backend.clock.advance(0.5)
    await child
    async with lock:
        await backend.clock.advance(5.0)
    assert warnings(caplog) == []


async def test_the_manager_closes(backend: MemoryBackend, crew: Crew, caplog: pytest.LogCaptureFixture) -> None:
    """What is due later is called then, and means nothing."""
    async with LockManager(MemoryBackend(backend)) as manager:
        lease = await manager.lock("a").acquire()
        child = crew.start(enter(manager.lock("a")))
        await backend.clock.advance(0.5)
    assert lease.lost
    await asyncio.wait((child,))
    assert [line for line in warnings(caplog) if "waits for" in line] == []
