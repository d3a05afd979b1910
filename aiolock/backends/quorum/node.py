"""One server of a quorum: reached through a backend of its own, which may not be open yet."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from ...errors import AiolockError, BackendError
from ...log import Log
from ...scripts.base import Call
from ..base import Backend
from ..redis.backoff import Backoff

logger = Log("aiolock.quorum")


class Node:
    """One of the servers.

    Args:
        number: its place in the list that the user gave, from 1.
        backend: what reaches it.

    Attributes:
        backend: as given.
        label: what errors and logs call it.
        ready: the backend was opened: from then on it sees to its connection itself.
        failure: why it is not ready.
        suspect: it failed, or did not answer in time, when last asked: nobody waits for it if a majority has answered.
    """

    __slots__ = ("backend", "failure", "label", "ready", "suspect")

    def __init__(self, number: int, backend: Backend) -> None:
        address = getattr(backend, "address", "")
        self.backend: Backend = backend
        self.label: str = f"node {number} ({address})" if address else f"node {number}"
        self.ready: bool = False
        self.suspect: bool = False
        self.failure: AiolockError | None = None

    async def open(self, timeout: float, reconnected: Callable[[], None], news: Callable[[Node], None]) -> None:
        """Connect, however long it takes; `news` is told of each failure and of the success."""
        backoff = Backoff()
        backoff.next()  # the attempt below is the first one
        while not self.ready:
            try:
                await self.backend.open(timeout=timeout, reconnected=reconnected)
                self.ready = True
                self.failure = None
            except AiolockError as error:
                if self.failure is None:
                    logger.warning("%s of the quorum is not connected: %s", self.label, error)
                self.failure = error
            news(self)
            if not self.ready:
                await asyncio.sleep(backoff.next())

    def run(self, call: Call[Any]) -> None:
        """Write `call` there; it fails at once while the node was never connected."""
        if self.ready:
            self.backend.run(call)
            return
        assert call.settle is not None
        failure = BackendError(call.name, str(self.failure or "it is not connected yet"), transient=True)
        asyncio.get_running_loop().call_soon(call.settle, failure)

    async def aclose(self) -> None:
        """Close, if it is open."""
        if self.ready:
            self.ready = False
            await self.backend.aclose()
