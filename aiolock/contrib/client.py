"""The client of a request that an ASGI server passes on."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any

TURNS = 10
"""Turns of the loop in which a message that the server has gets through the middlewares in between."""


class AsgiClient:
    """Looks at the messages of a client, and keeps them for the handler: it is the request's `receive` from then on.

    No message is asked for without need: what is cancelled on its way through a middleware may be lost.

    Args:
        receive: the server's.

    Attributes:
        answered: the answer has begun: whether the client waits no longer matters.
    """

    def __init__(self, receive: Callable[[], Awaitable[Any]]) -> None:
        self.answered: bool = False
        self._receive = receive
        self._seen: deque[Any] = deque()
        self._coming: asyncio.Future[Any] | None = None

    async def __call__(self) -> Any:
        """Return the next message."""
        while not self._seen:
            if self._coming is None:
                return await self._receive()
            await asyncio.wait((self._coming,))
            self._note()
        return self._seen.popleft()

    async def gone(self) -> bool:
        """See `Client`."""
        for _ in range(0 if self.answered else TURNS):
            if self._seen and self._seen[-1]["type"] == "http.disconnect":
                return True
            if self._coming is None:
                self._coming = asyncio.ensure_future(self._receive())
                task = asyncio.current_task()
                assert task is not None
                task.add_done_callback(self._leave)
            await asyncio.sleep(0)
            if self._coming.done():
                self._note()
        return False

    def _note(self) -> None:
        coming, self._coming = self._coming, None
        assert coming is not None
        self._seen.append(coming.result())

    def _leave(self, _: object) -> None:
        """The request is over."""
        if self._coming is not None:
            self._coming.cancel()
