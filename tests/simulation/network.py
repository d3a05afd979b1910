"""Connections between processes and the server: each direction keeps its order; how long it takes is drawn."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import hiredis

from aiolock.backends.redis.connection import Link, ServerConnector

if TYPE_CHECKING:
    from .process import Process
    from .server import Server

END = b""
"""Stands for the orderly end of a direction."""
RESET = b"\0"
"""Stands for a reset."""
HIGH, LOW = 4096, 1024
"""Bytes that a transport keeps before it wants no more, and until it does again."""


class Direction:
    """The bytes on their way, one way.

    Args:
        connection: whose.
        kind: "up" to the server, "down" to the process.
        deliver: gets them.
        held: until when the path holds everything back.
    """

    def __init__(
        self, connection: Connection, kind: str, deliver: Callable[[bytes], None], held: Callable[[], float]
    ) -> None:
        self._connection = connection
        self._deliver = deliver
        self._held = held
        self._last = 0.0
        self._wake_at = 0.0
        self._kind = kind
        self._over = False
        self.items: deque[tuple[float, bytes]] = deque()

    @property
    def bytes(self) -> int:
        """How many are on their way."""
        return sum(len(data) for _, data in self.items)

    def send(self, data: bytes) -> None:
        """Send some bytes; what has ended takes none."""
        if self._over:
            return
        dice = self._connection.dice
        if len(data) > 2 and dice.random() < 0.05:
            cut = dice.randrange(1, len(data))
            self._add(data[:cut])
            data = data[cut:]
        self._add(data)

    def _add(self, data: bytes) -> None:
        connection = self._connection
        self._last = max(self._last, connection.world.now + connection.latency())
        self.items.append((self._last, data))
        if len(self.items) == 1:
            self._plan(self._last)

    def _plan(self, when: float) -> None:
        self._wake_at = when
        self._connection.world.at(when, self._arrive, when)

    def _arrive(self, when: float) -> None:
        if self._due(when):
            self._connection.world.step(self._kind, self._connection.process.number)
        if self._due(when):  # no fault has come in between
            _, data = self.items.popleft()
            if self.items:
                self._plan(max(self.items[0][0], self._connection.world.now))
            self._deliver(data)

    def _due(self, when: float) -> bool:
        if when != self._wake_at or not self.items:
            return False
        held = self._held()
        if held > self._connection.world.now:
            self._plan(held)
            return False
        return True

    def cut(self, keep: int, last: bytes | None) -> None:
        """Lose all but the first `keep` chunks; what comes after them is `last`, if anything does."""
        while len(self.items) > keep:
            self.items.pop()
        if last is not None:
            self._add(last)
            self._over = True


class Connection:
    """One connection.

    Args:
        process: the client.
        server: the server.
        id: as the server counts.
    """

    def __init__(self, process: Process, server: Server, id: int) -> None:
        self.process = process
        self.server = server
        self.world = process.world
        self.id = id
        self.name = f"{process.name}#{id}"
        self.dice = self.world.dice(f"connection {id}")
        self.late_until = 0.0
        self.up = Direction(self, "up", self._at_server, self._held_up)
        self.down = Direction(self, "down", self._at_client, lambda: process.held_down)
        self.reader = hiredis.Reader()
        self.open = True  # as the server sees it
        self.channels: dict[bytes, Callable[[str], None]] = {}
        self.transport = Transport(self)

    def latency(self) -> float:
        """Seconds that the next bytes take."""
        plan, dice = self.process.plan, self.dice
        seconds = plan.latency * (0.5 + dice.random())
        if plan.spikes and dice.random() < plan.spikes:
            seconds += dice.random() ** 3
        return seconds

    def _held_up(self) -> float:
        return max(self.process.held_up, self.late_until, self.server.busy_until)

    def _at_server(self, data: bytes) -> None:
        if not self.open:
            return
        if data in (END, RESET):
            self.server.disconnected(self)
            if data == END:
                self.down.send(END)
            return
        self.server.feed(self, data)
        if self.transport.backlog:
            self.process.news(self.transport)

    def _at_client(self, data: bytes) -> None:
        if self.process.dead:
            return
        if b"revoked " in data:
            self.process.revocations.append((self.world.now, data))
        self.transport.incoming.append(data)
        self.process.news(self.transport)

    def break_off(self, requests: int | None = None, late: float = 0.0) -> None:
        """The connection dies for both sides.

        Args:
            requests: how many of the chunks on their way still reach the server; None to draw it.
            late: for how many seconds the path keeps them.
        """
        keep = self.dice.randrange(len(self.up.items) + 1) if requests is None else requests
        self.up.cut(keep, RESET)
        self.late_until = self.world.now + late
        self.down.cut(self.dice.randrange(len(self.down.items) + 1) if self.dice.random() < 0.3 else 0, RESET)

    def killed(self) -> None:
        """The server ends it; what has not arrived is never run."""
        self.up.items.clear()
        self.server.disconnected(self)
        self.down.cut(len(self.down.items), END)


class Socket:
    """What the library does with the socket itself."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    def setsockopt(self, *args: object) -> None:
        """Abandoned: nothing of it need arrive."""
        self._transport.abandoned = True

    def shutdown(self, how: int) -> None:
        self._transport.abort()


class Transport(asyncio.Transport):
    """The client's end of a connection, as asyncio has it."""

    def __init__(self, connection: Connection) -> None:
        super().__init__({"socket": Socket(self), "peername": ("simulated", 6379)})
        self.connection = connection
        self.incoming: list[bytes] = []
        self.backlog = b""
        self.abandoned = False
        self._closing = False
        self._ended = False
        self._paused = False
        self._protocol: Any = None

    def open(self, loop: asyncio.AbstractEventLoop) -> Link:
        """Return what the library uses."""
        reader = asyncio.StreamReader(loop=loop)
        protocol = asyncio.StreamReaderProtocol(reader, loop=loop)
        self.set_protocol(protocol)
        protocol.connection_made(self)
        return Link(reader, asyncio.StreamWriter(self, protocol, reader, loop))

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        self._protocol = protocol
        if self.incoming:
            self.connection.process.news(self)

    def get_protocol(self) -> asyncio.BaseProtocol:
        return self._protocol  # type: ignore[no-any-return]

    def is_closing(self) -> bool:
        return self._closing

    def write(self, data: bytes | bytearray | memoryview) -> None:
        if self._closing:
            return
        self.backlog += bytes(data)
        self._flush()
        if len(self.backlog) > HIGH and not self._paused:
            self._paused = True
            self._protocol.pause_writing()

    def close(self) -> None:
        if not self._closing:
            self._closing = True
            if not self.backlog:
                self._end(END, None)

    def abort(self) -> None:
        if not self._ended:
            self._closing, self.backlog = True, b""
            self._end(RESET, None)

    def forget(self) -> None:
        """Its process has ended."""
        self._closing = self._ended = True

    def ready(self) -> None:
        """As the selector calls it."""
        if self._ended or self._protocol is None:
            return  # nobody has it any more, or yet
        incoming, self.incoming = self.incoming, []
        ends = bool(incoming) and incoming[-1] in (END, RESET)
        data = b"".join(incoming[: len(incoming) - ends])
        if data and not self._closing:
            self._protocol.data_received(data)
        if ends and not self._ended:
            if incoming[-1] == RESET or self._closing or not self._protocol.eof_received():
                self._closing = True
                self._end(RESET, ConnectionResetError("reset by the simulation") if incoming[-1] == RESET else None)
            return
        if self.backlog:
            self._flush()
            if self._paused and len(self.backlog) < LOW:
                self._paused = False
                self._protocol.resume_writing()
            if self._closing and not self.backlog:
                self._end(END, None)

    def _flush(self) -> None:
        if self.connection.process.dead:
            return  # it was killed by what it has just sent
        space = self.connection.process.plan.window - self.connection.up.bytes
        if space > 0 and self.backlog:
            piece, self.backlog = self.backlog[:space], self.backlog[space:]
            self.connection.up.send(piece)
            self.connection.server.sent(self.connection)

    def _end(self, how: bytes, error: Exception | None) -> None:
        connection = self.connection
        if how == RESET and connection.open:
            connection.process.break_off(connection)
        else:
            connection.up.cut(len(connection.up.items), how)
        self._ended = True
        connection.process.loop.call_soon(self._protocol.connection_lost, error)


class Connector(ServerConnector):
    """Opens connections, in the place of redis-py.

    Args:
        process: the client.
        server: the server.
    """

    def __init__(self, process: Process, server: Server) -> None:
        super().__init__("redis://simulated:6379")
        self._process = process
        self._server = server

    async def connect(self) -> Link:
        """Connect and authenticate: two round trips."""
        connection = await self.reach()
        return connection.transport.open(self._process.loop)

    async def reach(self) -> Connection:
        """The same, without what the library puts around it."""
        process = self._process
        made: asyncio.Future[Connection] = process.loop.create_future()
        process.world.after(process.plan.latency * 4 * process.dice.random(), self._establish, made)
        return await made

    def _establish(self, made: asyncio.Future[Connection]) -> None:
        process, server = self._process, self._server
        process.world.step("connect", process.number)
        if made.done() or process.dead:
            return
        held = max(process.held_up, process.held_down, server.busy_until)
        if held > process.world.now:
            process.world.at(held, self._establish, made)
        elif server.down:
            made.set_exception(ConnectionRefusedError("refused by the simulation"))
            process.poke()
        else:
            made.set_result(server.accept(process))
            process.poke()
