"""One channel of the cluster: with a tag, on the owner of its slot, both ways; without, on every node in use."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial

from ...errors import BackendError
from ...log import Log
from ...scripts.base import resolve
from ..base import Wake
from .node import Node
from .sharded import ShardedChannels
from .slots import slot_of, tag_of

logger: Log = Log("aiolock.cluster")

RETRY = 1.0
REPEATED = 1.0
"""Seconds within which the same message by way of another node is a copy."""


class Subscription:
    """Confirmed as soon as one node has confirmed.

    A message is heard on all nodes, whichever node it is said on, but a script counts only those who listen on its own
    node. So a manager listens wherever its requests run. A copy of a message that came by way of another node first is
    dropped.

    What waits for a message also listens nearer by, where there are no copies: see `ShardedChannels`. A channel with a
    tag is heard by sharded pub/sub, too: clients that are not ours decide by which way they tell.

    Args:
        channel: its name.
        wake: gets payloads and confirmations.
        moved: told that the slot of a message may have moved.

    Attributes:
        channel: its name.
        slot: that of its tag; None without one.
        future: done with the first confirmation.
        sharded: the same for single slots.
    """

    def __init__(self, channel: str, wake: Wake, moved: Callable[[], None]) -> None:
        self.channel: str = channel
        self.slot: int | None = None if tag_of(channel) is None else slot_of(channel)
        self.future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.sharded: ShardedChannels = ShardedChannels(channel, self._heard_nearby, self._ended)
        self._moved = moved
        self._doubtful = False
        self._loop = asyncio.get_running_loop()
        self._wake = wake
        self._nodes: set[Node] = set()
        self._nearby: Node | None = None  # where a channel with a tag is heard by sharded pub/sub
        self._first: dict[str, Node] = {}
        self._before: dict[str, Node] = {}
        self._since = 0.0
        self._over = False

    def join(self, node: Node) -> None:
        """Listen on a node, if it is used."""
        if node.used and node not in self._nodes and not self._over:
            self._nodes = {other for other in self._nodes if other.used} | {node}
            if self.slot is not None:
                self._listen_nearby(node)  # first: once the other is confirmed, so is this one
            told = node.backend.subscribe(self.channel, partial(self._heard, node))
            told.add_done_callback(partial(self._answered, node))

    def move(self, node: Node) -> None:
        """Listen on this node alone."""
        for other in [other for other in self._nodes if other is not node]:
            self._nodes.discard(other)
            other.backend.unsubscribe(self.channel)
        self.join(node)

    def _listen_nearby(self, node: Node) -> None:
        if node.shards and node.used and node in self._nodes and self._nearby is not node and not self._over:
            self._nearby = node
            told = node.backend.subscribe(self.channel, partial(self._on_nearby, node), sharded=True)
            told.add_done_callback(partial(self._answered_nearby, node))

    def _on_nearby(self, node: Node, payload: str | BackendError | None) -> None:
        if self._over or self._nearby is not node:
            return
        if isinstance(payload, BackendError):
            self._lost_nearby(node)
        elif payload is not None or self.future.done():
            self._wake(payload)

    def _answered_nearby(self, node: Node, told: asyncio.Future[None]) -> None:
        error = None if told.cancelled() else told.exception()
        if not isinstance(error, BackendError) or self._over or self._nearby is not node:
            return
        if error.transient or "MOVED" in str(error):
            self._lost_nearby(node)
        else:
            node.shards, self._nearby = False, None
            logger.info("messages between processes go to all nodes of the cluster: %s", error)

    def _lost_nearby(self, node: Node) -> None:
        self._nearby = None
        self._loop.call_later(RETRY, self._listen_nearby, node)
        self._ended()

    def end(self) -> None:
        """Stop listening."""
        self._over = True
        self.sharded.end()
        nodes, self._nodes = self._nodes, set()
        for node in nodes:
            node.backend.unsubscribe(self.channel)
        self.fail(BackendError("", "the subscription was cancelled before it was confirmed", transient=True))

    def fail(self, error: BackendError) -> None:
        """End it: it will not be confirmed."""
        resolve(self.future, error)

    def _heard(self, node: Node, payload: str | BackendError | None) -> None:
        if self._over or node not in self._nodes:
            return
        if self.slot is None and isinstance(payload, str) and self._known(node, payload):
            return
        self._wake(payload)
        if payload is None and not self.future.done():
            self.future.set_result(None)

    def _heard_nearby(self, payload: str) -> None:
        if not self._over:
            self._wake(payload)

    def _ended(self) -> None:
        # Many end together when a master is replaced.
        if not self._doubtful and not self._over:
            self._doubtful = True
            self._moved()
            self._loop.call_soon(self._verify)

    def _verify(self) -> None:
        self._doubtful = False
        if not self._over:
            self._wake(None)

    def _known(self, node: Node, payload: str) -> bool:
        now = self._loop.time()
        if now - self._since > REPEATED:
            self._before, self._first = self._first if now - self._since < 2 * REPEATED else {}, {}
            self._since = now
        first = self._first.get(payload) or self._before.get(payload)
        self._first[payload] = first or node
        return first is not None and first is not node

    def _answered(self, node: Node, told: asyncio.Future[None]) -> None:
        error = None if told.cancelled() else told.exception()
        if not isinstance(error, BackendError) or self._over or node not in self._nodes:
            return
        self._nodes.discard(node)
        if not self.future.done():
            self.fail(error)
        elif error.transient:
            self._loop.call_later(RETRY, self.join, node)
        else:
            self._wake(error)
