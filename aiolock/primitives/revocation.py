"""Asking holders to finish, waiting for that, and ending those that do not."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Iterator, Sequence
from typing import TypeVar

from ..clock import Clock, pause
from ..core.runtime import Runtime
from ..scripts.lock import LockCalls
from ..scripts.outcomes import Asked

T = TypeVar("T")

FIRST, LONGEST = 0.01, 1.0
"""Seconds until it asks for the second time, and at most between two requests."""
AT_ONCE = 250
"""Names, or holders of one name, that are asked at once: see request_release.lua."""


async def request_release(runtime: Runtime, names: Sequence[LockCalls], grace: float, force: bool) -> bool:
    """Ask whoever holds the names now; return True if those holds have ended when this returns.

    Args:
        runtime: the manager's.
        names: requests about each.
        grace: seconds to wait for their end.
        force: end those that are left after it.
    """
    until = runtime.clock.now() + grace

    async def still(part: Sequence[tuple[LockCalls, Asked]]) -> list[tuple[LockCalls, Asked]]:
        # The message may have been lost: so it is sent again.
        again = await _together(_ask(runtime, calls, asked.owner) for calls, asked in part)
        return [hold for hold, asked in zip(part, again, strict=True) if asked.owner == hold[1].owner]

    holds: list[tuple[LockCalls, Asked]] = []
    for part in parts(names):
        asked = await _together(_ask_holder(runtime, calls) for calls in part)
        holds += [hold for hold in zip(part, asked, strict=True) if hold[1].owner]
    holds = await outlasting(runtime.clock, until, holds, still)
    for rest in parts(holds if force else ()):
        await _together(runtime.ask(calls.force_release(asked.fence), "force-releasing") for calls, asked in rest)
    return force or not holds


async def outlasting(
    clock: Clock, until: float, holds: list[T], still: Callable[[Sequence[T]], Awaitable[list[T]]]
) -> list[T]:
    """Wait until the holds have ended; return those that have not.

    Args:
        clock: the manager's.
        until: when it gives up.
        holds: those that were asked to end.
        still: asks some again, and returns those that hold still.
    """
    interval = FIRST
    while holds and (left := until - clock.now()) > 0:
        await pause(clock, min(interval, left))
        interval = min(2 * interval, LONGEST)
        holds = [hold for part in parts(holds) for hold in await still(part)]
    return holds


def parts(whole: Sequence[T]) -> Iterator[Sequence[T]]:
    """Cut it into those that are asked at once."""
    return (whole[at : at + AT_ONCE] for at in range(0, len(whole), AT_ONCE))


async def _together(requests: Iterable[Coroutine[object, object, T]]) -> list[T]:
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(request) for request in requests]
    except BaseExceptionGroup as failed:
        raise failed.exceptions[0] from None
    return [task.result() for task in tasks]


async def _ask_holder(runtime: Runtime, calls: LockCalls) -> Asked:
    if runtime.backend.abilities.queues:
        return await _ask(runtime, calls, owner="")
    # A slow server of several may be asked after the lock has passed on: so the request says whom it means.
    held = (await runtime.ask(calls.info(), "looking at")).held
    return Asked("", 0) if held is None else await _ask(runtime, calls, held.owner)


def _ask(runtime: Runtime, calls: LockCalls, owner: str) -> Coroutine[object, object, Asked]:
    return runtime.ask(calls.request_release(owner), "asking for the release of")
