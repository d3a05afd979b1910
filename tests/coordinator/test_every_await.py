"""At every await of acquire, wait, nest, release and close, a cancel leaves nothing behind; nor does an answer that is
lost, or a connection that dies, at any request.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Coroutine
from typing import Any, Protocol, TypeAlias

import pytest

from aiolock import AiolockError, LockManager
from aiolock.backends.coordinator import CoordinatorBackend
from aiolock.backends.zookeeper.jute import Op
from aiolock.backends.zookeeper.link import Link, Reply
from aiolock.backends.zookeeper.names import HELD
from tests.cancellation.stepper import Stepper, When
from tests.support import zookeeper
from tests.support.queue_store import Queues, QueueStore
from tests.support.zookeeper import ZooKeeper

MOMENTS: tuple[When, ...] = (-1, 0, 1, 2, 3, "answer")
Scenario = Callable[[LockManager, LockManager], Coroutine[Any, Any, None]]


class World(Protocol):
    """Two processes, and their queues."""

    def manager(self, at: int) -> LockManager: ...

    def fail_at(self, asked: list[str], number: int, cuts: bool = False) -> None:
        """Note each request, and lose the answer to the one with this number, or the connection before it."""

    async def mend(self) -> None:
        """Nothing fails any more."""

    async def empty(self) -> None:
        """Wait until no place is left."""


class MemoryWorld:
    """Queues in memory."""

    def __init__(self) -> None:
        self.queues = Queues()
        self.stores = [QueueStore(self.queues) for _ in range(2)]

    def manager(self, at: int) -> LockManager:
        return LockManager(CoordinatorBackend(self.stores[at], "aiolock"))

    def fail_at(self, asked: list[str], number: int, cuts: bool = False) -> None:
        for store in self.stores:

            def fate(what: str, store: QueueStore = store) -> bool:
                asked.append(what)
                hit = len(asked) - 1 == number
                if hit and cuts:
                    store.cut()
                    asyncio.get_running_loop().call_later(0.001, store.mend)
                return hit

            store.fate = fate

    async def mend(self) -> None:
        for store in self.stores:
            store.fate = lambda _: False
        async with asyncio.timeout(5):
            for store in self.stores:
                await store.ready()

    async def empty(self) -> None:
        async with asyncio.timeout(5):
            while any(map(self.queues.queue, list(self.queues.places))):  # noqa: ASYNC110 - undoing is not awaited
                await asyncio.sleep(0)


class ZooKeeperWorld:
    """A real server; an answer that is lost is lost with its connection."""

    def __init__(self, server: ZooKeeper, monkeypatch: pytest.MonkeyPatch) -> None:
        self.server = server
        self._patch = monkeypatch
        self._ask = Link.ask

    def manager(self, at: int) -> LockManager:
        return LockManager(self.server.url)

    def fail_at(self, asked: list[str], number: int, cuts: bool = False) -> None:
        ask = self._ask

        def lossy(link: Link, op: Op, body: bytes) -> asyncio.Future[Reply]:
            asked.append(op.name)
            hit = len(asked) - 1 == number
            if hit and cuts:
                link.fail(ConnectionError("the test has cut the connection"))
            told = ask(link, op, body)
            if hit and not cuts:
                lost: asyncio.Future[Reply] = told.get_loop().create_future()
                lost.add_done_callback(lambda lost: lost.cancelled() or lost.exception())
                told.add_done_callback(lambda _: link.fail(ConnectionError("the test has lost the answer")))
                told.add_done_callback(lambda _: lost.done() or lost.set_exception(link._away("lost")))
                return lost
            return told

        self._patch.setattr(Link, "ask", lossy)

    async def mend(self) -> None:
        self._patch.setattr(Link, "ask", self._ask)

    async def empty(self) -> None:
        client = self.server.client

        def places() -> list[str]:
            kinds = [f"/aiolock/{kind}" for kind in self.server.children("/aiolock") if kind != "#"]
            names = [f"{kind}/{name}" for kind in kinds for name in self.server.children(kind)]
            return [one for name in names for one in client.get_children(name) if one != HELD]

        async with asyncio.timeout(10):
            while await asyncio.to_thread(places):  # noqa: ASYNC110 - undoing is not awaited
                await asyncio.sleep(0.005)


WorldMaker: TypeAlias = Callable[[], World]


@pytest.fixture(params=["memory", pytest.param("zookeeper", marks=pytest.mark.slow)])
def world(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> WorldMaker:
    """Each store that can lose answers on request."""
    if request.param == "memory":
        return MemoryWorld
    server = zookeeper.shared()
    server.flush()
    return lambda: ZooKeeperWorld(server, monkeypatch)


async def run(
    make: WorldMaker, scenario: Scenario, cancels: dict[int, When], fail: Callable[[World], None] | None = None
) -> int:
    """Run it once; return how often it was suspended."""
    world = make()
    async with world.manager(0) as here, world.manager(1) as there:
        if fail is not None:
            fail(world)
        stepper = Stepper(scenario(here, there), cancels)

        async def work() -> None:
            await stepper

        async with asyncio.timeout(10):
            with contextlib.suppress(asyncio.CancelledError, AiolockError):
                await asyncio.create_task(work())
        await world.mend()
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
async def test_cancelled_at_every_await(world: WorldMaker, scenario: Scenario) -> None:
    """Kept by `Places._leave`, which ends whatever the owner may have."""
    suspensions = await run(world, scenario, {})
    for at in range(1, suspensions + 1):
        for when in MOMENTS:
            await run(world, scenario, {at: when})


@pytest.mark.parametrize("scenario", SCENARIOS)
async def test_an_answer_is_lost_at_every_request(world: WorldMaker, scenario: Scenario) -> None:
    """What was done is found when it is asked for again. Kept by `CoordinatorBackend._serve`."""
    asked: list[str] = []
    await run(world, scenario, {}, lambda made: made.fail_at(asked, -1))
    for at in range(len(asked)):
        await run(world, scenario, {}, lambda made, at=at: made.fail_at([], at))  # type: ignore[misc]


@pytest.mark.parametrize("scenario", [alone, waits])
async def test_an_answer_is_lost_that_nobody_wants_any_more(world: WorldMaker, scenario: Scenario) -> None:
    """A place is ended by its owner's id, whatever is known of it. Kept by `Places._leave`."""
    asked: list[str] = []
    suspensions = await run(world, scenario, {}, lambda made: made.fail_at(asked, -1))
    for at in range(len(asked)):
        for suspension in range(1, suspensions + 1):
            await run(world, scenario, {suspension: 0}, lambda made, at=at: made.fail_at([], at))  # type: ignore[misc]


@pytest.mark.parametrize("scenario", SCENARIOS)
async def test_the_connection_dies_at_every_request(world: WorldMaker, scenario: Scenario) -> None:
    """Whatever waits goes on once it is back. Kept by `CoordinatorBackend._back`."""
    asked: list[str] = []
    await run(world, scenario, {}, lambda made: made.fail_at(asked, -1))
    for at in range(len(asked)):
        await run(world, scenario, {}, lambda made, at=at: made.fail_at([], at, cuts=True))  # type: ignore[misc]
