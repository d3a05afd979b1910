"""Thousands of acquires over a slow connection, cancelled at any moment: no key stays, and no two are inside at
once.
"""

from __future__ import annotations

import asyncio
import random

import pytest

from aiolock import BackendError, LockManager, NotAcquired
from tests.support.proxy import FaultProxy

from .scene import Opener, Server, enter, until

NAMES = 20
TASKS = 3000


@pytest.mark.parametrize("resets", [0, 6], ids=["line lives", "line dies"])
async def test_a_storm_of_cancels(
    proxy: FaultProxy, opened: Opener, server: Server, request: pytest.FixtureRequest, resets: int
) -> None:
    """Invariants 1 to 3. Kept by QueueEntry.end and Gate.lower: every end is written at once.

    13 of 14 async libraries leak a key here.
    """
    seed = random.randrange(2**32)
    print("seed", seed)
    dice = random.Random(seed)
    proxy.delay("requests", 0.001)
    proxy.delay("replies", 0.001)
    managers = [await opened(proxy.url) for _ in range(2)]
    inside: dict[str, int] = {}
    fences: dict[str, int] = {}
    mismatches: list[str] = []
    entered = 0

    async def work(manager: LockManager, name: str, depth: int) -> None:
        nonlocal entered
        async with manager.lock(name) as lease:
            entered += 1
            if inside.setdefault(name, lease.fence) != lease.fence or fences.get(name, 0) > lease.fence:
                mismatches.append(f"{name}: {inside} {fences} {lease}")
            fences[name] = lease.fence
            try:
                await asyncio.sleep(dice.uniform(0, 0.002))
                if depth:
                    async with manager.lock(name):
                        await asyncio.sleep(0)
            finally:
                del inside[name]

    async def strike(task: asyncio.Task[None], after: float) -> None:
        await asyncio.sleep(after)
        task.cancel()
        if dice.random() < 0.3:
            await asyncio.sleep(0)
            task.cancel()

    async def wave(count: int) -> None:
        tasks = [
            asyncio.create_task(work(dice.choice(managers), f"n{dice.randrange(NAMES)}", dice.randrange(3) == 0))
            for _ in range(count)
        ]
        strikes = [asyncio.create_task(strike(task, dice.uniform(0, 0.02))) for task in tasks if dice.random() < 0.9]
        results = await asyncio.gather(*tasks, return_exceptions=True)
        await asyncio.gather(*strikes)
        for result in results:
            assert result is None or isinstance(result, asyncio.CancelledError | NotAcquired | BackendError), result

    async with asyncio.timeout(30):
        for number in range(20):
            if resets and number % (20 // resets) == 0:
                asyncio.get_running_loop().call_later(dice.uniform(0, 0.02), proxy.reset)
            await wave(TASKS // 20)
    assert not mismatches
    assert entered > TASKS / 100
    await until(lambda: not server.held())
    for manager in managers:
        async with asyncio.timeout(5):
            await enter(manager.lock("last"))
        assert not manager._runtime.gates
        assert not manager._runtime.holds
    assert not server.held()
