"""One connection to one server: requests leave as they are made, and are answered in their order."""

from __future__ import annotations

import asyncio
import ssl
from collections import deque
from collections.abc import Callable
from typing import NamedTuple

from ...clock import Clock
from ...errors import BackendError
from ..coordinator.store import Away
from . import jute
from .jute import Answered, Code, Greeting, Op, Reader

LARGEST = 64 * 1024 * 1024
"""Bytes of an answer; more are none."""
_EVENT, _PING, _AUTHENTICATION = -1, -2, -4
_UNSURE = (Code.CONNECTION_LOSS, Code.TIMEOUT, Code.SESSION_MOVED)
"""It may have been done, and this connection is of no use any more."""


class Reply(NamedTuple):
    """An answer.

    Attributes:
        zxid: the last change that the server knew.
        body: reads what it says.
    """

    zxid: int
    body: Reader


class _Asked(NamedTuple):
    xid: int
    op: Op
    sent_at: float
    told: asyncio.Future[Reply]


class Link(asyncio.Protocol):
    """A connection, until it fails: then it never works again.

    Args:
        address: host and port, for people.
        clock: see `confirmed`.
        heard: told of each event of a watch: what, and of which node.
        failed: told once why it works no more.

    Attributes:
        confirmed: clock time at which the last request was made that most servers have taken.
        seen: the last change that the server knew.
        over: the server says that the session has expired.
    """

    def __init__(
        self, address: str, clock: Clock, heard: Callable[[int, str], None], failed: Callable[[Exception], None]
    ) -> None:
        self.address: str = address
        self.confirmed: float = 0.0
        self.seen: int = 0
        self.over: bool = False
        self.closed: bool = False
        self._clock = clock
        self._heard = heard
        self._failed = failed
        self._transport: asyncio.Transport | None = None
        self._loop = asyncio.get_running_loop()
        self._greeting: asyncio.Future[Greeting] | None = None
        self._asked: deque[_Asked] = deque()
        self._xid = 0
        self._pinged: float | None = None
        self._wrote = 0.0
        self._buffer = bytearray()

    async def open(self, host: str, port: int, tls: ssl.SSLContext | None) -> None:
        """Connect. Raises `OSError`."""
        await self._loop.create_connection(lambda: self, host, port, ssl=tls)

    async def greet(self, body: bytes) -> Greeting:
        """Say whose session it is. Raises `ConnectionError`."""
        self._greeting = self._loop.create_future()
        if self.closed:
            raise ConnectionError("the server closed the connection")
        self._write(body)
        return await self._greeting

    def authenticate(self, name: str, password: str) -> None:
        """Say who it is; a wrong password makes the server end the connection."""
        self._write(jute.number(_AUTHENTICATION) + jute.number(Op.AUTHENTICATE) + jute.authenticate(name, password))

    def ask(self, op: Op, body: bytes) -> asyncio.Future[Reply]:
        """Write a request now.

        Returns:
            Its answer; or `Answered`, or `Away`.
        """
        told: asyncio.Future[Reply] = self._loop.create_future()
        if self.closed:
            _fail(told, self._away("the connection is closed", ran=False))
            return told
        self._xid = self._xid % 0x7FFFFFFF + 1
        self._asked.append(_Asked(self._xid, op, self._clock.now(), told))
        self._write(jute.number(self._xid) + jute.number(op) + body)
        return told

    def ping(self) -> None:
        """Say that the session lives."""
        if self._pinged is None:
            self._pinged = self._clock.now()
        self._write(jute.number(_PING) + jute.number(Op.PING))

    def idle(self) -> float:
        """Seconds since anything was written."""
        return self._clock.now() - self._wrote

    def waited(self) -> float:
        """For how many seconds the longest wait for an answer lasts."""
        since = [asked.sent_at for asked in (*self._asked,)[:1]]
        if self._pinged is not None:
            since.append(self._pinged)
        return self._clock.now() - min(since) if since else 0.0

    def _write(self, packet: bytes) -> None:
        if self._transport is not None and not self.closed:
            self._wrote = self._clock.now()
            self._transport.write(jute.buffer(packet))

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        if self.closed:
            transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        self.fail(exc or ConnectionError("the server closed the connection"))

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        at, end = 0, len(self._buffer)
        while end - at >= 4 and not self.closed:
            size = int.from_bytes(self._buffer[at : at + 4], "big", signed=True)
            if not 0 <= size <= LARGEST:
                self.fail(ConnectionError(f"the server sent a packet of {size} bytes: is it ZooKeeper?"))
                return
            if end - at < 4 + size:
                break
            packet = bytes(self._buffer[at + 4 : at + 4 + size])
            at += 4 + size
            try:
                self._take(packet)
            except (Answered, OSError) as error:
                self.fail(error)
            except Exception as error:  # nothing that comes later can be trusted
                self.fail(ConnectionError(f"what the server sent cannot be read ({error!r})"))
        del self._buffer[:at]

    def _take(self, packet: bytes) -> None:
        body = Reader(packet)
        if self._greeting is not None and not self._greeting.done():
            self._greeting.set_result(body.greeting())
            return
        xid, zxid, code = body.head()
        if xid == _EVENT:
            self._heard(*body.event())
        elif xid == _PING:
            self._pinged = None
        elif xid == _AUTHENTICATION:
            if code != 0:
                raise PermissionError("the server does not know this user and password")
        else:
            self._answer(xid, zxid, code, body)

    def _answer(self, xid: int, zxid: int, code: int, body: Reader) -> None:
        asked = self._asked.popleft()
        if asked.xid != xid:
            self._asked.appendleft(asked)
            raise ConnectionError(f"the server answered request {xid} instead of {asked.xid}")
        self.seen = max(self.seen, zxid)
        if code == 0:
            if asked.op.writes:
                self.confirmed = max(self.confirmed, asked.sent_at)
            if not asked.told.done():
                asked.told.set_result(Reply(zxid, body))
            return
        if code == Code.SESSION_EXPIRED:
            self.over = True
        if code in _UNSURE or self.over:
            self._asked.appendleft(asked)
            raise Answered(code)
        _fail(asked.told, Answered(code))

    def fail(self, why: Exception) -> None:
        """Close it, and tell why."""
        if not self.closed:
            self.close(why)
            self._failed(why)

    def close(self, why: Exception | None = None) -> None:
        """Close it: whatever is asked gets no answer."""
        self.closed = True
        if self._transport is not None:
            self._transport.abort()
        if self._greeting is not None and not self._greeting.done():
            _fail(self._greeting, why or ConnectionError("the connection is closed"))
        asked, self._asked = self._asked, deque()
        for one in asked:
            _fail(one.told, self._away(str(why or "the connection is closed")))

    def _away(self, why: str, ran: bool = True) -> Away:
        return Away(BackendError("", f"ZooKeeper at {self.address}: {why}", transient=True), ran)


def _fail(told: asyncio.Future[Reply] | asyncio.Future[Greeting], error: Exception) -> None:
    if not told.done():
        told.set_exception(error)
        told.exception()  # whoever asked may have gone on
