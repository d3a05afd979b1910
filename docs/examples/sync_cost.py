"""What a pair of acquire and release costs a thread: beside the asynchronous lock, and beside redis-py's.

    python docs/examples/sync_cost.py redis://localhost:6379/0

Without a URL it starts a server of its own. The rounds of the three take turns.
"""

from __future__ import annotations

import asyncio
import statistics
import sys
import time
from collections.abc import Callable

import redis

import aiolock
import aiolock.sync
from aiolock.testing.server import RedisServer

ROUNDS, PAIRS = 15, 500


def measure(url: str, rounds: int = ROUNDS, pairs: int = PAIRS) -> dict[str, float]:
    """Return the median of microseconds per pair, for each of them."""
    with (
        aiolock.sync.LockManager(url) as locks,
        redis.Redis.from_url(url) as client,
        asyncio.Runner() as runner,
    ):
        manager = aiolock.LockManager(url)
        runner.run(manager.open())
        ours, theirs = locks.lock("thread"), client.lock("theirs", timeout=30)

        async def tasks() -> None:
            lock = manager.lock("task")
            for _ in range(pairs):
                async with lock:
                    pass

        def threads() -> None:
            for _ in range(pairs):
                with ours:
                    pass

        def of_redis_py() -> None:
            for _ in range(pairs):
                with theirs:
                    pass

        ways: dict[str, Callable[[], object]] = {
            "aiolock.sync": threads,
            "aiolock, asynchronous": lambda: runner.run(tasks()),
            "redis-py, synchronous": of_redis_py,
        }
        seen: dict[str, list[float]] = {name: [] for name in ways}
        for _ in range(rounds):
            for name, way in ways.items():
                began = time.perf_counter()
                way()
                seen[name].append((time.perf_counter() - began) / pairs * 1e6)
        runner.run(manager.close())
    return {name: statistics.median(times) for name, times in seen.items()}


def main() -> None:
    """Print a line for each."""
    if len(sys.argv) > 1:
        found = measure(sys.argv[1])
    else:
        with RedisServer.start(owned=True) as server:
            found = measure(server.url)
    least = found["aiolock.sync"]
    for name, microseconds in found.items():
        print(f"{name:<24}{microseconds:7.0f} µs{microseconds / least:7.2f} ×")


if __name__ == "__main__":
    main()
