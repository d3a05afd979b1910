"""A latch: one cancel or two, at every await, leave no waiter behind, and count at most once."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from aiolock import LockManager
from aiolock.redisson import Redisson
from tests.unit.world import lock_keys, settle

from .test_every_await import World, run_every_way

COUNTS = 2

Make = Callable[[LockManager], Any]
KINDS: dict[str, Make] = {
    "latch": lambda manager: manager.latch("door", COUNTS),
    "redisson": lambda manager: Redisson(manager).count_down_latch("door"),
}


class Door(World):
    """A latch that is shut; in the end, the other process opens it."""

    def __init__(self, make: Make) -> None:
        super().__init__()
        self.here, self.there = make(self.locks), make(self.peer)
        self.most = self.least = COUNTS
        self.other: asyncio.Task[bool] | None = None
        self.after.append(self.open)

    async def shut(self) -> None:
        if hasattr(self.there, "try_set_count"):
            assert await self.there.try_set_count(COUNTS)

    async def count(self) -> None:
        """Count from elsewhere."""
        await self.there.count_down()

    async def open(self) -> None:
        """What was cancelled has counted once, or not at all; one count more opens nothing too early."""
        left = await self.there.count()
        assert self.least <= left <= self.most
        for _ in range(left):
            await self.there.count_down()
        await self.there.wait(timeout=0)
        await settle(self.backend)
        assert self.other is None or self.other.done(), "it waits on"
        assert not any("latch" in channel for channel in self.backend._wakes)
        self.lasting = tuple(key for key in lock_keys(self.backend) if "latch" in key)  # for others who wait


@pytest.fixture(params=KINDS)
def make(request: pytest.FixtureRequest) -> Callable[[], Door]:
    """Makes worlds with a latch of each kind."""
    return lambda: Door(KINDS[request.param])


async def prepare(world: World) -> None:
    assert isinstance(world, Door)
    await world.shut()


async def test_counting(make: Callable[[], Door]) -> None:
    """Kept by Latch.count_down: a repeated request counts once."""

    async def scenario(world: World) -> None:
        assert isinstance(world, Door)
        world.least = COUNTS - 1
        await world.here.count_down()
        world.most = COUNTS - 1

    assert await run_every_way(scenario, prepare, make=make) > 2


@pytest.mark.parametrize("turns", [0, 4, 9])
async def test_a_wait_that_a_count_elsewhere_ends(make: Callable[[], Door], turns: int) -> None:
    """The cancel meets the answer of the query, the subscription, the message. Kept by LatchWatcher.leave."""

    async def scenario(world: World) -> None:
        assert isinstance(world, Door)
        world.least = 0
        for _ in range(COUNTS):
            world.soon(turns, lambda: world.crew.start(world.count()))
        await world.here.wait()
        world.most = 0

    assert await run_every_way(scenario, prepare, make=make) > 2


async def test_one_of_two_waiters(make: Callable[[], Door]) -> None:
    """The other one of the process goes on. Kept by LatchWatcher.leave: the last one ends everything."""

    async def scenario(world: World) -> None:
        assert isinstance(world, Door)
        world.least = 0
        world.other = world.crew.start(world.here.wait())
        for _ in range(COUNTS):
            world.soon(6, lambda: world.crew.start(world.count()))
        await world.here.wait()

    assert await run_every_way(scenario, prepare, make=make) > 2
