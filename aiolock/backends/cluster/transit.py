"""One slot's requests while it is not plain which node runs them: they keep their order."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from functools import partial
from typing import Any, Protocol

from ...clock import backoff
from ...errors import BackendError
from ...scripts.base import Call
from .node import Node

FIRST = 0.01
CAP = 0.25
"""Seconds of the shortest and the longest pause before requests that were refused are written again."""
AT_ONCE = 3
"""How often in a row a request is redirected without a pause."""


Unwritten = tuple[Call[Any], Node | None]


class Routes(Protocol):
    """Where slots are served."""

    def owner(self, slot: int) -> Node | None:
        """The node that serves a slot; None if none is known."""

    def lost(self) -> None:
        """The map may be old: look for a new one."""

    def ended(self, transit: Transit) -> None:
        """It has nothing left to do."""


class Transit:
    """Begins when a request was refused without having run, or when its slot has moved.

    What is on its way then, the flight, is awaited: some of it may be refused, too. Then all that was refused is
    written again, in the old order, and after it what came in the meantime. Once a whole flight was answered, the rest
    is written, and it ends.

    Args:
        slot: the slot.
        routes: where it is served.

    Attributes:
        slot: as given.
        attempts: how many flights in a row had refusals.
        failure: why no server runs its requests for the time being, as the last of them said.
    """

    def __init__(self, slot: int, routes: Routes) -> None:
        self.slot: int = slot
        self.attempts: int = 0
        self.failure: BackendError | None = None
        self._routes = routes
        self._loop = asyncio.get_running_loop()
        self._flight: dict[Call[Any], Node] = {}
        self._watched: set[Call[Any]] = set()
        # In order; with the node that is to be asked.
        self._refused: list[Unwritten] = []  # by the flight
        self._rest: list[Unwritten] = []  # after the flight
        self._waiting: list[Call[Any]] = []
        self._overtaken: set[Call[Any]] = set()
        self._instead: list[Call[Any]] | None = None  # while a maker is asked by this transit
        self._asker: Node | None = None  # while one is asked by a node that lost its connection
        self._failed = False  # of this flight, one was refused
        self._timer: asyncio.Handle | None = None
        self._paused = False
        self._over = False

    def put(self, request: Call[Any]) -> None:
        """Run a new request after all others; or, while an unanswered request is asked about, in that one's place."""
        if self._asker is not None:
            self.watch(request, self._asker)
            self._asker.backend.take_over(request)
        elif self._instead is not None:
            self._instead.append(request)
        else:
            self._waiting.append(request)
            self._wake()

    def watch(self, request: Call[Any], node: Node) -> None:
        """It is on its way to `node`, or waits there; its end matters here."""
        if request not in self._watched:
            self._watched.add(request)
            request.settle = partial(self._settled, request, request.settle)
            request.unanswered = partial(self._asked, request, request.unanswered)
        self._flight[request] = node

    def refuse(self, request: Call[Any], *, ask: Node | None = None, pause: bool = False) -> None:
        """It did not run.

        Args:
            request: the oldest one of its flight.
            ask: the node that may have its key already.
            pause: the owner will not run it before some time has passed.
        """
        self._flight.pop(request, None)
        self._refused.append((request, ask))
        if not self._failed:
            self._failed = True
            self.attempts += 1
        self._sleep(self._pause(pause))

    def give_back(self, request: Call[Any]) -> None:
        """The node to which it went has no connection; it may run elsewhere, in the order in which these come."""
        self._flight.pop(request, None)
        self._refused.append((request, None))
        self._sleep(0.0)

    def wake(self) -> None:
        """There is a new map: do not pause any longer."""
        if self._paused and self._timer is not None:
            self._timer.cancel()
            self._timer, self._paused = None, False
        self._wake()

    def close(self) -> list[Call[Any]]:
        """End it.

        Returns:
            What is not written.
        """
        self._over = True
        if self._timer is not None:
            self._timer.cancel()
        return [request for request, _ in (*self._refused, *self._rest)] + self._waiting

    def _pause(self, pause: bool) -> float:
        beyond = self.attempts if pause else self.attempts - AT_ONCE
        return 0.0 if beyond <= 0 else random.uniform(0.5, 1.0) * backoff(beyond, FIRST, CAP)

    def _sleep(self, seconds: float) -> None:
        if not seconds or self._paused:
            self._wake()
            return
        if self._timer is not None:
            self._timer.cancel()
        self._paused = True
        self._timer = self._loop.call_later(seconds, self._advance)

    def _wake(self) -> None:
        # In another turn: the answers that came together with this one may be refusals, too.
        if self._timer is None and not self._over:
            self._timer = self._loop.call_soon(self._advance)

    def _advance(self) -> None:
        self._timer, self._paused = None, False
        if self._over or self._flight:
            return
        if not self._failed:
            self.attempts = 0
        self._failed = False
        queue = self._queue()
        if not queue:
            self._end()
            return
        asked = queue[0][1]
        node = asked if asked is not None else self._routes.owner(self.slot)
        if node is None:
            self._rest = queue
            self._failed = True
            self.attempts += 1
            self._routes.lost()
            self._sleep(self._pause(True))
            return
        together = next((i for i, (_, other) in enumerate(queue) if other is not asked), len(queue))
        self._rest = queue[together:]
        if self.attempts == 0 and asked is None and not self._rest:
            self._end()
        for request, _ in queue[:together]:
            if not self._over:
                self.watch(request, node)
            node.backend.take_over(request, asking=asked is not None)

    def _queue(self) -> list[Unwritten]:
        """Everything that is to be written, in order."""
        refused, self._refused = self._refused, []
        rest, self._rest = self._rest, []
        queue: list[Unwritten] = []
        for request, asked in refused:
            if request in self._overtaken:
                queue += [(other, None) for other in self._ask_again(request)]
            else:
                queue.append((request, asked))
        self._overtaken.clear()
        waiting, self._waiting = self._waiting, []
        queue += rest + [(request, None) for request in waiting]
        wanted = []
        for request, asked in queue:
            if request.withdrawn:
                self._loop.call_soon(request.unwritten)
            else:
                wanted.append((request, asked if asked is not None and asked.used else None))
        return wanted

    def _ask_again(self, request: Call[Any]) -> list[Call[Any]]:
        """A later request of the same name was run first: its maker may not want it any more."""
        outer, self._instead = self._instead, []
        try:
            if request.again():
                return [request, *self._instead]
            why = f"{request.doing} was overtaken while its slot moved: try again"
            request.end(BackendError(request.name, why, transient=True))
            return self._instead
        finally:
            self._instead = outer

    def _settled(self, request: Call[Any], told: Callable[[Any], None] | None, result: object) -> None:
        try:
            if told is not None:
                told(result)
        finally:
            self._watched.discard(request)
            if self._flight.pop(request, None) is not None:
                self._overtaken.update(other for other, _ in self._refused if other.name == request.name and other.name)
                self._wake()

    def _asked(self, request: Call[Any], unanswered: Callable[[], bool]) -> bool:
        node = self._flight.get(request)
        if node is None:
            return unanswered()
        outer, self._asker = self._asker, node
        try:
            return unanswered()
        finally:
            self._asker = outer

    def _end(self) -> None:
        self._over = True
        self._routes.ended(self)
