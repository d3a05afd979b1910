"""Uncontended acquire + release pairs: aiolock against the cheapest lock redis-py allows, interleaved in one run.

    python benchmarks/pairs.py [rounds]

The base is `SET key value NX PX` and an EVALSHA that compares and deletes: no renewal, no fence, no loss, no
reentrancy. Ratios are what counts; times are this machine's, today.
"""

from __future__ import annotations

import asyncio
import secrets
import statistics
import sys
import time

from redis.asyncio import Redis

from aiolock import LockManager
from aiolock.testing.server import RedisServer

PAIRS = 1_000
COMPARE_AND_DELETE = "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0"


async def base(client: Redis, sha: str) -> float:
    """Seconds for one pair of the base."""
    began = time.perf_counter()
    for _ in range(PAIRS):
        token = secrets.token_hex(8)
        await client.set("base", token, nx=True, px=30_000)
        await client.evalsha(sha, 1, "base", token)
    return (time.perf_counter() - began) / PAIRS


async def ours(locks: LockManager) -> float:
    """Seconds for one pair of aiolock's."""
    lock = locks.lock("pairs")
    began = time.perf_counter()
    for _ in range(PAIRS):
        async with lock:
            pass
    return (time.perf_counter() - began) / PAIRS


async def main(rounds: int) -> None:
    """Run both in turn and print the medians."""
    with RedisServer.start() as server:
        client = Redis.from_url(server.url)
        sha = await client.script_load(COMPARE_AND_DELETE)
        async with client, LockManager(server.url) as locks:
            times = [(await base(client, sha), await ours(locks)) for _ in range(rounds + 1)][1:]
    theirs = statistics.median(pair[0] for pair in times)
    mine = statistics.median(pair[1] for pair in times)
    ratio = statistics.median(one / other for one, other in times)
    print(f"base    {theirs * 1e6:7.0f} µs a pair")
    print(f"aiolock {mine * 1e6:7.0f} µs a pair: {ratio:.2f} × the base's pairs a second (median of {rounds} rounds)")


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]) if len(sys.argv) > 1 else 5))
