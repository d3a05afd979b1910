"""Row G: what one more costs if there are 1, 10, … 10,000 of them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from statistics import median

from ..figure import Figure, Findings, Series
from ..leases import hold
from ..peers.adapter import Adapter, opened
from ..stage import Stage
from ..turns import TTL

OURS = "benchmarks.peers.aiolock:Patient"
LEASE_TTL = 3.0
QUICK_LEASE_TTL = 1.5
LEAST = 200
"""The least number of operations in one round."""
MANY = 1_000
"""A greater number takes so long that two rounds must do."""
Cost = Callable[[Adapter, str, int], Awaitable[float]]


async def growth(**given: object) -> dict[str, object]:
    """µs of each operation at each number; it must stay within 1.5 × its value at 10."""
    stage = Stage(**given)  # type: ignore[arg-type]
    found = Findings()
    operations: dict[str, tuple[str, Cost]] = {
        "pair, one task, n names": ("names", _cycle),
        "pair, n tasks, n names": ("names", _crowd),
        "hand-off in a process, n tasks": ("waiters", _queue),
        "arrival of a waiter, n waiters": ("waiters", _arrive),
    }
    for what, (plot, cost) in operations.items():
        await _measure(stage, found, what, plot, cost)
    await _renewals(stage, found)
    return found.as_json()


async def _measure(stage: Stage, found: Findings, what: str, plot: str, cost: Cost) -> None:
    points = []
    for number in stage.scale.growth:
        rounds = 2 if stage.quick or number > MANY else 5
        async with opened(OURS, stage.url) as library:
            costs = [await cost(library, stage.url, number) for _ in range(rounds)]
        points.append((float(number), median(costs) * 1e6))
    judge(found, what, plot, points)


def judge(found: Findings, what: str, plot: str, points: list[tuple[float, float]]) -> None:
    """Record a line of a plot, and the worst of its points against the one at 10."""
    found.series.append(Series(f"cost against number of {plot}", what, points))
    at = dict(points)
    worst = max((number for number in at if number > 10), key=lambda number: at[number])
    told = ", ".join(f"{number:,.0f}: {cost:,.0f}" for number, cost in points)
    found.figures.append(
        Figure("G", f"{what}: most against n = 10", at[worst] / at[10], "×", 1.5, None, False, f"µs at n: {told}")
    )


async def _cycle(library: Adapter, url: str, number: int) -> float:
    locks = [library.lock(f"cycle:{one}", TTL) for one in range(number)]
    rounds = max(1, LEAST // number)
    began = time.perf_counter()
    for _ in range(rounds):
        for lock in locks:
            async with lock:
                pass
    return (time.perf_counter() - began) / (rounds * number)


async def _crowd(library: Adapter, url: str, number: int) -> float:
    rounds = max(2, LEAST // number)

    async def one(name: str) -> None:
        lock = library.lock(name, TTL)
        for _ in range(rounds):
            async with lock:
                pass

    began = time.perf_counter()
    await asyncio.gather(*(one(f"crowd:{one_of}") for one_of in range(number)))
    return (time.perf_counter() - began) / (rounds * number)


async def _queue(library: Adapter, url: str, number: int) -> float:
    """All of them enter `rounds` times, so each hand-off but the last goes to a task that waits behind all others."""
    rounds = max(1, LEAST // number)

    async def one() -> None:
        lock = library.lock("queue", TTL)
        for _ in range(rounds):
            async with lock:
                pass

    began = time.perf_counter()
    await asyncio.gather(*(one() for _ in range(number)))
    return (time.perf_counter() - began) / (rounds * number)


async def _arrive(library: Adapter, url: str, number: int) -> float:
    """CPU seconds for a waiter to arrive, and to leave again by cancellation."""

    async def one() -> None:
        async with library.lock("kept", TTL):
            raise RuntimeError("the lock was not kept")

    async with opened(OURS, url) as elsewhere, elsewhere.lock("kept", TTL):
        used = time.process_time()
        tasks = [asyncio.create_task(one()) for _ in range(number)]
        for _ in range(20):
            await asyncio.sleep(0.005)
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
        return (time.process_time() - used) / number


async def _renewals(stage: Stage, found: Findings) -> None:
    renewing, acquiring = [], []
    for number in stage.scale.growth:
        held = await hold(stage.url, number, QUICK_LEASE_TTL if stage.quick else LEASE_TTL, periods=2)
        renewing.append((float(number), held.cpu / number * 1e6))
        acquiring.append((float(number), held.acquiring * 1e6))
    judge(found, "client CPU of a renewal, n leases", "leases", renewing)
    judge(found, "acquiring one of n leases, up to 500 at once", "leases", acquiring)
