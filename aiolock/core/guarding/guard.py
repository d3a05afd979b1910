"""One guarded block: cancelled when its lease is lost; the cancellation then becomes LockLost."""

from __future__ import annotations

import asyncio
from contextlib import AbstractAsyncContextManager
from enum import Enum
from types import CodeType, TracebackType
from typing import Generic, TypeVar

import anyio
from anyio import CancelScope

from ...clock import Clock, Timer
from ...errors import ConfigurationError, LockLost, LossReason, note
from ...log import Log
from ..holding.hold import Hold
from ..holding.level import Block, Level
from .scope import Edge, Scope, cancel_scope, in_cancelled_scope, leave_scope, spare

logger: Log = Log("aiolock.lease")
T = TypeVar("T")


def running_task() -> asyncio.Task[object] | None:
    """Return the running task; None where no loop runs: in another thread, or in a forked child."""
    try:
        return asyncio.current_task()
    except RuntimeError:
        return None


class Report(Enum):
    """What the code around a block is told, if a lease was lost."""

    BODY = "what the body raised, if anything"
    NOTE = "the same, with a note of the loss"
    LOSS = "LockLost: of the lease whose loss has cancelled the body, otherwise of the block's own"


def report(
    error: BaseException | None, cause: Hold | None, hold: Hold, tells: bool, cancelled: bool, dying: bool
) -> Report:
    """Decide how a block ends whose lease was lost, or whose body the loss of another lease has cancelled.

    Args:
        error: what the body raised.
        cause: whose loss has cancelled the body; None if no loss has.
        hold: what the block has.
        tells: the block is the one that tells of its loss; otherwise one around it does.
        cancelled: others have cancelled the task, too.
        dying: a `GeneratorExit` would hide the loss: it is no part of a cancellation.
    """
    if cause is not None and isinstance(error, asyncio.CancelledError) and cancelled:
        return Report.BODY  # before 4.16, anyio has swallowed that, too
    if cause is not None and cause is not hold:
        return Report.LOSS
    if tells and (error is None or cause is hold or (type(error) is GeneratorExit and dying)):
        return Report.LOSS
    if error is None or isinstance(error, asyncio.CancelledError | LockLost):
        return Report.BODY
    return Report.NOTE


class Guard(Block):
    """One `async with`, from entry to exit.

    The outermost guard of a task for a hold has the cancel scope and raises `LockLost`; guards nested in it are
    cancelled with it and let the cancellation pass. If it is left before them, the next one takes its place.

    Args:
        lease: what the block holds.
        spans_yield: it is held over a `yield` of an async generator.

    Attributes:
        task: the task that entered it.
        frame: id of the frame that entered it, if its lock object must identify it; unique while that frame lives.
        code: what runs in that frame.
        outer: the block around it in the same frame.
        via: id of the object whose method entered it, if its lock object must know that; otherwise 0.
    """

    __slots__ = ("_cancelling", "_outermost", "_scope", "code", "frame", "lease", "outer", "task", "via")

    frame: int
    code: CodeType

    def __init__(self, lease: Level, spans_yield: bool) -> None:
        self.lease: Level = lease
        self.task: asyncio.Task[object] | None = lease._task
        hold = lease._hold
        self._outermost = len(hold.leases) == 1 or not self._siblings()
        self._scope: Scope | None = None
        self._cancelling = 0
        self.outer: Guard | None = None
        self.via: int = 0
        lease._guard = self
        if self._outermost and hold.policy.cancel_on_loss and self.task is not None:
            if spans_yield:
                self._scope = Edge(self.task)
            else:
                self._cancelling = self.task.cancelling()
                try:
                    scope = spare.pop()  # without a look before: a loop in another thread may take it in between
                except IndexError:
                    scope = CancelScope()
                self._scope = scope
                scope.__enter__()
            hold.scopes += (self,)
            if hold.reason is not None:  # lost already: an observer of the grant may have run an eager task
                self.cancel(f"aiolock: lost {hold.calls.name!r}")

    @property
    def nested(self) -> bool:
        """Whether a block around it is the one that a loss cancels."""
        return not self._outermost

    def cancel(self, reason: str) -> None:
        if self._scope is not None:
            cancel_scope(self._scope, reason)

    async def exit(self, task: asyncio.Task[object] | None, error: BaseException | None) -> None:
        """Leave the block, in `task`: write the release first, then report how it went. No exception of the body is
        swallowed, which is `error`.

        Raises:
            LockLost: the lease was lost, and the body did not raise an error of its own; it replaces the cancellation
                that we caused, and the `GeneratorExit` that would hide it.
            BackendError: the server refuses the release, and the body did not raise.
            ConfigurationError: it is left in another thread, and the body did not raise; it then ends with the task
                that entered it.
        """
        lease, hold = self.lease, self.lease._hold
        if task is not self.task:  # an async generator's, perhaps in another thread
            try:
                hold.home.runtime.binding.check_here(hold.calls.name, "loop.call_soon_threadsafe(lease.release)")
            except ConfigurationError as elsewhere:
                if error is None:
                    raise
                note(error, str(elsewhere))
                return
        lost = hold.check() is not None
        result = lease._give_up("dirty" if lost else "clean")
        if not hold.ended:
            self._hand_on()
        scope, self._scope = self._scope, None
        lease._guard = None  # lease and guard refer to each other: free both without the garbage collector
        cause = None
        if scope is not None and self.task is not None:
            try:
                cause = leave_scope(scope, hold, self.task, task, error)
            except BaseExceptionGroup as remaining:  # the body's errors, without our cancellations
                note(remaining, f"lock {hold.calls.name!r} was lost meanwhile: {hold.explain()}")
                raise
            if lost and cause is None and task is self.task and isinstance(scope, Edge):
                await scope.drain()
        used = None if scope is None or isinstance(scope, Edge) else type(scope)
        del scope  # do not keep it while the answer is awaited
        if lost or cause is not None:
            dying = task is None or task is not self.task or not task.cancelling()
            match report(error, cause, hold, self._outermost, self._cancelled_by_others(), dying):
                case Report.LOSS:
                    loss = (cause or hold).loss()
                    try:
                        raise loss from loss.__cause__
                    finally:
                        del loss  # its traceback refers to this frame, which refers to it
                case Report.NOTE if error is not None:
                    note(error, f"lock {hold.calls.name!r} was lost meanwhile: {hold.explain()}")
            return
        if error is not None and not isinstance(error, asyncio.CancelledError) and in_cancelled_scope():
            return  # a wait for the answer would be cancelled, and hide the body's error
        if error is None and used is not None and not spare:
            # Now, while nobody waits for it: who is granted a lock only has to enter it. And by its type: anyio would
            # look each time for the library that runs.
            spare.append(used())
        await result.observed()
        if error is None and result.failure is not None:
            raise result.failure

    def resume(self) -> None:
        """Its lease continues with another hold, whose loss cancels the block from now on."""
        hold = self.lease._hold
        if self._scope is not None:
            hold.scopes += (self,)
            if hold.reason is not None:
                self.cancel(f"aiolock: lost {hold.calls.name!r}")

    def abandon(self) -> None:
        """The task has ended without leaving the block, and its scope has ended with it."""
        self._scope = None

    def _cancelled_by_others(self) -> bool:
        """Whether another has cancelled its task, too, since it was entered."""
        return self.task is not None and self.task.cancelling() > self._cancelling

    def _siblings(self) -> list[Guard]:
        """The other open blocks of its task in the same hold, outermost first."""
        leases = self.lease._hold.leases if self.task is not None else ()
        guards = (lease._guard for lease in leases if lease._task is self.task)
        return [guard for guard in guards if isinstance(guard, Guard) and guard is not self]

    def _hand_on(self) -> None:
        """The hold continues: from now on a loss cancels the next open block, which reports it."""
        heir = next(iter(self._siblings()), None) if self._outermost else None
        if heir is not None:
            heir._outermost = True
            heir._scope, self._scope = self._scope, None
            heir._cancelling = self._cancelling
        hold = self.lease._hold
        scopes = [heir if scope is self else scope for scope in hold.scopes]
        hold.scopes = tuple([scope for scope in scopes if scope is not None])


class Shielded(AbstractAsyncContextManager[T], Generic[T]):
    """What `lease.shielded()` returns: `manager`, with its clean-up shielded from cancellation for a while.

    Args:
        lease: what it has at the end of the block must not have expired while the clean-up runs.
        clock: the clock of the lease's times.
        manager: the user's.
    """

    def __init__(self, lease: Level, clock: Clock, manager: AbstractAsyncContextManager[T]) -> None:
        self._lease = lease
        self._clock = clock
        self._manager = manager

    async def __aenter__(self) -> T:
        return await self._manager.__aenter__()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        hold = self._lease._hold  # another one than at the beginning, if it waited for a condition
        with anyio.CancelScope(shield=True) as scope:
            watch = _Expiry(hold, self._clock, scope)
            try:
                return await self._manager.__aexit__(kind, error, trace)
            finally:
                watch.timer.cancel()
        # Only a clean-up that was cancelled gets here: the scope has swallowed its own cancellation.
        name = hold.calls.name
        what = f"clean-up under lock {name!r} was cancelled when the server let the lock expire: what it did is unknown"
        logger.error(what, extra={"lock_name": name})
        if error is None:
            reason = hold.reason or LossReason.EXPIRED
            raise LockLost(name, what, reason)
        if not isinstance(error, asyncio.CancelledError):
            note(error, what)
        return None


class _Expiry:
    """Cancels a scope when the server may have let the lock expire, however often it was renewed meanwhile."""

    def __init__(self, hold: Hold, clock: Clock, scope: anyio.CancelScope) -> None:
        self._hold = hold
        self._clock = clock
        self._scope = scope
        self.timer: Timer = clock.call_at(hold.expiry, self._check)

    def _check(self) -> None:
        if self._clock.now() < self._hold.expiry:
            self.timer = self._clock.call_at(self._hold.expiry, self._check)
        else:
            cancel_scope(self._scope, "aiolock: the lock has expired on the server")
