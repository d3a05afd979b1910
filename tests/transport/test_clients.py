"""What we take from a user's client: of redis-py in every version, of valkey-py, and what is refused."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fakeredis
import pytest
import redis.asyncio
import redis.asyncio.retry
import redis.backoff
import redis.credentials
import valkey
import valkey.asyncio

from aiolock import LockManager
from aiolock.backends.redis import RedisBackend
from aiolock.backends.redis.clients import check_version, recipe
from aiolock.errors import BackendError, ConfigurationError
from aiolock.testing.server import RedisServer
from tests.support import acl
from tests.support.proxy import FaultProxy

from .calls import echo
from .conftest import Connect, server_tls

# Versions:


@pytest.mark.parametrize("version", ["5.0.1", "5.3.1", "6.4.0", "7.4.1", "8.0.0b2", "8.99.0", "99.99.99"])
def test_versions_that_work(version: str) -> None:
    check_version(version)


@pytest.mark.parametrize("version", ["3.5.3", "4.6.0", "5.0.0", "5.0"])
def test_a_version_that_is_too_old(version: str) -> None:
    with pytest.raises(ConfigurationError, match=rf"redis-py {version} is too old .*'redis>=5\.0\.1,<9'"):
        check_version(version)


@pytest.mark.parametrize("version", ["9.0.0", "10.1.0", "9.0.0rc1"])
def test_a_version_that_is_too_new(version: str) -> None:
    with pytest.raises(ConfigurationError, match=rf"redis-py {version} is newer .* upgrade aiolock-redis"):
        check_version(version)


@pytest.mark.filterwarnings("ignore:memory")
def test_the_version_is_checked_when_a_manager_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(redis, "__version__", "9.0.0")
    with pytest.raises(ConfigurationError, match=r"redis-py 9\.0\.0"):
        LockManager("redis://localhost")
    LockManager("memory://versions")


# Clients of redis-py:


OURS: dict[str, object] = {
    "protocol": 3,
    "socket_timeout": None,
    "decode_responses": False,
    "health_check_interval": 0,
}


def test_our_own_settings_are_not_taken_over() -> None:
    client: Any = redis.asyncio.Redis(
        decode_responses=True,
        health_check_interval=7,
        socket_timeout=0.5,
        retry=redis.asyncio.retry.Retry(redis.backoff.NoBackoff(), 3),
        retry_on_error=[ValueError],
        protocol=2,
        client_name="shop",
    )
    _, options = recipe(client, 3)
    assert OURS.items() <= options.items()
    assert options["client_name"] == "shop"
    assert {key for key in options if "retry" in key or "maint" in key or "parser" in key} == set()


def test_a_connection_class_that_reads_in_its_own_way() -> None:
    class Tapped(redis.asyncio.Connection):
        async def read_response(self, *args: Any, **options: Any) -> Any:
            return await super().read_response(*args, **options)

    pool = redis.asyncio.ConnectionPool(connection_class=Tapped)
    with pytest.raises(ConfigurationError, match="Tapped reads replies in its own way"):
        RedisBackend(redis.asyncio.Redis(connection_pool=pool))


async def test_a_connection_class_that_connects_in_its_own_way(connect: Connect, redis_server: RedisServer) -> None:
    connected = []

    class Counted(redis.asyncio.Connection):
        async def _connect(self) -> None:
            connected.append(self)
            await super()._connect()

    pool = redis.asyncio.ConnectionPool.from_url(redis_server.url, connection_class=Counted)
    backend = await connect(redis.asyncio.Redis(connection_pool=pool))
    assert await backend.run(echo("x")) == "x"
    assert len(connected) == 1


@pytest.mark.parametrize("fake", [fakeredis.FakeAsyncRedis, fakeredis.FakeAsyncValkey])
def test_fakeredis_says_what_to_use(fake: Any) -> None:
    with pytest.raises(ConfigurationError, match="memory://"):
        LockManager(fake())


class Forgetful(redis.credentials.CredentialProvider):
    def get_credentials(self) -> Any:
        raise KeyError("hunter2")


async def test_a_credential_provider_that_raises(redis_server: RedisServer, tmp_path: Path) -> None:
    clients = [
        redis.asyncio.Redis(host=redis_server.host, port=redis_server.port, credential_provider=Forgetful()),
        valkey.asyncio.Valkey(host=redis_server.host, port=redis_server.port, credential_provider=Forgetful()),
    ]
    path = tmp_path / "redis.sock"
    with RedisServer.start("--unixsocket", str(path), owned=True):
        clients.append(redis.asyncio.Redis(unix_socket_path=str(path), credential_provider=Forgetful()))
        for client in clients:
            with pytest.raises(BackendError, match="the credential provider Forgetful raised KeyError") as caught:
                await RedisBackend(client).open(timeout=5, reconnected=lambda: None)
            assert "hunter2" not in str(caught.value)
            assert isinstance(caught.value.__cause__, KeyError)


# Clients of valkey-py:


@pytest.fixture
def users(redis_server: RedisServer) -> Iterator[RedisServer]:
    """A server that knows the user `shop`, password `secret`."""
    with redis.Redis.from_url(redis_server.url) as raw:
        raw.execute_command(*acl.setuser(raw, "shop", *acl.EVERYTHING))
        yield redis_server
        raw.acl_deluser("shop")


async def test_a_valkey_client(connect: Connect, users: RedisServer, raw: redis.asyncio.Redis) -> None:
    client = valkey.asyncio.Valkey(
        host=users.host,
        port=users.port,
        db=3,
        username="shop",
        password="secret",
        client_name="theirs",
        decode_responses=True,
        socket_timeout=0.001,
        retry_on_timeout=True,
    )
    backend = await connect(client)
    assert (backend.db, await backend.run(echo("grün"))) == (3, "grün")
    (line,) = [line for line in await raw.client_list() if line["name"] == "theirs"]
    assert (line["db"], line["user"]) == ("3", "shop")
    await client.aclose()


async def test_a_valkey_client_without_the_right(users: RedisServer) -> None:
    client = valkey.asyncio.Valkey(host=users.host, port=users.port, username="shop", password="wr0ng")
    with pytest.raises(BackendError, match="refused the credentials"):
        await RedisBackend(client).open(timeout=5, reconnected=lambda: None)


async def test_a_valkey_client_with_tls(connect: Connect, redis_server: RedisServer, certificate: Path) -> None:
    async with FaultProxy(redis_server.host, redis_server.port, tls=server_tls(certificate)) as proxy:
        vouched = {"host": "127.0.0.1", "port": proxy.port, "ssl": True}
        authority = str(certificate / "authority.pem")
        backend = await connect(valkey.asyncio.Valkey(**vouched, ssl_ca_certs=authority, ssl_check_hostname=True))
        assert await backend.run(echo("x")) == "x"
        await backend.aclose()
        with pytest.raises(BackendError):
            await connect(valkey.asyncio.Valkey(**vouched))  # the certificate has no trusted issuer


async def test_a_valkey_client_of_a_unix_socket(connect: Connect, tmp_path: Path) -> None:
    path = str(tmp_path / "redis.sock")
    with RedisServer.start("--unixsocket", path, owned=True):
        backend = await connect(valkey.asyncio.Valkey(unix_socket_path=path))
        assert (await backend.run(echo("x")), backend.address) == ("x", path)
        await backend.aclose()


def test_valkey_clients_of_several_servers_are_refused() -> None:
    class Odd(valkey.asyncio.Connection):
        pass

    sentinel = valkey.asyncio.Sentinel([("localhost", 1)])
    cluster = valkey.asyncio.ValkeyCluster(host="localhost", port=1)
    odd = valkey.asyncio.Valkey(connection_pool=valkey.asyncio.ConnectionPool(connection_class=Odd))
    sources: list[Any] = [sentinel, sentinel.master_for("main"), cluster, odd, valkey.Valkey()]
    for source in sources:
        with pytest.raises(ConfigurationError, match="URL"):
            RedisBackend(source)


@pytest.mark.parametrize(
    ("url", "kind", "db"),
    [
        ("valkey://shop:secret@localhost:6380/2", "Connection", 2),
        ("valkeys://localhost/1", "SSLConnection", 1),
        ("redis://valkey:valkey@valkey/0", "Connection", 0),
    ],
)
def test_urls(url: str, kind: str, db: int) -> None:
    made, options = recipe(url, 3)
    assert (getattr(made, "__name__", ""), options.get("db", 0)) == (kind, db)
    assert options["host"] in ("localhost", "valkey")
