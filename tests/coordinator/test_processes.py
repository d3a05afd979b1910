"""Several loops in one process, threads, and children that were forked: no client keeps anything outside its loop."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading

from aiolock import LockManager
from aiolock import sync as threads

from .conftest import Server

FORKS = """
import asyncio, os, sys

from aiolock import LockManager

URL = sys.argv[1]


async def take():
    async with LockManager(URL, ttl=6.0) as locks:
        async with locks.lock("a").acquire(timeout=20):
            pass


async def main():
    async with LockManager(URL, ttl=6.0) as locks:
        lease = await locks.lock("a").acquire()
        child = os.fork()
        if not child:
            asyncio._set_running_loop(None)
            asyncio.new_event_loop().run_until_complete(take())
            os._exit(7)
        await asyncio.sleep(0.2)
        lease.ensure()
        await lease.release()
        while (ended := os.waitpid(child, os.WNOHANG))[0] == 0:
            await asyncio.sleep(0.01)
        assert os.waitstatus_to_exitcode(ended[1]) == 7, ended
        async with locks.lock("a"):
            print("done")


asyncio.run(main())
"""


def test_a_fork_while_a_manager_is_open(server: Server) -> None:
    """The child makes its own, which waits for the parent's lock; the parent's goes on."""
    ran = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", FORKS, server.url], capture_output=True, text=True, timeout=60
    )
    assert (ran.returncode, ran.stdout) == (0, "done\n"), ran.stderr


def test_a_loop_in_each_thread(server: Server) -> None:
    """They exclude each other."""
    inside, most, count = 0, 0, 0

    async def work() -> None:
        nonlocal inside, most, count
        async with LockManager(server.url, ttl=6.0) as locks:
            for _ in range(10):
                async with locks.lock("a"):
                    inside += 1
                    most = max(most, inside)
                    await asyncio.sleep(0.001)
                    count += 1
                    inside -= 1

    workers = [threading.Thread(target=asyncio.run, args=(work(),)) for _ in range(3)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(60)
    assert (most, count) == (1, 30)


def test_locks_for_threads(server: Server) -> None:
    with threads.LockManager(server.url, ttl=6.0) as locks:
        with locks.lock("a") as lease, locks.lock("a"):
            assert lease.fence > 0
        with locks.rw_lock("a").read, locks.semaphore("a", 2):
            pass
