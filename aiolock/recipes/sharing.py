"""Calls of one process that share one call: one of them leads, and the others get what becomes of it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from copy import copy
from functools import partial
from math import inf
from types import TracebackType
from typing import Any, NoReturn
from weakref import WeakKeyDictionary

from ..core.lease import Lease
from ..core.runtime import Runtime
from ..primitives.lock import Lock
from ..primitives.options import DEFAULT
from .joining import Joining
from .not_run import Busy, Unavailable
from .taking import take

Ended = Callable[[], Any]
"""Returns the result of a call, or raises its error."""
Tell = Callable[[Any, BaseException | None], None]
"""Gets the result of a call, or its error, while its lease is held."""
Running = tuple[Joining, "asyncio.Future[Ended | None]"]
"""How one call of this process joins another, or runs; and what the others get."""
_running: WeakKeyDictionary[Runtime, dict[str, Running]] = WeakKeyDictionary()


async def share(lock: Lock, timeout: float | None, run: Callable[[Lease, Tell], Awaitable[Any]]) -> Any:
    """Join the call that runs under the lock, in this process or another; if none does, run one for all that come.

    Args:
        lock: the key's.
        timeout: seconds to wait for a call of others; None for no limit.
        run: runs the function under a lease, and tells how that ended.

    Raises:
        Busy: the time is over.
        Unavailable: Redis is unreachable or refuses.
        JoinFailed: the call of another process failed.
    """
    runtime, name = lock._runtime, lock.name
    if lock.owned():  # a function that calls itself would wait for itself
        return await run(await take(lock, "raise", DEFAULT), _nobody)
    began = lock.clock.now()
    until = None if timeout is None else began + timeout
    calls, over = _running.setdefault(runtime, {}), 0
    while (running := calls.get(name)) is not None:
        joining, shared = running
        if shared.done():  # it has ended, and its release is on its way
            over = joining.fence
            break
        looks = joining.looks
        ended = await _end_of(shared, lock, until)
        # Otherwise that one may have ended before this one began.
        if ended is not None and joining.seen_at > looks and began <= joining.ended_at:
            return ended()
    own = joining, shared = calls[name] = Joining(runtime, name), asyncio.get_running_loop().create_future()
    try:
        return await _lead(lock, began, until, over, run, joining, shared)
    except Unavailable as error:
        if not shared.done():
            joining.seen_at = inf
            shared.set_result(partial(_fail, error, error.__traceback__))
        raise
    finally:
        if calls.get(name) is own:
            del calls[name]
        if not shared.done():
            shared.set_result(None)  # it was not run, or not to its end: the others start again


async def _lead(
    lock: Lock,
    began: float,
    until: float | None,
    over: int,
    run: Callable[[Lease, Tell], Awaitable[Any]],
    joining: Joining,
    shared: asyncio.Future[Ended | None],
) -> Any:
    while True:
        joining.asked_at = lock.clock.now()
        lease = await take(lock, "skip", DEFAULT)
        if lease is not None:
            break
        ended = await joining.follow(began, until, over)
        if ended is not None:
            shared.set_result(ended)
            return ended()
    fence = joining.fence = lease.fence
    joining.seen_at, joining.ended_at = inf, inf

    def tell(result: Any, error: BaseException | None) -> None:
        joining.tell(fence, lock.clock.now(), result, error)
        shared.set_result((lambda: result) if error is None else partial(_fail, error, error.__traceback__))

    return await run(lease, tell)


def _fail(error: BaseException, traceback: TracebackType | None) -> NoReturn:
    """Raise the error in one more task: a copy if there can be one, as each adds its own frames to what it raises."""
    copied = error
    with suppress(Exception):
        made = copy(error)
        if (type(made), str(made), vars(made)) == (type(error), str(error), vars(error)):
            made.__cause__, made.__context__ = error.__cause__, error.__context__
            made.__suppress_context__ = error.__suppress_context__
            copied = made
    raise copied.with_traceback(traceback)


def _nobody(result: Any, error: BaseException | None) -> None:
    """A call within another one is not joined."""


async def _end_of(running: asyncio.Future[Ended | None], lock: Lock, until: float | None) -> Ended | None:
    """Wait for a call of this process; None if there is no end to share."""
    own: asyncio.Future[Ended | None] = asyncio.get_running_loop().create_future()

    def tell(ended: asyncio.Future[Ended | None]) -> None:
        if not own.done():
            own.set_result(ended.result())

    running.add_done_callback(tell)
    try:
        if until is None:
            return await own
        text = f"another call under lock {lock.name!r} still runs: call it again later"
        return await lock._runtime.within(own, until, lambda: Busy(lock.name, text))
    finally:
        running.remove_done_callback(tell)
