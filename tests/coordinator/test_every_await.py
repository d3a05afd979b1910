"""At every await of acquire, wait, nest, release and close, a cancel leaves nothing behind; nor does an answer that is
lost, or a connection that dies, at any request.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from aiolock import AiolockError, LockManager
from aiolock.backends.coordinator import CoordinatorBackend
from tests.cancellation.stepper import Stepper, When
from tests.support.queue_store import Queues, QueueStore

MOMENTS: tuple[When, ...] = (-1, 0, 1, 2, 3, "answer")
Scenario = Callable[[LockManager, LockManager], Coroutine[Any, Any, None]]


class World:
    """Two processes, and their queues."""

    def __init__(self) -> None:
        self.queues = Queues()
        self.stores = [QueueStore(self.queues) for _ in range(2)]

    def manager(self, at: int) -> LockManager:
        return LockManager(CoordinatorBackend(self.stores[at], "aiolock"))

    async def empty(self) -> None:
        """Wait until no place is left."""
        async with asyncio.timeout(5):
            while any(map(self.queues.queue, list(self.queues.places))):  # noqa: ASYNC110 - undoing is not awaited
                await asyncio.sleep(0)


async def run(scenario: Scenario, cancels: dict[int, When], fail: Callable[[World], None] | None = None) -> int:
    """Run it once; return how often it was suspended."""
    world = World()
    async with world.manager(0) as here, world.manager(1) as there:
        if fail is not None:
            fail(world)
        stepper = Stepper(scenario(here, there), cancels)

        async def work() -> None:
            await stepper

        async with asyncio.timeout(10):
            with contextlib.suppress(asyncio.CancelledError, AiolockError):
                await asyncio.create_task(work())
        for store in world.stores:
            store.fate = lambda _: False
        async with asyncio.timeout(5):
            for store in world.stores:
                await store.ready()
        await world.empty()
        assert not here._runtime.holds
        assert not here._runtime.queue_entries
        async with there.lock("a").acquire(timeout=5) as lease:
            assert lease.depth == 1
            assert not lease.abandoned
        async with there.rw_lock("r").write.acquire(timeout=5) as lease:
            assert not lease.abandoned
    return stepper.suspensions


async def alone(here: LockManager, there: LockManager) -> None:
    lock = here.lock("a")
    async with lock, lock:
        pass
    await (await lock.acquire()).release()


async def waits(here: LockManager, there: LockManager) -> None:
    async with there.lock("a") as lease:
        asyncio.get_running_loop().call_later(0.001, lease.release)
        async with here.lock("a"):
            pass


async def gives_up(here: LockManager, there: LockManager) -> None:
    async with there.lock("a"):
        async with here.lock("a").try_acquire() as lease:
            assert lease is None
        await here.lock("a").acquire(timeout=0.001)


async def downgrades(here: LockManager, there: LockManager) -> None:
    rw = here.rw_lock("r")
    async with rw.write as writing, rw.read:
        await writing.release()
        async with there.rw_lock("r").read:
            pass


async def shares(here: LockManager, there: LockManager) -> None:
    async with here.semaphore("s", 3).acquire(2) as lease, there.semaphore("s", 3).acquire(1):
        await lease.release(1)
        async with there.semaphore("s", 3):
            pass


SCENARIOS = [alone, waits, gives_up, downgrades, shares]


@pytest.mark.parametrize("scenario", SCENARIOS)
async def test_cancelled_at_every_await(scenario: Scenario) -> None:
    """Kept by `Places._leave`, which ends whatever the owner may have."""
    suspensions = await run(scenario, {})
    for at in range(1, suspensions + 1):
        for when in MOMENTS:
            await run(scenario, {at: when})


@pytest.mark.parametrize("scenario", SCENARIOS)
async def test_an_answer_is_lost_at_every_request(scenario: Scenario) -> None:
    """What was done is found when it is asked for again. Kept by `CoordinatorBackend._serve`."""
    asked: list[str] = []
    await run(scenario, {}, lambda world: _at(world, asked, -1))
    for at in range(len(asked)):
        await run(scenario, {}, lambda world, at=at: _at(world, [], at))  # type: ignore[misc]


@pytest.mark.parametrize("scenario", [alone, waits])
async def test_an_answer_is_lost_that_nobody_wants_any_more(scenario: Scenario) -> None:
    """A place is ended by its owner's id, whatever is known of it. Kept by `Places._leave`."""
    asked: list[str] = []
    suspensions = await run(scenario, {}, lambda world: _at(world, asked, -1))
    for at in range(len(asked)):
        for suspension in range(1, suspensions + 1):
            await run(scenario, {suspension: 0}, lambda world, at=at: _at(world, [], at))  # type: ignore[misc]


@pytest.mark.parametrize("scenario", SCENARIOS)
async def test_the_connection_dies_at_every_request(scenario: Scenario) -> None:
    """Whatever waits goes on once it is back. Kept by `CoordinatorBackend._back`."""
    asked: list[str] = []
    await run(scenario, {}, lambda world: _at(world, asked, -1))
    for at in range(len(asked)):
        await run(scenario, {}, lambda world, at=at: _at(world, [], at, cuts=True))  # type: ignore[misc]


def _at(world: World, asked: list[str], number: int, cuts: bool = False) -> None:
    """Lose the answer to the request with this number, or the connection with it."""
    for store in world.stores:

        def fate(what: str, store: QueueStore = store) -> bool:
            asked.append(what)
            hit = len(asked) - 1 == number
            if hit and cuts:
                store.cut()
                asyncio.get_running_loop().call_later(0.001, store.mend)
            return hit

        store.fate = fate
