"""Passwords that change while a connection is open: a provider is asked for each, and heard if it streams new ones."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
import redis.asyncio
import redis.credentials

from aiolock.backends.redis import RedisBackend
from aiolock.testing.server import RedisServer
from tests.support import acl
from tests.support.installed import at_least

from .calls import Log, echo, until
from .conftest import Connect


class Token:
    """As identity providers for redis-py give it."""

    def __init__(self, user: str, password: str) -> None:
        self.user, self.password = user, password

    def try_get(self, key: str) -> str:
        assert key == "oid"
        return self.user

    def get_value(self) -> str:
        return self.password


class Streaming(redis.credentials.CredentialProvider):
    """Tells only whoever asked last, as those of redis-py do."""

    def __init__(self, user: str, password: str) -> None:
        self.token = Token(user, password)
        self.next: Callable[[Any], Any]
        self.error: Callable[[Exception], Any]

    def get_credentials(self) -> tuple[str, str]:
        return self.token.user, self.token.password

    async def get_credentials_async(self) -> tuple[str, str]:
        return self.get_credentials()

    def on_next(self, callback: Callable[[Any], Any]) -> None:
        self.next = callback

    def on_error(self, callback: Callable[[Exception], Any]) -> None:
        self.error = callback

    def is_streaming(self) -> bool:
        return True


@pytest.fixture
async def users(raw: redis.asyncio.Redis) -> AsyncIterator[redis.asyncio.Redis]:
    """The users `monday` and `tuesday`, password `secret`."""
    for user in ("monday", "tuesday"):
        await raw.execute_command(*acl.setuser(raw, user, *acl.EVERYTHING))
    yield raw
    await raw.acl_deluser("monday", "tuesday")


async def connections(raw: redis.asyncio.Redis, user: str) -> set[str]:
    return {client["id"] for client in await raw.client_list() if client["user"] == user}


def client_of(server: RedisServer, provider: Any) -> redis.asyncio.Redis:
    return redis.asyncio.Redis(host=server.host, port=server.port, credential_provider=provider)


async def test_the_next_connection_uses_the_newest(
    connect: Connect, users: redis.asyncio.Redis, redis_server: RedisServer
) -> None:
    provider = Streaming("monday", "secret")
    backend = await connect(client_of(redis_server, provider))
    provider.token = Token("tuesday", "secret")
    await users.client_kill_filter(user="monday")
    assert await backend.run(echo("x", lambda: True)) == "x"
    assert len(await connections(users, "tuesday")) == 1


@pytest.mark.parametrize("from_thread", [False, True])
async def test_open_connections_use_what_is_streamed(
    connect: Connect, users: redis.asyncio.Redis, redis_server: RedisServer, reconnected: Log, from_thread: bool
) -> None:
    """Those of all backends, in order with their calls, and those of the user's client, if redis-py does that. Kept by
    _Stream.next.
    """
    provider = Streaming("monday", "secret")
    client = client_of(redis_server, provider)
    backends = [await connect(client), await connect(client, pushes=False)]
    await client.ping()
    before = await connections(users, "monday")
    assert len(before) == 3
    if from_thread:
        thread = threading.Thread(target=provider.next, args=[Token("tuesday", "secret")])
        thread.start()
        thread.join()
    else:
        await provider.next(Token("tuesday", "secret"))
    await asyncio.sleep(0)  # it is told in the next turn
    for backend in backends:
        assert await backend.run(echo("x")) == "x"
    after = await connections(users, "tuesday")
    assert after <= before
    assert len(after) == (2 if from_thread or not at_least("redis", 5, 3) else 3)
    assert not reconnected.items
    await client.aclose()


async def test_a_refused_renewal_changes_nothing(
    connect: Connect, users: redis.asyncio.Redis, redis_server: RedisServer, caplog: pytest.LogCaptureFixture
) -> None:
    provider = Streaming("monday", "secret")
    backend = await connect(client_of(redis_server, provider))
    provider.next(Token("tuesday", "hunter2"))
    await asyncio.sleep(0)
    assert await asyncio.gather(*(backend.run(echo(i)) for i in range(3))) == list("012")
    assert await connections(users, "monday")
    assert "refused the renewed credentials: WRONGPASS" in caplog.text
    assert "hunter2" not in caplog.text
    provider.error(KeyError("hunter2"))
    assert "could not renew its credentials (KeyError)" in caplog.text
    assert "hunter2" not in caplog.text


async def test_a_closed_backend_hears_nothing(users: redis.asyncio.Redis, redis_server: RedisServer) -> None:
    """Kept by Credentials.leave."""
    provider = Streaming("monday", "secret")
    backend = RedisBackend(client_of(redis_server, provider))
    told: list[object] = []
    backend._authenticate = told.append  # type: ignore[method-assign, assignment]
    for _ in range(2):  # it may be opened again
        told.clear()
        await backend.open(timeout=5.0, reconnected=lambda: None)
        provider.next(Token("tuesday", "secret"))
        await until(lambda: told)
        assert "secret" not in repr(told)
        await backend.aclose()
        provider.next(Token("tuesday", "secret"))
        await asyncio.sleep(0)
        assert len(told) == 1
