"""A quorum's beginning and end when other tasks interfere."""

from __future__ import annotations

import asyncio

import pytest

from aiolock import ConfigurationError, LockManager

from .world import NAME, Link, Trio


async def enter(manager: LockManager) -> LockManager:
    return await manager.__aenter__()


async def test_closed_while_another_task_enters(trio: Trio, links: list[Link], monkeypatch: pytest.MonkeyPatch) -> None:
    """A task that waits for servers is told at once, and nothing is left. Kept by Lifecycle.close."""

    async def never(self: Link, **_: object) -> None:
        await asyncio.sleep(3600)

    manager = trio.manager(links)
    with monkeypatch.context() as patch:
        patch.setattr(Link, "open", never)
        entering = asyncio.create_task(enter(manager))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        await manager.aclose()
        with pytest.raises(ConfigurationError, match="closed while it was being entered"):
            await entering
    assert asyncio.all_tasks() == {asyncio.current_task()}
    async with manager, manager.lock(NAME):
        assert trio.held() == [True] * 3


async def test_every_task_is_cancelled_while_a_node_is_away(trio: Trio, links: list[Link]) -> None:
    """It is connected all the same when it is back. Kept by Worker."""
    links[2].down = True
    async with trio.manager(links) as manager:
        (opening,) = (task for task in asyncio.all_tasks() if task.get_name() == "aiolock node 3")
        opening.cancel()
        await asyncio.wait((opening,))
        links[2].down = False
        async with asyncio.timeout(10):
            while links[2]._loop is None:  # noqa: ASYNC110
                await asyncio.sleep(0.005)
        async with manager.lock(NAME):
            assert trio.held() == [True] * 3


def test_a_loop_that_was_closed_without_notice(trio: Trio, links: list[Link]) -> None:
    """You can enter the manager again, on another loop."""
    manager = trio.manager(links)
    links[2].down = True  # a task is still busy with that one
    loop = asyncio.new_event_loop()
    loop.run_until_complete(enter(manager))
    for task in asyncio.all_tasks(loop):
        task.cancel()
    loop.run_until_complete(asyncio.sleep(0))
    loop.close()
    links[2].down = False

    async def use() -> None:
        async with manager, manager.lock(NAME):
            assert trio.held() == [True] * 3

    asyncio.run(use())
