"""A fork while the file is open: the child has copies of its parent's descriptors, and must not end what that holds."""

from __future__ import annotations

import subprocess
import sys

FORKS = """
import asyncio, gc, os, sys
from aiolock import AcquireTimeout, ConfigurationError, LockManager

async def in_child(url):
    async with LockManager(url) as mine:
        try:
            await mine.lock("a").acquire(timeout=0)
        except AcquireTimeout:
            async with mine.lock("b"):
                return
    raise AssertionError("the child was let in")

async def main(url):
    async with LockManager(url, ttl=60) as locks:
        async with locks.lock("a") as lease:
            child = os.fork()
            if child == 0:
                asyncio.events._set_running_loop(None)
                try:
                    locks.lock("a").owned()
                except ConfigurationError as error:
                    assert "forked" in str(error), error
                engine, locks._runtime.backend._engine._link = locks._runtime.backend._engine._link, None
                del engine
                gc.collect()  # the end of the child closes the database, too
                asyncio.run(in_child(url))
                os._exit(0)
            _, status = await asyncio.to_thread(os.waitpid, child, 0)
            assert status == 0, status
            lease.ensure()
            async with LockManager(url) as others:
                try:
                    await others.lock("a").acquire(timeout=0)
                except AcquireTimeout:
                    print("held")
        async with locks.lock("b"):
            print("goes on")

asyncio.run(main(sys.argv[1]))
"""


def test_a_fork_after_entering(url: str) -> None:
    done = subprocess.run([sys.executable, "-c", FORKS, url], capture_output=True, text=True, timeout=60, check=False)
    assert done.stdout.split("\n") == ["held", "goes on", ""], done.stderr
