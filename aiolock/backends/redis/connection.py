"""One connection, opened by redis-py with your URL, TLS and credentials. Everything else is our own."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import ssl
import struct
from collections.abc import Callable, Sequence
from functools import partial
from typing import Protocol, cast, runtime_checkable

import hiredis
from redis.exceptions import ConnectionError as NotConnected
from redis.exceptions import RedisError

from ...errors import ConfigurationError
from ..resolver import Resolver
from .clients import Client, Connection, Recipe, is_direct, load_files, open_on, recipe, take_streams
from .credentials import Credentials
from .failures import unconnected
from .protocol import RespProtocol
from .scheme import Scheme
from .tls import unusable

_LINGER_NOT = struct.pack("hh" if os.name == "nt" else "ii", 1, 0)


pack: Callable[[tuple[str | bytes | int, ...]], bytes] = hiredis.pack_command  # type: ignore[assignment]
"""One command's bytes; text as UTF-8, whatever the user's client prefers.

redis-py's own packing took half of a request's time in the client. Numbers would be slower than their text.
"""


@runtime_checkable
class Connector(Protocol):
    """Knows where the master is, and connects to it.

    Attributes:
        db: the number of the database.
        address: host and port, or the path of a socket; what the user gave.
        credentials: the user's provider of them, if there is one.
        fixed: it always names the same address, so a replica there is the user's mistake unless it is promoted soon.
    """

    db: int
    address: str
    credentials: Credentials | None
    fixed: bool

    async def connect(self) -> Link:
        """Connect and authenticate; asked again for each attempt, because the address may have moved.

        Raises:
            RedisError, OSError, ValueError: and whatever else redis-py raises if the server is not Redis.

        Cancellation: nothing is left open.
        """


class ServerConnector:
    """Connects to one server, whose name is resolved each time; finds at construction whatever can be wrong without
    asking the server.

    Args:
        source: a URL, a client whose connection settings are used, or how to connect.
        pushes: messages may arrive between replies, which needs RESP3; with False RESP2 suffices.
        resolver: finds its address; shared with other connectors, if they have the same host.

    Attributes:
        credentials: the client's provider of user and password, if it has one.

    Raises:
        ConfigurationError: not a URL or client of one server.
    """

    def __init__(self, source: str | Client | Recipe, pushes: bool = True, resolver: Resolver | None = None) -> None:
        self._class, self._options = source if isinstance(source, tuple) else recipe(source, 3 if pushes else 2)
        self.credentials: Credentials | None = self._options.get("credential_provider")
        self.db: int = int(self._options.get("db") or 0)
        self.fixed: bool = True
        self._resolver = Resolver() if resolver is None else resolver
        self._reached = False  # once: its scheme is right, and what happens next is an outage
        path, self._host = self._options.get("path"), str(self._options.get("host", "localhost"))
        self._port: int | str = self._options.get("port", 6379)
        self.address: str = str(path or f"{self._host}:{self._port}")
        try:
            self._make()
        except (TypeError, RedisError) as error:
            raise ConfigurationError("", f"these connection options do not work: {error}") from None
        except Exception as error:
            # Its text may quote a password.
            raise ConfigurationError("", f"these connection options do not work ({type(error).__name__})") from None

    def _make(self) -> Connection:
        return self._class(**self._options)

    async def connect(self) -> Link:
        """See `Connector.connect`."""
        connection = self._make()
        try:
            context = load_files(connection)
        except (OSError, TypeError, ValueError) as error:
            raise unusable(self._options, error) from error
        try:
            if not is_direct(self._class):
                await connection.connect()
            elif self._reached:
                await self._open(connection, context)
            else:
                await Scheme(self._host, int(self._port), context, self._reach).check(
                    partial(self._open, connection, context)
                )
        except BaseException:
            if streams := take_streams(connection):
                streams[1].close()
            raise
        streams = take_streams(connection)
        if streams is None or streams[1].is_closing():
            raise ConnectionError("the connection was lost as soon as it was made")
        self._reached = True
        return Link(*streams, named=bool(self._options.get("client_name")))

    async def _reach(self) -> socket.socket:
        async with asyncio.timeout(self._options["socket_connect_timeout"]):
            return await self._resolver.connect(self._host, int(self._port))

    async def _open(self, connection: Connection, context: ssl.SSLContext | None) -> None:
        try:
            reached = await self._reach()
        except OSError as error:
            if isinstance(error, TimeoutError):
                raise
            raise NotConnected(str(error)) from error
        await open_on(connection, reached, context, self._host)


class Link:
    """An open connection: bytes out, replies and pushes in. It is read without a stream, and without a task.

    Args:
        reader: the stream's; nothing is read from it but what had already arrived.
        writer: open.
        named: see below.

    Attributes:
        named: its user has given it a name, which the server knows.

    Source: half of a request's time in the client was spent in streams and in redis-py's reading of them.
    """

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, named: bool = False) -> None:
        self.named: bool = named
        self._writer = writer
        self._transport = cast(asyncio.Transport, writer.transport)
        # Now: a closed TLS transport cannot answer these.
        self._socket = self._transport.get_extra_info("socket")
        self.protocol: RespProtocol = RespProtocol(self._transport)
        # At once, and without waiting: redis-py's `send_packed_command` would drop the connection if it were cancelled.
        self.write: Callable[[bytes], None] = self._transport.write
        # Lost or closed, although the reader may not know it yet.
        self.gone: Callable[[], bool] = self._transport.is_closing
        came = _unread(reader)
        if came:
            self.protocol.data_received(came)
        elif came is not None:
            self.protocol.eof_received()

    async def ask(self, commands: Sequence[tuple[str | bytes, ...]]) -> list[object]:
        """Return the replies and error replies to `commands`; only before `start`.

        Raises:
            Exception: the connection is lost, or the data is not RESP.

        Cost: one round trip.
        """
        replies: list[object] = []
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def receive(reply: object) -> None:
            if type(reply) is not hiredis.PushNotification:
                replies.append(reply)
                if len(replies) == len(commands):
                    self.protocol.wait()
                    settle(None)

        def settle(error: Exception | None) -> None:
            if not done.done():
                done.set_result(None) if error is None else done.set_exception(error)

        self.write(b"".join(pack(command) for command in commands))
        self.protocol.start(receive, settle, lambda: None)
        await done
        return replies

    def start(
        self, receive: Callable[[object], None], lost: Callable[[Exception], None], resumed: Callable[[], None]
    ) -> None:
        """Read from now on, until the connection is lost or closed.

        Args:
            receive: gets each reply, error reply (as an exception) and push (`hiredis.PushNotification`).
            lost: told once why no more will come: the connection was lost, or what `receive` raised.
            resumed: told each time that `write` may continue after it returned True.
        """
        self.protocol.start(receive, lost, resumed)

    def close(self) -> None:
        """Close once what was written has been sent; what still arrives is dropped."""
        self.protocol.stop()
        with contextlib.suppress(OSError, RuntimeError):
            self._writer.close()

    def abort(self) -> None:
        """Close now. What the kernel already has still arrives."""
        with contextlib.suppress(AttributeError):  # a TLS transport of CPython 3.11.2 that is already lost
            self._transport.abort()

    def reset(self) -> None:
        """Abandon: what was written and not yet received must not arrive any more, so the kernel must not repeat it."""
        if self._socket is not None and not self.gone():  # uvloop would do it to the socket that has the number now
            with contextlib.suppress(OSError, ValueError):
                self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _LINGER_NOT)
        self.abort()
        self.close()

    def sever(self) -> None:
        """Let the server know of the end, if the loop was closed first."""
        with contextlib.suppress(OSError, AttributeError):
            self._socket.shutdown(socket.SHUT_RDWR)

    async def closed(self) -> None:
        """Wait until the socket is closed."""
        with contextlib.suppress(OSError):
            await self._writer.wait_closed()


class Asker:
    """Connects when it first asks, and keeps the connection until `close`.

    Args:
        connector: where the server is.
        timeout: seconds for one answer; None for as long as it takes.

    Attributes:
        link: the connection, if there is one.
    """

    def __init__(self, connector: Connector, timeout: float | None = None) -> None:
        self.link: Link | None = None
        self._connector = connector
        self._timeout = timeout

    async def ask(self, commands: Sequence[tuple[str | bytes, ...]]) -> list[object]:
        """Return the replies; an error reply is one of them.

        Raises:
            AiolockError: the server is unreachable, or does not answer in time.

        Cancellation: the connection is gone, because an answer may be on its way. Cost: one round trip, and a
        connection for the first.
        """
        try:
            async with asyncio.timeout(self._timeout):
                if self.link is None:
                    self.link = await self._connector.connect()
                return await self.link.ask(commands)
        except BaseException as error:
            self.drop()
            if not isinstance(error, Exception):
                raise
            failure = unconnected(error)
            raise failure from failure.__cause__

    async def close(self) -> None:
        """Close the connection, if there is one."""
        link, self.link = self.link, None
        if link is not None:
            link.close()
            await link.closed()

    def drop(self) -> None:
        """Close it without waiting for anything."""
        link, self.link = self.link, None
        if link is not None:
            link.reset()


def _unread(reader: asyncio.StreamReader) -> bytes | None:
    """What arrived before the streams were taken: nothing (None), or the end (empty)."""
    reading = reader.read(2**16)
    try:
        reading.send(None)
    except StopIteration as stop:
        return bytes(stop.value)
    reading.close()
    return None
