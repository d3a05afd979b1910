"""One connection, made with redis-py from what the user gave: its URL, TLS, credentials and parser; our own policy."""

from __future__ import annotations

import asyncio
import contextlib
import math
import os
import socket
import struct
from collections.abc import Callable, Coroutine
from typing import Any, Protocol, cast
from urllib.parse import urlsplit

import hiredis
from redis.asyncio import Connection, ConnectionPool, Redis, RedisCluster, Sentinel
from redis.asyncio.connection import DefaultParser
from redis.asyncio.retry import Retry
from redis.asyncio.sentinel import SentinelConnectionPool
from redis.backoff import NoBackoff
from redis.exceptions import RedisError, ResponseError
from redis.maint_notifications import MaintNotificationsConfig

from ...errors import ConfigurationError
from ..worker import Worker
from .protocol import RespProtocol
from .push import Push

CONNECT_TIMEOUT = 10.0
_LINGER_NOT = struct.pack("hh" if os.name == "nt" else "ii", 1, 0)
_POOL_ONLY = (
    "connection_pool",
    "maint_notifications_pool_handler",
    "maintenance_notification_hash",
    "maintenance_state",
    "oss_cluster_maint_notifications_handler",
    "orig_socket_timeout",
    "orig_socket_connect_timeout",
    "retry_on_error",
    "retry_on_timeout",
)


pack: Callable[[tuple[str | bytes | int, ...]], bytes] = hiredis.pack_command  # type: ignore[assignment]
"""One command's bytes; text as UTF-8, whatever the user's client prefers.

redis-py's own packing took half of a request's time in the client. Numbers would be slower than their text.
"""


class _Parser(Protocol):
    def set_pubsub_push_handler(self, handler: object) -> None: ...
    def set_invalidation_push_handler(self, handler: object) -> None: ...
    def on_disconnect(self) -> None: ...
    def parse_error(self, response: str) -> Exception: ...
    def can_read(self) -> Coroutine[object, object, bool]: ...


class _Connection(Protocol):
    """The part of redis-py's connection that is used here; its own annotations are incomplete."""

    _writer: asyncio.StreamWriter | None
    _parser: _Parser

    async def connect(self) -> None: ...
    async def read_response(
        self, *, timeout: float, disconnect_on_error: bool, push_request: bool
    ) -> object: ...  # fmt: skip
    def _close(self) -> None: ...


class Connector:
    """Makes connections; whatever can be wrong without asking the server is found at construction.

    Args:
        source: a `redis://`, `rediss://` or `unix://` URL, or a client whose connection settings are taken over.
        pushes: messages may arrive between replies, which takes RESP3; False makes do with RESP2.

    Raises:
        ConfigurationError: not a URL or client of one server.
    """

    def __init__(self, source: str | Redis, pushes: bool = True) -> None:
        self._class, self._options = _recipe(source, 3 if pushes else 2)
        self._pushes = pushes
        self.db: int = int(self._options.get("db") or 0)
        path, host = self._options.get("path"), self._options.get("host", "localhost")
        self.address: str = str(path or f"{host}:{self._options.get('port', 6379)}")
        try:
            self._make()
        except (TypeError, RedisError) as error:
            raise ConfigurationError("", f"these connection options do not work: {error}") from None
        except Exception as error:
            # Its text may quote a password.
            raise ConfigurationError("", f"these connection options do not work ({type(error).__name__})") from None

    def _make(self) -> _Connection:
        return cast(_Connection, self._class(**self._options))

    async def connect(self) -> Link:
        """Connect and authenticate.

        Raises:
            RedisError, OSError, ValueError: and whatever else redis-py raises at a server which is none.

        Cancellation: nothing is left open.
        """
        connection = self._make()
        try:
            await connection.connect()
            if self._pushes:
                _mark_pushes(connection)
            return Link(connection)
        except BaseException:
            _close(connection)
            raise


class Link:
    """An open connection: bytes out, replies and pushes in.

    Args:
        connection: connected.
    """

    def __init__(self, connection: _Connection) -> None:
        self._connection = connection
        self._writer = _writer(connection)
        self._transport = cast(asyncio.Transport, self._writer.transport)
        # Now: a closed TLS transport has no answer to these.
        self._socket = self._transport.get_extra_info("socket")
        self._enough = self._transport.get_write_buffer_limits()[1]
        self._protocol: RespProtocol | None = None
        self._reader: Worker[Exception] | None = None  # these two only without a protocol of ours
        self._drainer: Worker[Exception | None] | None = None
        self._resumed: Callable[[], None] | None = None
        # Lost or closed, though the reader may not have come to know yet.
        self.gone: Callable[[], bool] = self._transport.is_closing

    def write(self, data: bytes) -> bool:
        """Hand `data` to the transport, at once and without waiting.

        redis-py's `send_packed_command` would drop the connection if it were cancelled while it waits.

        Returns:
            True if the transport has more to send than it should: whoever started to read is told when it has not.
        """
        self._transport.write(data)
        if self._protocol is not None:
            return self._protocol.paused
        congested = self._transport.get_write_buffer_size() > self._enough
        if congested and self._drainer is None:
            self._drainer = Worker(self._drain, self._drained, "aiolock writer")
        return congested

    async def read(self) -> object:
        """The next reply, error reply (as an exception, returned) or `Push`.

        Raises:
            Exception: the connection is lost, or what came is no RESP.
        """
        try:
            # push_request: else the parser calls itself once for each push in a row.
            return await self._connection.read_response(timeout=math.inf, disconnect_on_error=False, push_request=True)
        except RedisError as error:
            if isinstance(error, ResponseError) or error.status_code is not None:
                return error
            raise

    def attach(self) -> None:
        """Read the transport without a stream from now on, if that is safe; to be called once all was answered.

        It is not where the user put a parser or a way of reading of his own in between, or where more came than was
        read: the stream is read on then, through redis-py.

        Source: half of a request's time in the client was spent in streams and in redis-py's reading of them.
        """
        if not self.gone() and _read_as_usual(self._connection) and not _unread(self._connection):
            self._protocol = RespProtocol(self._transport, self._connection._parser.parse_error)

    def start(
        self, receive: Callable[[object], None], lost: Callable[[Exception], None], resumed: Callable[[], None]
    ) -> None:
        """Read from now on, until the connection is lost or closed.

        Args:
            receive: given each reply, error reply (as an exception) and `Push`.
            lost: told once why no more will come: the connection was lost, or what `receive` raised.
            resumed: told each time that `write` may go on after it had returned True.
        """
        self._resumed = resumed
        if self._protocol is not None:
            self._protocol.start(receive, lost, resumed)
        else:
            self._reader = Worker(lambda: self._pump(receive), lost, "aiolock reader")

    async def _pump(self, receive: Callable[[object], None]) -> Exception:
        try:
            while True:
                receive(await self.read())
        except Exception as error:
            return error

    def _drained(self, error: Exception | None) -> None:
        self._drainer = None
        if error is None and self._resumed is not None:
            self._resumed()

    async def _drain(self) -> Exception | None:
        try:
            await self._writer.drain()
        except Exception as error:
            return error  # the reader says so
        return None

    def stop(self) -> None:
        """Read no more; nothing of what still comes is given out."""
        self._resumed = None
        if self._protocol is not None:
            self._protocol.stop()
        for worker in (self._reader, self._drainer):
            if worker is not None:
                worker.stop()

    def close(self) -> None:
        """Close once what was written has left."""
        self.stop()
        _close(self._connection)

    def abort(self) -> None:
        """Close now. What the kernel was given still arrives."""
        with contextlib.suppress(AttributeError):  # a TLS transport of CPython 3.11.2 that is lost already
            self._transport.abort()

    def reset(self) -> None:
        """Abandon: what was written and not yet received must not arrive any more, so the kernel may not repeat it."""
        if self._socket is not None and not self.gone():  # uvloop would do it to whoever has the number now
            with contextlib.suppress(OSError, ValueError):
                self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _LINGER_NOT)
        self.abort()
        self.close()

    def sever(self) -> None:
        """Let the server know of its end, where the loop was closed before it."""
        with contextlib.suppress(OSError, AttributeError):
            self._socket.shutdown(socket.SHUT_RDWR)

    async def closed(self) -> None:
        """Wait until the socket is closed, and nothing reads it any more."""
        for worker in (self._reader, self._drainer):
            if worker is not None:
                await worker.stopped()
        with contextlib.suppress(OSError):
            await self._writer.wait_closed()


# What redis-py has no public name for, and nothing else of it:


def _writer(connection: _Connection) -> asyncio.StreamWriter:
    """The stream: to write without waiting, and to abort."""
    assert connection._writer is not None
    return connection._writer


def _mark_pushes(connection: _Connection) -> None:
    """Wrap pushes. The parser is only known once connected: it is replaced there if it does not speak RESP3."""

    async def mark(items: list[Any]) -> Push:
        return Push(items)

    connection._parser.set_pubsub_push_handler(mark)
    connection._parser.set_invalidation_push_handler(mark)


def _read_as_usual(connection: _Connection) -> bool:
    """Nobody has replaced redis-py's way of reading, so that another may stand in for it."""
    reading = cast(object, type(connection).read_response)
    return reading is Connection.read_response and type(connection._parser) is DefaultParser


def _unread(connection: _Connection) -> bool:
    """Something came that was not read, or that cannot be told at once: it would be old news otherwise."""
    answer = connection._parser.can_read()
    try:
        answer.send(None)
    except StopIteration as stop:
        return bool(stop.value)
    answer.close()
    return True


def _close(connection: _Connection) -> None:
    """Close without waiting; the public `disconnect` is a coroutine."""
    connection._parser.on_disconnect()
    with contextlib.suppress(OSError, RuntimeError):
        connection._close()


def _recipe(source: str | Redis, protocol: int) -> tuple[type[Any], dict[str, Any]]:
    if isinstance(source, str):
        pool = _pool_of_url(source)
    elif isinstance(source, RedisCluster):
        raise ConfigurationError("", "a Redis Cluster client cannot be used: give the URL of one server")
    elif isinstance(source, Sentinel):
        raise ConfigurationError("", "a Sentinel cannot be used: give the URL of the master")
    elif isinstance(source, Redis):
        pool = source.connection_pool
    else:
        raise ConfigurationError(
            "", f"a URL or a redis.asyncio.Redis is needed, not {type(source).__module__}.{type(source).__qualname__}"
        )
    if isinstance(pool, SentinelConnectionPool):
        raise ConfigurationError("", "a client made by Sentinel cannot be used: give the URL of the master")
    options = {key: value for key, value in pool.connection_kwargs.items() if key not in _POOL_ONLY}
    host = options.pop("orig_host_address", None)
    if host:
        options["host"] = host
    options.update(
        protocol=protocol,
        retry=Retry(NoBackoff(), 0),
        socket_timeout=None,
        decode_responses=False,
        health_check_interval=0,
        maint_notifications_config=MaintNotificationsConfig(enabled=False),
    )
    options.setdefault("socket_connect_timeout", CONNECT_TIMEOUT)
    return pool.connection_class, options


def _pool_of_url(url: str) -> ConnectionPool:
    # Never the text of an error about a URL: it may quote the password.
    try:
        parts = urlsplit(url)
        pool = ConnectionPool.from_url(url)
    except Exception:
        raise ConfigurationError(
            "", "this is no Redis URL: write redis://[user:password@]host:port/db, rediss:// for TLS, or unix://path "
            "(percent-encode special characters in a password)"
        ) from None  # fmt: skip
    if parts.scheme == "unix":
        if not parts.path:
            raise ConfigurationError("", "a unix:// URL needs the path of the socket")
    elif parts.path.strip("/") and not parts.path.strip("/").isdecimal():
        raise ConfigurationError("", "the path of a Redis URL is the number of the database, as in redis://host:6379/0")
    return pool
