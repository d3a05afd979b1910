"""Hears at once that a node no longer serves a slot: it was demoted, or the slot has moved."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from weakref import WeakSet

from ...errors import BackendError
from ...log import Log
from .node import Node

logger: Log = Log("aiolock.cluster")


class Watch:
    """A sharded subscription to one slot of each node in use; the server ends it when that slot has left the node.

    Without it, on Redis 6, a failover is noticed by the next request, or by the next look at the map: see `Topology`.

    Args:
        ended: told that a node has lost a slot.
    """

    def __init__(self, ended: Callable[[], None]) -> None:
        self._ended = ended
        self._watched: WeakSet[Node] = WeakSet()
        self._denied = False

    def begin(self, node: Node, channel: str) -> None:
        """Watch a node that `lacks` it.

        Args:
            node: the node.
            channel: one in a slot that it serves, for all that is known.
        """
        self._watched.add(node)
        told = node.backend.subscribe(channel, partial(self._heard, node), sharded=True)
        told.add_done_callback(partial(self._answered, node))

    def lacks(self, node: Node) -> bool:
        """Whether it could be watched, and is not."""
        return node.used and node not in self._watched and not self._denied

    def _heard(self, node: Node, payload: str | BackendError | None) -> None:
        if isinstance(payload, BackendError):
            self._watched.discard(node)
            self._ended()

    def _answered(self, node: Node, told: asyncio.Future[None]) -> None:
        error = None if told.cancelled() else told.exception()
        if isinstance(error, BackendError):
            self._watched.discard(node)
            if not error.transient and "MOVED" not in str(error):
                self._denied = True
                logger.info("a failover is noticed within a second, not at once: %s", error)
