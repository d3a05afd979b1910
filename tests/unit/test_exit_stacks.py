"""Blocks that objects enter through one lock object: each leaves its own, in whatever order."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import AsyncExitStack, ExitStack
from typing import Any, Protocol

import pytest

from aiolock import Lease, LockManager
from aiolock.primitives.base import Primitive
from aiolock.sync import Lease as SyncLease
from aiolock.sync import LockManager as SyncManager
from aiolock.testing import MemoryBackend

KINDS: dict[str, Callable[[Any], Any]] = {
    "semaphore": lambda locks: locks.semaphore("a", 5),
    "lock": lambda locks: locks.lock("a"),
    "fair lock": lambda locks: locks.fair_lock("a"),
    "multi lock": lambda locks: locks.multi_lock("a", "b"),
    "read": lambda locks: locks.rw_lock("a").read,
    "write": lambda locks: locks.rw_lock("a").write,
}


class Owner(Protocol):
    """Keeps a block open until it is closed."""

    async def open(self, lock: Primitive) -> Lease: ...

    async def aclose(self) -> None: ...


class Stack(AsyncExitStack):
    async def open(self, lock: Primitive) -> Lease:
        return await self.enter_async_context(lock)


class ByHand:
    async def open(self, lock: Primitive) -> Lease:
        self._lock = lock
        return await lock.__aenter__()

    async def aclose(self) -> None:
        await self._lock.__aexit__(None, None, None)


class SyncByHand:
    def enter_context(self, lock: Any) -> SyncLease:
        self._lock = lock
        lease: SyncLease = lock.__enter__()
        return lease

    def close(self) -> None:
        self._lock.__exit__(None, None, None)


@pytest.fixture
def threads() -> Iterator[SyncManager]:
    with SyncManager(MemoryBackend()) as locks:
        yield locks


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 0, 1), (1, 2, 0)], ids=str)
@pytest.mark.parametrize("owner", [Stack, ByHand])
@pytest.mark.parametrize("kind", KINDS)
async def test_each_ends_its_own(
    locks: LockManager, kind: str, owner: Callable[[], Owner], order: tuple[int, ...]
) -> None:
    """Guards Guard.via, and Blocks._of."""
    lock: Primitive = KINDS[kind](locks)
    owners = [owner() for _ in order]
    leases = [await each.open(lock) for each in owners]
    for number in order:
        assert not leases[number].released
        await owners[number].aclose()
        assert leases[number].released
    async with lock as lease:
        assert lease.depth == 1


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 0, 1), (1, 2, 0)], ids=str)
@pytest.mark.parametrize("owner", [ExitStack, SyncByHand])
@pytest.mark.parametrize("kind", KINDS)
def test_each_ends_its_own_in_a_thread(
    threads: SyncManager, kind: str, owner: Callable[[], Any], order: tuple[int, ...]
) -> None:
    """Guards Block.via, and aiolock.sync's Blocks._left_by."""
    lock = KINDS[kind](threads)
    owners = [owner() for _ in order]
    leases = [each.enter_context(lock) for each in owners]
    for number in order:
        assert not leases[number].released
        owners[number].close()
        assert leases[number].released
    with lock as lease:
        assert lease.depth == 1


async def test_one_stack_enters_often(locks: LockManager) -> None:
    """It leaves what it entered last first, and nothing of a block that runs. Guards Blocks._of."""
    lock = locks.semaphore("a", 5)
    one, two = AsyncExitStack(), AsyncExitStack()
    async with lock as running:
        leases = [await stack.enter_async_context(lock) for stack in (one, two, one, two)]
        await one.aclose()
        assert [lease.released for lease in leases] == [True, False, True, False]
        assert not running.released
        await two.pop_all().aclose()  # another object than the one that entered
        assert all(lease.released for lease in leases)
        assert not running.released
    assert running.released


async def test_a_stack_that_another_task_closes(locks: LockManager) -> None:
    """It ends its own block, not that of the closing task. Guards Blocks._of."""
    lock = locks.semaphore("a", 5)
    stack, mine = AsyncExitStack(), AsyncExitStack()
    kept = asyncio.Event()

    async def other() -> None:
        entered.set_result(await stack.enter_async_context(lock))
        await kept.wait()

    entered = asyncio.get_running_loop().create_future()
    task = asyncio.create_task(other())
    lease, own = await entered, await mine.enter_async_context(lock)
    await stack.aclose()
    assert (lease.released, own.released) == (True, False)
    await mine.aclose()
    kept.set()
    await task
