"""Cancels a block's task when its lock is lost, and ends that, in whatever order and task blocks are left."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Iterator
from contextlib import contextmanager
from inspect import signature

import anyio

from ...log import Log
from ..holding.hold import Hold

logger: Log = Log("aiolock.guard")

_TELLS_WHY = "reason" in signature(anyio.CancelScope.cancel).parameters  # from anyio 4.11


class Edge:
    """Cancels a task once, as `asyncio.timeout` does; for a block that is held over a `yield`.

    The code that runs between the generator's steps is not in the block. A scope would cancel its clean-up, and could
    be left in another task or out of order.

    Args:
        task: the one that entered the block.
    """

    __slots__ = ("_before", "_called", "_task")

    def __init__(self, task: asyncio.Task[object]) -> None:
        self._task = task
        self._before = task.cancelling()
        self._called = False

    def cancel(self, reason: str) -> None:
        if not self._called:
            self._called = True
            self._task.cancel(reason)

    def leave(self, error: BaseException | None) -> bool:
        """The block ends, perhaps by `error`, in any task; return True if that is our cancellation, and no other's."""
        called, self._called = self._called, False
        return called and self._task.uncancel() <= self._before and type(error) is asyncio.CancelledError

    async def drain(self) -> None:
        """Take back a cancellation that was not delivered before the block ended; called in the task."""
        try:
            await asyncio.sleep(0)
        except asyncio.CancelledError:
            if self._task.cancelling() > self._before:
                raise


Scope = anyio.CancelScope | Edge

spare: list[anyio.CancelScope] = []
"""One at most, of no task and no loop yet: the next block that begins need not create its own."""

_left: dict[asyncio.Task[object], list[tuple[anyio.CancelScope, Hold]]] = {}
"""Scopes of blocks that were left while one inside them was open: they end with that one, or with their task."""


def cancel_scope(scope: Scope, reason: str) -> None:
    """Cancel what `scope` guards; the cancellation says `reason` if that is possible."""
    if isinstance(scope, Edge) or _TELLS_WHY:
        scope.cancel(reason)
    else:
        scope.cancel()


def in_cancelled_scope() -> bool:
    """Whether the running task's next await is cancelled, by our scope or a user's."""
    return anyio.current_effective_deadline() == -math.inf


def leave_scope(
    scope: Scope,
    hold: Hold,
    host: asyncio.Task[object],
    current: asyncio.Task[object] | None,
    error: BaseException | None,
) -> Hold | None:
    """End the scope that `host` opened, in the task `current`; and those that were left before, if they can end now.

    Returns:
        Whose loss has caused `error`: `hold`, or another whose scope ends only now; None if it was no loss.
    """
    if host.done():
        return None  # nothing is left to cancel
    if isinstance(scope, Edge):
        return hold if scope.leave(error) else None
    this, cause = (scope, hold), None
    left, before = [this, *_left.get(host, ())], 0
    while len(left) != before:  # none can end before those that were opened in it
        before = len(left)
        for one in left[:]:
            try:
                if current is host:
                    kind = None if error is None else type(error)
                    cause = one[1] if one[0].__exit__(kind, error, None) else cause
                else:
                    with _standing_in(host, current):
                        one[0].__exit__(None, None, None)
                left.remove(one)
            except RuntimeError:
                continue
    if this in left:
        logger.warning(
            "lock %r was left while a block or cancel scope inside its own was open: leave the inner one first",
            hold.calls.name,
            extra={"lock_name": hold.calls.name},
        )
    if left:
        if host not in _left:
            host.add_done_callback(_forget)
        _left[host] = left
    elif _left.pop(host, None):
        host.remove_done_callback(_forget)
    return cause


def _forget(host: asyncio.Task[object]) -> None:
    del _left[host]


@contextmanager
def _standing_in(host: asyncio.Task[object], current: asyncio.Task[object] | None) -> Iterator[None]:
    """Make anyio believe that `host` runs: a scope can be left only in its own task.

    Source: https://docs.python.org/3/library/asyncio-extending.html.
    """
    loop = host.get_loop()
    if current is not None:
        asyncio.tasks._leave_task(loop, current)
    asyncio.tasks._enter_task(loop, host)
    try:
        yield
    finally:
        asyncio.tasks._leave_task(loop, host)
        if current is not None:
            asyncio.tasks._enter_task(loop, current)
