"""Forks while the file is open: a child must know that it has none of the locks, and its parent must keep them."""

from __future__ import annotations

import subprocess
import sys

import pytest

HELPERS = """
import asyncio, gc, multiprocessing, os, sys, threading
from aiolock import AcquireTimeout, ConfigurationError, LockManager

url = sys.argv[1]

async def enter():
    try:
        async with LockManager(url, ttl=60) as mine:
            await mine.lock("a").acquire(timeout=0)
    except ConfigurationError as error:
        return "refused" if "forked" in str(error) and "before the fork" in str(error) else str(error)
    except AcquireTimeout:
        return "excluded"
    return "entered"

def told(text):
    os.write(1, text.encode() + b"\\n")

def in_child(work):
    child = os.fork()
    if child == 0:
        asyncio.events._set_running_loop(None)
        work()
        os._exit(0)
    return os.waitpid(child, 0)[1]

def enters():
    told(asyncio.run(enter()))
"""
GUNICORN = """
async def preload():
    global locks
    locks = LockManager(url, ttl=60)
    await locks.open()
    return await locks.lock("a").acquire()

with asyncio.Runner() as runner:  # the application is loaded, then its workers are forked
    lease = runner.run(preload())
    for _ in range(2):
        assert in_child(enters) == 0
    lease.ensure()
    runner.run(locks.aclose())
    assert in_child(enters) == 0
"""
MULTIPROCESSING = """
async def main():
    async with LockManager(url, ttl=60) as locks, locks.lock("a"):
        with multiprocessing.get_context("fork").Pool(1) as pool:
            await asyncio.to_thread(pool.apply, enters)
        with multiprocessing.get_context("fork").Pool(1) as pool:
            await asyncio.to_thread(pool.apply, enters)

def enters():
    asyncio.events._set_running_loop(None)
    told(asyncio.run(enter()))

asyncio.run(main())
"""
DAEMON = """
async def starts():
    async with LockManager(url, ttl=60) as locks:
        if sys.argv[2] == "inside":
            return daemon()
    daemon()

def daemon():
    out, parent = os.pipe()
    if os.fork() == 0:
        asyncio.events._set_running_loop(None)
        os.setsid()
        if os.fork() != 0:
            os._exit(0)
        os.close(parent)
        told(asyncio.run(enter()))
        told("first " + asyncio.run(enter()))
        os._exit(0)
    os.wait()
    os.close(out)

asyncio.run(starts())
"""
KEEPS = """
async def main():
    async with LockManager(url, ttl=60) as locks, locks.lock("a") as lease:
        engine = locks._runtime.backend._engine

        def forgets():
            engine._link.close()
            engine._link = None
            gc.collect()

        assert in_child(forgets) == 0
        lease.ensure()
        await asyncio.to_thread(subprocess_enters)
        async with locks.lock("b"):
            told("goes on")

def subprocess_enters():
    import subprocess
    subprocess.run([sys.executable, "-c", HELPERS + "told(asyncio.run(enter()))", url], check=True)

asyncio.run(main())
"""


@pytest.mark.parametrize(
    ("program", "seen"),
    [
        pytest.param(GUNICORN, ["refused", "refused", "entered"], id="preload"),
        pytest.param(MULTIPROCESSING, ["refused", "refused"], id="multiprocessing"),
        pytest.param(KEEPS, ["excluded", "goes on"], id="the parent keeps it"),
    ],
)
def test_a_child(url: str, program: str, seen: list[str]) -> None:
    """It may enter what was closed before the fork only. Breaks if Link takes no account of what is inherited, or
    closes it.
    """
    assert run(program, url) == seen


@pytest.mark.parametrize(
    ("when", "seen"), [("inside", ["refused", "first refused"]), ("after", ["entered", "first entered"])]
)
def test_a_daemon(url: str, when: str, seen: list[str]) -> None:
    """It forks twice, and its parent ends. Breaks if Link forgets at the second fork what the first one inherited."""
    assert run(DAEMON, url, when) == seen


def run(program: str, *words: str) -> list[str]:
    text = f"HELPERS = {HELPERS!r}\n{HELPERS}\n{program}"
    done = subprocess.run([sys.executable, "-c", text, *words], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.split("\n")[:-1]
