"""A process of the tests: `python -m tests.crossproc.worker <what> <redis url> <folder> [<argument> …]`."""

from __future__ import annotations

import asyncio
import os
import random
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path

from aiolock import BackendError, ConfigurationError, Lease, Lock, LockLost, LockManager
from tests.crossproc.journal import Counter, Journal, Resource

TTL = 1.0
NAME = "order:42"


async def increment(url: str, folder: str, tasks: str, rounds: str) -> None:
    """Tasks add one to a counter again and again: read, wait, write."""
    journal, counter = Journal(f"{folder}/journal"), Counter(f"{folder}/counter")

    async def add(lock: Lock) -> None:
        for _ in range(int(rounds)):
            async with lock as lease:
                seen = counter.read()
                journal.note("enter", fence=lease.fence, seen=seen, abandoned=lease.abandoned)
                await asyncio.sleep(random.uniform(0, 0.002))
                counter.write(seen + 1)
                journal.note("leave", fence=lease.fence)

    async with LockManager(url, ttl=TTL) as locks:
        lock = locks.lock(NAME)
        await asyncio.gather(*(add(lock) for _ in range(int(tasks))))


async def hold(url: str, folder: str, ttl: str = str(TTL)) -> None:
    """Hold the lock and write to the resource, for as long as it lasts."""
    journal, resource = Journal(f"{folder}/journal"), Resource(f"{folder}/resource")
    async with LockManager(url, ttl=float(ttl)) as locks:
        try:
            async with locks.lock(NAME) as lease:
                journal.note("inside", fence=lease.fence, abandoned=lease.abandoned)
                while True:
                    journal.note("write", fence=lease.fence, accepted=resource.write(lease.fence), lost=lease.lost)
                    await asyncio.sleep(0.005)
        except LockLost as lost:
            accepted = resource.write(lease.fence)
            journal.note("lost", reason=lost.reason.name, text=str(lost), late_write_accepted=accepted)


async def fork(url: str, folder: str) -> None:
    """Enter the manager, fork, and use it in the child."""
    journal = Journal(f"{folder}/journal")
    async with LockManager(url, ttl=TTL) as locks:
        lock = locks.lock(NAME)
        async with lock as lease:
            child = os.fork()
            if child == 0:
                _in_child(journal, locks, lock, lease)
            os.waitpid(child, 0)  # noqa: ASYNC222 - the connection is idle meanwhile
            for _ in range(3):  # long enough for renewals
                await asyncio.sleep(TTL / 2)
                async with lock:
                    pass
            journal.note("parent", lost=lease.lost, opened=locks._runtime.backend.connections_opened)  # type: ignore[attr-defined]


def _in_child(journal: Journal, locks: LockManager, lock: Lock, lease: Lease) -> None:
    async def enter() -> None:
        async with lock:
            pass

    async def tried() -> None:
        await lock.try_acquire()

    async def reenter() -> None:
        async with locks:
            pass

    async def release() -> None:
        await lease.release()

    async def renew() -> None:
        await lease.renew()

    uses: list[Callable[[], Awaitable[object]]] = [
        enter, tried, lock.info, lock.force_release, lock.release, reenter, renew, release, locks.aclose,
    ]  # fmt: skip
    try:
        for use in uses:
            try:
                asyncio.run(asyncio.wait_for(use(), 5))  # type: ignore[arg-type]
            except ConfigurationError as error:
                journal.note("refused", use=use.__name__, text=str(error))
            except BaseException as error:
                journal.note("failed", use=use.__name__, text=repr(error))
            else:
                journal.note("done", use=use.__name__)
        # A manager of the child's own works.
        asyncio.run(_own(locks, journal))
    finally:
        os._exit(0)


async def _own(locks: LockManager, journal: Journal) -> None:
    url = os.environ["AIOLOCK_URL"]
    async with LockManager(url, ttl=TTL) as own:
        journal.note("child", free=await own.lock(NAME).try_acquire() is not None)


async def history(url: str, folder: str, tasks: str, seconds: str) -> None:
    """Tasks enter and leave, whatever happens to the server, and note when."""
    journal, resource = Journal(f"{folder}/journal"), Resource(f"{folder}/resource")

    async def work(locks: LockManager) -> None:
        while asyncio.get_running_loop().time() < until:
            lease = None
            try:
                async with locks.lock(NAME, acquire_timeout=2.0) as lease:
                    journal.note("enter", fence=lease.fence, lost=lease.lost)
                    try:
                        accepted = resource.write(lease.fence)
                        await asyncio.sleep(random.uniform(0, 0.003))
                    finally:
                        journal.note("leave", fence=lease.fence, accepted=accepted)
            except LockLost as lost:
                journal.note("lost", fence=lease.fence if lease else 0, reason=lost.reason.name)
            except (BackendError, TimeoutError) as error:
                journal.note("missed", error=type(error).__name__)
                await asyncio.sleep(0.01)

    async with LockManager(url, ttl=TTL, request_timeout=0.4) as locks:
        journal.note("ready")
        until = asyncio.get_running_loop().time() + float(seconds)
        await asyncio.gather(*(work(locks) for _ in range(int(tasks))))


async def overlap(url: str, folder: str, tasks: str, rounds: str) -> None:
    """Tasks take a few of five names at once, in any order, by multi locks and plain ones."""
    journal = Journal(f"{folder}/journal")

    async def work(locks: LockManager) -> None:
        for _ in range(int(rounds)):
            names = random.sample("abcde", random.randint(1, 3))
            async with locks.multi_lock(*names) if len(names) > 1 else locks.lock(*names) as lease:
                journal.note("enter", names=names, fence=lease.fence, abandoned=lease.abandoned)
                await asyncio.sleep(random.uniform(0, 0.002))
                journal.note("leave", names=names, fence=lease.fence)

    async with LockManager(url, ttl=TTL) as locks:
        await asyncio.gather(*(work(locks) for _ in range(int(tasks))))


if __name__ == "__main__":
    what, url, folder, *arguments = sys.argv[1:]
    os.environ["AIOLOCK_URL"] = url
    works = {"increment": increment, "hold": hold, "fork": fork, "history": history, "overlap": overlap}
    asyncio.run(works[what](url, folder, *arguments))
    Path(folder, f"done.{os.getpid()}").touch()
