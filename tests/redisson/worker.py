"""A process with one manager, driven over a pipe as java/Driver.java is: "ID TASK COMMAND ARGUMENTS..."."""

from __future__ import annotations

import asyncio
import contextlib
import sys
import time
from collections.abc import AsyncIterator
from typing import Any

from redis.asyncio import Redis, RedisCluster, Sentinel

from aiolock import Lease, Lock, LockManager
from aiolock.redisson import Redisson, RLock

Words = list[str]


class Crew:
    """The tasks, and what each holds.

    Args:
        locks: the manager.
        redis: a client, for the counters that the locks protect.
    """

    def __init__(self, locks: LockManager, redis: Redis | RedisCluster) -> None:
        self._locks, self._java, self._redis = locks, Redisson(locks), redis
        self._leases: dict[tuple[str, str], list[Lease]] = {}
        self._made: dict[str, Any] = {}
        self._orders: dict[str, asyncio.Queue[Words]] = {}
        self._tasks: list[asyncio.Task[None]] = []

    def order(self, words: Words) -> None:
        """Let the task do it, after what it was asked before."""
        task = words[1]
        if task not in self._orders:
            self._orders[task] = asyncio.Queue()
            self._tasks.append(asyncio.create_task(self._serve(task)))
        self._orders[task].put_nowait(words)

    async def _serve(self, task: str) -> None:
        while True:
            number, _, command, *words = await self._orders[task].get()
            began = time.time_ns() // 1000
            try:
                answer = f"ok {await self._act(task, command, words)}"
            except Exception as error:
                answer = f"error {type(error).__name__}: {error}".replace("\n", " ")
            print(number, began, time.time_ns() // 1000, answer, flush=True)

    def _lock(self, what: str) -> Any:
        if what not in self._made:
            kind, _, name = what.partition(":")
            if kind == "both":
                return _both(self._java.lock(name), self._locks.lock(name))
            if kind in ("read", "write"):
                return getattr(self._java.rw_lock(name), kind)
            makes = {
                "lock": self._java.lock,
                "fenced": self._java.fenced_lock,
                "fair": self._java.fair_lock,
                "permits": self._java.permit_expirable_semaphore,
                "latch": self._java.count_down_latch,
                "ours": self._locks.lock,
            }
            self._made[what] = makes[kind](name)
        return self._made[what]

    async def _act(self, task: str, command: str, words: Words) -> object:
        what = words[0] if words else ""
        leases = self._leases.setdefault((task, what), [])
        match command:
            case "lock":
                leases.append(await self._lock(what).acquire())
            case "lockAndGetToken":
                leases.append(await self._lock(what).acquire())
                return leases[-1].fence
            case "tryLock":
                timeout = float(words[1]) / 1000 if len(words) > 1 else 0.0
                try:
                    leases.append(await self._lock(what).acquire(timeout=timeout))
                except TimeoutError:
                    return "false"
                return "true"
            case "unlock":
                await leases.pop().release()
            case "forceUnlock":
                return str(await self._lock(what).force_release()).lower()
            case "trySetPermits":
                return str(await self._lock(what).try_set_permits(int(words[1]))).lower()
            case "trySetCount":
                return str(await self._lock(what).try_set_count(int(words[1]))).lower()
            case "countDown":
                await self._lock(what).count_down()
            case "await":
                await self._lock(what).wait()
            case "count" if what.startswith("latch"):
                return await self._lock(what).count()
            case "lost":
                return str(await leases[-1].wait_lost())
            case "count":
                await self._count(what, words[1], int(words[2]))
            case "readers":
                return await self._torn(what, words[1], int(words[2]))
            case "sleep":
                await asyncio.sleep(float(what) / 1000)
            case _:
                raise ValueError(command)
        return ""

    async def _count(self, what: str, key: str, times: int) -> None:
        """Raise a counter that only a lock can protect."""
        for _ in range(times):
            async with self._lock(what):
                await self._redis.set(key, int(await self._redis.get(key) or 0) + 1)

    async def _torn(self, name: str, key: str, times: int) -> int:
        """Read a counter twice under the read lock; return how often it changed in between."""
        torn = 0
        for _ in range(times):
            async with self._lock(f"read:{name}"):
                first = await self._redis.get(key)
                await asyncio.sleep(0.001)
                torn += first != await self._redis.get(key)
        return torn


@contextlib.asynccontextmanager
async def _both(theirs: RLock, ours: Lock) -> AsyncIterator[None]:
    async with theirs, ours:
        yield


def places_of(url: str) -> tuple[list[tuple[str, int]], str]:
    """The addresses and the service in `sentinel://HOST:PORT,HOST:PORT/SERVICE`; a cluster's has no service."""
    places, _, service = url.partition("://")[2].partition("/")
    pairs = (place.partition(":") for place in places.split(","))
    return [(host, int(port)) for host, _, port in pairs], service


def manager(url: str, ttl: float) -> LockManager:
    """A manager of a server, of what Sentinels say is one, or of a cluster."""
    if url.startswith("redis:"):
        return LockManager(url, ttl=ttl)
    addresses, service = places_of(url)
    if url.startswith("cluster:"):
        return LockManager.cluster([f"redis://{host}:{port}" for host, port in addresses], ttl=ttl)
    return LockManager.sentinel(addresses, service=service, ttl=ttl)


def client(url: str) -> Redis | RedisCluster:
    """A client of the same."""
    if url.startswith("redis:"):
        return Redis.from_url(url)
    addresses, service = places_of(url)
    if url.startswith("cluster:"):
        return RedisCluster(*addresses[0])
    return Sentinel(addresses).master_for(service)


async def main() -> None:
    url, ttl_ms = sys.argv[1:]
    reader = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    async with manager(url, float(ttl_ms) / 1000) as locks, client(url) as redis:
        crew = Crew(locks, redis)
        print("ready", locks._runtime.binding.id, "aiolock", flush=True)
        while line := await reader.readline():
            crew.order(line.decode().split())


if __name__ == "__main__":
    asyncio.run(main())
