"""How long a service is without a leader: `python docs/examples/takeover.py [ttl in seconds] [rounds]`.

It starts a server and three instances. In each round it ends the one that leads by SIGTERM, SIGKILL or SIGSTOP, or asks
it by `lock.request_release()` to step down, and waits until another one leads. A new instance takes the place of one
that was killed. Then it measures how long two lead after FLUSHALL.
"""

from __future__ import annotations

import asyncio
import os
import random
import signal
import statistics
import sys
import time
from asyncio.subprocess import PIPE, Process

import redis

from aiolock import Lease, Lock, LockManager
from aiolock.recipes import leader
from aiolock.testing.server import RedisServer

INSTANCES = 3


async def instance(url: str, ttl: float) -> None:
    """Contend until SIGTERM, and say when a term begins and ends."""

    async def work(term: Lease) -> None:
        print("leads", time.monotonic(), flush=True)
        try:
            await asyncio.Event().wait()
        finally:
            print("ended", time.monotonic(), flush=True)

    terminated = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, terminated.set)
    async with LockManager(url) as locks, leader(locks.lock("feed", ttl=ttl)).running(work):
        await terminated.wait()


class Fleet:
    """The instances, and what they say: (process, event, time). They end with the block."""

    def __init__(self, url: str, ttl: float) -> None:
        self.said: asyncio.Queue[tuple[Process, str, float]] = asyncio.Queue()
        self._command = (sys.executable, __file__, "instance", url, str(ttl))
        self._processes: list[Process] = []
        self._readers: list[asyncio.Task[None]] = []

    async def start(self) -> None:
        process = await asyncio.create_subprocess_exec(*self._command, stdout=PIPE)
        self._processes.append(process)
        self._readers.append(asyncio.create_task(self._read(process)))

    async def _read(self, process: Process) -> None:
        assert process.stdout is not None
        while line := await process.stdout.readline():
            event, at = line.split()
            self.said.put_nowait((process, event.decode(), float(at)))

    async def hear(self, event: str) -> tuple[Process, float]:
        while True:
            process, said, at = await self.said.get()
            if said == event:
                return process, at

    async def __aenter__(self) -> Fleet:
        for _ in range(INSTANCES):
            await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        for process in self._processes:
            if process.returncode is None:
                process.kill()
            await process.wait()
        await asyncio.gather(*self._readers)


async def measure(ttl: float, rounds: int) -> None:
    with RedisServer.start(owned=True) as server:
        async with LockManager(server.url) as locks, Fleet(server.url, ttl) as fleet:
            await compare(fleet, locks.lock("feed"), ttl, rounds)
            await forget(fleet, server.url, ttl, rounds)


async def compare(fleet: Fleet, lock: Lock, ttl: float, rounds: int) -> None:
    print(f"ttl {ttl:g} s, {INSTANCES} instances, {rounds} rounds each: seconds until another one leads")
    now, _ = await fleet.hear("leads")
    woken = []
    for number in (None, signal.SIGTERM, signal.SIGKILL, signal.SIGSTOP):
        without = []
        for _ in range(rounds):
            await asyncio.sleep(ttl * random.uniform(0.5, 1.5))  # at any moment between two renewals
            began = time.monotonic()
            if number is None:
                await lock.request_release()
            else:
                os.kill(now.pid, number)
            before, (now, at) = now, await fleet.hear("leads")
            without.append(at - began)
            if number == signal.SIGSTOP:
                began = time.monotonic()
                os.kill(before.pid, signal.SIGCONT)
                _, ended = await fleet.hear("ended")
                woken.append(ended - began)
            elif number is not None:
                await fleet.start()
        way = "request_release()" if number is None else number.name
        print(f"{way}: median {statistics.median(without):.3f}, most {max(without):.3f}")
    print(f"the frozen one stopped after it woke: median {statistics.median(woken):.4f}, most {max(woken):.4f}")


async def forget(fleet: Fleet, url: str, ttl: float, rounds: int) -> None:
    overlaps = []
    for _ in range(rounds):
        await asyncio.sleep(ttl * random.uniform(0.5, 1.5))
        redis.Redis.from_url(url).flushall()
        at: dict[str, float] = {}
        while len(at) < 2:
            _, event, when = await fleet.said.get()
            at[event] = when
        overlaps.append(max(0.0, at["ended"] - at["leads"]))
    print(f"FLUSHALL: two lead for: median {statistics.median(overlaps):.3f}, most {max(overlaps):.3f}")


if __name__ == "__main__":
    if sys.argv[1:2] == ["instance"]:
        asyncio.run(instance(sys.argv[2], float(sys.argv[3])))
    else:
        asyncio.run(measure(*map(float, sys.argv[1:2] or ["5"]), *map(int, sys.argv[2:3] or ["5"])))
