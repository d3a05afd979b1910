"""A web application that creates its manager at import: under `gunicorn --preload` that is before the fork."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable
from typing import Any

from aiolock import LockManager
from tests.histories.journal import Journal

locks = LockManager(os.environ["AIOLOCK_URL"], ttl=5.0)
lock = locks.lock("order:42")
journal = Journal(os.environ["AIOLOCK_FOLDER"] + "/journal")
journal.note("imported")


async def app(
    scope: dict[str, Any], receive: Callable[[], Awaitable[Any]], send: Callable[[Any], Awaitable[None]]
) -> None:
    if scope["type"] == "lifespan":
        await receive()
        async with locks:
            journal.note("started", manager=hash(locks._runtime.binding.id))
            await send({"type": "lifespan.startup.complete"})
            await receive()
        await send({"type": "lifespan.shutdown.complete"})
        return
    async with lock as lease:
        journal.note("enter", fence=lease.fence)
        await asyncio.sleep(0.005)
        journal.note("leave", fence=lease.fence)
    await send({"type": "http.response.start", "status": 200, "headers": [(b"connection", b"close")]})
    await send({"type": "http.response.body", "body": b"%d" % os.getpid()})
