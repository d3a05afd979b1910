"""Invariant 3 for the multi lock: no cancel, at any await, leaves one of its names behind."""

from __future__ import annotations

import pytest

from .test_every_await import World, body, run_every_way


async def test_a_guarded_block() -> None:
    async def scenario(world: World) -> None:
        async with world.locks.multi_lock("a", "b"):
            await body(world)

    assert await run_every_way(scenario) > 20


async def test_nesting() -> None:
    async def scenario(world: World) -> None:
        lock = world.locks.multi_lock("a", "b")
        async with lock as outer:
            try:
                async with lock:
                    await body(world)
            finally:
                assert (outer.depth, outer.lost) == (1, False)

    assert await run_every_way(scenario) > 20


@pytest.mark.parametrize(("turns", "attempt"), [(0, False), (5, False), (5, True)])
async def test_a_wait_that_the_release_of_one_name_elsewhere_ends(turns: int, attempt: bool) -> None:
    async def scenario(world: World) -> None:
        lease = await world.peer.lock("b").acquire()
        world.soon(turns, lease.release)
        multi = world.locks.multi_lock("a", "b", "c")
        async with multi.try_acquire() if attempt else multi as got:
            if got is not None:
                await body(world)

    assert await run_every_way(scenario) > 20


@pytest.mark.parametrize("turns", [0, 3, 12])
async def test_a_wait_in_which_it_gathers(turns: int) -> None:
    """It gets one name after the other. Kept by MultiCalls.release: of all names, and from all queues."""

    async def prepare(world: World) -> None:
        leases = [await world.peer.lock(name).acquire() for name in "ab"]
        for number, lease in enumerate(leases):
            world.soon(8 + number * turns, lease.release)

    async def scenario(world: World) -> None:
        async with world.locks.multi_lock("a", "b", "c"):
            await body(world)

    assert await run_every_way(scenario, prepare) > 20


@pytest.mark.parametrize("turns", [1, 5])
async def test_a_wait_behind_another_task_of_this_process(turns: int) -> None:
    async def prepare(world: World) -> None:
        await world.hold()
        assert world.holder is not None
        world.soon(turns, world.holder.leave.set)

    async def scenario(world: World) -> None:
        async with world.locks.multi_lock("a", "b"):
            await body(world)

    assert await run_every_way(scenario, prepare) > 20
