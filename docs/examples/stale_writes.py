"""A holder is frozen after its last check, right before its write: does the late write get in?

    python docs/examples/stale_writes.py [--tries 1000] [--processes 8]

Each try: a process takes a lock, checks its lease, and stops itself with SIGSTOP right before its client sends the
write. A rival waits for the lock's expiry, writes its own value, and wakes the process up. The write was stale if Redis
then has the value of the process that was frozen. Half of the tries write with a plain SET, half with `guard()`. Prints
a table, and exits with 1 if a guarded write was stale.

The block is not cancelled (`cancel_on_loss=False`), so that it sees what Redis answers. A cancellation comes too late
here anyway.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
import sys
from collections import Counter
from typing import Any

from redis.asyncio import Connection, ConnectionPool, Redis

from aiolock import LockLost, LockManager
from aiolock.recipes import guard
from aiolock.testing.server import RedisServer

TTL = 0.2
WAYS = ("plain SET", "guard()")
WRITTEN, BY_REDIS, HERE = "written", "refused by Redis", "refused in the process"
Tally = Counter[tuple[str, str]]
"""How often something happened to a way of writing; "stale" is what the rival's value was lost to."""


class Late(Connection):
    """A connection that may stop its process right before it sends."""

    armed = False

    async def send_packed_command(self, command: Any, **options: Any) -> None:
        if Late.armed and b"stale" in b"".join(command):
            Late.armed = False
            signal.raise_signal(signal.SIGSTOP)  # to this thread, so that not one more instruction runs
        await super().send_packed_command(command, **options)


async def hold(url: str, key: str, tries: int) -> None:
    """The process that is frozen: `tries` times in each way. Says after each what became of its write."""
    pool = ConnectionPool.from_url(url, connection_class=Late, socket_timeout=None)
    async with LockManager(url, ttl=TTL, liveness=TTL) as locks, Redis.from_pool(pool) as client:
        await client.ping()
        for number in range(tries * len(WAYS)):
            stopped = False
            while not stopped:  # the lease may be lost before, on a machine that stands still by itself
                outcome = ""
                try:
                    async with locks.lock(key, cancel_on_loss=False) as lease:
                        writes = guard(lease, client) if number % 2 else None
                        lease.ensure(0.01)
                        Late.armed = stopped = True
                        if writes is None:
                            await client.set(key, "stale")
                        else:
                            await writes.set(key, "stale")
                        outcome = WRITTEN
                except LockLost as lost:
                    refused = "Redis refused" in "".join(getattr(lost, "__notes__", ()))
                    outcome = outcome or (BY_REDIS if refused else HERE)
            print(outcome, flush=True)


async def rival(locks: LockManager, client: Redis, url: str, key: str, tries: int, tally: Tally) -> None:
    """Start such a process, and get its lock while it is frozen."""
    words = (sys.executable, __file__, "--hold", key, "--url", url, "--tries", str(tries))
    holder = await asyncio.create_subprocess_exec(*words, stdout=asyncio.subprocess.PIPE)
    assert holder.stdout is not None
    try:
        for number in range(tries * len(WAYS)):
            await asyncio.to_thread(os.waitid, os.P_PID, holder.pid, os.WSTOPPED)
            async with locks.lock(key):
                await client.set(key, "the rival's")
                holder.send_signal(signal.SIGCONT)
                outcome = (await holder.stdout.readline()).decode().strip()
                way = WAYS[number % 2]
                tally[way, outcome] += 1
                stale = await client.get(key) != b"the rival's"
                tally[way, "stale"] += stale
        await holder.wait()
    finally:
        if holder.returncode is None:
            holder.kill()
            await holder.wait()


async def demonstrate(url: str, tries: int, processes: int) -> Tally:
    """Return what became of `tries` writes in each way, by this many processes at once."""
    tally: Tally = Counter()
    async with LockManager(url) as locks, Redis.from_url(url) as client, asyncio.TaskGroup() as group:
        for number in range(processes):
            share = tries // processes + (number < tries % processes)
            group.create_task(rival(locks, client, url, f"stock:{number}", share, tally))
    return tally


def table(tally: Tally, tries: int) -> str:
    """Return it as a table."""
    lines = ["| the late write | tries | stale writes | refused by Redis |", "| --- | --- | --- | --- |"]
    lines += [f"| {way} | {tries:,} | {tally[way, 'stale']:,} | {tally[way, BY_REDIS]:,} |" for way in WAYS]
    return "\n".join(lines)


def main() -> int:
    """Run the demonstration, or one of its processes."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tries", type=int, default=1000)
    parser.add_argument("--processes", type=int, default=8)
    parser.add_argument("--url", help="a server, instead of one of its own")
    parser.add_argument("--hold", metavar="KEY", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.hold:
        asyncio.run(hold(options.url, options.hold, options.tries))
        return 0
    if options.url:
        tally = asyncio.run(demonstrate(options.url, options.tries, options.processes))
    else:
        with RedisServer.start(owned=True) as server:
            tally = asyncio.run(demonstrate(server.url, options.tries, options.processes))
    print(table(tally, options.tries))
    return int(tally[WAYS[1], "stale"] > 0)


if __name__ == "__main__":
    sys.exit(main())
