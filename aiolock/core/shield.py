"""A context manager inside a guarded block whose clean-up may outlast a loss, until the server's expiry."""

from __future__ import annotations

import asyncio
from contextlib import AbstractAsyncContextManager
from types import TracebackType
from typing import Generic, TypeVar

import anyio

from ..clock import Clock, Timer
from ..errors import LockLost, LossReason, note
from ..log import Log
from .hold import Hold
from .level import Level
from .scope import cancel_scope

logger: Log = Log("aiolock.lease")

T = TypeVar("T")


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
