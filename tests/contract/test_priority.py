"""Who waits with a higher priority goes first; equal ones go in order."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from inspect import isawaitable
from typing import Any

import pytest

from aiolock import ConfigurationError, LockManager
from aiolock.redisson import Redisson
from aiolock.testing import MemoryBackend

from .places import Place, cancels, until

NAME = "gpu"
ENOUGH = 10.0
Make = Callable[..., Any]
KINDS: dict[str, Make] = {
    "lock": lambda manager, **options: manager.lock(NAME, **options),
    "fair": lambda manager, **options: manager.fair_lock(NAME, **options),
    "write": lambda manager, **options: manager.rw_lock(NAME, **options).write,
    "semaphore": lambda manager, **options: manager.semaphore(NAME, 1, **options),
}
each_kind = pytest.mark.parametrize("make", KINDS.values(), ids=KINDS)


class Line:
    """Tasks that wait for a name, and the order in which they got in.

    Args:
        make: makes the primitive.
    """

    def __init__(self, make: Make) -> None:
        self._make = make
        self._tasks: list[asyncio.Task[None]] = []
        self.order: list[str] = []

    async def add(self, manager: LockManager, label: str, *, shares: bool = False, **options: Any) -> None:
        """Have one more wait: until the server knows it, or its process if it shares a place there."""
        count = _here if shares else partial(_there, self._make)
        before = await count(manager)
        self._tasks.append(asyncio.create_task(self._enter(self._make(manager, **options), label)))
        async with asyncio.timeout(ENOUGH):
            while await count(manager) == before:  # noqa: ASYNC110 - what servers do sets no event here
                await asyncio.sleep(0.002)

    async def _enter(self, lock: Any, label: str) -> None:
        async with lock:
            self.order.append(label)

    async def all_in(self) -> list[str]:
        async with asyncio.timeout(ENOUGH):
            await asyncio.gather(*self._tasks)
        return self.order


def _looks(make: Make, manager: LockManager) -> Any:
    return manager.rw_lock(NAME) if make is KINDS["write"] else make(manager)


async def _there(make: Make, manager: LockManager) -> int:
    return len(await _looks(make, manager).waiters())


async def _here(manager: LockManager) -> int:
    found: Any = manager.waiting()
    return len(await found if isawaitable(found) else found)  # a thread's manager answers later


@each_kind
async def test_the_higher_one_goes_first(place: Place, locks: LockManager, others: LockManager, make: Make) -> None:
    """Across processes. Kept by join.lua and queue.lua."""
    line = Line(make)
    async with place.manager(ttl=place.ttl) as third:
        async with make(third):
            await line.add(locks, "none")
            await line.add(others, "high", priority=2)
        assert await line.all_in() == ["high", "none"]


@pytest.mark.parametrize(
    "make", [KINDS[kind] for kind in ("fair", "write", "semaphore")], ids=["fair", "write", "semaphore"]
)
async def test_equal_ones_go_in_order(place: Place, locks: LockManager, others: LockManager, make: Make) -> None:
    """Task by task, of all processes."""
    line = Line(make)
    async with make(others):
        for number, priority in enumerate((0, 1, 0, 1, 7, 0, 1)):
            await line.add((locks, others)[number % 2], f"{priority}:{number}", priority=priority)
        waits = [(one.position, one.waited) for one in await _looks(make, locks).waiters()]
        assert [position for position, _ in waits] == [1, 2, 3, 4, 5, 6, 7]
        assert all(0 <= waited < 60 for _, waited in waits)
    assert await line.all_in() == ["7:4", "1:1", "1:3", "1:6", "0:0", "0:2", "0:5"]


async def test_tasks_of_one_process(locks: LockManager) -> None:
    """They wait for a hand-off, with one place on the server. Kept by Gate._line_up."""
    line = Line(KINDS["lock"])
    async with locks.lock(NAME):
        for label, priority in (("a", 0), ("b", 2), ("c", 1), ("d", 2), ("e", 0)):
            await line.add(locks, label, shares=True, priority=priority)
    assert await line.all_in() == ["b", "d", "c", "a", "e"]


@cancels
@each_kind
async def test_one_that_gives_up(place: Place, locks: LockManager, others: LockManager, make: Make) -> None:
    """The next one is let in."""
    line = Line(make)
    async with place.manager(ttl=place.ttl) as third:
        async with make(third):
            await line.add(locks, "none")
            gone = asyncio.create_task(make(others, priority=9).acquire())
            await until(lambda: bool(others.waiting()))
            gone.cancel()
        assert await line.all_in() == ["none"]
        assert gone.cancelled()


@pytest.mark.parametrize("priority", [-1, 101, 1.0, True, "high", None])
def test_a_priority_that_cannot_be(priority: object) -> None:
    locks = LockManager(MemoryBackend())
    with pytest.raises(ConfigurationError, match=r"priority of lock 'gpu' must be a whole number from 0 to 100"):
        locks.lock(NAME, priority=priority)  # type: ignore[arg-type]


def test_where_there_is_none() -> None:
    locks = LockManager(MemoryBackend())
    makes: list[Callable[[], Any]] = [
        lambda: locks.multi_lock("a", "b", priority=1),
        lambda: Redisson(locks).lock("a", priority=1),
    ]
    for make in makes:
        with pytest.raises(ConfigurationError, match=r"priority= of .* cannot be: give it to a lock"):
            make()
