"""The scope around a guarded block: cancelled when the lease is lost, and that cancellation turned into LockLost."""

from __future__ import annotations

import asyncio
import logging
from types import TracebackType

import anyio

from ..errors import LockLost
from .lease import Lease

logger: logging.Logger = logging.getLogger("aiolock.guard")

_kind: type[anyio.CancelScope] | None = None


class Guard:
    """One `async with`, from entry to exit.

    The outermost guard of a task for a hold has the cancel scope and raises `LockLost`; guards nested in it are
    cancelled with it and let the cancellation pass.

    Args:
        lease: what the block holds.
    """

    __slots__ = ("_outermost", "_scope", "lease", "task")

    def __init__(self, lease: Lease) -> None:
        self.lease: Lease = lease
        self.task: asyncio.Task[object] | None = lease.task
        hold = lease.hold
        self._outermost = len(hold.leases) == 1 or not any(
            other.guard for other in hold.listener.of_task(self.task) if other.hold is hold and other is not lease
        )
        self._scope: anyio.CancelScope | None = None
        lease.guard = self
        if self._outermost and hold.policy.cancel_on_loss:
            scope = self._scope = (_kind or _learn_kind())()
            scope.__enter__()
            hold.scopes += (self,)
            if hold.reason is not None:  # lost between the grant and this line
                self.cancel(f"aiolock: lost {lease.name!r}")

    def cancel(self, reason: str) -> None:
        if self._scope is not None:
            self._scope.cancel(reason)

    async def exit(
        self,
        task: asyncio.Task[object] | None,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Leave the block, in `task`: write the release first, then say how it went. No exception of the body is
        swallowed.

        Raises:
            LockLost: the lease was lost, and the body did not raise an error of its own; it takes the place of the
                cancellation that we caused.
            BackendError: the server refuses the release, and the body did not raise.
        """
        lease, hold = self.lease, self.lease.hold
        lost = hold.check() is not None
        settlement = lease.give_up("dirty" if lost else "clean")
        ours = False
        if task is self.task:
            scope = self._take_scope()
            ours = scope is not None and bool(scope.__exit__(kind, error, trace))
        else:  # an async generator closed elsewhere
            self.abandon()
        lease.guard = None  # a circle
        if lost:
            if self._outermost and (kind is None or ours):
                loss = hold.loss()
                raise loss from loss.__cause__
            if error is not None and not isinstance(error, asyncio.CancelledError | LockLost):
                error.add_note(f"aiolock: lock {lease.name!r} was lost meanwhile: {hold.explain()}")
            return
        await settlement.observed()
        if kind is None:
            settlement.raise_failure()

    def abandon(self) -> None:
        """The task ended without leaving the block: nothing of the scope must outlive it."""
        scope = self._take_scope()
        # anyio offers no way out of a scope but its own task, and would redeliver a pending cancel to it for ever.
        getattr(scope, "_tasks", set()).clear()

    def _take_scope(self) -> anyio.CancelScope | None:
        scope, self._scope = self._scope, None
        if scope is not None:
            scopes = self.lease.hold.scopes
            self.lease.hold.scopes = () if len(scopes) == 1 else tuple([other for other in scopes if other is not self])
        return scope


def _learn_kind() -> type[anyio.CancelScope]:
    # What anyio makes for asyncio: its front door looks for it, and initialises each one twice.
    global _kind
    _kind = type(anyio.CancelScope())
    return _kind
