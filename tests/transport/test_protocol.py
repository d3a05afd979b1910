"""A transport read without a stream: each reply is delivered once, in order, until the end and not beyond it."""

from __future__ import annotations

import asyncio
import ssl
import sys
from pathlib import Path
from typing import Any

import pytest
import redis.asyncio
from redis._parsers import _AsyncHiredisParser
from redis.exceptions import BusyLoadingError, InvalidResponse

from aiolock.backends.redis import RedisBackend
from aiolock.backends.redis.connection import Connector, Link
from aiolock.backends.redis.protocol import RespProtocol
from aiolock.backends.redis.push import Push
from aiolock.backends.redis.replies import Desync
from aiolock.testing.server import RedisServer
from tests.support.proxy import FaultProxy
from tests.support.redis_cli import CommandStats

from .calls import ECHO, append, echo, until
from .conftest import Connect, server_tls

LOST = ConnectionResetError("reset by peer")


class Stream(asyncio.Protocol):
    """The protocol that ours replaces; keeps what it is told."""

    def __init__(self) -> None:
        self.told: list[object] = []

    def data_received(self, data: bytes) -> None:
        self.told.append("data")

    def eof_received(self) -> bool:
        self.told.append("eof")
        return True

    def connection_lost(self, exc: Exception | None) -> None:
        self.told.append(exc)

    def pause_writing(self) -> None:
        self.told.append("pause")

    def resume_writing(self) -> None:
        self.told.append("resume")


class Transport(asyncio.Transport):
    def __init__(self, protocol: asyncio.BaseProtocol) -> None:
        self.protocol = protocol

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        self.protocol = protocol

    def get_protocol(self) -> asyncio.BaseProtocol:
        return self.protocol


@pytest.fixture
def stream() -> Stream:
    return Stream()


@pytest.fixture
async def protocol(stream: Stream) -> RespProtocol:
    transport = Transport(stream)
    protocol = RespProtocol(transport, _AsyncHiredisParser.parse_error)
    assert transport.get_protocol() is protocol
    return protocol


class Reading:
    """A reader of a connection.

    Attributes:
        ends: why nothing more comes, each time that was said.
        resumed: how often it was told to continue writing.
    """

    def __init__(self, protocol: RespProtocol | Link, receive: Any) -> None:
        self.ends: list[Exception] = []
        self.resumed = 0
        protocol.start(receive, self.ends.append, self._resume)

    def _resume(self) -> None:
        self.resumed += 1

    @property
    def end(self) -> Exception:
        (end,) = self.ends
        return end


async def test_replies_from_before_the_first_read_come_first(protocol: RespProtocol) -> None:
    got: list[object] = []
    protocol.data_received(b":1\r\n:")
    protocol.data_received(b"2\r\n")
    reading = Reading(protocol, got.append)
    assert got == [1, 2]
    protocol.data_received(b":3\r\n")
    assert got == [1, 2, 3]
    protocol.connection_lost(LOST)
    assert reading.end is LOST


async def test_replies_from_before_the_first_read_and_then_the_end(protocol: RespProtocol) -> None:
    got: list[object] = []
    protocol.data_received(b":1\r\n")
    protocol.eof_received()
    protocol.connection_lost(None)
    assert isinstance(Reading(protocol, got.append).end, ConnectionError)
    assert got == [1]


async def test_every_byte_alone(protocol: RespProtocol) -> None:
    got: list[object] = []
    reading = Reading(protocol, got.append)
    for byte in b"$4\r\n\r\n$1\r\n*2\r\n:1\r\n$-1\r\n_\r\n#f\r\n*0\r\n+OK\r\n":
        protocol.data_received(bytes([byte]))
    assert got == [b"\r\n$1", [1, None], None, False, [], b"OK"]
    protocol.connection_lost(LOST)
    assert reading.end is LOST


async def test_errors_are_replies_whatever_their_class(protocol: RespProtocol) -> None:
    got: list[Any] = []
    reading = Reading(protocol, got.append)
    protocol.data_received(b"-LOADING Redis is loading\r\n-ERR no\r\n:1\r\n")
    assert [type(reply).__name__ for reply in got] == ["BusyLoadingError", "ResponseError", "int"]
    assert isinstance(got[0], BusyLoadingError)
    assert reading.ends == []
    protocol.connection_lost(LOST)
    assert reading.end is LOST


async def test_thousands_in_one_read(protocol: RespProtocol) -> None:
    got: list[Any] = []
    reading = Reading(protocol, got.append)
    protocol.data_received(b">3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$1\r\nx\r\n*1\r\n:1\r\n" * 10_000)
    assert [type(item) for item in got] == [Push, list] * 10_000
    assert got[-2].items == [b"message", b"c", b"x"]
    protocol.connection_lost(LOST)
    assert reading.end is LOST


async def test_nothing_is_delivered_after_a_failure(protocol: RespProtocol) -> None:
    got: list[object] = []

    def receive(reply: object) -> None:
        got.append(reply)
        if reply == 2:
            raise Desync("out of step")

    reading = Reading(protocol, receive)
    protocol.data_received(b":1\r\n:2\r\n:3\r\n")
    protocol.data_received(b":4\r\n")
    assert isinstance(reading.end, Desync)
    protocol.data_received(b":5\r\n")
    protocol.connection_lost(LOST)
    assert got == [1, 2]


async def test_what_is_not_resp_ends_it(protocol: RespProtocol) -> None:
    got: list[object] = []
    reading = Reading(protocol, got.append)
    protocol.data_received(b":1\r\nHTTP/1.1 400 Bad Request\r\n")
    assert isinstance(reading.end, InvalidResponse)
    assert got == [1]


async def test_stopped(protocol: RespProtocol, stream: Stream) -> None:
    got: list[object] = []
    reading = Reading(protocol, got.append)
    protocol.stop()
    protocol.data_received(b":1\r\n")
    protocol.resume_writing()
    protocol.connection_lost(LOST)
    assert got == reading.ends == []
    assert reading.resumed == 0
    assert stream.told == ["resume", LOST]


async def test_interrupted_while_replies_are_delivered(protocol: RespProtocol) -> None:
    """A signal handler's `sys.exit()`: it is unknown who got a reply, so no one gets another."""
    got: list[object] = []

    def receive(reply: object) -> None:
        if reply == 2:
            raise SystemExit
        got.append(reply)

    reading = Reading(protocol, receive)
    with pytest.raises(SystemExit):
        protocol.data_received(b":1\r\n:2\r\n:3\r\n")
    protocol.data_received(b":4\r\n")
    assert got == [1]
    assert isinstance(reading.end, ConnectionError)


async def test_a_writer_hears_when_to_continue(protocol: RespProtocol) -> None:
    reading = Reading(protocol, lambda reply: None)
    protocol.pause_writing()
    assert (protocol.paused, reading.resumed) == (True, 0)
    protocol.resume_writing()
    assert (protocol.paused, reading.resumed) == (False, 1)


async def test_the_end_of_the_servers_output_is_the_end(protocol: RespProtocol, stream: Stream) -> None:
    """Although unsent bytes may keep the transport from being lost for long."""
    reading = Reading(protocol, lambda reply: None)
    assert protocol.eof_received() is True
    assert isinstance(reading.end, ConnectionError)
    assert stream.told == ["eof"]


async def test_the_stream_hears_what_it_needs_for_writing_and_closing(protocol: RespProtocol, stream: Stream) -> None:
    protocol.pause_writing()
    protocol.data_received(b":1\r\n")
    protocol.resume_writing()
    protocol.connection_lost(None)
    assert stream.told == ["pause", "resume", None]


# When the transport is taken over:


@pytest.fixture
async def link(redis_url: str) -> Any:
    link = await Connector(redis_url).connect()
    yield link
    link.reset()
    await link.closed()


def taken_over(link: Link) -> bool:
    link.attach()
    return isinstance(link._transport.get_protocol(), RespProtocol)


@pytest.mark.any_loop
async def test_a_silent_connection_is_taken_over(link: Link) -> None:
    assert taken_over(link)


@pytest.mark.parametrize("came", [b"+left in the stream\r\n", b"+unfin"])
async def test_not_while_data_is_left_in_the_stream(link: Link, came: bytes) -> None:
    protocol: Any = link._transport.get_protocol()
    protocol.data_received(came)
    assert not taken_over(link)


async def test_not_while_data_is_left_in_the_parser(link: Link) -> None:
    protocol: Any = link._transport.get_protocol()
    protocol.data_received(b"+read\r\n+left in the parser\r\n")
    assert await link.read() == b"read"
    assert not taken_over(link)
    assert await link.read() == b"left in the parser"


async def test_not_past_the_end(link: Link) -> None:
    protocol: Any = link._transport.get_protocol()
    protocol.eof_received()
    assert not taken_over(link)


async def test_not_if_the_reader_cannot_be_told_at_once(link: Link) -> None:
    async def can_read() -> bool:
        await asyncio.sleep(0)
        return False

    link._connection._parser.can_read = can_read  # type: ignore[method-assign]
    assert not taken_over(link)


class OwnParser(_AsyncHiredisParser):
    """A user's own parser, which looks at what is read."""


class OwnConnection(redis.asyncio.Connection):
    async def read_response(self, *args: Any, **options: Any) -> Any:
        return await super().read_response(*args, **options)


@pytest.mark.parametrize("own", [{"parser_class": OwnParser}, {"connection_class": OwnConnection}])
async def test_not_where_a_user_reads_in_another_way(redis_url: str, own: dict[str, Any]) -> None:
    pool = redis.asyncio.ConnectionPool.from_url(redis_url, **own)
    link = await Connector(redis.asyncio.Redis(connection_pool=pool)).connect()
    assert not taken_over(link)
    link.reset()
    await link.closed()


@pytest.mark.any_loop
@pytest.mark.parametrize("tls", [False, True])
@pytest.mark.parametrize("turns", range(4))
async def test_lost_just_before_it_would_be_taken_over(
    redis_server: RedisServer, certificate: Path, tls: bool, turns: int
) -> None:
    """TLS reports its loss to the protocol it had then: a later one would never hear of it."""
    context: ssl.SSLContext | None = server_tls(certificate) if tls else None
    async with FaultProxy(redis_server.host, redis_server.port, tls=context) as proxy:
        url = f"{proxy.url}?ssl_ca_certs={certificate / 'authority.pem'}" if tls else proxy.url
        link = await Connector(url).connect()
        link._transport.abort()
        for _ in range(turns):
            await asyncio.sleep(0)
        link.attach()
        reading = Reading(link, lambda reply: None)
        await until(lambda: reading.ends)
        assert isinstance(reading.end, Exception)
        link.reset()
        await asyncio.wait_for(link.closed(), 10)


# What callbacks do while replies are given out:


async def test_calls_made_while_replies_are_delivered_stay_in_step(backend: RedisBackend) -> None:
    inner: list[tuple[str, asyncio.Future[str]]] = []

    def more(outcome: object) -> None:
        for word in (f"{outcome} a", f"{outcome} b"):
            inner.append((word, backend.run(echo(word))))

    calls = [echo(i) for i in range(1000)]
    for call in calls:
        call.settle = more
    assert await asyncio.gather(*(backend.run(call) for call in calls)) == [str(i) for i in range(1000)]
    assert len(inner) == 2000
    assert [await future for _, future in inner] == [word for word, _ in inner]


async def test_calls_that_answer_each_other_pile_up_no_frames(backend: RedisBackend) -> None:
    depths: list[int] = []
    done = asyncio.get_running_loop().create_future()

    def again(outcome: object) -> None:
        frame, depth = sys._getframe(), 0
        while frame := frame.f_back:  # type: ignore[assignment]
            depth += 1
        depths.append(depth)
        if len(depths) == 200:
            done.set_result(None)
        else:
            run()

    def run() -> None:
        call = echo("x")
        call.settle = again
        backend.run(call)

    run()
    await asyncio.wait_for(done, 10)
    assert max(depths) == min(depths)


async def test_repeated_calls_come_before_those_that_a_callback_ran(
    connect: Connect, proxy: FaultProxy, raw: redis.asyncio.Redis, commandstats: CommandStats
) -> None:
    """Replies of one read: the first has a callback that runs a call, the second says that the script is unknown."""
    backend = await connect(proxy.url)
    assert await backend.run(append("first")) == 1
    await backend.run(echo("known"))
    await raw.script_flush()
    await raw.script_load(ECHO.lua)
    made: list[asyncio.Future[int]] = []

    def make(word: str) -> bool:
        made.append(backend.run(append(word)))
        return True

    ahead = echo("ahead")
    ahead.settle = lambda outcome: make("new") and None
    hold = proxy.hold("replies")
    futures = [backend.run(ahead), backend.run(append("again", lambda: make("beside")))]
    await proxy.wait_held()
    async with asyncio.timeout(10):
        while (await commandstats.sent())["evalsha"] < 4:  # noqa: ASYNC110
            await asyncio.sleep(0.005)
    hold.lift()
    await asyncio.gather(*futures)
    await asyncio.gather(*made)
    assert await raw.lrange("seen", 0, -1) == [b"first", b"again", b"beside", b"new"]
