"""A server that keeps queues, as etcd does, and the store with which a process reaches it. What is on the wire are only
the numbers of requests, answers and messages: the rest is kept beside it.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any, NamedTuple, cast

from aiolock.backends.coordinator.paths import Paths
from aiolock.backends.coordinator.store import Away, Lost, Moved, OwnPlace, Place, Refusal, Store, View
from aiolock.clock import Clock
from aiolock.errors import BackendError
from tests.support.queue_store import Queues, adopt

from .network import Connection, Connector, Transport
from .process import Process
from .server import Server
from .world import World

PAUSE = 0.01
"""Seconds between two attempts to connect."""
PATHS = Paths("aiolock")


class Request(NamedTuple):
    """What a store asks for.

    Attributes:
        what: the method of `Queues`, "watch", "listen" or "send".
        words: its arguments.
    """

    what: str
    words: tuple[Any, ...]


class QueueServer(Server):
    """One server. Its clock counts seconds that its leases last: setting it ends them early.

    Args:
        world, kill, around: see `Server`.
    """

    def __init__(self, world: World, kill: bool, around: Callable[[str, int, Process], None]) -> None:
        super().__init__(world, kill, around)
        self.queues = Queues(cast(Clock, self))
        self.queues.later = self._later  # type: ignore[method-assign]
        self.queues.stores.add(self)
        self.truth = QueueTruth(self.queues)
        self.things: list[Any] = []  # what the numbers on the wire mean
        self._parts: defaultdict[int, bytes] = defaultdict(bytes)  # by connection: the beginning of a line
        self._watches: defaultdict[int, dict[OwnPlace, Sequence[str]]] = defaultdict(dict)
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
        for kept in (self._parts, self._watches, self._ears):
            cast(dict[int, Any], kept).pop(connection.id, None)

    def number(self, thing: object) -> bytes:
        """Put it on the wire."""
        self.things.append(thing)
        return b"%d\n" % (len(self.things) - 1)

    def feed(self, connection: Connection, data: bytes) -> None:
        """Bytes have arrived."""
        self.queues.expire()
        *lines, rest = (self._parts[connection.id] + data).split(b"\n")
        self._parts[connection.id] = rest
        for line in lines:
            if connection.open:
                self._run(connection, int(line))

    def _run(self, connection: Connection, at: int) -> None:
        request: Request = self.things[at]
        self.runs += 1
        number = self.runs
        self._around("before", number, connection.process)
        if not connection.open:
            return
        answer: object
        try:
            if self.refuses:
                raise Refusal(self.refuses, transient=True)
            answer = getattr(self, f"_{request.what}", self._queue)(connection, request)
        except Refusal as refusal:
            answer = refusal
        self.world.note(request.what, f"{number}: {_short(request)}", connection.name)
        self._around("after", number, connection.process)
        if connection.open:
            connection.down.send(self.number((at, answer)))

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
                self.connections[id].down.send(self.number(request))
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
        self.connections[id].down.send(self.number(Request("moved", (own, key, gone))))


def _short(request: Request) -> str:
    return " ".join(
        f"{word.path}/{word.owner}" if isinstance(word, OwnPlace) else str(word)[:80] for word in request.words
    )


class Line(asyncio.Protocol):
    """One connection of a store.

    Args:
        transport: its end.
        store: told of what comes.
    """

    def __init__(self, transport: Transport, store: SimulatedQueues) -> None:
        self.transport = transport
        self._store = store
        self._rest = b""

    def data_received(self, data: bytes) -> None:
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            self._store.heard(int(line))

    def eof_received(self) -> None:
        self._store.end(self, ConnectionError("the server has closed it"))

    def connection_lost(self, error: Exception | None) -> None:
        self._store.end(self, error or ConnectionError("it was closed"))


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
        self._answers: dict[int, asyncio.Future[Any]] = {}
        self._watched: dict[OwnPlace, Sequence[str]] = {}
        self._ears: dict[str, Callable[[str], None]] = {}

    @property
    def up(self) -> bool:
        """Whether it is connected, and nothing is on its way."""
        return self._line is not None and not self._answers

    async def open(self, moved: Moved, lost: Lost, back: Callable[[], None]) -> None:
        self._moved, self._lost, self._back = moved, lost, back
        self._there = asyncio.Event()
        self._ears.clear()
        try:
            await self._connect()
        except OSError as why:
            raise Away(_away(why), ran=False) from why

    async def _connect(self) -> None:
        transport = (await self._connector.reach()).transport
        line = self._line = Line(transport, self)
        transport.set_protocol(line)
        for mailbox in self._ears:
            self._post("listen", mailbox)
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

    def end(self, line: Line, why: Exception) -> None:
        """The connection is lost."""
        if line is not self._line:
            return
        self._line = None
        line.transport.abort()
        self._there.clear()
        self._watched.clear()
        answers, self._answers = self._answers, {}
        for answer in answers.values():
            if not answer.done():
                answer.set_exception(Away(_away(why)))
                answer.exception()
        self._lost(_away(why), False)
        self._connecting = asyncio.get_running_loop().create_task(self._connect_again())

    def heard(self, number: int) -> None:
        """Something has come."""
        self._heard(self._server.things[number])

    def _heard(self, thing: Any) -> None:
        if isinstance(thing, Request):
            if thing.what == "send":
                mailbox, text = thing.words
                self._ears[mailbox](text)
            elif thing.words[1] in self._watched.get(thing.words[0], ()):
                self._moved(*thing.words)
            return
        at, result = thing
        answer = self._answers.pop(at, None)
        if answer is None or answer.done():
            return
        if isinstance(result, Refusal):
            answer.set_exception(Refusal(str(result), result.transient))
        else:
            answer.set_result(result)

    def _post(self, what: str, *words: Any) -> int:
        assert self._line is not None
        self._line.transport.write(self._server.number(Request(what, words)))
        return len(self._server.things) - 1

    async def _ask(self, what: str, *words: Any) -> Any:
        line = self._line
        if line is None:
            raise Away(_away(ConnectionError("there is none")), ran=False)
        at = self._post(what, *words)
        answer = self._answers[at] = asyncio.get_running_loop().create_future()
        try:
            async with asyncio.timeout(self._patience):
                return await answer
        except TimeoutError:
            why = TimeoutError(f"no answer within {self._patience} s")
            self.end(line, why)
            raise Away(_away(why)) from None
        finally:
            self._answers.pop(at, None)

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

    async def look(self, path: str) -> View:
        return cast(View, (await self._ask("look", path))[0])

    async def remove(self, path: str, places: Sequence[Place]) -> int:
        return int((await self._ask("remove", path, places))[0])

    async def remaining(self, place: Place) -> float:
        return float((await self._ask("remaining", place))[0])

    def listen(self, mailbox: str, hear: Callable[[str], None]) -> None:
        self._ears[mailbox] = hear
        if self._line is not None:
            self._post("listen", mailbox)

    async def send(self, mailbox: str, text: str) -> None:
        await self._ask("send", mailbox, text)

    def watch(self, own: OwnPlace, keys: Sequence[str], seen: int) -> None:
        before = self._watched.pop(own, ())
        if self._line is None:
            return
        if keys:
            self._watched[own] = keys
        if keys or before:
            self._post("watch", own, keys, seen)

    def expiry(self, own: OwnPlace) -> float:
        return float(own.lasts or 0.0)

    async def aclose(self) -> None:
        line, self._line = self._line, None
        if line is not None:
            line.transport.close()
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
