"""A user's own client, its settings, and other databases: the lock keeps its contract with all of them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
import redis.asyncio
import valkey.asyncio
import valkey.asyncio.retry
import valkey.backoff
from redis.asyncio.retry import Retry
from redis.backoff import ConstantBackoff

from aiolock import AcquireTimeout, Lock, LockManager
from aiolock.backends.redis import Client
from aiolock.identity import identity
from tests.support import redis_cli
from tests.support.locks import state, waiting

from .places import KEYS, RedisPlace, until

ENOUGH = 5.0
SETTINGS: dict[str, dict[str, Any]] = {
    "as it comes": {},
    "decode_responses": {"decode_responses": True},
    "encoding": {"encoding": "latin-1", "decode_responses": True},
    "timeouts": {"socket_timeout": 0.5, "socket_connect_timeout": 5.0},
    "retries": {"retry": Retry(ConstantBackoff(0.01), 5), "retry_on_timeout": True},
    "health checks": {"health_check_interval": 1},
    "RESP2": {"protocol": 2},
    "RESP3": {"protocol": 3},
    "named": {"client_name": "shop"},
    "single connection": {"single_connection_client": True},
    "small pool": {"max_connections": 1},
}


@pytest.fixture
def place(redis_place: RedisPlace) -> RedisPlace:
    return redis_place


@pytest.fixture(params=SETTINGS)
def settings(request: pytest.FixtureRequest) -> dict[str, Any]:
    return dict(SETTINGS[request.param])


@pytest.fixture(params=["redis-py", "valkey-py"])
async def client(request: pytest.FixtureRequest, settings: dict[str, Any], redis_url: str) -> AsyncIterator[Client]:
    client: Client
    if request.param == "redis-py":
        client = redis.asyncio.Redis.from_url(redis_url, **settings)
    else:
        if "retry" in settings:
            settings["retry"] = valkey.asyncio.retry.Retry(valkey.backoff.ConstantBackoff(0.01), 5)
        client = valkey.asyncio.Valkey.from_url(redis_url, **settings)
    yield client
    await client.aclose()


async def test_a_users_client(client: Client, settings: dict[str, Any], there: Lock, place: RedisPlace) -> None:
    async with LockManager(client, ttl=30.0) as locks:
        lock = locks.lock("order:42", metadata="ключ")
        async with lock as lease:
            async with lock:
                assert lease.depth == 2
            with pytest.raises(AcquireTimeout, match="ключ"):
                await there.acquire(timeout=0)
            waiter = asyncio.create_task(_enter(there))
            await until(lambda: place.listeners("order:42"))
            await asyncio.sleep(1.5 * settings.get("socket_timeout", 0.0))
        async with asyncio.timeout(ENOUGH):
            await waiter
    assert await client.ping()  # the user's client is unchanged


@pytest.mark.parametrize(("theirs", "name"), [("", None), ("", "checkout"), ("shop", None), ("shop", "checkout")])
async def test_a_connection_says_whose_it_is(place: RedisPlace, redis_url: str, theirs: str, name: str | None) -> None:
    """In CLIENT LIST, also after it was lost; the name that its user gave to the connection is kept.

    Kept by Handshake.greet: `naming`, and by Link.named.
    """

    def seen() -> list[str]:
        return [str(row["name"]) for row in place.link.client_list() if row["name"]]

    expected = [theirs or f"aiolock:{identity(name or '')}"]
    async with LockManager(f"{redis_url}?client_name={theirs}" if theirs else redis_url, name=name) as locks:
        assert seen() == expected
        place.link.client_kill_filter(_type="pubsub", skipme=True)
        assert seen() == []
        await until(lambda: seen() == expected)
        assert await _enter(locks.lock("order:42"))


async def _enter(lock: Lock) -> int:
    async with lock as lease:
        return lease.fence


async def test_databases_do_not_mix(here: Lock, place: RedisPlace) -> None:
    """Pub/sub knows no databases. Kept by Keys.__init__: `managers`."""
    url = place.url.removesuffix("/0") + "/1"
    async with here, LockManager(url, liveness=60.0, ttl=60.0) as locks, LockManager(url, ttl=30.0) as others:
        lock = locks.lock("order:42")
        assert lock._runtime.keys.manager("x") != KEYS.manager("x")
        async with others.lock("order:42") as lease:
            assert lease is not None
            waiter = asyncio.create_task(_enter(lock))
            with redis_cli.client(url) as link:
                await until(lambda: waiting(link, "order:42"))
        async with asyncio.timeout(ENOUGH):
            assert await waiter > lease.fence
        assert await here.is_locked()
        with redis_cli.client(url) as link:
            assert state(link, "order:42").kept > 0


async def test_a_manager_is_entered_again(place: RedisPlace) -> None:
    manager = LockManager(place.url)
    ids = set()
    for _ in range(3):
        async with manager:
            ids.add(manager._runtime.binding.id)
            assert await _enter(manager.lock("order:42"))
    assert len(ids) == 3  # C1: drawn anew at each entry
