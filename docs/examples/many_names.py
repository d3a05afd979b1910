"""What a multi lock of many names costs: the lock, the server, and the event loop.

    python docs/examples/many_names.py [--rounds 9] [--url redis://…]

For each number of names it takes a free multi lock, renews it and leaves it. Prints a table of milliseconds: to enter,
to renew by hand and to leave; for how long the event loop of this process stood still; and the server's CPU time for
each script. Times are those of the fastest round, so that a busy machine says nearly the same.
"""

from __future__ import annotations

import argparse
import asyncio
import time
from itertools import pairwise
from typing import Any, NamedTuple

from redis.asyncio import Redis

from aiolock import LockManager
from aiolock.testing.server import RedisServer

COUNTS = (2, 64, 250, 1_000, 3_000, 10_000)


class Cost(NamedTuple):
    """In milliseconds."""

    enter: float
    renew: float
    leave: float
    stall: float
    script: float


async def watch(stalls: list[float]) -> None:
    """Note for how long other tasks kept this one from running."""
    last = time.perf_counter()
    while True:
        await asyncio.sleep(0.001)
        now = time.perf_counter()
        stalls.append((now - last) * 1000 - 1)
        last = now


async def once(locks: LockManager, names: list[str]) -> tuple[float, float, float, float]:
    """Enter, renew and leave a lock of these names; and the longest time for which the loop stood still."""
    stalls: list[float] = []
    watching = asyncio.create_task(watch(stalls))
    times = [time.perf_counter()]
    lease = await locks.multi_lock(*names).acquire(timeout=60.0)
    times.append(time.perf_counter())
    await lease.renew()
    times.append(time.perf_counter())
    await lease.release()
    times.append(time.perf_counter())
    await asyncio.sleep(0.002)
    watching.cancel()
    enter, renew, leave = ((after - before) * 1000 for before, after in pairwise(times))
    return enter, renew, leave, max(stalls)


async def used(server: Redis) -> tuple[float, int]:
    """Return the server's CPU time in milliseconds, and how many scripts it has run."""
    cpu: Any = await server.info("cpu")
    stats: Any = await server.info("commandstats")
    return (cpu["used_cpu_user"] + cpu["used_cpu_sys"]) * 1000, stats["cmdstat_evalsha"]["calls"]


async def measure(url: str, counts: tuple[int, ...] = COUNTS, rounds: int = 9) -> dict[int, Cost]:
    """Return the cost of each number of names."""
    found = {}
    async with LockManager(url) as locks, Redis.from_url(url) as server:
        for count in counts:
            names = [f"account:{number:05}" for number in range(count)]
            await once(locks, names)
            before = await used(server)
            times = map(min, zip(*[await once(locks, names) for _ in range(rounds)], strict=True))
            cpu, scripts = (now - then for now, then in zip(await used(server), before, strict=True))
            found[count] = Cost(*times, cpu / scripts)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--url", help="a server that nobody else uses; by default one is started")
    options = parser.parse_args()
    if options.url:
        found = asyncio.run(measure(options.url, rounds=options.rounds))
    else:
        with RedisServer.start() as server:
            found = asyncio.run(measure(server.url, rounds=options.rounds))
    print(f"{'names':>6}", *(f"{field:>8}" for field in Cost._fields))
    for count, cost in found.items():
        print(f"{count:>6}", *(f"{value:>8.2f}" for value in cost))


if __name__ == "__main__":
    main()
