"""A lease that its user dropped, while its task or thread lives: held on, as by an RLock, and told once."""

from __future__ import annotations

import asyncio
import gc
import logging
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from aiolock import Lease, LockManager
from aiolock.events import Dropped, Event
from aiolock.sync import LockManager as SyncManager
from aiolock.testing import MemoryBackend

from .world import TTL

KINDS: dict[str, Callable[[Any], Any]] = {
    "lock": lambda locks: locks.lock("a", ttl=TTL),
    "fair lock": lambda locks: locks.fair_lock("a", ttl=TTL),
    "semaphore": lambda locks: locks.semaphore("a", 5, ttl=TTL),
    "multi lock": lambda locks: locks.multi_lock("a", "b", ttl=TTL),
    "read": lambda locks: locks.rw_lock("a", ttl=TTL).read,
}
RENEWALS = 3


@pytest.fixture
def told() -> list[Event]:
    return []


@pytest.fixture
async def locks(backend: MemoryBackend, told: list[Event]) -> Any:
    async with LockManager(backend, observer=told.append) as locks:
        yield locks


@pytest.fixture
def threads(backend: MemoryBackend, told: list[Event]) -> Iterator[SyncManager]:
    with SyncManager(backend, observer=told.append) as locks:
        yield locks


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    """One thread, which lives on between its jobs."""
    with ThreadPoolExecutor(1) as pool:
        yield pool


def dropped(told: list[Event]) -> list[str]:
    return [event.name for event in told if isinstance(event, Dropped)]


async def fail(locks: LockManager, kind: str) -> None:
    lease = await KINDS[kind](locks).acquire()
    await asyncio.sleep(0)
    raise ValueError(f"before {lease} is released")


@pytest.mark.parametrize("kind", KINDS)
async def test_a_task_that_goes_on(
    locks: LockManager, backend: MemoryBackend, told: list[Event], caplog: pytest.LogCaptureFixture, kind: str
) -> None:
    """Told by the first renewal, once; the task still has it, and may release it. Kept by LeasesByTask.dropped."""
    with pytest.raises(ValueError, match="is released"):
        await fail(locks, kind)
    gc.collect()
    assert dropped(told) == []
    await backend.clock.advance(RENEWALS * TTL)
    lock = KINDS[kind](locks)
    assert dropped(told) == [lock.name]
    (warning,) = [record for record in caplog.records if record.levelno == logging.WARNING]
    assert "nothing refers to lock" in warning.getMessage()
    assert lock.owned() == 1
    await lock.release()
    assert lock.owned() == 0


@pytest.mark.parametrize("kind", KINDS)
async def test_a_lease_that_is_kept(locks: LockManager, backend: MemoryBackend, told: list[Event], kind: str) -> None:
    """By a name, a container, a bound method, a block, or another level. Kept by LeasesByTask.dropped."""
    lock = KINDS[kind](locks)
    lease = await lock.acquire()
    await backend.clock.advance(RENEWALS * TTL)
    ends = [lease.release]
    del lease
    await backend.clock.advance(RENEWALS * TTL)
    async with lock, lock.acquire():
        await backend.clock.advance(RENEWALS * TTL)
    await ends.pop()()
    assert dropped(told) == []


@pytest.mark.parametrize("kind", KINDS)
async def test_a_lock_that_is_kept(locks: LockManager, backend: MemoryBackend, told: list[Event], kind: str) -> None:
    """Its task will release it, as an RLock, or a block of it is open. Kept by LeasesByTask.dropped, Primitive._obtain
    and _obtain_now.
    """
    lock = KINDS[kind](locks)
    for acquire in (lock.acquire, lock.try_acquire):
        await acquire()
        await backend.clock.advance(RENEWALS * TTL)
        await lock.release()
    async with lock:
        await backend.clock.advance(RENEWALS * TTL)
    async with KINDS[kind](locks).acquire():
        await backend.clock.advance(RENEWALS * TTL)
    assert dropped(told) == []


async def test_a_watched_lease_is_in_use(locks: LockManager, backend: MemoryBackend, told: list[Event]) -> None:
    watching = asyncio.create_task((await locks.lock("a", ttl=TTL).acquire()).wait_lost())
    await backend.clock.advance(RENEWALS * TTL)
    assert dropped(told) == []
    watching.cancel()
    await asyncio.wait((watching,))
    del watching
    gc.collect()
    await backend.clock.advance(RENEWALS * TTL)
    assert dropped(told) == ["a"]
    await locks.lock("a").release()


async def test_a_level_of_a_hold(locks: LockManager, backend: MemoryBackend, told: list[Event]) -> None:
    """The outer one alone is dropped."""
    await locks.lock("a", ttl=TTL).acquire()
    lock = locks.lock("a", ttl=TTL)
    inner: Lease = await lock.acquire()
    await backend.clock.advance(RENEWALS * TTL)
    assert dropped(told) == ["a"]
    await inner.release()
    await lock.release()


@pytest.mark.parametrize("kind", KINDS)
def test_a_thread_of_a_pool(
    threads: SyncManager, backend: MemoryBackend, told: list[Event], pool: ThreadPoolExecutor, kind: str
) -> None:
    """Its last call must not keep the lease. Kept by Portal.call."""

    def job() -> None:
        lease = KINDS[kind](threads).acquire()
        raise ValueError(f"before {lease} is released")

    failed = pool.submit(job)
    assert isinstance(failed.exception(60), ValueError)
    del failed
    gc.collect()
    asyncio.run(backend.clock.advance(RENEWALS * TTL))
    lock = KINDS[kind](threads)
    assert dropped(told) == [lock.name]
    assert pool.submit(lock.owned).result(60) == 1
    pool.submit(lock.release).result(60)
    assert pool.submit(lock.owned).result(60) == 0


def test_a_thread_that_keeps_its_lease(
    threads: SyncManager, backend: MemoryBackend, told: list[Event], pool: ThreadPoolExecutor
) -> None:
    lease = pool.submit(threads.lock("a", ttl=TTL).acquire).result(60)
    asyncio.run(backend.clock.advance(RENEWALS * TTL))
    assert dropped(told) == []
    lease.release()


@pytest.mark.parametrize("kind", KINDS)
def test_a_thread_that_keeps_its_lock(
    threads: SyncManager, backend: MemoryBackend, told: list[Event], pool: ThreadPoolExecutor, kind: str
) -> None:
    lock = KINDS[kind](threads)

    def block() -> None:
        with lock:
            asyncio.run(backend.clock.advance(RENEWALS * TTL))

    for acquire in (lock.acquire, lock.try_acquire):
        pool.submit(acquire).result(60)
        asyncio.run(backend.clock.advance(RENEWALS * TTL))
        pool.submit(lock.release).result(60)
    pool.submit(block).result(60)
    assert dropped(told) == []
