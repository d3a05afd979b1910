"""Invariant 3 for a multi lock in several places: cancelled between two of them, it leaves neither behind."""

from __future__ import annotations

from typing import Any

import pytest

from aiolock import LockManager
from aiolock.testing import MemoryBackend
from tests.support.scattered import Scattered
from tests.unit.world import SlowBackend

from .test_every_await import World, body, run_every_way


class Spread(World):
    """Each name has a connection of its own, to one store."""

    def __init__(self) -> None:
        super().__init__()
        self.locks = LockManager(Scattered([self.backend, SlowBackend(self.backend, 3), SlowBackend(self.backend, 1)]))
        self.peer = LockManager(Scattered([self.peer_backend, *(MemoryBackend(self.backend) for _ in range(2))]))

    def lock(self, manager: LockManager) -> Any:
        return manager.multi_lock("a", "b", "c")


async def guarded(world: World) -> None:
    async with world.lock(world.locks):
        await body(world)


async def test_a_guarded_block() -> None:
    assert await run_every_way(guarded, make=Spread) > 20


async def test_nesting() -> None:
    async def scenario(world: World) -> None:
        lock = world.lock(world.locks)
        async with lock as outer:
            try:
                async with lock:
                    await body(world)
            finally:
                assert (outer.depth, outer.lost) == (1, False)

    assert await run_every_way(scenario, make=Spread) > 20


MOMENTS = [("a", 0), ("b", 7), ("c", 20)]
"""Names, and turns until they are released: while it asks for the first, the second, the third."""


@pytest.mark.parametrize("attempt", [False, True])
@pytest.mark.parametrize(
    ("name", "turns"),
    [
        pytest.param(name, turns, marks=() if (name, turns) in MOMENTS else pytest.mark.slow)
        for name in "abc"
        for turns in (0, 7, 20)
    ],
)
async def test_a_wait_that_a_release_elsewhere_ends(name: str, turns: int, attempt: bool) -> None:
    async def scenario(world: World) -> None:
        lease = await world.peer.lock(name).acquire()
        world.soon(turns, lease.release)
        multi = world.lock(world.locks)
        async with multi.try_acquire() if attempt else multi as got:
            if got is not None:
                await body(world)

    assert await run_every_way(scenario, make=Spread, stride=3) > 10


@pytest.mark.parametrize("turns", [3, 12])
async def test_a_wait_in_which_it_loses_what_it_has(turns: int) -> None:
    async def prepare(world: World) -> None:
        last = await world.peer.lock("c").acquire()
        lock = world.peer.lock("a")
        world.soon(turns, lambda: world.crew.start(lock.force_release()))
        world.soon(turns + 15, last.release)

    assert await run_every_way(guarded, prepare, make=Spread, stride=3) > 10


async def test_a_wait_behind_another_task_of_this_process() -> None:
    async def prepare(world: World) -> None:
        await world.hold()
        assert world.holder is not None
        world.soon(5, world.holder.leave.set)

    assert await run_every_way(guarded, prepare, make=Spread, stride=3) > 10
