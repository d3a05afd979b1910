"""Where a manager hears its messages by sharded pub/sub, which costs the other nodes nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial

from ...errors import BackendError
from ...log import Log
from .node import Node
from .slots import tag_of

logger: Log = Log("aiolock.cluster")

KEEP = 60.0
"""Seconds for which it listens after the last answer by which it waits."""

Heard = Callable[[str], None]


class _Place:
    """A sharded channel.

    Attributes:
        node: on which it is.
        used_at: loop time of the last answer by which the manager waits there.
    """

    __slots__ = ("node", "used_at")

    def __init__(self, node: Node, used_at: float) -> None:
        self.node: Node = node
        self.used_at: float = used_at


class ShardedChannels:
    """A manager's channel once more for each hash tag with which it waits: on the node that has the slot.

    Scripts use one of these if it is heard on their node (sharded.lua), and otherwise the channel itself, which is
    heard on all nodes: so it does no harm if one is missing, refused, or on the wrong node.

    Args:
        channel: the manager's.
        heard: gets the messages.
        ended: told that a node has ended a subscription: its slot has moved, and may have been released since.
    """

    def __init__(self, channel: str, heard: Heard, ended: Callable[[], None]) -> None:
        self._channel = channel
        self._heard = heard
        self._ended = ended
        self._places: dict[str, _Place] = {}
        self._sweep: asyncio.TimerHandle | None = None

    def attend(self, key: str, node: Node) -> None:
        """The manager waits for what happens to `key`, which is on `node`: listen there for a while."""
        tag, loop = tag_of(key), asyncio.get_running_loop()
        channel = f"{self._channel}:{{{tag}}}"
        place = self._places.get(channel)
        if place is not None and place.node is node:
            place.used_at = loop.time()
            return
        if tag is None or not node.used or not node.shards:
            return
        if place is not None and place.node.used:
            place.node.backend.unsubscribe(channel)
        self._places[channel] = place = _Place(node, loop.time())
        told = node.backend.subscribe(channel, partial(self._on_message, channel, place), sharded=True)
        told.add_done_callback(partial(self._on_answer, channel, place))
        if self._sweep is None:
            self._sweep = loop.call_later(KEEP, self._leave_idle)

    def end(self) -> None:
        """Listen no more."""
        if self._sweep is not None:
            self._sweep.cancel()
            self._sweep = None
        self._leave(list(self._places))

    def _leave(self, channels: list[str]) -> None:
        for channel in channels:
            place = self._places.pop(channel)
            if place.node.used:
                place.node.backend.unsubscribe(channel)

    def _leave_idle(self) -> None:
        loop, self._sweep = asyncio.get_running_loop(), None
        idle = [channel for channel, place in self._places.items() if place.used_at <= loop.time() - KEEP]
        self._leave(idle)
        if self._places:
            self._sweep = loop.call_later(KEEP, self._leave_idle)

    def _on_message(self, channel: str, place: _Place, payload: str | BackendError | None) -> None:
        if isinstance(payload, str):
            self._heard(payload)
        elif payload is not None and self._forget(channel, place):
            self._ended()

    def _on_answer(self, channel: str, place: _Place, told: asyncio.Future[None]) -> None:
        error = None if told.cancelled() else told.exception()
        if not isinstance(error, BackendError) or not self._forget(channel, place):
            return
        if not error.transient and "MOVED" not in str(error):
            place.node.shards = False
            logger.info("messages between processes go to all nodes of the cluster: %s", error)

    def _forget(self, channel: str, place: _Place) -> bool:
        if self._places.get(channel) is not place:
            return False
        del self._places[channel]
        return True
