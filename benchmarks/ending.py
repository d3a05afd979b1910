"""Ends tasks that may not listen."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from typing import Any

ATTEMPTS = 40
PAUSE = 0.25


async def end(tasks: Collection[asyncio.Future[Any]]) -> None:
    """Cancel until the tasks have ended: some clients swallow a cancellation that arrives as a write completes."""
    left = set(tasks)
    for _ in range(ATTEMPTS):
        for task in left:
            task.cancel()
        if not left:
            return
        _, left = await asyncio.wait(left, timeout=PAUSE)
    if left:
        raise TimeoutError(f"{len(left)} tasks did not end in {ATTEMPTS} cancellations")
