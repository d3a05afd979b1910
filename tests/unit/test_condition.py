"""A condition in one process, on an in-memory server: how a wait ends when the server is away; nothing sleeps."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest

from aiolock import BackendError, LockManager, NotOwned
from aiolock.primitives.condition_waiter import ConditionWaiter
from aiolock.scripts.condition import ConditionCalls
from aiolock.testing import MemoryBackend

from .world import BEAT, Crew, settle

NAME = "a"


def waits(backend: MemoryBackend) -> int:
    return backend.calls.count("wait")


async def wait(locks: LockManager) -> None:
    lock = locks.lock(NAME)
    async with lock as lease:
        try:
            await locks.condition(lock).wait()
        finally:
            with pytest.raises(NotOwned):
                lease.ensure()


async def test_cancelled_in_an_outage(locks: LockManager, crew: Crew, backend: MemoryBackend) -> None:
    """Broken by letting the error of the new acquire take the place of the cancellation."""
    task = crew.start(wait(locks))
    await settle(backend)
    assert waits(backend) == 1
    with backend.outage():
        task.cancel()
        await settle(backend)
        task.cancel()
        await backend.clock.advance(60.0)
        with pytest.raises(asyncio.CancelledError):
            await task


async def test_notified_before_an_outage(locks: LockManager, crew: Crew, backend: MemoryBackend) -> None:
    """The lease stays released, and says so."""
    task = crew.start(wait(locks))
    await settle(backend)
    lock = locks.lock(NAME)
    lease = await lock.acquire()
    assert await locks.condition(lock).notify() == 1
    with backend.outage():
        lease.release()
        await backend.clock.advance(60.0)
        with pytest.raises(BackendError):
            await task


async def test_a_request_that_no_server_saw_is_not_undone(
    locks: LockManager, crew: Crew, backend: MemoryBackend
) -> None:
    """Kept by ConditionWaiter.leave: `unseen`."""
    lock = locks.lock(NAME, ttl=600.0)
    held = asyncio.Event()
    go_on = asyncio.Event()

    async def wait_late() -> None:
        async with lock as lease:
            held.set()
            await go_on.wait()
            with pytest.raises(BackendError, match="no answer"):
                await locks.condition(lock).wait()
            lease.ensure()

    task = crew.start(wait_late())
    await held.wait()
    with backend.outage():
        go_on.set()
        await backend.clock.advance(10.0)
    await task
    await settle(backend)
    assert "leave" not in backend.calls


async def test_a_manager_that_closes_beside_a_failure(locks: LockManager, backend: MemoryBackend) -> None:
    """Its task gets the first error; nobody would await a second, so Python logs it. Kept by ConditionWaiter._fail."""
    waiter = ConditionWaiter(locks._runtime, ConditionCalls(locks._runtime.keys, NAME, 5000))
    with backend.outage():
        waiter.join()
        waiter._away(BackendError(NAME, "away"))
        waiter.close()  # the task has had no turn
        waiter.leave(passes=True)
    assert isinstance(waiter.joined.exception(), BackendError)
    assert waiter.notified.cancelled()


async def test_a_crowd_costs_no_square_of_its_number(locks: LockManager, crew: Crew, backend: MemoryBackend) -> None:
    """About three of them look at all others in each period. Kept by ConditionWaiter._ask. Before, 700 waiters kept a
    server busy with nothing else.
    """
    crowd, periods = 60, 20
    looks: list[bool] = []
    execute = backend._execute

    def note(call: Any) -> Any:
        if call.script.name == "wait":
            looks.append(call.args[3] == 1)
        return execute(call)

    for _ in range(crowd):
        crew.start(wait(locks))
    while waits(backend) < crowd:
        await settle(backend)
    cast(Any, backend)._execute = note
    await backend.clock.advance(periods * BEAT)
    assert len(looks) >= crowd * (periods - 1)
    assert periods < sum(looks) < 6 * periods
