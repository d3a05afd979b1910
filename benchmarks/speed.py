"""A library's uncontended and contended speed, beside the baseline in the same process."""

from __future__ import annotations

import asyncio
from importlib.metadata import PackageNotFoundError, version
from statistics import median
from typing import Any

from .contention import contend
from .figure import percentile
from .peers.adapter import load, opened
from .peers.base import Base
from .scale import Scale
from .turns import TTL, base_pairs, in_turns, lock_pairs, ratios

PROBE = 10.0
CROWDS = (1, 10, 50, 200)
TASKS = 20


async def identity(url: str, adapter: str, distributions: list[str]) -> dict[str, Any]:
    """Return versions and settings; fails if the library cannot be imported, or cannot acquire a free lock."""
    async with opened(adapter, url) as library, asyncio.timeout(PROBE), library.lock("probe", TTL):
        pass
    return {"settings": load(adapter).settings, "versions": {name: _version(name) for name in distributions}}


def _version(distribution: str) -> str:
    try:
        return version(distribution)
    except PackageNotFoundError:
        return "not installed"


async def uncontended(url: str, adapter: str, quick: bool) -> dict[str, Any]:
    """Pairs per second against the baseline at several numbers of tasks, each with a name of its own."""
    scale = Scale.of(quick)
    base = Base()
    await base.open(url)
    crowds: dict[int, dict[str, float]] = {}
    async with opened(adapter, url) as library:
        for tasks in CROWDS[:: 3 if quick else 1]:
            each = max(3, (scale.pairs if tasks == 1 else scale.crowd_pairs * CROWDS[-1] // 2) // tasks)
            contestants = {
                "base": base_pairs(base, tasks, each),
                "ours": lock_pairs(library, tasks, each, f"crowd{tasks}"),
            }
            costs = await in_turns(contestants, tasks * each, scale.rounds)
            crowds[tasks] = {
                "ratio": median(ratios(costs["base"], costs["ours"])),
                "pairs": median(1 / cost.wall for cost in costs["ours"]),
                "base": median(1 / cost.wall for cost in costs["base"]),
                "cpu": median(cost.cpu for cost in costs["ours"]) / median(cost.cpu for cost in costs["base"]),
            }
    await base.close()
    return {"crowds": list(crowds.items())}


async def contended(url: str, adapter: str, quick: bool) -> dict[str, Any]:
    """20 tasks, one name: acquisitions per second, and how long each task waited."""
    async with opened(adapter, url) as library:
        seen = await contend(library, "contended", TASKS, 4 * Scale.of(quick).contended)
    entries = sorted(visit.entered for visit in seen.times)
    waits = [visit.wait for visit in seen.times]
    return {
        "acquisitions": (len(entries) - 1) / (entries[-1] - entries[0]),
        "p50": percentile(waits, 0.5),
        "p99": percentile(waits, 0.99),
        "errors": seen.errors,
    }
