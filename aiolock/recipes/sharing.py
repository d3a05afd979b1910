"""Calls of one process that share one call: one of them leads, and the others get what becomes of it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from math import inf
from typing import Any
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
    until = None if timeout is None else lock.clock.now() + timeout
    calls = _running.setdefault(runtime, {})
    while (running := calls.get(name)) is not None:
        joining, shared = running
        looks = joining.looks
        ended = await _end_of(shared, lock, until)
        if ended is not None and joining.seen_at > looks:  # otherwise that one may have ended before this one began
            return ended()
    joining, shared = calls[name] = Joining(runtime, name), asyncio.get_running_loop().create_future()
    try:
        return await _lead(lock, until, run, joining, shared)
    except Unavailable as error:
        if not shared.done():
            joining.seen_at = inf
            shared.set_result(partial(_again, None, error))
        raise
    finally:
        del calls[name]
        if not shared.done():
            shared.set_result(None)  # it was not run, or not to its end: the others start again


async def _lead(
    lock: Lock,
    until: float | None,
    run: Callable[[Lease, Tell], Awaitable[Any]],
    joining: Joining,
    shared: asyncio.Future[Ended | None],
) -> Any:
    while True:
        lease = await take(lock, "skip", DEFAULT)
        if lease is not None:
            break
        ended = await joining.follow(until)
        if ended is not None:
            shared.set_result(ended)
            return ended()
    fence, joining.seen_at = lease.fence, inf

    def tell(result: Any, error: BaseException | None) -> None:
        joining.tell(fence, result, error)
        shared.set_result(partial(_again, result, error))

    return await run(lease, tell)


def _again(result: Any, error: BaseException | None) -> Any:
    if error is not None:
        raise error
    return result


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
