"""A server that keeps queues, as etcd does, and the store with which a process reaches it."""

from __future__ import annotations

import asyncio
import math
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any, cast

from aiolock.backends.coordinator.paths import Paths
from aiolock.backends.coordinator.store import Away, Lost, Moved, OwnPlace, Place, Refusal, Store, View
from aiolock.clock import Clock
from aiolock.errors import BackendError
from tests.support.queue_store import Queues, adopt

from .network import Connection, Connector
from .process import Process
from .wire import Line, ObjectServer, Request
from .world import World

PAUSE = 0.01
"""Seconds between two attempts to connect."""
PATHS = Paths("aiolock")


class QueueServer(ObjectServer):
    """One server. Its clock counts the seconds that its leases last: setting it ends them early.

    Args:
        world, kill, around: see `Server`.
    """

    def __init__(self, world: World, kill: bool, around: Callable[[str, int, Process], None]) -> None:
        super().__init__(world, kill, around)
        self.queues = Queues(cast(Clock, self))
        self.queues.later = self._later  # type: ignore[method-assign]
        self.queues.stores.add(self)
        self.truth = QueueTruth(self.queues)
        self._watches: defaultdict[int, dict[OwnPlace, Sequence[str]]] = defaultdict(dict)  # by connection, as all
        self._ears: defaultdict[int, set[str]] = defaultdict(set)
        self._dead: set[str] = set()

    def now(self) -> float:
        """Its clock."""
        return self.wall_us() / 1e6

    def _later(self, seconds: float, act: Callable[[], None]) -> object:
        self.world.after(seconds, act)
        return self

    def forget(self) -> None:
        self.queues.forget()

    def disconnected(self, connection: Connection) -> None:
        super().disconnected(connection)
        self._watches.pop(connection.id, None)
        self._ears.pop(connection.id, None)

    def answer(self, connection: Connection, request: Request) -> object:
        """See `ObjectServer.answer`."""
        self.queues.expire()
        if self.refuses:
            return Refusal(self.refuses, transient=True)
        try:
            return getattr(self, f"_{request.what}", self._queue)(connection, request)
        except Refusal as refusal:
            return refusal

    def _queue(self, connection: Connection, request: Request) -> object:
        """What the queues do: return the answer, and the place as it is then; it lasts for so many seconds."""
        first, *more = request.words
        if not isinstance(first, OwnPlace):
            return getattr(self.queues, request.what)(first, *more), None
        own = replace(first)
        if request.what == "enter" and own.owner in self._dead:
            return View(()), own  # a late copy
        if request.what == "leave" and own.tainted:
            self._dead.add(own.owner)
        answer = getattr(self.queues, request.what)(own, *more)
        if request.what == "leave" and answer:
            self.released.add(own.owner)
        own.lasts = self.queues.until.get(own.key, 0.0) - self.now()
        return answer, own

    def _keep(self, connection: Connection, request: Request) -> object:
        (owns,) = request.words
        there = [replace(own) for own in owns]
        return [self.queues.keep(own) for own in there], there

    def _remove(self, connection: Connection, request: Request) -> object:
        path, places = request.words
        for place in places:
            if place.key in self.queues.until:
                self.forced(place.owner, place.order)
        return self.queues.remove(path, places), None

    def _listen(self, connection: Connection, request: Request) -> object:
        self._ears[connection.id].update(request.words)
        return None, None

    def _send(self, connection: Connection, request: Request) -> object:
        for id, ears in self._ears.items():
            if request.words[0] in ears:
                self.push(id, request)
        return None, None

    def _watch(self, connection: Connection, request: Request) -> object:
        own, keys, seen = request.words
        self._watches[connection.id][own] = keys
        for key in keys:
            if (gone := self.queues.news(key, seen)) is not None:
                self._tell(connection.id, own, key, gone)
        return None, None

    def told(self, key: str, gone: bool) -> None:
        """Something happened to a place."""
        for id, watches in self._watches.items():
            for own, keys in watches.items():
                if key in keys:
                    self._tell(id, own, key, gone)

    def _tell(self, id: int, own: OwnPlace, key: str, gone: bool) -> None:
        self.push(id, Request("moved", (own, key, gone)))


class SimulatedQueues(Store):
    """A process's link to that server.

    Args:
        connector: opens connections.
        server: where they lead.
        process: whose it is.
        patience: seconds without an answer after which a connection is given up.
    """

    name = "the simulation"
    address = "the simulation"

    def __init__(self, connector: Connector, server: QueueServer, process: Process, patience: float) -> None:
        self.clock: Clock = process.clock
        self._connector = connector
        self._server = server
        self._patience = patience
        self._line: Line | None = None
        self._connecting: asyncio.Task[None] | None = None
        self._watched: dict[OwnPlace, Sequence[str]] = {}
        self._ears: dict[str, Callable[[str], None]] = {}

    @property
    def up(self) -> bool:
        """Whether it is connected, and nothing is on its way."""
        return self._line is not None and self._line.quiet

    async def open(self, moved: Moved, lost: Lost, back: Callable[[], None]) -> None:
        self._moved, self._lost, self._back = moved, lost, back
        self._there = asyncio.Event()
        self._ears.clear()
        try:
            await self._connect()
        except OSError as why:
            raise Away(_away(why), ran=False) from why

    async def _connect(self) -> None:
        self._line = await Line.open(self._connector, self._server, self._heard, self._ended)
        for mailbox in self._ears:
            self._line.post("listen", mailbox)
        self._there.set()

    async def _connect_again(self) -> None:
        while True:
            try:
                await self._connect()
                break
            except OSError as error:
                self._lost(_away(error), True)
                await asyncio.sleep(PAUSE)
        self._back()

    def _ended(self, why: Exception) -> None:
        self._line = None
        self._there.clear()
        self._watched.clear()
        self._lost(_away(why), False)
        self._connecting = asyncio.get_running_loop().create_task(self._connect_again())

    def _heard(self, request: Request) -> None:
        if request.what == "send":
            mailbox, text = request.words
            self._ears[mailbox](text)
        elif request.words[1] in self._watched.get(request.words[0], ()):
            self._moved(*request.words)

    async def _ask(self, what: str, *words: Any) -> Any:
        if self._line is None:
            raise Away(_away(ConnectionError("there is none")), ran=False)
        try:
            return await self._line.ask(self._patience, what, *words)
        except OSError as why:
            raise Away(_away(why)) from why

    async def _about(self, what: str, own: OwnPlace, *more: Any) -> Any:
        asked = self.clock.now()
        own.tainted, tainted = True, own.tainted
        answer, there = await self._ask(what, replace(own, tainted=tainted), *more)
        own.tainted = tainted
        adopt(own, there)
        own.lasts = asked + there.lasts
        return answer

    async def ready(self) -> None:
        await self._there.wait()

    async def enter(self, own: OwnPlace, waits: bool) -> View:
        return cast(View, await self._about("enter", own, waits))

    async def claim(self, own: OwnPlace) -> bool:
        return bool(await self._about("claim", own))

    async def leave(self, own: OwnPlace, clean: bool) -> bool:
        return bool(await self._about("leave", own, clean))

    async def rewrite(self, own: OwnPlace) -> bool:
        return bool(await self._about("rewrite", own))

    async def keep(self, owns: Sequence[OwnPlace]) -> Sequence[bool]:
        asked = self.clock.now()
        kept, _ = await self._ask("keep", [replace(own) for own in owns])
        for own, there in zip(owns, kept, strict=True):
            if there:
                own.lasts = asked + own.ttl_ms / 1000
        return cast(Sequence[bool], kept)

    async def look(self, path: str, notes: bool = False) -> View:
        return cast(View, (await self._ask("look", path))[0])

    async def remove(self, path: str, places: Sequence[Place]) -> int:
        return int((await self._ask("remove", path, places))[0])

    async def remaining(self, place: Place) -> float:
        return float((await self._ask("remaining", place))[0])

    def listen(self, mailbox: str, hear: Callable[[str], None]) -> None:
        self._ears[mailbox] = hear
        if self._line is not None:
            self._line.post("listen", mailbox)

    async def send(self, mailbox: str, text: str) -> None:
        await self._ask("send", mailbox, text)

    def watch(self, own: OwnPlace, keys: Sequence[str], seen: int) -> None:
        before = self._watched.pop(own, ())
        if self._line is None:
            return
        if keys:
            self._watched[own] = keys
        if keys or before:
            self._line.post("watch", own, keys, seen)

    def most_ms(self, own: OwnPlace) -> float:
        return math.inf

    def expiry(self, own: OwnPlace) -> float:
        return float(own.lasts or 0.0)

    async def aclose(self) -> None:
        line, self._line = self._line, None
        if line is not None:
            line.hang_up()
        if self._connecting is not None:
            self._connecting.cancel()
            await asyncio.wait((self._connecting,))


def _away(why: Exception) -> BackendError:
    return BackendError("", f"the simulation: {why}", transient=True)


class QueueTruth:
    """Places in queues.

    Args:
        queues: where they are.
    """

    def __init__(self, queues: Queues) -> None:
        self._queues = queues

    def _of(self, kind: str, name: str) -> dict[str, Place]:
        self._queues.expire()
        return self._queues.places.get(PATHS.of(kind, name), {})

    def kept(self, kind: str, name: str, owner: str) -> int:
        for key, place in self._of(kind, name).items():
            if place.owner == owner:
                return round(1000 * (self._queues.until[key] - self._queues.clock.now()))
        return 0

    def taken(self, kind: str, name: str) -> bool:
        return bool(self._of(kind, name))

    def owners(self) -> Iterator[tuple[str, str]]:
        self._queues.expire()
        yield from ((place.owner, key) for places in self._queues.places.values() for key, place in places.items())

    def dead(self) -> set[str]:
        return set()

    def held(self) -> list[str]:
        return [key for _, key in self.owners()]

    def left(self) -> str:
        return " ".join(self.held())

    def wrong(self, calm: bool) -> str:
        return ""

    def known(self) -> str:
        return ""
