"""A worker of the plan at work: it uses locks as a user's task would."""

from __future__ import annotations

import asyncio
import traceback
from contextlib import AbstractAsyncContextManager, suppress
from copy import copy
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from aiolock import (
    AcquireTimeout,
    AiolockError,
    BackendError,
    ConfigurationError,
    Lease,
    LockLost,
    LockManager,
    LossReason,
    NotAcquired,
    NotOwned,
    WaitTimeout,
)
from aiolock.core.resume import read
from aiolock.primitives.kinds import FULL
from aiolock.recipes import JoinFailed, exclusive, once, reserve, reserved, unreserve
from aiolock.recipes.current import current_lease
from aiolock.redisson import Redisson

from .jobs import Run
from .model import PERMITS, Model, Stay, Wish
from .plan import Step, Worker
from .seams import PIECE

if TYPE_CHECKING:
    from .process import Process
    from .scene import Scene

CLEAN_UP = 0.03
"""Seconds that a shielded clean-up takes."""
UNNOTIFIED = 5
"""How often a task looks at what it waits for, before it gives up."""
COUNT = 3
"""How many counts open a latch."""


class Again(Exception):
    """A job shall be tried again."""


class Failed(Exception):
    """What a function raises whose calls join."""


class Actor:
    """Does the steps of one worker, one after the other.

    Args:
        scene: where it works.
        process: in which process.
        worker: its steps.
        number: which worker it is.

    Attributes:
        done: whether it has done them all.
    """

    def __init__(self, scene: Scene, process: Process, worker: Worker, number: int) -> None:
        self.process = process
        self.name = f"w{number}"
        self.done = False
        self.step: Step | None = None
        self._scene = scene
        self._world = scene.world
        self._model: Model = scene.model
        self._worker = worker
        self._task: asyncio.Task[None] | None = None
        self._cancelled = False  # a fault has cancelled the step
        self._stays: list[Stay] = []  # of the step

    @property
    def _manager(self) -> LockManager:
        return self._scene.managers[self.process.number]

    def cancel(self) -> None:
        """Cancel what it does now."""
        if self._task is not None and not self._task.done() and not self.process.dead:
            self._world.note("cancel", who=self.name)
            self._cancelled = True
            self._task.cancel()
            self.process.poke()

    async def run(self) -> None:
        """Do everything."""
        await asyncio.sleep(self._worker.starts)
        for step in self._worker.steps:
            self.step, self._cancelled, self._stays = step, False, []
            self._task = asyncio.get_running_loop().create_task(self._do(step))
            await asyncio.wait((self._task,))
            self._judge(step, self._task)
            self._task = None
        self.done = True

    def _judge(self, step: Step, task: asyncio.Task[None]) -> None:
        """Nothing may come out of the library but what it promises."""
        if task.cancelled():
            self._world.note("cancelled", who=self.name)
            if not self._cancelled:
                self._world.fail(f"{self.name} was cancelled by no one in {step}")
            return
        error = task.exception()
        name = "ok" if error is None else type(error).__name__
        if isinstance(error, LockLost):
            name = f"lost {error.reason.name}"
        self._world.note(name, str(error or "")[:100], self.name)
        if self._cancelled:
            self._world.fail(f"{self.name} was cancelled, and got {error!r} in {step}")
        elif error is not None and not self._expected(step, error):
            trace = "".join(traceback.format_exception(error))
            self._world.fail(f"{self.name} got an unexpected error in {step}:\n{trace}")
        if isinstance(error, LockLost) and error.reason in (LossReason.TAKEN_OVER, LossReason.DELETED):
            ended = [stay for stay in self._stays if stay.lease._hold.owner in self._scene.server.released]
            pieces = len(step.name) > PIECE  # one was gone, another was released
            if ended and len(self._stays) == 1 and step.what != "await" and not pieces:  # that takes it again
                self._world.fail(f"{ended[0]} was told of a loss, though its own release has ended it")
        for stay in self._stays:
            if error is None and stay.overtaken:
                self._world.fail(f"{stay} ended in silence, though {stay.overtaken} came in meanwhile")

    def _expected(self, step: Step, error: BaseException) -> bool:
        closes = any(one.what == "close" for worker in self._scene.plan.workers for one in worker.steps)
        troubled = self._model.troubled()
        forced = any(self._model.revoked_of(stay) for stay in self._stays)
        if isinstance(error, AcquireTimeout | WaitTimeout):
            return step.timeout is not None or step.how == "try"
        if isinstance(error, LockLost):
            if error.reason is LossReason.EXPIRED:
                return step.how in ("fixed", "renew", "detach")  # that may have less time left than it asks for
            if error.reason is LossReason.MAX_HOLD:
                return step.how == "limited"
            if error.reason is LossReason.CLOSED:
                return closes
            return troubled or forced
        if isinstance(error, BackendError):
            soon = step.timeout is not None and error.transient  # before a server has answered
            return soon or troubled or closes  # used while it is opened
        if isinstance(error, NotOwned):
            return step.what == "resume" or troubled or forced
        if isinstance(error, ConfigurationError | NotAcquired):
            return closes or (isinstance(error, NotAcquired) and troubled and step.what == "resume")
        return isinstance(error, AiolockError) and troubled

    # Steps.

    async def _do(self, step: Step) -> None:
        match step.what:
            case "pause":
                await asyncio.sleep(step.seconds)
            case "count":
                await self._manager.latch(step.name, COUNT).count_down()
            case "wait":
                await self._manager.latch(step.name, COUNT).wait(step.timeout)
                self._scene.opened(step.name, self.name)
            case "info":
                await self._manager.lock(step.name).info()
            case "force":
                await self._manager.lock(step.name).force_release()
            case "redisson force":
                java, name = Redisson(self._manager), step.name
                lock = {"f": java.fair_lock(name), "r": java.rw_lock(name).write}.get(name, java.lock(name))
                await lock.force_release()
            case "ask":
                await self._manager.lock(step.name).request_release(step.seconds, force=step.n > 1)
            case "await":
                await self._await(step)
            case "notify":
                await self._notify(step)
            case "once":
                await self._once(step)
            case "join":
                await self._join(step)
            case "reserve":
                await self._reserve(step)
            case "job":
                await self._job(step)
            case "close":
                await self._reopen(step.seconds)
            case "resume":
                await self._resume(step)
            case _:
                await self._lock(step)

    async def _reopen(self, seconds: float) -> None:
        manager = self._manager
        self._model.breach()
        await manager.close()
        await asyncio.sleep(seconds)
        while True:
            try:
                await manager.open()
            except ConfigurationError:
                return  # another has opened it, or still closes it
            except BackendError:
                await asyncio.sleep(self._scene.plan.reopens)
            else:
                return

    async def _resume(self, step: Step) -> None:
        ticket, until = self._scene.take_ticket(step.name), self._world.now + (step.timeout or 0.0)
        while ticket is None:
            if self._world.now >= until:
                return
            await asyncio.sleep(0.005)
            ticket = self._scene.take_ticket(step.name)
        wish = self._model.asks(self.name, self.process, "lock", (step.name,), 1, False)
        try:
            async with self._manager.resume(ticket) as lease:
                await self._stay(step, wish, lease)
        finally:
            self._model.gives_up(wish)

    async def _await(self, step: Step) -> None:
        """It waits until another has changed something."""
        lock, wish = self._primitive(replace(step, what="lock"))
        condition = self._manager.condition(lock)
        try:
            async with self._acquire(step, lock, wish) as lease:
                for _ in range(UNNOTIFIED):
                    stay = self._enter(wish, lease)
                    self._left(stay)
                    if self._scene.changed(step.name):
                        return
                    wish = self._model.asks(self.name, self.process, "lock", (step.name,), 1, False)
                    with suppress(WaitTimeout):
                        await condition.wait(1.0)
        finally:
            self._model.gives_up(wish)

    async def _notify(self, step: Step) -> None:
        """It changes something, and says so."""
        lock, wish = self._primitive(replace(step, what="lock"))
        condition = self._manager.condition(lock)
        try:
            async with self._acquire(step, lock, wish) as lease:
                stay = self._enter(wish, lease)
                self._scene.change(step.name)
                self._left(stay)
                await condition.notify()
        finally:
            self._model.gives_up(wish)

    async def _once(self, step: Step) -> None:
        wish = self._model.asks(self.name, self.process, "lock", (step.name,), 1, False)

        async def job(lease: Lease) -> None:
            self._scene.runs_once(step.name, self.name)
            await self._stay(step, wish, lease)

        try:
            await once(self._manager, step.name, window=60, repeat="both").run(job)
        finally:
            self._model.gives_up(wish)

    async def _join(self, step: Step) -> None:
        """It calls a function whose calls join one that runs."""
        wish = self._model.asks(self.name, self.process, "lock", (step.name,), 1, False)
        jobs, asked = self._scene.jobs, self._world.now
        mine: Run | None = None

        @exclusive(self._manager, key=step.name, busy="join", timeout=step.timeout)
        async def fn() -> str:
            nonlocal mine
            token, mine = jobs.runs(step.n > 1)
            lease = current_lease()
            assert lease is not None
            await self._stay(step, wish, lease)
            if step.n > 1:
                raise Failed(token)
            return token

        try:
            try:
                token, failed = await fn(), False
            except Failed as error:
                token, failed = str(error), True
            except JoinFailed as error:
                token, failed = error.message.rpartition(": ")[2], True
        finally:
            self._model.gives_up(wish)
            if mine is not None:
                mine.over = self._world.now
        jobs.joined(self.name, token, failed, asked)

    async def _reserve(self, step: Step) -> None:
        """It enqueues a job, unless there is one; or it cannot, and gives the name back."""
        jobs, began, within = self._scene.jobs, self._world.now, step.ttl or self._scene.plan.ttl
        jobs.asks(step.name)
        try:
            ticket = await reserve(self._manager, step.name, within=within)
            if ticket is not None:
                self._scene.orphans.on_purpose.add(read(self._manager._runtime, ticket).owner)
            jobs.reserved(step.name, ticket, began, within)
        finally:
            jobs.answered(step.name)
        if ticket is not None and step.n > 2 and (job := jobs.next(step.name)) is not None:
            job.ended = True
            await unreserve(self._manager, job.ticket)

    async def _job(self, step: Step) -> None:
        """It works off a job; the first attempt may fail."""
        jobs, within, again = self._scene.jobs, step.ttl or self._scene.plan.ttl, False
        job = jobs.next(step.name)
        if job is None:
            return

        @reserved(self._manager, within=within, retry=Again)
        async def fn(ticket: str) -> None:
            nonlocal again
            jobs.begins(step.name, job)
            try:
                await asyncio.sleep(step.seconds)
                again = step.n > 1 and job.attempts == 1
                if again:
                    self._leaves_to_nobody()
                    raise Again
                job.ended = True
            finally:
                jobs.ends(step.name, job, again, within)

        try:
            await fn(ticket=job.ticket)
        except NotOwned:
            jobs.refused(step.name, job)
        except Again:
            pass
        else:
            return
        finally:
            if not job.ended:
                jobs.again(step.name, job)

    def _leaves_to_nobody(self) -> None:
        """The next owner of its manager keeps a job's name until the job is tried again."""
        binding = self._manager._runtime.binding
        self._scene.orphans.on_purpose.add(f"{binding.id}:{next(copy(binding._owners))}")

    def _primitive(self, step: Step) -> tuple[Any, Wish]:
        manager, model, name = self._manager, self._model, step.name
        options: Any = {} if step.ttl is None else {"ttl": step.ttl}
        if step.how in ("fixed", "renew"):
            options = {"renew": False}
        elif step.how == "limited":
            options = {"max_hold": step.seconds / 2 + 0.01}
        elif step.how == "kept":
            options["hold_at_least"] = self._least(step)
        if step.priority and self._scene.plan.store != "queues":
            options["priority"] = step.priority
        kind, names, weight = "lock", (name,), 1
        primitive: Any
        match step.what:
            case "redisson":
                kind, primitive = "redisson", Redisson(manager).lock(name, **options)
            case "redisson fair":
                kind, primitive = "redisson", Redisson(manager).fair_lock(name, **options)
            case "redisson read":
                kind, primitive = "redisson rw", Redisson(manager).rw_lock(name, **options).read
            case "redisson write":
                kind, weight, primitive = "redisson rw", FULL, Redisson(manager).rw_lock(name, **options).write
            case "redisson permits":
                kind, weight = "redisson permits", min(step.n, PERMITS)
                primitive = Redisson(manager).permit_expirable_semaphore(name, **options)
            case "fair":
                primitive = manager.fair_lock(name, **options)
            case "read":
                kind, primitive = "rw", manager.rw_lock(name, **options).read
            case "write":
                kind, weight, primitive = "rw", FULL, manager.rw_lock(name, **options).write
            case "permits":
                kind, weight = "semaphore", min(step.n, PERMITS)
                slots = step.how != "plain" and self._scene.plan.store != "queues"
                primitive = manager.semaphore(name, PERMITS, slots=slots, **options)
            case "multi":
                names = tuple(name)
                primitive = manager.multi_lock(*names, **options)
            case _:
                primitive = manager.lock(name, **options)
        return primitive, model.asks(
            self.name, self.process, kind, names, weight, step.what.endswith("fair"), step.priority
        )

    async def _lock(self, step: Step) -> None:
        primitive, wish = self._primitive(step)
        try:
            if step.what == "redisson permits":
                await primitive.try_set_permits(PERMITS)
            await getattr(self, f"_by_{step.how}", self._by_guard)(step, primitive, wish)
        finally:
            self._model.gives_up(wish)

    def _acquire(self, step: Step, primitive: Any, wish: Wish) -> Any:
        more = (wish.weight,) if wish.of_permits else ()
        return primitive.acquire(*more, timeout=step.timeout)

    async def _by_guard(self, step: Step, primitive: Any, wish: Wish) -> None:
        async with self._acquire(step, primitive, wish) as lease:
            await self._stay(step, wish, lease)

    async def _by_try(self, step: Step, primitive: Any, wish: Wish) -> None:
        more = (wish.weight,) if wish.of_permits else ()
        async with primitive.try_acquire(*more) as lease:
            if lease is None:
                self._model.gives_up(wish)
            else:
                await self._stay(step, wish, lease)

    async def _by_kept(self, step: Step, primitive: Any, wish: Wish) -> None:
        async with self._acquire(step, primitive, wish) as lease:
            stay = self._enter(wish, lease)
            stay.kept_until = self.process.moment(lease._hold.began + self._least(step))
            try:
                await asyncio.sleep(step.seconds)
            finally:
                self._left(stay)

    def _least(self, step: Step) -> float:
        return 0.7 * (step.ttl or self._scene.plan.ttl)

    async def _by_plain(self, step: Step, primitive: Any, wish: Wish) -> None:
        lease = await self._acquire(step, primitive, wish)
        stay = self._model.enters(wish, lease, guarded=False)
        self._note(stay)
        try:
            await asyncio.sleep(step.seconds)
        finally:
            self._left(stay)
            result = lease.release()
        await result

    async def _by_entered(self, step: Step, primitive: Any, wish: Wish) -> None:
        lease = await self._acquire(step, primitive, wish)
        async with lease:
            await self._stay(step, wish, lease)

    async def _by_nest(self, step: Step, primitive: Any, wish: Wish) -> None:
        async with self._acquire(step, primitive, wish) as lease:
            stay = self._enter(wish, lease)
            try:
                await asyncio.sleep(step.seconds / 3)
                if wish.of_permits:
                    return
                async with primitive.acquire(timeout=step.timeout) as inner:
                    if inner._hold.fence != lease._hold.fence:
                        self._world.fail(f"{self.name} nests with another fence")
                    await asyncio.sleep(step.seconds / 3)
                await asyncio.sleep(step.seconds / 3)
            finally:
                self._left(stay)

    async def _by_share(self, step: Step, primitive: Any, wish: Wish) -> None:
        async def child(owner: Any) -> None:
            async with primitive.acquire(owner=owner, timeout=step.timeout):
                await asyncio.sleep(step.seconds / 2)

        if wish.of_permits:
            await self._by_guard(step, primitive, wish)
            return
        async with self._acquire(step, primitive, wish) as lease:
            stay = self._enter(wish, lease)
            try:
                async with asyncio.TaskGroup() as group:
                    group.create_task(child(lease.owner))
            except BaseExceptionGroup as errors:
                if self._cancelled:
                    raise asyncio.CancelledError from None  # a task group prefers its child's error
                raise errors.exceptions[0] from None
            finally:
                self._left(stay)

    async def _by_renew(self, step: Step, primitive: Any, wish: Wish) -> None:
        async with self._acquire(step, primitive, wish) as lease:
            stay = self._enter(wish, lease)
            try:
                for _ in range(3):
                    await asyncio.sleep(step.seconds / 3)
                    await lease.renew()
            finally:
                self._left(stay)

    async def _by_shield(self, step: Step, primitive: Any, wish: Wish) -> None:
        async with self._acquire(step, primitive, wish) as lease:
            stay = self._model.enters(wish, lease, guarded=True, until_expiry=True)
            self._note(stay)
            try:
                async with lease.shielded(Transaction()):
                    await asyncio.sleep(step.seconds)
            finally:
                self._left(stay)

    async def _by_yield(self, step: Step, primitive: Any, wish: Wish) -> None:
        """It ends when it is asked to."""
        async with self._acquire(step, primitive, wish) as lease:
            stay = self._enter(wish, lease)
            try:
                for _ in range(10):
                    await asyncio.sleep(step.seconds / 10)
                    if lease.wanted:
                        break
            finally:
                self._left(stay)

    async def _by_block(self, step: Step, primitive: Any, wish: Wish) -> None:
        async with self._acquire(step, primitive, wish) as lease:
            stay = self._enter(wish, lease)
            try:
                self._model.trouble(step.seconds)
                self.process.stall(step.seconds)
                await asyncio.sleep(0)
            finally:
                self._left(stay)

    async def _by_detach(self, step: Step, primitive: Any, wish: Wish) -> None:
        lease = await self._acquire(step, primitive, wish)
        stay = self._model.enters(wish, lease, guarded=False)
        self._note(stay)
        try:
            await asyncio.sleep(step.seconds)
            self._scene.orphans.on_purpose.add(lease._hold.owner)
            ticket = await lease.detach()
            self._scene.put_ticket(step.name, ticket)
        finally:
            self._left(stay)
            if not lease.released:
                lease.release()

    async def _by_part(self, step: Step, primitive: Any, wish: Wish) -> None:
        async with self._acquire(step, primitive, wish) as lease:
            stay = self._enter(wish, lease)
            try:
                await asyncio.sleep(step.seconds / 2)
                if wish.of_permits and wish.weight > 1 and not lease.lost:
                    wish.weight = 1
                    await lease.release(lease.permits - 1)
                await asyncio.sleep(step.seconds / 2)
            finally:
                self._left(stay)

    async def _stay(self, step: Step, wish: Wish, lease: Lease) -> None:
        stay = self._enter(wish, lease)
        try:
            await asyncio.sleep(step.seconds)
        finally:
            self._left(stay)

    def _enter(self, wish: Wish, lease: Lease) -> Stay:
        stay = self._model.enters(wish, lease, guarded=True)
        self._note(stay)
        return stay

    def _note(self, stay: Stay) -> None:
        self._stays.append(stay)
        self._world.note("enter", str(stay), self.name)

    def _left(self, stay: Stay) -> None:
        self._model.leaves(stay)
        self._world.note("leave", str(stay), self.name)


class Transaction(AbstractAsyncContextManager[None]):
    """Its end takes a moment."""

    async def __aexit__(self, *_: object) -> None:
        await asyncio.sleep(CLEAN_UP)
