"""What a library does when you cancel it, and when its lease is taken away."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from typing import Any

from redis.asyncio import Redis

from .ending import end
from .orphan import orphan
from .peers.adapter import Adapter, opened

SWEEP = 0.012
"""Seconds over which the cancellations are spread: a few round trips of the slow link."""
PATIENCE = 2.0
"""Seconds in which anyone can acquire a free lock, however rarely the library polls."""
TTL = 30.0
SHORT = 1.0


async def cancelled(url: str, slow_url: str, adapter: str, rounds: int) -> dict[str, int]:
    """Cancel this many acquires and releases half-way, and count the names that stay locked.

    Each has its own name, on a slow link. Afterwards another client tries to acquire the name.
    """
    async with opened(adapter, slow_url) as library:
        acquires = [_cut_acquire(library, f"cut:a{number}", SWEEP * number / rounds) for number in range(rounds)]
        releases = [_cut_release(library, f"cut:r{number}", SWEEP * number / rounds) for number in range(rounds)]
        for cut in [*acquires, *releases]:
            await cut
        await asyncio.sleep(0.5)  # by now the library's undos and late releases have landed
        async with opened(adapter, url) as other:
            locked = await asyncio.gather(
                *(_locked(other, [f"cut:{kind}{number}" for number in range(rounds)]) for kind in "ar")
            )
            return {"acquires": locked[0], "releases": locked[1], "rounds": rounds}


async def _cut_acquire(library: Adapter, name: str, after: float) -> None:
    async def inside() -> None:
        async with library.lock(name, TTL):
            await asyncio.sleep(60)

    await _cut(inside, asyncio.sleep, after)


async def _cut_release(library: Adapter, name: str, after: float) -> None:
    entered, leave = asyncio.Event(), asyncio.Event()

    async def inside() -> None:
        async with library.lock(name, TTL):
            entered.set()
            await leave.wait()

    async def then(after: float) -> None:
        await asyncio.wait_for(entered.wait(), PATIENCE)
        leave.set()
        await asyncio.sleep(after)

    await _cut(inside, then, after)


async def _cut(inside: Callable[[], Awaitable[None]], then: Callable[[float], Awaitable[None]], after: float) -> None:
    task = asyncio.ensure_future(inside())
    try:
        await then(after)
    finally:
        task.cancel()
        await asyncio.wait({task}, timeout=PATIENCE)
        if task.done() and not task.cancelled():
            task.exception()  # retrieve the error: what a cancelled release raises is not counted


async def _locked(library: Adapter, names: list[str]) -> int:
    free = await asyncio.gather(*(_acquirable(library.lock(name, TTL)) for name in names))
    return len(names) - sum(free)


async def _acquirable(lock: AbstractAsyncContextManager[object], patience: float = PATIENCE) -> bool:
    async def enter() -> None:
        async with lock:
            pass

    task = asyncio.ensure_future(enter())
    done, _ = await asyncio.wait({task}, timeout=patience)
    if not done:
        await end({task})
        return False
    return task.exception() is None


async def orphaned(url: str, adapter: str) -> float | None:
    """Return the seconds until another client gets in after the holder of a 1 s lock was killed; None if it takes 8
    s.
    """
    await orphan(url, adapter, "kept", SHORT)
    killed = time.monotonic()
    async with opened(adapter, url) as library:
        free = await _acquirable(library.lock("kept", SHORT), 8 * SHORT)
    return time.monotonic() - killed if free else None


async def lost(url: str, adapter: str) -> dict[str, Any]:
    """Take the lease away while its body runs: delete every key, let another holder in, and watch the body.

    Returns:
        `ran_on`: it was not cancelled within three ttls; `after`: seconds until it was; `error`: what the block raised
            at its end, or ""; `beside`: seconds for which both bodies ran.
    """
    entered = asyncio.Event()
    ended = 0.0

    async with opened(adapter, url) as library, opened(adapter, url) as other, Redis.from_url(url) as raw:

        async def body() -> None:
            nonlocal ended
            async with library.lock("taken", SHORT):
                entered.set()
                try:
                    until = time.monotonic() + 3 * SHORT
                    while time.monotonic() < until:  # noqa: ASYNC110 - work that goes on
                        await asyncio.sleep(0.005)
                finally:
                    ended = time.monotonic()

        holder = asyncio.ensure_future(body())
        await asyncio.wait_for(entered.wait(), PATIENCE)
        await raw.flushall()
        taken = time.monotonic()
        seen = asyncio.ensure_future(_intrude(other, holder))
        await asyncio.wait({holder}, timeout=5 * SHORT)
        inside = await seen
        error = "" if holder.cancelled() or not holder.done() else type(holder.exception()).__name__
        ran_on = ended - taken > 2.5 * SHORT
        return {
            "ran_on": ran_on,
            "after": ended - taken,
            "error": "" if error == "NoneType" else error,
            "beside": max(0.0, ended - inside) if inside else None,
        }


async def _intrude(other: Adapter, holder: asyncio.Future[None]) -> float:
    inside = 0.0

    async def enter() -> None:
        nonlocal inside
        async with other.lock("taken", 5 * SHORT):
            inside = time.monotonic()
            await asyncio.wait({holder})

    with contextlib.suppress(Exception):
        await asyncio.wait_for(enter(), 5 * SHORT)
    return inside
