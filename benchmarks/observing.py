"""What observers and DEBUG logs cost: `python -m benchmarks.observing` starts a server of its own.

CPU time of this process for an acquire and its release, without anyone else; medians of rounds that take turns.
"""

from __future__ import annotations

import asyncio
import logging
import time
from statistics import median
from typing import Any

from aiolock import LockManager
from aiolock.events import Event
from aiolock.testing.server import RedisServer

ROUNDS, PAIRS = 15, 2000


def ignore(event: Event) -> None:
    """An observer that does nothing."""


WAYS: dict[str, tuple[int, dict[str, Any]]] = {
    "nobody listens": (logging.NOTSET, {}),
    "an observer that does nothing": (logging.NOTSET, {"observer": ignore}),
    "DEBUG lines that no handler writes": (logging.DEBUG, {}),
}


async def cost(url: str, options: dict[str, Any]) -> float:
    """Microseconds a pair."""
    async with LockManager(url, **options) as locks:
        lock = locks.lock("observed")
        began = time.process_time()
        for _ in range(PAIRS):
            async with lock:
                pass
        return (time.process_time() - began) / PAIRS * 1e6


def main() -> None:
    """Print a line for each way."""
    found: dict[str, list[float]] = {way: [] for way in WAYS}
    with RedisServer.start(owned=True) as server:
        for _ in range(ROUNDS):
            for way, (level, options) in WAYS.items():
                logging.getLogger("aiolock").setLevel(level)
                found[way].append(asyncio.run(cost(server.url, options)))
    alone = found["nobody listens"]
    for way, times in found.items():
        more = median(here - there for here, there in zip(times, alone, strict=True))
        print(f"{way:35}{median(times):6.1f} µs, {more:+.1f}")


if __name__ == "__main__":
    main()
