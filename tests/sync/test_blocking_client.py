"""A blocking client in the place of a URL: the locks are on its server, and the client is left alone."""

from __future__ import annotations

from typing import Any

import pytest
import redis
import redis.asyncio
import valkey

import aiolock
from aiolock import ConfigurationError
from aiolock.backends.redis.blocking import source_of
from aiolock.sync import LockManager

SETTINGS: dict[str, dict[str, Any]] = {
    "as it comes": {},
    "decode_responses": {"decode_responses": True, "socket_timeout": 0.5},
    "small pool": {"max_connections": 1},
    "database": {"db": 3},
}


@pytest.mark.parametrize("settings", SETTINGS.values(), ids=SETTINGS)
@pytest.mark.parametrize("package", [redis, valkey], ids=["redis-py", "valkey-py"])
def test_its_server_and_database(redis_url: str, settings: dict[str, Any], package: Any) -> None:
    """Kept by `source_of`."""
    url = redis_url.rpartition("/")[0] if "db" in settings else redis_url
    made = getattr(package, "Redis" if package is redis else "Valkey").from_url(url, **settings)
    with made as client:
        with LockManager(client) as locks, locks.lock("order:42"):
            assert client.exists("aiolock:lock:{order:42}") == 1
        assert client.ping()


def test_credentials_and_tls() -> None:
    client = redis.Redis(
        host="redis.example", port=7, username="app", password="secret", ssl=True, ssl_ca_certs="ca.pem"
    )
    pool = source_of(client).connection_pool
    assert isinstance(pool, redis.asyncio.ConnectionPool)
    assert pool.connection_class is redis.asyncio.SSLConnection
    taken = pool.connection_kwargs
    assert (taken["host"], taken["port"], taken["username"], taken["password"]) == ("redis.example", 7, "app", "secret")
    assert (taken["ssl_ca_certs"], taken["ssl_cert_reqs"]) == ("ca.pem", "required")
    local = source_of(redis.Redis(unix_socket_path="/run/redis.sock")).connection_pool
    assert isinstance(local, redis.asyncio.ConnectionPool)
    assert local.connection_class is redis.asyncio.UnixDomainSocketConnection
    assert local.connection_kwargs["path"] == "/run/redis.sock"


def test_what_is_no_client() -> None:
    for source in (redis.Redis().pipeline(), 7):
        with pytest.raises(ConfigurationError, match=r"a redis\.asyncio\.Redis"):
            LockManager(source)  # type: ignore[arg-type]


def test_the_asynchronous_manager_says_where_it_belongs() -> None:
    with pytest.raises(ConfigurationError, match=r"blocking client: give it to aiolock\.sync"):
        aiolock.LockManager(redis.Redis())  # type: ignore[call-overload]
