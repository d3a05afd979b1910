"""Writes what the commands of docs/how-to/command-line.md print into that page.

    python docs/examples/command_line.py

It starts a server, sets a scene on it (who holds what, and who waits), runs each line that begins with `$ aiolock`, in
order, and replaces what follows it.
"""

from __future__ import annotations

import asyncio
import os
import re
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path

from aiolock import LockLost, LockManager
from aiolock.testing.server import RedisServer

PAGE = Path(__file__).parents[1] / "how-to" / "command-line.md"
BLOCK = re.compile(r"```console\n(\$ aiolock .*?)```\n", re.DOTALL)


@asynccontextmanager
async def scene(url: str) -> AsyncIterator[None]:
    """Two managers: a lock, a read-write lock and a semaphore that are held and waited for, and a latch."""
    async with LockManager(url) as one, LockManager(url) as two, AsyncExitStack() as held:
        await held.enter_async_context(one.lock("order:42", metadata="charge"))
        ended = await one.lock("order:43", metadata="charge").acquire()  # by force-release
        await held.enter_async_context(one.rw_lock("catalog").read)
        await held.enter_async_context(one.semaphore("api", 5).acquire(3))
        await held.enter_async_context(two.semaphore("api", 5).acquire(1))
        await one.latch("warm", 3).count_down()
        acquisitions = (
            two.lock("order:42").acquire(),
            two.fair_lock("order:42").acquire(),
            two.rw_lock("catalog").write.acquire(),
            two.semaphore("api", 5).acquire(4),
        )
        waiting = [asyncio.ensure_future(each) for each in acquisitions]
        while await waiters(two) != [2, 1, 1]:  # noqa: ASYNC110 - the server does not announce it
            await asyncio.sleep(0.01)
        yield
        with suppress(LockLost):
            await ended.release()
        for task in waiting:
            task.cancel()
        await asyncio.wait(waiting)


async def waiters(locks: LockManager) -> list[int]:
    """How many wait for each."""
    lock, catalog = await locks.fair_lock("order:42").info(), await locks.rw_lock("catalog").info()
    api = await locks.semaphore("api", 5).info()
    return [0 if info is None else info.waiters for info in (lock, catalog, api)]


def commands(block: str) -> Iterator[tuple[str, str]]:
    """The commands of a block, and what follows each."""
    for part in re.split(r"^\$ ", block, flags=re.M)[1:]:
        command, _, output = part.partition("\n")
        yield command, output


def rewritten(page: str, run: Callable[[str], str]) -> str:
    """The page with the output of each command."""

    def replaced(found: re.Match[str]) -> str:
        lines = [f"$ {command}\n{run(command)}" for command, _ in commands(found[1])]
        return f"```console\n{''.join(lines)}```\n"

    return BLOCK.sub(replaced, page)


async def write(url: str) -> None:
    """Run them all, and write the page."""
    folder = str(Path(sys.executable).parent)
    environment = {**os.environ, "AIOLOCK_URL": url, "PATH": f"{folder}{os.pathsep}{os.environ['PATH']}"}

    def run(command: str) -> str:
        command = command.replace("aiolock", f"{sys.executable} -m aiolock", 1)
        done = subprocess.run(command, shell=True, env=environment, stdout=-1, stderr=subprocess.STDOUT, text=True)
        return done.stdout

    async with scene(url):
        page = await asyncio.to_thread(rewritten, PAGE.read_text(encoding="utf-8"), run)
    PAGE.write_text(page, encoding="utf-8")


if __name__ == "__main__":
    with RedisServer.start(owned=True) as server:
        asyncio.run(write(server.url))
