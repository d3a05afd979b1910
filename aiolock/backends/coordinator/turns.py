"""What is done in a queue waits for what was asked for before it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


class Turns:
    """One turn at a time in each queue, in the order in which they were asked for."""

    def __init__(self) -> None:
        self._last: dict[str, asyncio.Future[None]] = {}

    def taken(self, path: str) -> bool:
        """Whether anybody has a turn there, or waits for one."""
        return path in self._last

    @asynccontextmanager
    async def of(self, path: str) -> AsyncIterator[None]:
        """Wait for a turn, and keep it."""
        before = self._last.get(path)
        mine = self._last[path] = asyncio.get_running_loop().create_future()
        try:
            if before is not None:
                await asyncio.wait((before,))
            yield
        finally:
            mine.set_result(None)
            if self._last.get(path) is mine:
                del self._last[path]
