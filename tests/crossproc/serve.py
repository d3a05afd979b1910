"""A web application that holds a lock while it runs."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable
from typing import Any

from aiolock import LockManager

locks = LockManager(os.environ["AIOLOCK_URL"], ttl=60.0)
lock = locks.lock(os.environ["AIOLOCK_NAME"])


async def hold() -> None:
    async with lock:
        print("held", flush=True)
        await asyncio.sleep(60)


async def app(
    scope: dict[str, Any], receive: Callable[[], Awaitable[Any]], send: Callable[[Any], Awaitable[None]]
) -> None:
    assert scope["type"] == "lifespan"
    await receive()
    async with locks:
        tasks = {asyncio.create_task(hold()) for _ in range(3)}  # the others wait for the first
        await send({"type": "lifespan.startup.complete"})
        await receive()
    await asyncio.wait(tasks)
    await send({"type": "lifespan.shutdown.complete"})
