"""The client of a request: a function that runs for nobody is not run, and a shutdown is reported as one."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextvars import ContextVar
from types import FunctionType, TracebackType
from typing import Any, Protocol

from ..errors import LockLost, LossReason, NotAcquired
from ..primitives.lock import Lock
from .not_run import Gone

NOTICED = 0.1
"""Seconds of waiting, from which on it is worthwhile to check whether the client still waits, too."""
TURNS = 10
"""Turns of the loop in which a server that cancels its requests has told the lifespan to end."""


class Client(Protocol):
    """Who waits for the response."""

    async def gone(self) -> bool:
        """Whether the connection is closed, as far as the server knows."""


FINDERS: dict[object, Callable[[Any], Client | None]] = {}
"""What finds the client of a request, by the function that finds its manager."""
current_client: ContextVar[Client | None] = ContextVar("aiolock.client", default=None)
"""That of the running task, where a function does not get the request."""


def client_of(locks: object, *request: object) -> Client | None:
    """The client of a call that has its manager from `locks`; None if it serves none."""
    find = FINDERS.get(locks) if isinstance(locks, FunctionType) else None
    return current_client.get() if find is None else find(*request)


class Service:
    """What a request does with a lock, from the wait for it to its end; outside of a request it changes nothing.

    Args:
        lock: what it takes.
        client: who waits for it; None outside of a request.

    Raises:
        NotAcquired, LockLost: the server has cancelled the request because it stops: it closes the manager next, which
            would have raised the same, had it come first. (A cancellation alone would become a 500.)
    """

    __slots__ = ("_began", "_client", "_lock", "_runs")

    def __init__(self, lock: Lock, client: Client | None) -> None:
        self._lock = lock
        self._client = client
        self._began = lock.clock.now()
        self._runs = False

    async def begin(self) -> None:
        """Call it under the lock, before anything is done.

        Raises:
            Gone: the client went while this request waited.

        Cancellation: as anywhere in the block.
        """
        self._runs = True
        if self._client is None or self._lock.clock.now() - self._began < NOTICED:
            return
        if await self._client.gone():
            name = self._lock.name
            raise Gone(name, f"lock {name!r} was released at once: the client of this request has left")

    async def __aenter__(self) -> Service:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._client is None or not isinstance(error, asyncio.CancelledError):
            return
        for _ in range(TURNS):
            if self._lock._runtime.binding.closing:
                task = asyncio.current_task()
                if task is not None:
                    task.uncancel()
                raise self._closed() from error
            await asyncio.sleep(0)

    def _closed(self) -> NotAcquired | LockLost:
        name, closed = self._lock.name, "its manager was closed, as the server stops"
        if self._runs:
            return LockLost(name, f"lock {name!r} was lost: {closed}", LossReason.CLOSED)
        return NotAcquired(name, f"lock {name!r} was not acquired: {closed}")
