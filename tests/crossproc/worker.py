"""A process of the tests: `python -m tests.crossproc.worker <what> <redis url> <folder> [<argument> …]`."""

from __future__ import annotations

import asyncio
import itertools
import os
import random
import signal
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

from aiolock import ConfigurationError, Lease, Lock, LockLost, LockManager, NotOwned
from aiolock.core.acquisition import Acquisition
from aiolock.core.waiting.queue_entry import QueueEntry
from aiolock.scripts.outcomes import Passed, Queued
from tests.histories.journal import Journal, Operation

from .counter import Counter
from .noting import use
from .resource import Resource

TTL = 3.6
"""A noisy machine stands still for two seconds now and then: that must not lose a lease that is renewed."""
NAME = "order:42"
PERMITS = 3
HERD = (2, 8, 32)
LONG = 100_000.0
"""Seconds: nothing is refreshed or checked again while a test runs."""


def take(locks: LockManager, what: str, name: str = NAME) -> Acquisition[Lease]:
    """Return a `lock`, a `fair` lock, the `read` or the `write` side, permits (`permits:2`), or names (`multi:cd`)."""
    what, _, number = what.partition(":")
    if what == "permits":
        return locks.semaphore(name, PERMITS).acquire(int(number))
    if what == "multi":
        return locks.multi_lock(*number).acquire()
    if what == "lock":
        return locks.lock(name).acquire()
    if what == "fair":
        return locks.fair_lock(name).acquire()
    return getattr(locks.rw_lock(name), what).acquire()  # type: ignore[no-any-return]


async def increment(url: str, folder: str, tasks: str, rounds: str, ttl: str) -> None:
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

    async with LockManager(url, ttl=float(ttl)) as locks:
        lock = locks.lock(NAME)
        await asyncio.gather(*(add(lock) for _ in range(int(tasks))))


async def hold(url: str, folder: str, ttl: str = str(TTL)) -> None:
    """Hold the lock and write to the resource, as long as the lock lasts."""
    journal, resource = Journal(f"{folder}/journal"), Resource(f"{folder}/resource")
    async with LockManager(url, ttl=float(ttl)) as locks:
        try:
            async with locks.lock(NAME) as lease:
                journal.note("inside", fence=lease.fence, abandoned=lease.abandoned)
                while True:
                    began = time.monotonic()
                    written = {"accepted": resource.write(lease.fence), "lost": lease.lost}
                    journal.note("write", at=began, fence=lease.fence, **written)
                    await asyncio.sleep(0.005)
        except LockLost as lost:
            accepted = resource.write(lease.fence)
            journal.note("lost", reason=lost.reason.name, text=str(lost), late_write_accepted=accepted)


async def detach(url: str, folder: str) -> None:
    """Acquire the lock, send it down the pipe, and do other work until killed."""
    journal = Journal(f"{folder}/journal")
    async with LockManager(url) as locks:
        lease = await locks.lock(NAME).acquire()
        journal.note("acquired", fence=lease.fence)
        ticket = await lease.detach(60.0)
        await asyncio.to_thread(Path(folder, "pipe").write_text, ticket)
        journal.note("detached")
        await asyncio.Event().wait()


async def resume(url: str, folder: str) -> None:
    """Take a lock from the pipe once its sender is dead, and try it again afterwards."""
    journal = Journal(f"{folder}/journal")
    async with LockManager(url) as locks:
        journal.note("ready")
        ticket = await asyncio.to_thread(Path(folder, "pipe").read_text)
        await asyncio.to_thread(wait_for, Path(folder, "killed"))
        async with locks.resume(ticket) as lease:
            journal.note("resumed", fence=lease.fence)
            await asyncio.sleep(0.2)
            lease.ensure()
            journal.note("leaves")
        try:
            await locks.resume(ticket)
        except NotOwned:
            journal.note("not twice")


def wait_for(path: Path) -> None:
    while not path.exists():
        time.sleep(0.01)


async def fork(url: str, folder: str) -> None:
    """Enter the manager, fork, and use it in the child."""
    journal = Journal(f"{folder}/journal")
    async with LockManager(url, ttl=6.0) as locks:  # no renewal is written while this loop waits for the child
        lock = locks.lock(NAME)
        async with lock as lease:
            child = os.fork()
            if child == 0:
                _in_child(journal, locks, lock, lease)
            os.waitpid(child, 0)  # noqa: ASYNC222 - the connection is idle meanwhile
            expiry = lease._hold.expiry
            while lease._hold.expiry == expiry and not lease.lost:  # noqa: ASYNC110 - until it was renewed
                await asyncio.sleep(0.01)
            async with lock:
                pass
            journal.note("parent", lost=lease.lost, opened=locks._runtime.backend._dialer.opened)  # type: ignore[attr-defined]


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


async def history(url: str, folder: str, tasks: str, ttl: str, *kinds: str) -> None:
    """Tasks enter and leave, whatever happens to the server, and note when; they also note stalls of the loop.

    They use a `lock` and a `fair` lock by turns, as `kinds` says.
    """
    journal, resource = Journal(f"{folder}/journal"), Resource(f"{folder}/resource")

    async def write(operation: Operation, lease: Lease) -> None:
        since = time.monotonic()
        operation.note("write", since=since, accepted=resource.write(lease.fence), fence=lease.fence)
        await asyncio.sleep(random.uniform(0, 0.003))

    async def work(locks: LockManager, kind: str) -> None:
        make = locks.fair_lock if kind == "fair" else locks.lock
        while not enough.exists():  # noqa: ASYNC240 - another process makes it
            taking = make(NAME, acquire_timeout=2.0).acquire()
            if not await use(journal, kind, NAME, taking, write, timeout=2.0):
                await asyncio.sleep(0.01)

    enough = Path(folder, "enough")
    async with LockManager(
        url, ttl=float(ttl), request_timeout=1.5
    ) as locks:  # time to connect, among others that start
        journal.note("ready")
        watching = asyncio.create_task(journal.watch())
        turns = itertools.cycle(kinds or ("lock",))
        await asyncio.gather(*(work(locks, next(turns)) for _ in range(int(tasks))))
        watching.cancel()


async def stand(url: str, folder: str, what: str, ttl: str, liveness: str, stay: str = "inf") -> None:
    """Queue, and stay inside for this many seconds, or as long as the lock lasts."""
    journal = Journal(f"{folder}/journal")
    async with LockManager(url, ttl=float(ttl), liveness=float(liveness)) as locks:
        try:
            async with take(locks, what) as lease:
                journal.note("inside", fence=lease.fence, abandoned=lease.abandoned)
                try:
                    async with asyncio.timeout(float(stay)):
                        await asyncio.Event().wait()
                except TimeoutError:
                    journal.note("left", fence=lease.fence, lost=lease.lost)
        except LockLost as lost:
            journal.note("lost", fence=lease.fence, reason=lost.reason.name)


def note_places() -> dict[str, float]:
    """Record when each owner is first told that it is in a queue."""
    told: dict[str, float] = {}
    queued = QueueEntry.queued

    def noting(entry: QueueEntry, outcome: Queued | Passed, sent_at: float) -> None:
        told.setdefault(entry.owner, time.monotonic())
        queued(entry, outcome, sent_at)

    QueueEntry.queued = noting  # type: ignore[method-assign]
    return told


async def queue(url: str, folder: str, tasks: str, rounds: str) -> None:
    """Tasks enter a fair lock again and again, and note when they asked and when they were told their place.

    Entries are refreshed more often than their liveness needs: that must not cost them their turn.
    """
    journal = Journal(f"{folder}/journal")

    async def enter(operation: Operation, lease: Lease) -> None:
        queued = told.pop(lease._hold.owner, None)
        if queued is not None:
            operation.note("queued", at=queued)
        await asyncio.sleep(0)

    async def work(locks: LockManager) -> None:
        for _ in range(int(rounds)):
            assert await use(journal, "fair", NAME, take(locks, "fair"), enter)

    async def refresh(locks: LockManager) -> None:
        while True:
            await asyncio.sleep(0.02)
            locks._runtime.queue_entries.verify()

    async with LockManager(url, ttl=LONG, liveness=LONG) as locks:
        told = note_places()
        journal.note("ready")
        while not Path(folder, "go").exists():  # noqa: ASYNC110, ASYNC240 - another process makes it
            await asyncio.sleep(0.01)
        refreshing = asyncio.create_task(refresh(locks))
        await asyncio.gather(*(work(locks) for _ in range(int(tasks))))
        refreshing.cancel()


async def crowd(url: str, folder: str, ttl: str, liveness: str) -> None:
    """Tasks come and go on a fair lock, a read-write lock and a semaphore, and note when; they also note stalls of the
    loop.
    """
    journal, enough = Journal(f"{folder}/journal"), Path(folder, "enough")

    async def stay(operation: Operation, lease: Lease) -> None:
        await asyncio.sleep(random.uniform(0, 0.004))

    async def work(locks: LockManager, what: str) -> None:
        kind, _, weight = what.partition(":")
        how = {"weight": int(weight), "permits": PERMITS} if weight else {}
        while not enough.exists():  # noqa: ASYNC240 - another process makes it
            await use(journal, kind, NAME, take(locks, what), stay, what=what, **how)

    async with LockManager(url, ttl=float(ttl), liveness=float(liveness)) as locks:
        journal.note("ready")
        watching = asyncio.create_task(journal.watch())
        await asyncio.gather(*(work(locks, what) for what in CROWD))
        watching.cancel()


CROWD = ("fair", "fair", "read", "read", "write", "permits:1", "permits:1", "permits:2")


def herd(url: str, folder: str) -> None:
    """Fork processes that wait until this one is terminated: all on the largest name, two on the smallest."""
    stays, ends = os.pipe()
    for number in range(max(HERD)):
        if os.fork() == 0:
            os.close(ends)
            try:
                asyncio.run(_wait(url, folder, number, stays))
            finally:
                os._exit(0)
    signal.signal(signal.SIGTERM, lambda *_: os.close(ends))
    for _ in range(max(HERD)):
        os.wait()


async def _wait(url: str, folder: str, number: int, stays: int) -> None:
    journal, loop = Journal(f"{folder}/journal"), asyncio.get_running_loop()

    async def enter(what: str, size: int) -> None:
        async with take(locks, what, f"{what}:{size}"):
            journal.note("inside", what=what, size=size)
            await asyncio.Event().wait()

    async with LockManager(url, ttl=2 * LONG, liveness=LONG, recheck=LONG) as locks:
        tasks = [loop.create_task(enter(what, size)) for what in ("lock", "fair") for size in HERD if number < size]
        loop.add_reader(stays, lambda: [task.cancel() for task in tasks])
        await asyncio.gather(*tasks, return_exceptions=True)


async def overlap(url: str, folder: str, tasks: str, rounds: str) -> None:
    """Tasks take a few of five names at once, in any order, with multi locks and plain ones."""
    journal = Journal(f"{folder}/journal")

    async def stay(operation: Operation, lease: Lease) -> None:
        await asyncio.sleep(random.uniform(0, 0.002))

    async def work(locks: LockManager) -> None:
        for _ in range(int(rounds)):
            names = "".join(random.sample("abcde", random.randint(1, 3)))
            kind, lock = ("multi", locks.multi_lock(*names)) if len(names) > 1 else ("lock", locks.lock(names))
            assert await use(journal, kind, names, lock.acquire(), stay)

    async with LockManager(url, ttl=TTL) as locks:
        await asyncio.gather(*(work(locks) for _ in range(int(tasks))))


if __name__ == "__main__":
    what, url, folder, *arguments = sys.argv[1:]
    os.environ["AIOLOCK_URL"] = url
    if what == "herd":
        herd(url, folder, *arguments)
    else:
        known = (increment, hold, detach, resume, fork, history, stand, queue, crowd, overlap)
        workers = {worker.__name__: worker for worker in known}
        asyncio.run(workers[what](url, folder, *arguments))  # type: ignore[operator]
    Path(folder, f"done.{os.getpid()}").touch()
