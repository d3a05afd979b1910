"""One channel, with a listener on every node."""

from __future__ import annotations

import asyncio
from functools import partial

from ...clock import Timer
from ...errors import BackendError, QuorumError
from ...scripts.base import resolve
from ..base import Wake
from .members import Members
from .node import Node


class Subscription:
    """Confirmed once a majority of the nodes has confirmed: a release is announced on a majority, so on one of these.

    A message is passed on once, when a majority has sent it: who asked earlier would get a node or two. If fewer do, it
    is passed on after a short time.

    Args:
        members: the nodes.
        channel: its name.
        wake: gets payloads and confirmations.
    """

    def __init__(self, members: Members, channel: str, wake: Wake) -> None:
        self.future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._members = members
        self._channel = channel
        self._wake = wake
        self._confirmed: set[Node] = set()
        self._refused: dict[Node, BackendError] = {}
        self._pending: dict[str | None, set[Node]] = {}
        self._timer: Timer | None = None
        self._over = False

    def join(self, node: Node) -> None:
        """Listen on a node that is ready."""
        told = node.backend.subscribe(self._channel, partial(self._heard, node))
        told.add_done_callback(partial(self._answered, node))

    def end(self) -> None:
        """Stop listening."""
        self._over = True
        if self._timer is not None:
            self._timer.cancel()
        for node in self._members.nodes:
            if node.ready:
                node.backend.unsubscribe(self._channel)
        self.fail(BackendError("", "the subscription was cancelled before it was confirmed", transient=True))

    def fail(self, error: BackendError) -> None:
        """End it: it will not be confirmed."""
        resolve(self.future, error)

    def _heard(self, node: Node, payload: str | BackendError | None) -> None:
        if isinstance(payload, BackendError):  # refused after a reconnect
            if (failure := self._refuse(node, payload)) is not None:
                self._wake(failure)
            return
        self._refused.pop(node, None)
        if payload is None and node not in self._confirmed:
            self._confirmed.add(node)
            if len(self._confirmed) == self._members.quorum and not self.future.done():
                self._wake(None)
                self.future.set_result(None)
            return
        nodes = self._pending.setdefault(payload, set())
        nodes.add(node)
        if len(nodes) == self._members.quorum:
            self._wake(payload)
        if self._timer is None:
            clock = self._members.clock
            self._timer = clock.call_at(clock.now() + self._members.spread(), self._deliver)

    def _deliver(self) -> None:
        self._timer = None
        pending, self._pending = self._pending, {}
        for payload, nodes in pending.items():
            if not self._over and len(nodes) < self._members.quorum:
                self._wake(payload)

    def _answered(self, node: Node, told: asyncio.Future[None]) -> None:
        error = None if told.cancelled() else told.exception()
        if self._over or not isinstance(error, BackendError):
            return
        if (failure := self._refuse(node, error)) is not None:
            self.fail(failure)

    def _refuse(self, node: Node, error: BackendError) -> QuorumError | None:
        """Why there is no majority any more; None if there may be one."""
        self._refused[node] = error
        if not self._members.hopeless(len(self._refused)):
            return None
        outcomes = tuple(f"{node.label}: {self._refused.get(node, 'no answer yet')}" for node in self._members.nodes)
        failure = QuorumError(
            "",
            f"{self._members.quorum} of {len(self._members.nodes)} nodes must confirm a subscription: "
            + "; ".join(outcomes),
            transient=all(error.transient for error in self._refused.values()),
            outcomes=outcomes,
        )
        failure.__cause__ = error
        return failure
