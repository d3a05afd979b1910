"""Sleeping by the clock of a lock, so that a test can advance it."""

from __future__ import annotations

import asyncio

from ..clock import Clock


async def pause(clock: Clock, seconds: float) -> None:
    """Sleep. Cancellation: nothing is left."""
    over: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    timer = clock.call_at(clock.now() + seconds, lambda: None if over.done() else over.set_result(None))
    try:
        await over
    finally:
        timer.cancel()
