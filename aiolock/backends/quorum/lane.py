"""A node as a lane of the turnstile: ordinary locks, on the connection that the quorum has to it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Protocol

from ...clock import Clock
from ...errors import AiolockError, BackendError
from ...log import Log
from ...scripts.base import Call
from ..base import Abilities, Backend, Wake
from ..turnstile import Pass
from .node import Node

logger: Log = Log("aiolock.quorum")

LOOK = 0.1
"""Seconds between two looks at whether the node still answers."""


class Locks(Protocol):
    """What is needed of the manager of a lane."""

    def lock(self, name: str) -> Any:
        """Return a lock."""

    async def open(self) -> Any:
        """Open it."""

    async def close(self) -> None:
        """Close it."""


class Borrowed(Backend):
    """The backend of a node, which the quorum opens and closes.

    Args:
        node: whose.
    """

    def __init__(self, node: Node) -> None:
        self._node = node
        self.clock: Clock = node.backend.clock
        self.db: int = node.backend.db
        self.abilities: Abilities = node.backend.abilities

    @property
    def unreachable(self) -> AiolockError | None:
        return self._node.unreachable

    async def open(
        self, *, timeout: float, reconnected: Callable[[], None], needed: Callable[[], bool] | None = None
    ) -> None:
        """See `Backend.open`: it is open."""

    def post(self, call: Call[Any]) -> None:
        self._node.post(call)

    def subscribe(self, channel: str, wake: Wake) -> asyncio.Future[None]:
        return self._node.backend.subscribe(channel, wake)

    def unsubscribe(self, channel: str) -> None:
        if self._node.ready:
            self._node.backend.unsubscribe(channel)

    async def aclose(self) -> None:
        """See `Backend.aclose`: the quorum closes it."""


class NodeLane:
    """A node as a lane.

    Args:
        node: the server.
        locks: makes a manager of locks there.
    """

    def __init__(self, node: Node, locks: Callable[[Backend], Locks]) -> None:
        self._node = node
        self._make = locks
        self._opening: asyncio.Future[Locks] | None = None
        self._refused = False  # permanently, and that was logged

    @property
    def open(self) -> bool:
        """Whether the node answers, for all that is known."""
        return self._node.ready and not self._node.suspect and self._node.unreachable is None

    async def take(self, name: str) -> Pass | None:
        """Wait for the turn; None if the node does not answer any more.

        Raises:
            AiolockError: it refuses, or has not answered.
        """
        try:
            return await self._wait(name)
        except BackendError as error:
            if not (error.transient or self._refused):
                self._refused = True
                logger.warning("%s of the quorum keeps no turns, so processes may race: %s", self._node.label, error)
            raise

    async def _wait(self, name: str) -> Pass | None:
        locks = await self._opened()
        waiting: asyncio.Future[Pass] = asyncio.ensure_future(locks.lock(name).acquire())
        try:
            while not waiting.done() and self.open:
                await asyncio.wait((waiting,), timeout=LOOK)
        except asyncio.CancelledError:
            await _give_back(waiting)
            raise
        if not waiting.done():
            await _give_back(waiting)
            return None
        return waiting.result()

    def forget(self) -> None:
        """See `Lane`."""
        self._opening, self._refused = None, False

    async def aclose(self) -> None:
        """Close the manager."""
        opening, self._opening = self._opening, None
        if opening is not None:
            opening.cancel()
            await asyncio.wait((opening,))
            if not opening.cancelled() and opening.exception() is None:
                await opening.result().close()

    async def _opened(self) -> Locks:
        opening = self._opening
        if opening is None or (opening.done() and (opening.cancelled() or opening.exception() is not None)):
            opening = self._opening = asyncio.ensure_future(self._open())
        return await asyncio.shield(opening)  # all that come meanwhile wait for it, and for no longer

    async def _open(self) -> Locks:
        locks = self._make(Borrowed(self._node))
        await locks.open()
        return locks


async def _give_back(waiting: asyncio.Future[Pass]) -> None:
    """End an acquire, whatever it has got."""
    waiting.cancel()
    await asyncio.wait((waiting,))
    if not waiting.cancelled() and waiting.exception() is None:
        waiting.result().release()
