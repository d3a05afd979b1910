"""What you can make a connection from, and what happens with servers that are not Redis."""

from __future__ import annotations

import asyncio
import contextlib
import os
import traceback
import warnings
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import redis
import redis.asyncio
from redis.asyncio.retry import Retry
from redis.backoff import ExponentialBackoff

from aiolock.backends.redis import RedisBackend
from aiolock.errors import BackendError, ConfigurationError
from aiolock.testing.server import DOCKER_VARIABLE, RedisServer
from tests.support import acl
from tests.support.proxy import FaultProxy

from .calls import Log, append, echo, result
from .conftest import Connect, server_tls

Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@pytest.mark.parametrize(
    "url",
    [
        "",
        "localhost:6379",
        "http://user:hunter2@localhost",
        "redis://user:hun#ter2@localhost:6379/0",
        "redis://user:hunter2@localhost:port/0",
        "redis://:hunter2@localhost:6379/orders",
        "redis://:hunter2@localhost:6379/?db=orders",
        "redis://:hunter2@localhost:6379/0?no_such_option=1",
        "rediss://:hunter2@localhost:6379/0?ssl_cert_reqs=perhaps",
        "unix://",
    ],
)
def test_a_bad_url_is_found_at_construction_and_never_quoted(url: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        RedisBackend(url)
    shown = "".join(traceback.format_exception(caught.value, chain=True))
    source_lines = [line for line in shown.splitlines() if "RedisBackend(" not in line]
    assert "hunter2" not in "".join(source_lines)
    assert "hun#" not in str(caught.value)


@pytest.mark.parametrize(
    ("url", "db"),
    [
        ("redis://localhost", 0),
        ("redis://localhost:6379/", 0),
        ("redis://localhost:6379/7", 7),
        ("redis://localhost?db=3", 3),
        ("rediss://u:p%40@localhost:6380/2", 2),
        ("unix:///tmp/redis.sock?db=5", 5),
    ],
)
def test_the_database(url: str, db: int) -> None:
    assert RedisBackend(url).db == db


async def test_clients_of_several_servers_are_refused() -> None:
    sentinel = redis.asyncio.Sentinel([("localhost", 1)])
    sources: list[Any] = [sentinel, object(), None]
    for source in sources:
        with pytest.raises(ConfigurationError, match=r"URL|redis\.asyncio"):
            RedisBackend(source)


async def test_a_cluster_client_is_refused() -> None:
    cluster = redis.asyncio.RedisCluster(host="localhost", port=1)
    with pytest.raises(ConfigurationError, match="Cluster"):
        RedisBackend(cluster)  # type: ignore[arg-type]


async def works(backend: RedisBackend, raw: redis.asyncio.Redis) -> None:
    """Scripts, subscriptions and a reconnect."""
    woken = Log()
    await backend.subscribe("c", woken)
    before = backend._dialer.opened
    assert await backend.run(echo("grün")) == "grün"
    await raw.eval("for i = 1, 3000 do redis.call('PUBLISH', 'c', i) end", 0)
    assert len(await woken.has(3001)) == 3001
    await raw.client_kill_filter(_type="pubsub")
    await woken.has(3002)
    assert await backend.run(echo("again")) == "again"
    assert backend._dialer.opened == before + 1


@pytest.mark.any_loop
async def test_tcp(backend: RedisBackend, raw: redis.asyncio.Redis) -> None:
    await works(backend, raw)
    assert backend._dialer.opened == 2


async def test_a_client_with_odd_settings(
    connect: Connect, raw: redis.asyncio.Redis, redis_server: RedisServer
) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # retry_on_timeout, in newer versions
        client = redis.asyncio.Redis(
            host=redis_server.host,
            port=redis_server.port,
            db=3,
            protocol=2,
            encoding="latin-1",
            decode_responses=True,
            health_check_interval=1,
            socket_timeout=0.001,
            retry=Retry(ExponentialBackoff(), 5),
            retry_on_timeout=True,
            retry_on_error=[ValueError],
            client_name="odd",
            max_connections=1,
        )
    backend = await connect(client)
    assert backend.db == 3
    await works(backend, raw)
    await backend.run(append("x"))
    assert [c["db"] for c in await raw.client_list() if c["name"] == "odd"] == ["3"]
    assert await raw.exists("seen") == 0
    assert client.connection_pool.connection_kwargs["decode_responses"] is True
    await client.aclose()


async def test_a_credential_provider(connect: Connect, raw: redis.asyncio.Redis, redis_server: RedisServer) -> None:
    await raw.execute_command(*acl.setuser(raw, "provided", *acl.EVERYTHING))
    provider = redis.UsernamePasswordCredentialProvider("provided", "secret")
    client = redis.asyncio.Redis(host=redis_server.host, port=redis_server.port, credential_provider=provider)
    backend = await connect(client)
    assert await backend.run(echo("x")) == "x"
    assert "provided" in [c["user"] for c in await raw.client_list()]
    await raw.acl_deluser("provided")


@pytest.fixture
def socket_server(tmp_path: Path) -> Iterator[tuple[RedisServer, Path]]:
    path = tmp_path / "redis.sock"
    with RedisServer.start("--unixsocket", str(path), owned=True) as server:
        yield server, path


@pytest.mark.skipif(os.environ.get(DOCKER_VARIABLE) == "1", reason="a container's files are its own")
@pytest.mark.any_loop
async def test_a_unix_socket(connect: Connect, socket_server: tuple[RedisServer, Path]) -> None:
    server, path = socket_server
    async with redis.asyncio.Redis.from_url(server.url) as raw:
        await works(await connect(f"unix://{path}?db=1"), raw)
        await raw.config_set("requirepass", "secret")
        with pytest.raises(BackendError) as caught:
            await connect(f"unix://{path}")
        assert isinstance(caught.value.__cause__, redis.exceptions.AuthenticationError)
        assert not caught.value.transient
        await raw.config_set("requirepass", "")
    with pytest.raises(BackendError):
        await connect(f"unix://{path}.not")


@pytest.mark.any_loop
async def test_tls(connect: Connect, redis_server: RedisServer, raw: redis.asyncio.Redis, certificate: Path) -> None:
    async with FaultProxy(redis_server.host, redis_server.port, tls=server_tls(certificate)) as proxy:
        backend = await connect(f"{proxy.url}?ssl_ca_certs={certificate / 'authority.pem'}", request_timeout=1.0)
        await works(backend, raw)
        large = "x" * 1_000_000
        assert await backend.run(echo(large)) == large
        hole = proxy.blackhole("requests")
        assert isinstance(await result(backend.run(echo("lost"))), BackendError)
        hole.lift()
        assert await result(backend.run(echo("found"))) == "found"
        await backend.aclose()
        with pytest.raises(BackendError):
            await connect(proxy.url)  # the certificate has no trusted issuer


@contextlib.asynccontextmanager
async def fake(serve: Serve) -> AsyncIterator[str]:
    tasks: set[asyncio.Task[Any]] = set()

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        tasks.add(task)
        try:
            await serve(reader, writer)
        except (asyncio.CancelledError, ConnectionError):
            pass
        finally:
            writer.close()
            with contextlib.suppress(ConnectionError, asyncio.CancelledError):
                await writer.wait_closed()

    server = await asyncio.start_server(handle, "127.0.0.1", 0)
    try:
        yield f"redis://:hunter2@127.0.0.1:{server.sockets[0].getsockname()[1]}/0"
    finally:
        server.close()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def says_nothing(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await asyncio.Event().wait()


async def hangs_up(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.read(10)


def says(*answers: bytes) -> Serve:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for answer in answers:
            await reader.read(1000)
            writer.write(answer)
            await writer.drain()
        await asyncio.Event().wait()

    return serve


HELLO = b"%1\r\n$5\r\nproto\r\n:3\r\n"
OK = b"+OK\r\n"


@pytest.mark.parametrize(
    ("serve", "kind", "message"),
    [
        (says_nothing, BackendError, "in time"),
        (hangs_up, BackendError, "reached"),
        (says(b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n"), BackendError, "like Redis"),
        (says(b"\x00\x01\x02\xff" * 50 + b"\r\n"), BackendError, "like Redis"),
        (says(b"x" * 200_000), BackendError, "like Redis|in time"),
        (says(b"+OK\r\n" * 10), BackendError, "like Redis"),
        (says(b"$-1\r\n"), BackendError, "like Redis|in time"),
        (says(b"-ERR max number of clients reached\r\n"), BackendError, "max number of clients"),
        (says(b"-ERR unknown command 'HELLO'\r\n"), ConfigurationError, "Redis 6"),
        (says(b"-ERR unsupported command 'hello'\r\n"), ConfigurationError, r"Redis 6.*proxy.*waiting=Poll\(\)"),
        (says(b"-NOPROTO unsupported protocol version\r\n"), ConfigurationError, "Redis 6"),
        (
            says(HELLO + OK + OK, b"$0\r\n\r\n$20\r\nredis_version:5.0.14\r\n$0\r\n\r\n+OK\r\n"),
            ConfigurationError,
            "5.0.14",
        ),
        (says(HELLO + OK + OK, b"garbage\r\n"), BackendError, "like Redis"),
        (says(HELLO + OK + OK), BackendError, "in time"),
    ],
)
async def test_a_server_that_is_not_redis(serve: Serve, kind: type[Exception], message: str) -> None:
    async with fake(serve) as url:
        backend = RedisBackend(url)
        with pytest.raises(kind, match=message) as caught:
            await asyncio.wait_for(backend.open(timeout=0.5, reconnected=lambda: None), 5)
        assert "hunter2" not in str(caught.value)
        assert caught.value.__cause__ is not None or kind is ConfigurationError


@pytest.mark.any_loop
@pytest.mark.parametrize("abandoned", [True, False])
async def test_abandoned_with_a_reset_and_closed_without(abandoned: bool) -> None:
    """What the kernel still holds of an abandoned connection must not arrive later (review C4)."""
    ends: asyncio.Queue[str] = asyncio.Queue()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await says_hello(reader, writer)
        try:
            while await reader.read(1000):
                pass
            ends.put_nowait("end")
        except ConnectionResetError:
            ends.put_nowait("reset")

    async def says_hello(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for answer in (HELLO + OK + OK, b"$0\r\n\r\n" * 4):
            await reader.read(1000)
            writer.write(answer)

    async with fake(serve) as url:
        backend = RedisBackend(url, request_timeout=0.3)
        await backend.open(timeout=5, reconnected=lambda: None)
        future = backend.run(echo("x"))
        if abandoned:
            assert isinstance(await result(future), BackendError)
        await backend.aclose()
        assert await asyncio.wait_for(ends.get(), 10) == ("reset" if abandoned else "end")


@pytest.mark.any_loop
async def test_a_server_that_ends_while_it_does_not_read() -> None:
    """Its end is noticed although unsent data keeps the connection from closing in order."""
    ends: asyncio.Queue[str] = asyncio.Queue()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for answer in (HELLO + OK + OK, b"$0\r\n\r\n" * 4):
            await reader.read(1000)
            writer.write(answer)
        await reader.read(10)
        writer.transport.pause_reading()  # type: ignore[attr-defined]
        writer.write_eof()
        await closed.wait()
        writer.transport.resume_reading()  # type: ignore[attr-defined]
        try:
            while await reader.read(1_000_000):
                pass
            ends.put_nowait("end")
        except ConnectionResetError:
            ends.put_nowait("reset")

    closed = asyncio.Event()
    async with fake(serve) as url:
        backend = RedisBackend(url, request_timeout=30.0)
        await backend.open(timeout=5, reconnected=lambda: None)
        assert isinstance(await result(backend.run(echo("x" * 20_000_000))), BackendError)
        closed.set()
        assert await asyncio.wait_for(ends.get(), 10) == "reset"
        await backend.aclose()


async def test_no_server_listens() -> None:
    async with fake(says_nothing) as url:
        pass
    with pytest.raises(BackendError) as caught:
        await RedisBackend(url).open(timeout=5, reconnected=lambda: None)
    assert caught.value.transient
    assert isinstance(caught.value.__cause__, redis.exceptions.ConnectionError)
