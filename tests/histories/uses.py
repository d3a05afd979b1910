"""What the tasks of a worker do: one method for each primitive, again and again."""

from __future__ import annotations

import asyncio
import functools
import itertools
import random
import time
import traceback
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any

from aiolock import (
    Acquisition,
    BackendError,
    Lease,
    LockLost,
    LockManager,
    LockOptions,
    NotAcquired,
    NotOwned,
    WaitTimeout,
)
from aiolock.redisson import Redisson

from .journal import Journal, Operation
from .resource import Resource

if TYPE_CHECKING:
    from .accounts import Accounts

PATIENCE = 20.0
"""Seconds: longer than any wait once everything is well."""
PERMITS = 3
TRAVEL = 2.0
"""Seconds for which a ticket is valid."""
GENERATION = 1.0
"""Seconds between two latches."""
PAUSE = 0.03
"""Seconds between two operations of a task, at most: the machine has other work."""
ON_REDISSON = "wsem"
"""The semaphore there."""
KEPT = "k"
"""A name that stays taken after its release."""
POOL = [f"m{number:02}" for number in range(80)]
"""Names of multi locks that take more than one script."""
ALL = (
    *("lock", "other", "fair", "nested", "kept", "read", "write", "permits", "multi", "many", "ticket", "latch"),
    *("joined", "jobs"),
)
MISSES = (BackendError, NotAcquired, NotOwned, WaitTimeout)
Take = Callable[..., Acquisition[Lease]]


class Held:
    """A body with its lease, which has just begun.

    Args:
        operation: what it is in the journal.
        lease: what guards it.
        least: seconds for which the name stays taken from its grant.
    """

    def __init__(self, operation: Operation, lease: Lease, least: float = 0.0) -> None:
        slots = {"slots": lease.slots} if lease.slots else {}
        more = slots | ({"kept_until": lease._hold.began + least} if least else {})
        operation.note("granted", fence=lease._hold.fence, lost=lease.lost, abandoned=lease.abandoned, **more)
        self.lease = lease
        self._operation = operation
        self._inside = True
        self._watching: asyncio.Task[None] | None = None

    def leave(self) -> None:
        """Note that it is surely inside no longer."""
        if self._inside:
            self._operation.note("left")
        self._inside = False
        if self._watching is not None:
            self._watching.cancel()

    def watch(self) -> None:
        """Note the loss when it is told: the body may run on."""

        async def watch() -> None:
            with suppress(NotOwned):
                await self.lease.wait_lost()
                self.leave()

        self._watching = asyncio.create_task(watch())

    def wrote(self, name: str, since: float, accepted: bool | None) -> None:
        """Note what the resource answered; None if nobody knows."""
        self._operation.note("write", name=name, since=since, accepted=accepted, fence=self.lease.fence)


class Uses:
    """The tasks of one worker.

    Args:
        locks: an open manager.
        journal: what happens is noted here.
        resource: what the locks protect.
        dice: what is left to chance.
        number: which worker it is.
        workers: how many there are.

    Attributes:
        accounts: what they protect in a database, where there is one.
    """

    accounts: Accounts

    def __init__(
        self, locks: LockManager, journal: Journal, resource: Resource, dice: random.Random, number: int, workers: int
    ) -> None:
        self._locks = locks
        self._on_wire: Redisson | None = None
        self._journal = journal
        self._resource = resource
        self._dice = dice
        self._number = number
        self._workers = workers
        self._tickets = itertools.count(1)
        self._running: set[asyncio.Task[None]] = set()
        self._enough = asyncio.Event()
        self._lingering = 0.0

    async def run(self, names: Sequence[str]) -> None:
        """Use the primitives until `stop`."""
        await asyncio.gather(*(self._latches() if name == "latch" else self._repeat(name) for name in names))
        if self._running:
            await asyncio.wait(self._running)

    def stop(self) -> None:
        """Let every task end what it is doing."""
        self._enough.set()

    def linger(self, seconds: float) -> None:
        """Let half of the bodies that begin from now on last until then."""
        self._lingering = time.monotonic() + seconds

    def cancel(self, count: int) -> None:
        """Cancel some operations, and half of them a second time."""
        running = sorted(self._running, key=lambda task: task.get_name())
        for task in self._dice.sample(running, min(count, len(running))):
            task.cancel()
            if self._dice.random() < 0.5:
                asyncio.get_running_loop().call_later(self._dice.choice((0.0, 0.001, 0.02)), task.cancel)

    async def _repeat(self, name: str) -> None:
        use: Callable[[], Awaitable[None]] = getattr(self, f"_{name}")
        while not self._enough.is_set():
            await asyncio.wait([self._start(use())])
            await asyncio.sleep(self._dice.uniform(0.0, PAUSE))

    def _start(self, use: Any) -> asyncio.Task[None]:
        task: asyncio.Task[None] = asyncio.create_task(use, name=f"{next(self._tickets):09}")
        self._running.add(task)
        task.add_done_callback(self._running.discard)
        return task

    @property
    def _java(self) -> Redisson:
        self._on_wire = self._on_wire or Redisson(self._locks)
        return self._on_wire

    # The primitives.

    async def _lock(self) -> None:
        options = self._options()
        await self._increase("lock", ["a"], self._locks.lock("a", **options).acquire, "lock", options)

    async def _other(self) -> None:
        options = self._options()
        await self._increase("lock", ["b"], self._locks.lock("b", **options).acquire, "other", options)

    async def _fair(self) -> None:
        options = self._options()
        await self._increase("fair", ["a"], self._locks.fair_lock("a", **options).acquire, "fair", options)

    async def _multi(self) -> None:
        await self._increase("multi", ["a", "b"], self._locks.multi_lock("a", "b").acquire, "multi")

    async def _many(self) -> None:
        """So many names that they are taken piece by piece; or one of them."""
        patience, one = self._patience(), self._dice.random() < 0.6
        names = self._dice.sample(POOL, 1 if one else self._dice.randint(65, len(POOL)))
        lock: Any = self._locks.lock(*names) if one else self._locks.multi_lock(*names)
        operation = self._journal.begin("lock" if one else "multi", *names, timeout=patience, use="many")
        async with self._ending(operation), _held(operation, lock.acquire(timeout=patience)):
            await asyncio.sleep(self._stay())

    async def _kept(self) -> None:
        """The name stays taken for a while after its release, unless that is ended by force."""
        patience, least = self._patience(), self._dice.choice((0.0, 0.05, 0.2))
        lock = self._locks.lock(KEPT, hold_at_least=least)
        operation = self._journal.begin("lock", KEPT, timeout=patience, use="kept")
        async with self._ending(operation), _held(operation, lock.acquire(timeout=patience), least):
            await asyncio.sleep(self._stay())
        if self._dice.random() < 0.02:
            operation = self._journal.begin("force", KEPT, use="force")
            async with self._ending(operation):
                await lock.force_release()

    async def _write(self) -> None:
        await self._increase("write", ["rw"], self._locks.rw_lock("rw").write.acquire, "write")

    async def _read(self) -> None:
        patience = self._patience()
        operation = self._journal.begin("read", "rw", timeout=patience, use="read")
        async with self._ending(operation), _held(operation, self._locks.rw_lock("rw").read.acquire(timeout=patience)):
            await asyncio.sleep(self._stay())

    async def _permits(self) -> None:
        patience, weight = self._patience(), self._dice.choice((1, 1, 2))
        given = {"weight": weight, "permits": PERMITS, "timeout": patience, "use": "permits"}
        operation = self._journal.begin("permits", "sem", **given)
        slots = self._locks._runtime.backend.abilities.requests is None  # a store that keeps queues has none
        taking = self._locks.semaphore("sem", PERMITS, slots=slots).acquire(weight, timeout=patience)
        async with self._ending(operation), _held(operation, taking) as held:
            await asyncio.sleep(self._stay())
            if weight > 1 and self._dice.random() < 0.5:
                operation.note("kept", weight=weight - 1)
                await held.lease.release(1)
                await asyncio.sleep(self._stay())

    async def _fenced(self) -> None:
        patience = self._patience()
        operation = self._journal.begin("lock", "account", timeout=patience, use="fenced")
        taking = self._locks.lock("account").acquire(timeout=patience)
        async with self._ending(operation), _held(operation, taking) as held:
            wrote = functools.partial(held.wrote, "account")
            await self.accounts.increase(held.lease, self._stay(), self._dice, wrote)

    async def _rlock(self) -> None:
        await self._on_redisson("rlock", "w", self._java.lock("w", **self._options()))

    async def _rfair(self) -> None:
        await self._on_redisson("rlock", "wf", self._java.fair_lock("wf"))

    async def _rwrite(self) -> None:
        await self._on_redisson("rwrite", "wrw", self._java.rw_lock("wrw").write)

    async def _rread(self) -> None:
        await self._on_redisson("rread", "wrw", self._java.rw_lock("wrw").read)

    async def _on_redisson(self, kind: str, name: str, lock: Any) -> None:
        """Be inside, and sometimes once more."""
        patience, use = self._patience(), "rfair" if name == "wf" else kind
        operation = self._journal.begin(kind, name, timeout=patience, use=use)
        async with self._ending(operation), _held(operation, lock.acquire(timeout=patience)):
            await asyncio.sleep(self._stay())
            if self._dice.random() < 0.2:
                async with lock:
                    await asyncio.sleep(self._stay())

    async def _rpermits(self) -> None:
        patience, weight = self._patience(), self._dice.choice((1, 1, 2))
        semaphore = self._java.permit_expirable_semaphore(ON_REDISSON)
        given = {"weight": weight, "permits": PERMITS, "timeout": patience, "use": "rpermits"}
        operation = self._journal.begin("rpermits", ON_REDISSON, **given)
        async with self._ending(operation):
            await semaphore.try_set_permits(PERMITS)  # again and again, as the server may have lost the number
            async with _held(operation, semaphore.acquire(weight, timeout=patience)) as held:
                await asyncio.sleep(self._stay())
                if weight > 1 and self._dice.random() < 0.5:
                    operation.note("kept", weight=weight - 1)
                    await held.lease.release(1)
                    await asyncio.sleep(self._stay())

    async def _nested(self) -> None:
        patience = self._patience()
        lock = self._locks.lock("n")
        operation = self._journal.begin("lock", "n", timeout=patience, use="nested")
        async with self._ending(operation), _held(operation, lock.acquire(timeout=patience)) as held:
            seen = self._read_number(held, "n")
            if self._dice.random() < 0.5:
                await self._again(operation, lock.acquire)
            else:  # another task, which is given the owner
                take = functools.partial(lock.acquire, owner=held.lease.owner)
                await asyncio.create_task(self._again(operation, take))
            self._write_number(held, "n", seen)

    async def _again(self, outer: Operation, take: Take) -> None:
        operation = self._journal.begin("lock", "n", outer=outer.number, use="inner")
        async with self._ending(operation, inner=True), _held(operation, take()):
            await asyncio.sleep(self._stay())

    async def _ticket(self) -> None:
        found = self._resource.receive("t")
        if found is not None:
            number, ticket = found
            resume = functools.partial(_resume, self._locks, ticket)
            await self._increase("resume", ["t"], resume, "ticket", ticket=number)
            return
        patience = self._patience()
        operation = self._journal.begin("lock", "t", timeout=patience, use="ticket")
        async with self._ending(operation), _held(operation, self._locks.lock("t").acquire(timeout=patience)) as held:
            await asyncio.sleep(self._stay())
            if self._dice.random() < 0.5:
                held.leave()
                ticket = await held.lease.detach(TRAVEL)
                number = f"{self._number}:{time.monotonic_ns()}"
                operation.note("detached", ticket=number, lasts=TRAVEL)
                self._resource.send("t", number, ticket)

    async def _latches(self) -> None:
        while not self._enough.is_set():
            generation = int(time.monotonic() / GENERATION) + 1
            await asyncio.sleep(generation * GENERATION - time.monotonic())
            self._start(self._latch(f"latch:{generation}"))

    async def _latch(self, name: str) -> None:
        latch, by = self._locks.latch(name, self._workers, ttl=60.0), str(self._number)
        await asyncio.sleep(self._dice.uniform(0.0, GENERATION / 2))
        counting = self._journal.begin("count", name, permits=self._workers, by=by, use="count")
        async with self._ending(counting):
            counting.note("counted", left=await latch.count_down(by=by))
        patience = 5 * GENERATION
        waiting = self._journal.begin("wait", name, permits=self._workers, timeout=patience, use="latch")
        async with self._ending(waiting):
            await latch.wait(patience)

    # What they share.

    async def _increase(
        self, kind: str, names: list[str], take: Take, use: str, options: LockOptions | None = None, **more: Any
    ) -> None:
        """Increase the number of each name under a lock of all."""
        patience = self._patience()
        operation = self._journal.begin(kind, *names, timeout=patience, use=use, **more)
        async with self._ending(operation), _held(operation, take(timeout=patience)) as held:
            if options and "cancel_on_loss" in options:
                held.watch()
            seen = [self._read_number(held, name) for name in names]
            try:
                await asyncio.sleep(self._stay())
            except asyncio.CancelledError:
                if self._dice.random() < 0.5:  # whoever does not stop is what fences are for
                    self._write_number(held, names[0], seen[0])
                raise
            for name, total in zip(names, seen, strict=True):
                self._write_number(held, name, total)

    @asynccontextmanager
    async def _ending(self, operation: Operation, inner: bool = False) -> AsyncIterator[None]:
        """Note how an operation ended."""
        how, reason = "done", None
        try:
            yield
        except LockLost as lost:
            how, reason = "lost", lost.reason.name
            if inner:  # the outermost block of each task raises it
                raise
        except MISSES as error:
            how, reason = "missed", type(error).__name__
        except asyncio.CancelledError:
            how = "cancelled"
            task = asyncio.current_task()
            if task is not None and not task.cancelling() and not inner:
                self._journal.note("failed", text="a cancellation that nobody ordered")
            raise
        except Exception:
            how, reason = "missed", "failure"
            self._journal.note("failed", text=traceback.format_exc())
        finally:
            operation.note("ended", how=how, **({"reason": reason} if reason else {}))

    def _read_number(self, held: Held, name: str) -> int | None:
        since = time.monotonic()
        seen = self._resource.begin(name, held.lease.fence)
        if seen is None:
            held.wrote(name, since, False)
        return seen

    def _write_number(self, held: Held, name: str, seen: int | None) -> None:
        since = time.monotonic()
        if seen is not None:
            held.wrote(name, since, self._resource.write(name, held.lease.fence, seen + 1))

    def _options(self) -> LockOptions:
        """How a lock is held: mostly renewed and guarded."""
        roll = self._dice.random()
        if roll < 0.04:
            return {"max_hold": 0.6}
        if roll < 0.08:
            return {"renew": False}
        return {"cancel_on_loss": False} if roll < 0.16 else {}

    def _patience(self) -> float:
        """How long an operation may wait: mostly long, sometimes not at all."""
        roll = self._dice.random()
        if roll < 0.1:
            return 0.0
        return self._dice.uniform(0.01, 1.0) if roll < 0.2 else PATIENCE

    def _stay(self) -> float:
        """How long a body lasts: mostly short, sometimes longer than a third of the ttl, after which it is renewed;
        during a fault often as long as that.
        """
        left = self._lingering - time.monotonic()
        if left > 0 and self._dice.random() < 0.5:
            return left
        roll = self._dice.random()
        if roll < 0.8:
            return self._dice.uniform(0.0, 0.005)
        return self._dice.uniform(0.0, 0.05) if roll < 0.99 else self._dice.uniform(0.5, 2.0)


def _resume(locks: LockManager, ticket: str, timeout: float) -> Acquisition[Lease]:
    """A ticket is valid now or not at all: there is nothing to wait for."""
    return locks.resume(ticket)


@asynccontextmanager
async def _held(operation: Operation, taking: Acquisition[Lease], least: float = 0.0) -> AsyncIterator[Held]:
    """A body, guarded by a lease."""
    async with taking as lease:
        held = Held(operation, lease, least)
        try:
            yield held
        finally:
            held.leave()
