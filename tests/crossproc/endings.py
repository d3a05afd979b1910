"""The ways in which a process can end while it holds a lock: after each of them the lock is free.

Run as a program, it counts how often it was, and fails if once it was not:
`python -m tests.crossproc.endings redis://localhost:6379/0 40`.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import uuid
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

import redis

from tests.support import locks
from tests.support.forked import Forked

ROOT = Path(__file__).parents[2]
PATIENCE = 60.0
"""Seconds within which a process must have ended."""

PRELUDE = """
import asyncio, os, signal, sys, time
from aiolock import LockManager

signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs ignore it
URL, NAME = os.environ["AIOLOCK_URL"], os.environ["AIOLOCK_NAME"]
locks = LockManager(URL, ttl=60.0)
once_held = []
inside = asyncio.Event()

async def hold():
    async with locks.lock(NAME):
        print("held", flush=True)
        inside.set()
        for callback in once_held:
            asyncio.get_running_loop().call_later(0.01, callback)
        await asyncio.sleep(60)

async def hold_and_block():
    async with locks.lock(NAME):
        print("held", flush=True)
        for _ in range(2):
            signal.raise_signal(signal.SIGINT)
        time.sleep(60)

async def hold_and_exit():
    async with locks.lock(NAME):
        print("held", flush=True)
        sys.exit(3)

def beside():
    # Others wait for the same lock, and are ended in the same moment.
    return {asyncio.create_task(hold()) for _ in range(3)}
"""
MAIN = """
async def main():
    {how}
    async with locks:
        tasks = beside()
        await hold()

asyncio.run(main())
"""
OWNER_BESIDE = """
async def main():
    {how}
    async with locks:
        tasks = beside()
        await asyncio.sleep(60)

asyncio.run(main())
"""
SERVICE = """
async def service():
    async with locks:
        {body}

async def main():
    task = asyncio.create_task(service())
    await inside.wait()

asyncio.run(main())
"""
GROUP = """
async def main():
    {how}
    async with locks, asyncio.TaskGroup() as group:
        for _ in range(3):
            group.create_task(hold())
        {then}

asyncio.run(main())
"""
LEFT_OPEN = """
async def main():
    await locks.__aenter__()
    lease = await locks.lock(NAME).acquire()
    print("held", flush=True)

asyncio.run(main())
"""
RUN_UNTIL = """
async def main():
    async with locks:
        await hold()

loop = asyncio.new_event_loop()
task = loop.create_task(main())
loop.add_signal_handler(signal.SIGTERM, task.cancel)
try:
    loop.run_until_complete(task)
except asyncio.CancelledError:
    pass
loop.close()
"""

EXIT = "signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))"
CANCEL = "asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, {})"
CANCEL_MAIN = CANCEL.format("asyncio.current_task().cancel")
CANCEL_ALL = CANCEL.format("lambda: [task.cancel() for task in asyncio.all_tasks()]")
CALLBACK = "once_held.append(lambda: sys.exit(3))"
UVLOOP = "import uvloop; uvloop.install()"
UVICORN = ("-m", "uvicorn", "--uds", "{folder}/socket", "tests.crossproc.serve:app")
GUNICORN = (
    "-m", "gunicorn", "--bind", "unix:{folder}/socket", "--worker-class", "uvicorn.workers.UvicornWorker",
    "--graceful-timeout", "15", "tests.crossproc.serve:app",
)  # fmt: skip
HYPERCORN = ("-m", "hypercorn", "--bind", "unix:{folder}/socket", "tests.crossproc.serve:app")


class Ending(NamedTuple):
    """One way to end.

    Attributes:
        words: what to run: Python's arguments, or a program to put after the prelude.
        signals: sent to it once it holds the lock.
    """

    words: str | tuple[str, ...]
    signals: tuple[signal.Signals, ...] = ()


INT, TERM = signal.SIGINT, signal.SIGTERM
ENDINGS = {
    "Ctrl-C": Ending(MAIN.format(how="pass"), (INT,)),
    "Ctrl-C, the manager in one task, the block in another": Ending(OWNER_BESIDE.format(how="pass"), (INT,)),
    "Ctrl-C twice, the block blocks the thread": Ending(MAIN.format(how="pass").replace("hold()", "hold_and_block()")),
    "Ctrl-C in a TaskGroup": Ending(GROUP.format(how="pass", then="pass"), (INT,)),
    "SIGTERM, sys.exit() in its handler": Ending(MAIN.format(how=EXIT), (TERM,)),
    "SIGTERM, sys.exit() in its handler, the block in another task": Ending(OWNER_BESIDE.format(how=EXIT), (TERM,)),
    "SIGTERM, its handler cancels the main task": Ending(MAIN.format(how=CANCEL_MAIN), (TERM,)),
    "SIGTERM, its handler cancels all tasks": Ending(OWNER_BESIDE.format(how=CANCEL_ALL), (TERM,)),
    "SIGTERM, a loop run by hand": Ending(RUN_UNTIL, (TERM,)),
    "SIGTERM, sys.exit() in its handler, uvloop": Ending(UVLOOP + MAIN.format(how=EXIT), (TERM,)),
    "sys.exit() in a callback": Ending(MAIN.format(how=CALLBACK)),
    "sys.exit() in a callback, uvloop": Ending(UVLOOP + OWNER_BESIDE.format(how=CALLBACK)),
    "sys.exit() in the block": Ending(MAIN.format(how="pass").replace("hold()", "hold_and_exit()")),
    "the main task returns, a service task holds": Ending(SERVICE.format(body="await hold()")),
    "the main task returns, a service task has a TaskGroup": Ending(
        SERVICE.format(body="async with asyncio.TaskGroup() as group: [group.create_task(hold()) for _ in range(3)]")
    ),
    "the main task returns, uvloop": Ending(UVLOOP + SERVICE.format(body="await hold()")),
    "a task of a TaskGroup fails": Ending(GROUP.format(how="pass", then="await inside.wait(); 1 / 0")),
    "the manager is never closed": Ending(LEFT_OPEN),
    "uvicorn, SIGTERM": Ending(UVICORN, (TERM,)),
    "uvicorn, Ctrl-C": Ending(UVICORN, (INT,)),
    "gunicorn, SIGTERM": Ending(GUNICORN, (TERM,)),
    "hypercorn, SIGTERM": Ending(HYPERCORN, (TERM,)),
}


class Outcome(NamedTuple):
    """How it ended.

    Attributes:
        left: what was still held or queued when the process was gone.
        said: its stderr.
    """

    left: list[str]
    said: str


def end(ending: Ending, url: str) -> Outcome:
    """Start a process, wait until it holds a lock with a name of its own, end it, and look."""
    name = uuid.uuid4().hex
    with tempfile.TemporaryDirectory() as folder:
        if isinstance(ending.words, str):
            start, words = Forked, ["-c", PRELUDE + ending.words]
        else:
            start, words = (
                subprocess.Popen,
                [sys.executable, *(word.replace("{folder}", folder) for word in ending.words)],
            )
        process = start(
            words,
            env={**os.environ, "PYTHONPATH": path(), "AIOLOCK_URL": url, "AIOLOCK_NAME": name},
            cwd=ROOT, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip
        assert process.stdout is not None
        held = process.stdout.readline()
        for number in ending.signals:
            process.send_signal(number)
        try:
            _, errors = process.communicate(timeout=PATIENCE)
        except subprocess.TimeoutExpired:
            process.kill()
            _, errors = process.communicate()
            return Outcome(["it did not end"], errors.decode())
    said = errors.decode()
    if held != b"held\n":
        return Outcome(["it never held the lock"], said)
    with redis.Redis.from_url(url) as link:
        state = locks.state(link, name)
        return Outcome([f"{state}"] if state.holder or locks.waiting(link, name) else [], said)


def path() -> str:
    return os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])


def main(url: str, runs: int) -> int:
    failed = 0
    with ThreadPoolExecutor(3) as pool:
        for name, ending in ENDINGS.items():
            outcomes = list(pool.map(lambda _, ending=ending: end(ending, url), range(runs)))
            left = [outcome for outcome in outcomes if outcome.left]
            failed += len(left)
            print(f"{runs - len(left)} of {runs}  {name}", *(outcome.left for outcome in left[:1]), flush=True)
    return min(failed, 1)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], int(sys.argv[2])))
