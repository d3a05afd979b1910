"""Mistakes with TLS that no waiting mends: the error says which, what to do, and that it is no outage."""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import socket
import ssl
import threading
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import trustme

from aiolock.backends.redis import RedisBackend
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
def choosy(context: ssl.SSLContext) -> Iterator[str]:
    """The URL of a server that refuses one handshake; not asyncio's, which says nothing then."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.settimeout(TIMEOUT)

        def refuse() -> None:
            accepted, _ = listening.accept()
            accepted.settimeout(TIMEOUT)
            with accepted.dup() as rest:
                with contextlib.suppress(OSError):
                    context.wrap_socket(accepted, server_side=True).close()
                with contextlib.suppress(OSError):
                    while rest.recv(1000):  # unread, it would have the alert dropped
                        pass

        thread = threading.Thread(target=refuse)
        thread.start()
        try:
            yield f"rediss://127.0.0.1:{listening.getsockname()[1]}"
        finally:
            thread.join()


async def refusal(url: str) -> AiolockError:
    """The error of a start, after which nothing is left open."""
    backend = RedisBackend(url)
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


@pytest.mark.parametrize("newest", [True, False])
@pytest.mark.parametrize("given", [True, False])
async def test_a_certificate_that_the_server_wants(
    authority: trustme.CA, trust: str, tmp_path: Path, given: bool, newest: bool
) -> None:
    """None is given, or one that the server does not trust. TLS 1.3 says so after the client's handshake."""
    if given:
        trustme.CA().issue_cert("client").private_key_and_cert_chain_pem.write_to_path(str(tmp_path / "mine.pem"))
        trust += f"&ssl_certfile={tmp_path / 'mine.pem'}&ssl_keyfile={tmp_path / 'mine.pem'}"
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    trustme.CA().configure_trust(context)
    context.verify_mode = ssl.CERT_REQUIRED
    if not newest:
        context.maximum_version = ssl.TLSVersion.TLSv1_2
    with choosy(context) as url:
        error = await refusal(url + trust)
    assert is_lasting(error)
    assert "ssl_certfile" in str(error)


async def test_no_version_in_common(authority: trustme.CA, trust: str) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    newest = int(ssl.TLSVersion.TLSv1_3)
    with choosy(context) as url:
        error = await refusal(f"{url}{trust}&ssl_min_version={newest}")
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
            error = await refusal(f"{url}?{option}={tmp_path / file}")
            assert is_lasting(error)
            assert f"{option}={tmp_path / file}" in str(error)
        backend = RedisBackend(f"{url}?ssl_ca_certs={tmp_path / 'late.pem'}")
        with pytest.raises(ConfigurationError):
            await backend.open(timeout=TIMEOUT, reconnected=lambda: None)
        authority.cert_pem.write_to_path(str(tmp_path / "late.pem"))
        await backend.open(timeout=TIMEOUT, reconnected=lambda: None)
        await backend.aclose()


async def test_a_server_that_hangs_up_in_the_handshake_may_be_back_soon() -> None:
    async def hangs_up(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(100)
        writer.close()

    async with await asyncio.start_server(hangs_up, "127.0.0.1", 0) as server:
        error = await refusal(f"rediss://127.0.0.1:{server.sockets[0].getsockname()[1]}")
    assert not is_lasting(error)
