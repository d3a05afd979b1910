"""What a manager is made with, and what it says when that cannot work."""

from __future__ import annotations

import asyncio
import gc
import logging
import warnings
from typing import Any

import pytest
import redis.asyncio
from redis.asyncio.sentinel import Sentinel

from aiolock import BackendError, ConfigurationError, LockManager
from aiolock.backends.worker import Worker
from aiolock.testing.server import RedisServer
from tests.support import acl, redis_cli
from tests.support.sentinels import SentinelSet, start_sentinels
from tests.transport.test_credentials import Streaming, Token

from .conftest import Opener


async def enter(locks: LockManager) -> int:
    async with locks, locks.lock("order:42") as lease:
        return lease.fence


async def test_a_client_that_a_sentinel_made(sentinels: SentinelSet) -> None:
    sentinel = Sentinel(sentinels.addresses)
    client = sentinel.master_for(sentinels.service)
    assert await enter(LockManager(client)) > 0
    await client.aclose()
    for one in sentinel.sentinels:
        await one.aclose()


@pytest.mark.parametrize("made", ["addresses", "client", "urls"])
async def test_passwords(made: str, raw: redis.asyncio.Redis) -> None:
    if redis_cli.version_of(raw) < (6, 2):
        pytest.skip("its Sentinels have no password for each other")
    with start_sentinels(password="hers", sentinel_password="his") as watched:
        if made == "client":
            sentinel = Sentinel(watched.addresses, sentinel_kwargs={"password": "his"}, password="hers")
            locks = LockManager(sentinel.master_for(watched.service))
        else:
            urls = [f"redis://:his@{host}:{port}" for host, port in watched.addresses]
            locks = LockManager.sentinel(urls, service=watched.service, password="hers")
        assert await enter(locks) > 0
        if made == "addresses":
            with pytest.raises(BackendError, match=r"Sentinel.*NOAUTH|Sentinel.*credentials") as caught:
                await LockManager.sentinel(watched.addresses, service=watched.service, password="hers").open()
            assert "hers" not in str(caught.value)


@pytest.mark.takes_long
def test_a_loop_that_was_closed_first(sentinels: SentinelSet) -> None:
    """While the Sentinels were asked. Python warns about the connections, as about any others."""
    locks = LockManager.sentinel(sentinels.addresses, service=sentinels.service)
    backend: Any = locks._runtime.backend

    async def leave_open() -> None:
        await locks.open()
        await sentinels.until(lambda: all(one.connected for one in backend._watch._sentinels))
        await sentinels.until(lambda: backend._inquiry is None)
        backend._inquiry = Worker(lambda: asyncio.sleep(60.0), lambda _: None, "inquiry")

    async def use() -> None:
        async with locks, locks.lock("order:42") as lease:
            await sentinels.until(lambda: backend._inquiry is None)
            assert not lease.lost

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        for close_then in (True, False):
            loop = asyncio.new_event_loop()
            loop.run_until_complete(leave_open())
            loop.close()
            if close_then:
                asyncio.run(asyncio.wait_for(locks.close(), 10.0))
        asyncio.run(asyncio.wait_for(use(), 10.0))
        gc.collect()


async def test_an_unknown_service(sentinels: SentinelSet) -> None:
    with pytest.raises(ConfigurationError, match="knows no master 'theirs': check service="):
        await LockManager.sentinel(sentinels.addresses, service="theirs").open()


async def test_a_server_that_is_no_sentinel(redis_server: RedisServer) -> None:
    locks = LockManager.sentinel([(redis_server.host, redis_server.port)], service="mymaster")
    with pytest.raises(ConfigurationError, match=r"not a Sentinel.*LockManager"):
        await locks.open()


async def test_a_sentinel_given_as_a_server(sentinels: SentinelSet) -> None:
    with pytest.raises(ConfigurationError, match=r"LockManager\.sentinel"):
        await LockManager(sentinels.sentinels[0].url).open()


async def test_no_sentinel_answers(own_server: RedisServer) -> None:
    own_server.kill()
    locks = LockManager.sentinel([(own_server.host, own_server.port)], service="mymaster")
    with pytest.raises(BackendError, match=r"the Sentinel at .* does not answer") as caught:
        await locks.open()
    assert caught.value.transient


@pytest.mark.parametrize(
    "arguments",
    [
        {"addresses": []},
        {"addresses": "localhost"},
        {"addresses": ["http://localhost"]},
        {"addresses": [("localhost",)]},
        {"addresses": [("localhost", "port")]},
        {"service": ""},
    ],
)
def test_bad_arguments(arguments: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError):
        LockManager.sentinel(**{"addresses": [("localhost", 26379)], "service": "mymaster", **arguments})


def test_what_is_no_master() -> None:
    sentinel = Sentinel([("localhost", 26379)])
    with pytest.raises(ConfigurationError, match=r"master_for"):
        LockManager(sentinel.slave_for("mymaster"))
    with pytest.raises(ConfigurationError, match=r"LockManager\(sentinel\.master_for"):
        LockManager(sentinel)  # type: ignore[arg-type]


async def test_a_ttl_that_is_too_short_is_named(
    sentinels: SentinelSet, opened: Opener, caplog: pytest.LogCaptureFixture
) -> None:
    """Once, and not for what the replicas acknowledge. Kept by ShortTtl.check."""
    caplog.set_level(logging.WARNING, "aiolock.manager")
    locks = await opened(sentinels, ttl=3.0)
    assert "failover" not in caplog.text
    locks.lock("short", ttl=1.0)
    locks.lock("shorter", ttl=0.5)
    await opened(sentinels, ttl=1.0, min_replicas=1)
    assert len([record for record in caplog.records if "take at least 2.2 s" in record.getMessage()]) == 1


@pytest.mark.takes_long
async def test_credentials_that_are_renewed(own_sentinels: SentinelSet) -> None:
    """On the open connections to the master, and on those to the next one. Kept by MasterConnector: `credentials`."""
    for server in own_sentinels.servers:
        link = own_sentinels.link(server)
        for name in ("sooner", "later"):
            link.execute_command(*acl.setuser(link, name, *acl.EVERYTHING))

    def users(server: RedisServer) -> set[str]:
        names = {
            client["user"] for kind in ("normal", "pubsub") for client in own_sentinels.link(server).client_list(kind)
        }
        return names - {"default"}

    provider = Streaming("sooner", "secret")
    client = Sentinel(own_sentinels.addresses).master_for(own_sentinels.service, credential_provider=provider)
    async with LockManager(client) as locks:
        old = own_sentinels.master()
        async with locks.lock("order:42"):
            assert users(old) == {"sooner"}
        provider.token = Token("later", "secret")
        provider.next(provider.token)
        await asyncio.sleep(0)  # it is told in the next turn
        async with locks.lock("order:42"):
            assert users(old) == {"later"}
        new = own_sentinels.failover()
        await own_sentinels.failed_over(new)
        async with locks.lock("order:42").acquire(timeout=20.0):
            assert users(new) == {"later"}
