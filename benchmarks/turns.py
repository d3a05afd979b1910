"""Contestants that take turns, so that noise from the machine hits all of them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass

from .peers.adapter import Adapter
from .peers.base import Base

TTL = 30.0
Pairs = Callable[[], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Cost:
    """The cost of one pair of acquire and release, in seconds.

    Attributes:
        wall: of the clock.
        cpu: of this process.
    """

    wall: float
    cpu: float


async def in_turns(contestants: Mapping[str, Pairs], pairs: int, rounds: int) -> dict[str, list[Cost]]:
    """Run each contestant once per round, each time in another order; the first round warms up and is thrown away.

    Args:
        contestants: what to run.
        pairs: how many pairs one run of a contestant makes.
        rounds: how many rounds count.
    """
    costs: dict[str, list[Cost]] = {label: [] for label in contestants}
    order = list(contestants)
    for number in range(rounds + 1):
        for label in order:
            began, used = time.perf_counter(), time.process_time()
            await contestants[label]()
            cost = Cost((time.perf_counter() - began) / pairs, (time.process_time() - used) / pairs)
            if number:
                costs[label].append(cost)
        order.append(order.pop(0))
    return costs


def ratios(theirs: Sequence[Cost], ours: Sequence[Cost]) -> list[float]:
    """Pairs per second of `ours` against `theirs`, round by round."""
    return [one.wall / other.wall for one, other in zip(theirs, ours, strict=True)]


def base_pairs(base: Base, tasks: int, each: int) -> Pairs:
    """This many tasks make this many pairs each, on names of their own, with the baseline."""

    async def one(name: str) -> None:
        for _ in range(each):
            await base.pair(name)

    async def run() -> None:
        await _all(one(f"base:{number}") for number in range(tasks))

    return run


def lock_pairs(adapter: Adapter, tasks: int, each: int, prefix: str = "pairs") -> Pairs:
    """The same with a library's locks, one object for each task."""
    locks = [adapter.lock(f"{prefix}:{number}", TTL) for number in range(tasks)]

    async def one(lock: AbstractAsyncContextManager[object]) -> None:
        for _ in range(each):
            async with lock:
                pass

    async def run() -> None:
        await _all(one(lock) for lock in locks)

    return run


async def _all(work: Iterable[Coroutine[object, object, None]]) -> None:
    several = list(work)
    if len(several) == 1:
        await several[0]  # no task: one caller that does one thing after another
    else:
        await asyncio.gather(*several)
