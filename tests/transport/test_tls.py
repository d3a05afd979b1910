"""Mistakes with TLS that no waiting mends: the error says which, what to do, and that it is no outage."""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import inspect
import itertools
import socket
import ssl
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path

import pytest
import redis.asyncio
import redis.exceptions
import trustme

from aiolock import LockManager
from aiolock.backends.redis import RedisBackend, ServerConnector
from aiolock.errors import AiolockError, BackendError, ConfigurationError
from aiolock.testing.server import RedisServer
from tests.support.proxy import FaultProxy

TIMEOUT = 5.0
YEAR = datetime.timedelta(days=365)


@pytest.fixture
def authority() -> trustme.CA:
    return trustme.CA()


@pytest.fixture
def trust(authority: trustme.CA, tmp_path: Path) -> str:
    """The option of a URL that trusts `authority`, and checks names also with redis-py before 6."""
    authority.cert_pem.write_to_path(str(tmp_path / "authority.pem"))
    return f"?ssl_check_hostname=true&ssl_ca_certs={tmp_path / 'authority.pem'}"


@contextlib.asynccontextmanager
async def encrypted(server: RedisServer, certificate: trustme.LeafCert) -> AsyncIterator[str]:
    """The URL of a server with `certificate`."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    certificate.configure_cert(context)
    async with FaultProxy(server.host, server.port, tls=context) as proxy:
        yield proxy.url


@contextlib.contextmanager
def choosy(context: ssl.SSLContext, resets: int = 0) -> Iterator[str]:
    """The URL of a server that refuses handshakes; not asyncio's, which says nothing then.

    Its first `resets` refusals do not get through.
    """
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def refuse(accepted: socket.socket, lost: bool) -> None:
            accepted.settimeout(TIMEOUT)
            with accepted, accepted.dup() as rest, contextlib.suppress(OSError):
                if lost:
                    accepted.recv(1)  # what is left unread makes it a reset
                    return
                with contextlib.suppress(OSError):
                    context.wrap_socket(accepted, server_side=True).close()
                while rest.recv(1000):  # unread, it would have the alert dropped
                    pass

        def serve() -> None:
            for number in itertools.count():
                accepted, _ = listening.accept()
                if over.is_set():
                    accepted.close()
                    return
                refuse(accepted, number < resets)

        over = threading.Event()
        address = listening.getsockname()
        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield f"rediss://127.0.0.1:{address[1]}"
        finally:
            over.set()
            socket.create_connection(address).close()
            thread.join()


@contextlib.asynccontextmanager
async def served(
    serve: Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]],
) -> AsyncIterator[int]:
    """The port of a server that runs `serve` for each connection."""
    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        yield int(server.sockets[0].getsockname()[1])


async def refusal(source: str | redis.asyncio.Redis) -> AiolockError:
    """The error of a start, after which nothing is left open."""
    backend = RedisBackend(source)
    with pytest.raises(AiolockError) as caught:
        await backend.open(timeout=TIMEOUT, reconnected=lambda: None)
    return caught.value


def is_lasting(error: AiolockError) -> bool:
    return isinstance(error, ConfigurationError) or (isinstance(error, BackendError) and not error.transient)


@pytest.mark.any_loop
async def test_a_certificate_that_nobody_vouches_for(redis_server: RedisServer, authority: trustme.CA) -> None:
    async with encrypted(redis_server, authority.issue_cert("127.0.0.1")) as url:
        error = await refusal(url)
    assert is_lasting(error)
    assert "certificate is not trusted" in str(error)
    assert "ssl_ca_certs" in str(error)


async def test_a_certificate_of_another_name(redis_server: RedisServer, authority: trustme.CA, trust: str) -> None:
    for name, called in (("redis.internal", "127.0.0.1"), ("redis.internal", "localhost")):
        async with encrypted(redis_server, authority.issue_cert(name)) as url:
            error = await refusal(url.replace("127.0.0.1", called) + trust)
        assert is_lasting(error)
        assert f"certificate is not valid for '{called}'" in str(error)
        assert "connect by a name" in str(error)


async def test_a_certificate_out_of_its_time(redis_server: RedisServer, authority: trustme.CA, trust: str) -> None:
    now = datetime.datetime.now(datetime.UTC)
    for begin, end, why in ((now - 2 * YEAR, now - YEAR, "has expired"), (now + YEAR, now + 2 * YEAR, "not yet valid")):
        async with encrypted(redis_server, authority.issue_cert("127.0.0.1", not_before=begin, not_after=end)) as url:
            error = await refusal(url + trust)
        assert is_lasting(error)
        assert f"certificate {why}" in str(error).replace("is not", "not")
        assert "clock" in str(error)


@pytest.mark.parametrize("resets", [0, 1])
@pytest.mark.parametrize("newest", [True, False])
@pytest.mark.parametrize("given", [True, False])
async def test_a_certificate_that_the_server_wants(
    authority: trustme.CA, trust: str, tmp_path: Path, given: bool, newest: bool, resets: int
) -> None:
    """None is given, or one that the server does not trust. TLS 1.3 says so after the client's handshake, and what it
    says is often lost, because the client has already written more.
    """
    if given:
        trustme.CA().issue_cert("client").private_key_and_cert_chain_pem.write_to_path(str(tmp_path / "mine.pem"))
        trust += f"&ssl_certfile={tmp_path / 'mine.pem'}&ssl_keyfile={tmp_path / 'mine.pem'}"
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    trustme.CA().configure_trust(context)
    context.verify_mode = ssl.CERT_REQUIRED
    if not newest:
        context.maximum_version = ssl.TLSVersion.TLSv1_2
    with choosy(context, resets) as url:
        error = await refusal(url + trust)
    assert is_lasting(error)
    assert "ssl_certfile" in str(error)


@pytest.mark.skipif(
    "ssl_min_version" not in inspect.signature(redis.asyncio.SSLConnection).parameters, reason="not in this redis-py"
)
async def test_no_version_in_common(authority: trustme.CA, trust: str) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    with choosy(context) as url:
        # In a URL it would be text for redis-py 6.
        error = await refusal(redis.asyncio.Redis.from_url(url + trust, ssl_min_version=ssl.TLSVersion.TLSv1_3))
    assert is_lasting(error)
    assert "ssl_min_version" in str(error)


async def test_files_that_cannot_be_used(
    redis_server: RedisServer, authority: trustme.CA, trust: str, tmp_path: Path
) -> None:
    """They are looked at for each connection: one that is written later serves the next."""
    (tmp_path / "empty.pem").touch()
    async with encrypted(redis_server, authority.issue_cert("127.0.0.1")) as url:
        for option, file in (
            ("ssl_ca_certs", "missing.pem"),
            ("ssl_ca_certs", "empty.pem"),
            ("ssl_certfile", "missing.pem"),
            ("ssl_certfile", "empty.pem"),
        ):
            also = f"&ssl_keyfile={tmp_path / file}" if option == "ssl_certfile" else ""
            error = await refusal(f"{url}?{option}={tmp_path / file}{also}")
            assert is_lasting(error)
            assert f"{option}={tmp_path / file}" in str(error)
        backend = RedisBackend(f"{url}?ssl_ca_certs={tmp_path / 'late.pem'}")
        with pytest.raises(ConfigurationError):
            await backend.open(timeout=TIMEOUT, reconnected=lambda: None)
        authority.cert_pem.write_to_path(str(tmp_path / "late.pem"))
        await backend.open(timeout=TIMEOUT, reconnected=lambda: None)
        await backend.aclose()


@pytest.mark.parametrize("scheme", ["redis", "rediss"])
async def test_a_server_that_hangs_up_may_be_back_soon(scheme: str) -> None:
    async def hangs_up(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(100)
        writer.close()

    async with served(hangs_up) as port:
        error = await refusal(f"{scheme}://127.0.0.1:{port}")
    assert not is_lasting(error)


@pytest.mark.any_loop
async def test_a_url_without_tls_on_a_port_with_it(redis_server: RedisServer, authority: trustme.CA) -> None:
    async with encrypted(redis_server, authority.issue_cert("127.0.0.1")) as url:
        for pushes in (True, False):
            backend = RedisBackend(url.replace("rediss", "redis"), pushes=pushes)
            with pytest.raises(ConfigurationError, match=r"speaks TLS.*write rediss://.*ssl=True"):
                await backend.open(timeout=TIMEOUT, reconnected=lambda: None)


async def test_a_url_without_tls_on_a_port_that_answers_with_an_alert() -> None:
    """As servers in Go and Java do."""

    async def alerts(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1000)
        writer.write(b"\x15\x03\x01\x00\x02\x02\x46")
        writer.close()

    async with served(alerts) as port:
        assert "write rediss://" in str(await refusal(f"redis://127.0.0.1:{port}"))


@pytest.mark.any_loop
@pytest.mark.parametrize("silent", [True, False])
async def test_a_url_with_tls_on_a_port_without(redis_server: RedisServer, silent: bool) -> None:
    """Some servers say nothing to a handshake, and others that they do not understand it."""

    async def protests(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1000)
        writer.write(b"-ERR unknown command\r\n")
        writer.close()

    async with served(protests) as port:
        error = await refusal(f"rediss://{redis_server.host}:{redis_server.port if silent else port}")
    assert isinstance(error, ConfigurationError)
    assert "does not speak TLS: write redis://" in str(error)


@pytest.mark.parametrize("scheme", ["redis", "rediss"])
async def test_a_web_server(scheme: str) -> None:
    async def objects(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1000)
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        writer.close()

    async with served(objects) as port:
        error = await refusal(f"{scheme}://127.0.0.1:{port}")
    assert is_lasting(error)
    assert "like Redis" in str(error)
    assert "is this its address?" in str(error)


@pytest.mark.parametrize("how", ["redis", "rediss"])
async def test_a_server_that_was_reached_is_not_asked_again(
    redis_server: RedisServer, authority: trustme.CA, trust: str, how: str
) -> None:
    """Its scheme is right: what happens then is an outage, and it has enough to do."""
    connections = 0

    async def hangs_up(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal connections
        connections += 1
        writer.close()

    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(tls)
    async with FaultProxy(redis_server.host, redis_server.port, tls=tls if how == "rediss" else None) as proxy:
        connector = ServerConnector(f"{proxy.url}{trust if how == 'rediss' else ''}")
        (await connector.connect()).reset()
    async with await asyncio.start_server(hangs_up, "127.0.0.1", proxy.port):
        with pytest.raises(redis.exceptions.ConnectionError):
            await connector.connect()
    assert connections == 1


@pytest.mark.any_loop
async def test_cancelled_while_the_server_says_nothing() -> None:
    """Neither the handshake nor the question beside it is left open."""
    connected, ended = asyncio.Semaphore(0), asyncio.Semaphore(0)

    async def says_nothing(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connected.release()
        with contextlib.suppress(ConnectionError):
            while await reader.read(1000):
                pass
        writer.close()
        ended.release()

    async with served(says_nothing) as port:
        connecting = asyncio.create_task(ServerConnector(f"rediss://127.0.0.1:{port}").connect())
        async with asyncio.timeout(TIMEOUT):
            for _ in range(2):
                await connected.acquire()
            connecting.cancel()
            await asyncio.wait((connecting,))
            for _ in range(2):
                await ended.acquire()
    assert connecting.cancelled()
    assert asyncio.all_tasks() == {asyncio.current_task()}


@pytest.mark.parametrize("scheme", ["redis", "rediss"])
async def test_sentinels_and_clusters_say_it_too(redis_server: RedisServer, authority: trustme.CA, scheme: str) -> None:
    """And that it is no outage."""
    other = "rediss" if scheme == "redis" else "redis"
    async with encrypted(redis_server, authority.issue_cert("127.0.0.1")) as url:
        port = int(url.rpartition(":")[2].partition("/")[0]) if scheme == "redis" else redis_server.port
        wrong = f"{scheme}://127.0.0.1:{port}"
        for locks in (LockManager.sentinel([wrong], service="s"), LockManager.cluster([wrong])):
            with pytest.raises(AiolockError) as caught:
                async with locks:
                    pass
            assert is_lasting(caught.value)
            assert f"write {other}://" in str(caught.value)


async def test_a_server_that_speaks_both_is_slow_with_tls(
    redis_server: RedisServer, authority: trustme.CA, trust: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Kept by `GRACE`, which is longer here because the machine may be slow, too."""
    monkeypatch.setattr("aiolock.backends.redis.scheme.GRACE", TIMEOUT)
    asked = asyncio.Event()

    async def pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(10_000):
            writer.write(data)
        writer.close()

    async with encrypted(redis_server, authority.issue_cert("127.0.0.1")) as url:

        async def both(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            first = await reader.readexactly(1)
            if first != b"\x16":
                writer.write(b"+PONG\r\n")
                writer.close()
                asked.set()
                return
            await asked.wait()
            there, back = await asyncio.open_connection("127.0.0.1", int(url.rpartition(":")[2].partition("/")[0]))
            back.write(first)
            with contextlib.suppress(ConnectionError):
                await asyncio.gather(pump(reader, back), pump(there, writer))

        async with served(both) as port:
            link = await ServerConnector(f"rediss://127.0.0.1:{port}/0{trust}").connect()
            assert asked.is_set()
            link.close()
            await link.closed()


@pytest.mark.skipif(
    "ssl_min_version" not in inspect.signature(redis.asyncio.SSLConnection).parameters, reason="not in this redis-py"
)
async def test_an_option_of_a_wrong_type(redis_server: RedisServer) -> None:
    """redis-py 6 makes text of a number in a URL. Kept by `TypeError` beside `load_files`."""
    client = redis.asyncio.Redis(
        host=redis_server.host,
        port=redis_server.port,
        ssl=True,
        ssl_min_version="1.3",  # type: ignore[arg-type]
    )
    backend = RedisBackend(client)
    with pytest.raises(ConfigurationError, match=r"TLS cannot be used.*the options that begin with ssl_"):
        await backend.open(timeout=TIMEOUT, reconnected=lambda: None)
