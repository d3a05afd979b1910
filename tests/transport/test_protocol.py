"""A transport read without a stream: each reply is delivered once, in order, until the end and not beyond it."""

from __future__ import annotations

import asyncio
import ssl
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import redis.asyncio
from hiredis import PushNotification
from redis.exceptions import InvalidResponse

from aiolock.backends.redis import RedisBackend
from aiolock.backends.redis.clients import recipe, take_streams
from aiolock.backends.redis.connection import Link, ServerConnector, pack
from aiolock.backends.redis.failures import ErrorReply
from aiolock.backends.redis.protocol import RespProtocol
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
    protocol = RespProtocol(transport)
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


async def test_errors_are_replies(protocol: RespProtocol) -> None:
    got: list[Any] = []
    reading = Reading(protocol, got.append)
    protocol.data_received(b"-LOADING Redis is loading\r\n-ERR no\r\n:1\r\n")
    assert [type(reply) for reply in got] == [ErrorReply, ErrorReply, int]
    assert [str(reply) for reply in got] == ["LOADING Redis is loading", "ERR no", "1"]
    assert reading.ends == []
    protocol.connection_lost(LOST)
    assert reading.end is LOST


async def test_thousands_in_one_read(protocol: RespProtocol) -> None:
    got: list[Any] = []
    reading = Reading(protocol, got.append)
    protocol.data_received(b">3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$1\r\nx\r\n*1\r\n:1\r\n" * 10_000)
    assert [type(item) for item in got] == [PushNotification, list] * 10_000
    assert got[-2] == [b"message", b"c", b"x"]
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
    assert stream.told == ["resume", None]


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


async def test_the_stream_is_not_told_why_the_connection_was_lost(protocol: RespProtocol, stream: Stream) -> None:
    """It would keep the error in a future that nobody awaits, which the loop reports if it is collected first."""
    reading = Reading(protocol, lambda reply: None)
    protocol.connection_lost(LOST)
    assert stream.told == [None]
    assert reading.end is LOST


# When the transport is taken over:


async def streams(url: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Of a connection that redis-py has made."""
    kind, options = recipe(url, 3)
    connection = kind(**options)
    await connection.connect()
    taken = take_streams(connection)
    assert taken is not None
    return taken


@pytest.fixture
async def silent(redis_url: str) -> Any:
    reader, writer = await streams(redis_url)
    yield reader, writer
    writer.transport.abort()
    with suppress(OSError):
        await writer.wait_closed()


@pytest.mark.any_loop
async def test_asked_and_then_read(silent: Any) -> None:
    link = Link(*silent)
    assert await link.ask([(b"PING", b"one"), (b"NO",), (b"PING", b"two")]) == [b"one", AnyError(), b"two"]
    got: list[object] = []
    link.write(pack((b"PING", b"three")))
    reading = Reading(link, got.append)
    await until(lambda: got == [b"three"])
    link.reset()
    await link.closed()
    assert reading.ends == []


class AnyError:
    def __eq__(self, other: object) -> bool:
        return isinstance(other, ErrorReply)


async def test_pushes_are_no_replies_and_what_comes_behind_is_kept(silent: Any) -> None:
    link = Link(*silent)
    asked = asyncio.create_task(link.ask([(b"PING", b"one")]))
    await asyncio.sleep(0)
    protocol: Any = link._transport.get_protocol()
    protocol.data_received(b">1\r\n:1\r\n+one\r\n+behind\r\n")
    assert await asked == [b"one"]
    got: list[object] = []
    Reading(link, got.append)
    assert got[0] == b"behind"  # the server answers, too
    link.reset()


@pytest.mark.any_loop
@pytest.mark.parametrize(("came", "found"), [(b"+whole\r\n", [b"whole"]), (b"+unfin", [b"unfinished"])])
async def test_what_was_left_in_the_stream_comes_first(silent: Any, came: bytes, found: list[object]) -> None:
    silent[1].transport.get_protocol().data_received(came)
    link = Link(*silent)
    got: list[object] = []
    Reading(link, got.append)
    if not got:
        protocol: Any = link._transport.get_protocol()
        protocol.data_received(b"ished\r\n")
    assert got == found
    link.reset()


async def test_its_end_had_come_already(silent: Any) -> None:
    silent[1].transport.get_protocol().eof_received()
    link = Link(*silent)
    assert isinstance(Reading(link, lambda reply: None).end, ConnectionError)
    link.reset()


async def test_lost_while_it_is_asked(silent: Any) -> None:
    link = Link(*silent)
    asked = asyncio.create_task(link.ask([(b"PING",)]))
    await asyncio.sleep(0)
    link._transport.abort()
    with pytest.raises(ConnectionError):
        await asked
    link.reset()


@pytest.mark.any_loop
@pytest.mark.parametrize("tls", [False, True])
@pytest.mark.parametrize("turns", range(4))
async def test_lost_just_before_it_would_be_taken_over(
    redis_server: RedisServer, certificate: Path, tls: bool, turns: int
) -> None:
    """TLS reports its loss to the protocol it had then: a later one would never hear of it."""
    context: ssl.SSLContext | None = server_tls(certificate) if tls else None
    lost: list[asyncio.StreamWriter] = []

    async with FaultProxy(redis_server.host, redis_server.port, tls=context) as proxy:
        url = f"{proxy.url}?ssl_ca_certs={certificate / 'authority.pem'}" if tls else proxy.url
        connector = ServerConnector(url)
        kind: Any = connector._class

        class Unlucky(kind):  # type: ignore[misc]
            async def connect(self) -> None:
                await super().connect()
                self._writer.transport.abort()
                lost.append(self._writer)
                for _ in range(turns):
                    await asyncio.sleep(0)

        connector._class = Unlucky
        with pytest.raises(ConnectionError):
            await connector.connect()
        with suppress(OSError):
            await asyncio.wait_for(lost[0].wait_closed(), 10)


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
