"""Servers that are no Redis: on the wire are only the numbers of requests, answers and messages. The rest is beside
it.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable
from typing import Any, NamedTuple, cast

from .network import Connection, Connector, Transport
from .process import Process
from .server import Server
from .world import World


class Request(NamedTuple):
    """What a client asks for, or is told without having asked.

    Attributes:
        what: the kind.
        words: the rest.
    """

    what: str
    words: tuple[Any, ...] = ()

    def __str__(self) -> str:
        return f"{self.what} {' '.join(str(word)[:80] for word in self.words)}"


class ObjectServer(Server):
    """One server. Subclasses answer its requests.

    Args:
        world, kill, around: see `Server`.
    """

    def __init__(self, world: World, kill: bool, around: Callable[[str, int, Process], None]) -> None:
        super().__init__(world, kill, around)
        self.things: list[Any] = []  # what the numbers on the wire mean
        self._parts: defaultdict[int, bytes] = defaultdict(bytes)  # by connection: the beginning of a line

    def answer(self, connection: Connection, request: Request) -> object:
        """Do what is wanted; an exception that is returned is raised in the client."""
        raise NotImplementedError

    def disconnected(self, connection: Connection) -> None:
        super().disconnected(connection)
        self._parts.pop(connection.id, None)

    def number(self, thing: object) -> bytes:
        """Put it on the wire."""
        self.things.append(thing)
        return b"%d\n" % (len(self.things) - 1)

    def push(self, id: int, request: Request) -> None:
        """Tell the client of a connection."""
        self.connections[id].down.send(self.number(request))

    def feed(self, connection: Connection, data: bytes) -> None:
        """Bytes have arrived."""
        *lines, rest = (self._parts[connection.id] + data).split(b"\n")
        self._parts[connection.id] = rest
        for line in lines:
            if connection.open:
                self._run(connection, int(line))

    def _run(self, connection: Connection, at: int) -> None:
        request = cast(Request, self.things[at])
        self.runs += 1
        number = self.runs
        self._around("before", number, connection.process)
        if not connection.open:
            return
        answer = self.answer(connection, request)
        self.world.note(request.what, f"{number}: {request}", connection.name)
        self._around("after", number, connection.process)
        if connection.open:
            connection.down.send(self.number((at, answer)))


class Line(asyncio.Protocol):
    """A client's end of a connection: `open` it.

    Args:
        transport: its end.
        server: where it leads.
        told: gets what nobody has asked for.
        ended: told once why it has ended.
    """

    def __init__(
        self,
        transport: Transport,
        server: ObjectServer,
        told: Callable[[Request], None],
        ended: Callable[[Exception], None],
    ) -> None:
        self._transport = transport
        self._server = server
        self._told = told
        self._ended = ended
        self._rest = b""
        self._answers: dict[int, asyncio.Future[Any]] = {}
        self.over = False
        self.equipped = True

    @classmethod
    async def open(
        cls,
        connector: Connector,
        server: ObjectServer,
        told: Callable[[Request], None] = lambda request: None,
        ended: Callable[[Exception], None] = lambda why: None,
    ) -> Line:
        """Connect."""
        transport = (await connector.reach()).transport
        line = cls(transport, server, told, ended)
        transport.set_protocol(line)
        return line

    @property
    def quiet(self) -> bool:
        """Whether nothing is on its way."""
        return not self._answers

    def post(self, what: str, *words: Any) -> int:
        """Ask, and expect nothing."""
        self._transport.write(self._server.number(Request(what, words)))
        return len(self._server.things) - 1

    async def ask(self, patience: float, what: str, *words: Any) -> Any:
        """Ask, and wait for so long at most: then it ends.

        Raises:
            OSError: it has ended, or ends now.
        """
        if self.over:
            raise ConnectionError("it has ended")
        at = self.post(what, *words)
        answer = self._answers[at] = asyncio.get_running_loop().create_future()
        try:
            async with asyncio.timeout(patience):
                return await answer
        except TimeoutError:
            why = TimeoutError(f"no answer within {patience} s")
            self.end(why)
            raise why from None
        finally:
            self._answers.pop(at, None)

    def end(self, why: Exception | None = None) -> None:
        """It can be used no more."""
        why = why or ConnectionError("it was ended")
        if self.over:
            return
        self.over = True
        self._transport.abort()
        for answer in list(self._answers.values()):
            if not answer.done():
                answer.set_exception(ConnectionError(str(why)))
                answer.exception()
        self._ended(why)

    async def close(self) -> None:
        """End it in order."""
        self.hang_up()

    def hang_up(self) -> None:
        """The same at once."""
        if not self.over:
            self.over = True
            self._transport.close()

    def data_received(self, data: bytes) -> None:
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            thing = self._server.things[int(line)]
            if isinstance(thing, Request):
                self._told(thing)
                continue
            at, result = thing
            answer = self._answers.get(at)
            if answer is None or answer.done():
                continue
            if isinstance(result, Exception):
                answer.set_exception(result)
            else:
                answer.set_result(result)

    def eof_received(self) -> None:
        self.end(ConnectionError("the server has closed it"))

    def connection_lost(self, error: Exception | None) -> None:
        self.end(error or ConnectionError("it was closed"))
