"""One process of the fleet that the dashboard's picture shows. It serves its metrics until it is told to end.

SIGUSR1 blocks its event loop for two seconds, as a mistake in a program would.
"""

from __future__ import annotations

import asyncio
import random
import signal
import sys
import time

from prometheus_client import start_http_server

from aiolock import AcquireTimeout, BackendError, LockLost, LockManager, NotAcquired
from aiolock.contrib.prometheus import PrometheusObserver

TTL = 6.0


async def sell(locks: LockManager, chance: random.Random) -> None:
    """Short sections, many of them about the same few orders."""
    while True:
        order = min(chance.randrange(10), chance.randrange(10))
        async with locks.lock(f"order:{order}"):
            await asyncio.sleep(chance.uniform(0.005, 0.06))
        await asyncio.sleep(chance.uniform(0.02, 0.2))


async def report(locks: LockManager, chance: random.Random) -> None:
    """Long sections that one process has, and the others skip."""
    while True:
        async with locks.lock("report:daily").try_acquire() as lease:
            if lease is not None:
                await asyncio.sleep(chance.uniform(5.0, 9.0))
        await asyncio.sleep(chance.uniform(1.0, 2.0))


async def send(locks: LockManager, chance: random.Random) -> None:
    """Four at a time in the whole fleet; who waits for too long gives up."""
    while True:
        async with locks.semaphore("mail:gateway", 4).acquire(timeout=0.5):
            await asyncio.sleep(chance.uniform(0.1, 0.4))
        await asyncio.sleep(chance.uniform(0.1, 0.6))


async def follow(locks: LockManager, chance: random.Random) -> None:
    """Locks that are held for long, such as a leader's."""
    await asyncio.sleep(chance.uniform(0.0, 2.0))
    while True:
        async with locks.lock(f"shard:{chance.random()}"):
            await asyncio.sleep(chance.uniform(15.0, 25.0))


async def again(job, locks: LockManager, chance: random.Random) -> None:
    """A job goes on, whatever happened to its lock."""
    while True:
        try:
            await job(locks, chance)
        except (AcquireTimeout, LockLost, NotAcquired, BackendError):
            await asyncio.sleep(chance.uniform(0.05, 0.2))


async def main(url: str, port: int, seed: int) -> None:
    chance = random.Random(seed)
    observer = PrometheusObserver(label=lambda name: name.partition(":")[0])
    start_http_server(port, addr="127.0.0.1")
    loop, ended = asyncio.get_running_loop(), asyncio.Event()
    loop.add_signal_handler(signal.SIGTERM, ended.set)
    loop.add_signal_handler(signal.SIGUSR1, time.sleep, 2.0)
    jobs = [sell] * 8 + [report] + [send] * 3 + [follow] * 3
    async with LockManager(url, ttl=TTL, request_timeout=2.0, observer=observer) as locks:
        tasks = [asyncio.create_task(again(job, locks, chance)) for job in jobs]
        await ended.wait()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3])))
