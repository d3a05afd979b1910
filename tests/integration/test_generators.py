"""Locks held over the `yield` of an async generator: never silent, never another's block, nothing left in the task."""

from __future__ import annotations

import asyncio
import gc
import linecache
import warnings
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, aclosing, asynccontextmanager, suppress
from typing import Any

import anyio
import pytest

from aiolock import Lease, LockLost, LockManager, LossReason
from aiolock.core.guarding import blocks
from aiolock.testing import MemoryBackend
from tests.unit.world import DEADLINE, expect_loss, lock_keys, settle

pytestmark = [pytest.mark.any_loop, pytest.mark.filterwarnings("ignore:async generator:RuntimeWarning")]

LOST = LossReason.TAKEN_OVER


async def rows(lock: Any, leases: list[Lease] | None = None) -> AsyncIterator[int]:
    async with lock as lease:
        if leases is not None:
            leases.append(lease)
        for number in range(10):
            yield number


def lose(lease: Lease) -> None:
    lease._hold.lose(LOST)


async def forever() -> None:
    await asyncio.Event().wait()


async def closed_by_the_loop() -> list[BaseException | None]:
    """Drop the generators that have no reference; return what the loop was told when it closed them."""
    told: list[BaseException | None] = []
    asyncio.get_running_loop().set_exception_handler(lambda loop, context: told.append(context.get("exception")))
    for _ in range(10):
        await asyncio.sleep(0)
    gc.collect()
    return told


# What the consumer is told.


async def test_a_consumer_that_closes_gets_the_loss(locks: LockManager) -> None:
    leases: list[Lease] = []
    with expect_loss(LOST):
        async with aclosing(rows(locks.lock("a"), leases)) as numbers:  # type: ignore[type-var]
            async for _ in numbers:
                asyncio.get_running_loop().call_soon(lose, leases[0])
                await forever()
    task = asyncio.current_task()
    assert task is not None
    assert task.cancelling() == 0
    await asyncio.sleep(0)


async def test_a_break_does_not_hide_the_loss(locks: LockManager, backend: MemoryBackend) -> None:
    """`dying` in `report`: GeneratorExit takes no loss with it."""
    with expect_loss(LossReason.LOOP_BLOCKED):
        async with aclosing(rows(locks.lock("a"))) as numbers:  # type: ignore[type-var]
            async for _ in numbers:
                backend.clock.jump(DEADLINE + 1)
                break


async def test_a_break_without_a_loss_is_none(locks: LockManager, backend: MemoryBackend) -> None:
    async with aclosing(rows(locks.lock("a"))) as numbers:  # type: ignore[type-var]
        async for _ in numbers:
            break
    assert lock_keys(backend) == []


async def test_a_users_cancellation_passes(locks: LockManager) -> None:
    leases: list[Lease] = []

    async def consume() -> None:
        task = asyncio.current_task()
        assert task is not None
        async with aclosing(rows(locks.lock("a"), leases)) as numbers:  # type: ignore[type-var]
            async for _ in numbers:
                asyncio.get_running_loop().call_soon(lambda: (lose(leases[0]), task.cancel()))
                await forever()

    task = asyncio.create_task(consume())
    await asyncio.wait({task})
    assert task.cancelled()


async def test_a_users_cancellation_passes_inside_the_generator(locks: LockManager, backend: MemoryBackend) -> None:
    """`Edge.leave`: in one turn with the loss."""

    async def numbers() -> AsyncIterator[int]:
        task = asyncio.current_task()
        assert task is not None
        async with locks.lock("a") as lease:
            yield 1
            asyncio.get_running_loop().call_soon(lambda: (lose(lease), task.cancel()))
            await forever()

    async def consume() -> None:
        async with aclosing(numbers()) as iterated:  # type: ignore[type-var]
            async for _ in iterated:
                pass

    task = asyncio.create_task(consume())
    await asyncio.wait({task})
    assert task.cancelled()
    assert lock_keys(backend) == []


async def test_a_users_cancellation_that_was_not_delivered_passes(locks: LockManager) -> None:
    """`Edge.drain`: it takes back only its own."""
    leases: list[Lease] = []
    went_on = False

    async def consume() -> None:
        nonlocal went_on
        task = asyncio.current_task()
        assert task is not None
        async with aclosing(rows(locks.lock("a"), leases)) as numbers:  # type: ignore[type-var]
            async for _ in numbers:
                lose(leases[0])
                task.cancel()
                break
        went_on = True

    task = asyncio.create_task(consume())
    await asyncio.wait({task})
    assert (task.cancelled(), went_on) == (True, False)


async def test_the_consumers_clean_up_is_not_cut_off(locks: LockManager, backend: MemoryBackend) -> None:
    """`Edge`: the consumer is cancelled once; a scope would cancel each await until the generator is closed."""
    leases: list[Lease] = []
    log: list[str] = []

    async def consume() -> None:
        async for _ in rows(locks.lock("a"), leases):
            asyncio.get_running_loop().call_soon(lose, leases[0])
            try:
                await forever()
            finally:
                await asyncio.sleep(0)
                log.append("cleaned up")

    await asyncio.wait({asyncio.create_task(consume())})
    assert log == ["cleaned up"]
    assert [type(error) for error in await closed_by_the_loop()] == [LockLost]
    assert lock_keys(backend) == []


async def test_a_loss_between_two_steps(locks: LockManager) -> None:
    """The consumer ends the loop in the turn of the loss: no stray cancellation hits what follows."""
    leases: list[Lease] = []
    with expect_loss(LOST):
        async with aclosing(rows(locks.lock("a"), leases)) as numbers:  # type: ignore[type-var]
            async for _ in numbers:
                await asyncio.sleep(0)
                lose(leases[0])
                break
    for _ in range(3):
        await asyncio.sleep(0)


async def test_a_consumer_that_catches_the_cancellation_continues(locks: LockManager, backend: MemoryBackend) -> None:
    """Issue 9: anyio redelivered it for ever, or its checkpoint waited for it at 100 % CPU."""
    leases: list[Lease] = []

    async def consume() -> int:
        with suppress(asyncio.CancelledError):
            async for _ in rows(locks.lock("a"), leases):
                asyncio.get_running_loop().call_soon(lose, leases[0])
                await forever()
        assert [type(error) for error in await closed_by_the_loop()] == [LockLost]
        await asyncio.wait_for(anyio.lowlevel.checkpoint_if_cancelled(), 1)
        task = asyncio.current_task()
        assert task is not None
        return task.cancelling()

    assert await asyncio.create_task(consume()) == 0
    assert lock_keys(backend) == []


# Whose block ends.


@pytest.mark.parametrize("kind", ["read", "semaphore"])
async def test_a_dropped_generator_ends_its_own_block(locks: LockManager, kind: str) -> None:
    """Issue 9: the block of a task that runs on was released, and a writer got in beside it."""
    lock = locks.rw_lock("a").read if kind == "read" else locks.semaphore("a", 2)
    leases: list[Lease] = []
    started, go_on, end = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def first() -> None:
        async for _ in rows(lock, leases):
            started.set()
            await go_on.wait()
            break
        await end.wait()

    async def second() -> bool:
        async with lock as lease:
            go_on.set()
            await end.wait()
            return lease.released

    one = asyncio.create_task(first())
    await started.wait()
    two = asyncio.create_task(second())
    await go_on.wait()
    await closed_by_the_loop()
    assert leases[0].released
    end.set()
    assert await two is False
    await one


async def test_a_generator_closed_inside_another_block(locks: LockManager) -> None:
    """`Blocks.leave`: by frame first, not the task's innermost."""
    lock = locks.rw_lock("a").read
    leases: list[Lease] = []
    numbers = rows(lock, leases)

    async def first() -> None:
        await anext(numbers)
        inside.set()
        await end.wait()

    inside, end = asyncio.Event(), asyncio.Event()
    one = asyncio.create_task(first())
    await inside.wait()
    async with lock as lease:
        await numbers.aclose()  # type: ignore[attr-defined]
        assert (leases[0].released, lease.released) == (True, False)
    end.set()
    await one


async def test_generators_left_out_of_order(locks: LockManager, backend: MemoryBackend) -> None:
    first, second = rows(locks.lock("a")), rows(locks.lock("b"))
    await anext(first)
    await anext(second)
    await first.aclose()  # type: ignore[attr-defined]
    await second.aclose()  # type: ignore[attr-defined]
    assert lock_keys(backend) == []
    with expect_loss(LOST):
        async with locks.lock("c") as lease:
            asyncio.get_running_loop().call_soon(lose, lease)
            await forever()


async def test_out_of_order_masks_no_error(locks: LockManager) -> None:
    async def fails(name: str) -> AsyncIterator[int]:
        async with locks.lock(name):
            yield 1
            raise ValueError("the body's own")

    first, second = fails("a"), rows(locks.lock("b"))
    await anext(first)
    await anext(second)
    with pytest.raises(ValueError, match="the body's own"):
        await anext(first)
    await second.aclose()  # type: ignore[attr-defined]


# Who gets a warning: those whose `yield` runs in the block, and no others.


@pytest.fixture
def refused() -> Iterator[None]:
    """Turn warnings into errors."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


@asynccontextmanager
async def locked(lock: Any) -> AsyncIterator[Lease]:
    async with lock as lease:
        yield lease


@asynccontextmanager
async def stacked(lock: Any) -> AsyncIterator[Lease]:
    async with AsyncExitStack() as stack:
        yield await stack.enter_async_context(lock)


@pytest.mark.usefixtures("refused")
@pytest.mark.parametrize("manager", [locked, stacked])
async def test_a_context_manager_of_your_own(locks: LockManager, manager: Any) -> None:
    went_on = False
    with expect_loss(LOST):
        async with manager(locks.lock("a")) as lease:
            asyncio.get_running_loop().call_soon(lose, lease)
            with suppress(asyncio.CancelledError):
                await forever()
            await forever()  # level cancellation
            went_on = True
    assert not went_on


@pytest.mark.usefixtures("refused")
async def test_a_generator_that_releases_before_it_yields(locks: LockManager) -> None:
    async def numbers() -> AsyncIterator[int]:
        async with locks.lock("a"):
            found = [1, 2]

            async def other() -> AsyncIterator[int]:
                yield 0

            async for number in other():
                found.append(number)
        """A string
that is indented less."""
        for number in found:
            yield number

    assert [number async for number in numbers()] == [1, 2, 0]


async def through_a_manager(lock: Any) -> AsyncIterator[int]:
    async with locked(lock):
        yield 1


async def by_a_stack(lock: Any) -> AsyncIterator[int]:
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(lock)
        yield 1


async def by_acquire(lock: Any) -> AsyncIterator[int]:
    async with lock.acquire():
        yield 1


async def deep(lock: Any) -> AsyncIterator[int]:
    async with (
        lock,
    ):
        if lock:
            with suppress(KeyError):
                yield 1


@pytest.mark.parametrize("numbers", [rows, through_a_manager, by_a_stack, by_acquire, deep])
async def test_holding_over_a_yield_gives_a_warning(locks: LockManager, backend: MemoryBackend, numbers: Any) -> None:
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        async with aclosing(numbers(locks.lock("a"))) as iterated:
            async for _ in iterated:
                break
    assert [warning.filename for warning in seen] == [__file__]
    assert f"{numbers.__name__}() holds lock 'a' over a `yield`" in str(seen[0].message)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(RuntimeWarning):
            await anext(numbers(locks.lock("a")))
    await settle(backend)
    assert lock_keys(backend) == []


@pytest.mark.parametrize("source", ["", "import sys\n" * 3])
async def test_a_generator_without_source(locks: LockManager, monkeypatch: pytest.MonkeyPatch, source: str) -> None:
    """Or with the source of something else: Python 3.13 keeps what `-c` runs under the name that exec() gives, too."""
    lines = source.splitlines(keepends=True)
    monkeypatch.setitem(linecache.cache, "<string>", (len(source), None, lines, "<string>"))
    blocks._yields_inside.cache_clear()
    space: dict[str, Any] = {}
    exec("async def hidden(lock):\n    async with lock:\n        yield 1\n", space)
    numbers = space["hidden"](locks.lock("a"))
    with pytest.warns(RuntimeWarning, match=r"hidden\(\) holds lock 'a' over a `yield`"):
        assert await anext(numbers) == 1
    await numbers.aclose()


async def test_no_one_closes_it(locks: LockManager, backend: MemoryBackend, caplog: pytest.LogCaptureFixture) -> None:
    """Then there is no consumer to raise LockLost in, but the log has the loss."""
    leases: list[Lease] = []

    async def consume() -> None:
        async for _ in rows(locks.lock("a"), leases):
            asyncio.get_running_loop().call_soon(lose, leases[0])
            await forever()

    task = asyncio.create_task(consume())
    await asyncio.wait({task})
    assert task.cancelled()
    assert any("lost lock 'a'" in record.getMessage() for record in caplog.records)
    assert [type(error) for error in await closed_by_the_loop()] == [LockLost]
    assert lock_keys(backend) == []
