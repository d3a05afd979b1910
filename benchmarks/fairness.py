"""Who gets in, and who is overtaken: twenty waiters in four processes on one lock, the fair one and the plain one.

    python benchmarks/fairness.py [seconds]

Each waiter asks again as soon as it has left. In the second half of the table, one of the processes has a connection
that is `SLOW` seconds slower each way. Compare ratios and counts; times are those of this machine today.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import statistics
import sys
import time
from collections.abc import AsyncIterator
from typing import NamedTuple

from aiolock import LockManager
from aiolock.testing.server import RedisServer

PROCESSES, TASKS, SECTION = 4, 5, 0.001
SLOW = 0.005
LATER = 0.02
"""Seconds: a waiter that asks this much later counts as later, however long requests take to arrive."""


class Entry(NamedTuple):
    """One visit to the section.

    Attributes:
        waiter: process and task.
        asked: clock time, the same for all processes.
        entered: clock time.
        left: clock time.
    """

    waiter: str
    asked: float
    entered: float
    left: float


async def work(kind: str, url: str, process: str) -> None:
    """Run one process: enter again and again until told to stop, then print what happened."""
    entries: list[Entry] = []
    async with LockManager(url) as locks:
        lock = locks.fair_lock("fairness") if kind == "fair" else locks.lock("fairness")

        async def ask(waiter: str) -> None:
            while time.monotonic() < until:
                asked = time.monotonic()
                async with lock:
                    entered = time.monotonic()
                    await asyncio.sleep(SECTION)
                    entries.append(Entry(waiter, asked, entered, time.monotonic()))

        print("ready", flush=True)
        until = float(await asyncio.to_thread(sys.stdin.readline))
        await asyncio.gather(*(ask(f"{process}.{task}") for task in range(TASKS)))
    print(json.dumps(entries))


@contextlib.asynccontextmanager
async def slow_line(server: RedisServer) -> AsyncIterator[str]:
    """Return a URL through which everything takes `SLOW` seconds longer each way."""

    async def forward(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(65536):
            asyncio.get_running_loop().call_later(SLOW, writer.write, data)
        writer.close()

    async def connect(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        upstream = await asyncio.open_connection(server.host, server.port)
        with contextlib.suppress(ConnectionError):
            await asyncio.gather(forward(reader, upstream[1]), forward(upstream[0], writer))

    line = await asyncio.start_server(connect, "127.0.0.1", 0)
    yield f"redis://127.0.0.1:{line.sockets[0].getsockname()[1]}/0"
    line.close()


async def run(kind: str, urls: list[str], seconds: float) -> list[Entry]:
    """Run all processes at once; return their entries in order."""
    pipe = asyncio.subprocess.PIPE
    workers = [
        await asyncio.create_subprocess_exec(
            sys.executable, __file__, "--work", kind, url, str(number), stdin=pipe, stdout=pipe, limit=2**26
        )
        for number, url in enumerate(urls)
    ]
    for worker in workers:
        assert worker.stdout is not None
        assert await worker.stdout.readline() == b"ready\n"
    until = time.monotonic() + seconds
    told = await asyncio.gather(*(worker.communicate(f"{until}\n".encode()) for worker in workers))
    entries = [Entry(*entry) for out, _ in told for entry in json.loads(out)]
    return sorted(entries, key=lambda entry: entry.entered)


def overtaken(entries: list[Entry], number: int) -> int:
    """Count the waiters that asked later and entered while this one waited."""
    entry, count = entries[number], 0
    for other in reversed(entries[:number]):
        if other.entered < entry.asked:
            break
        count += other.asked > entry.asked + LATER
    return count


def row(title: str, entries: list[Entry]) -> str:
    """Return one line of the table."""
    shares: dict[str, int] = {}
    for entry in entries:
        shares[entry.waiter] = shares.get(entry.waiter, 0) + 1
    each = sorted(shares.values())
    section = statistics.mean(entry.left - entry.entered for entry in entries)
    waits = [(entry.entered - entry.asked) / section for entry in entries]
    passed = [overtaken(entries, number) for number in range(len(entries))]
    cells = [
        title,
        f"{each[0]} / {statistics.median(each):.0f} / {each[-1]}",
        f"{statistics.median(waits):.0f}",
        f"{max(waits):.0f}",
        f"{sum(count > 0 for count in passed) / len(passed):.0%}",
        str(max(passed)),
    ]
    return f"| {' | '.join(cells)} |"


async def main(seconds: float) -> None:
    """Run all four, and print the table."""
    print("| | entries of a waiter: min / median / max | median wait | longest wait | overtaken | at most |")
    print("| --- | --- | --- | --- | --- | --- |")
    with RedisServer.start(owned=True) as server:
        async with slow_line(server) as slow:
            for line, urls in ("", [server.url] * PROCESSES), (", one slow", [slow, *[server.url] * (PROCESSES - 1)]):
                for kind in "fair", "plain":
                    print(row(kind + line, await run(kind, urls, seconds)), flush=True)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--work"]:
        asyncio.run(work(*sys.argv[2:]))
    else:
        asyncio.run(main(float(sys.argv[1]) if len(sys.argv) > 1 else 10.0))
