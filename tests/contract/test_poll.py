"""Polling on real servers: no subscriptions, and servers and proxies without pub/sub."""

# ruff: noqa: PT012 - what raises is the whole guarded block

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Iterator

import pytest
import redis.asyncio
from redis._parsers import _AsyncRESP2Parser

from aiolock import BackendError, ConfigurationError, Lock, LockLost, LockManager, LossReason, Poll
from aiolock.testing.server import RedisServer
from tests.support.proxy import FaultProxy
from tests.support.redis_cli import CommandStats

from .places import PollingPlace, RedisPlace, renew_now, renewed, until

NAME = "order:42"
ENOUGH = 5.0
OFTEN = Poll(first=0.002, cap=0.05)


async def _enter(lock: Lock) -> int:
    async with lock as lease:
        return lease.fence


async def test_nothing_is_subscribed_to(
    polling_place: PollingPlace, raw: redis.asyncio.Redis, commandstats: CommandStats
) -> None:
    """By waiters of every kind. Kept by ReleaseListener.listen and Lifecycle._open: `runtime.waiting.told`."""
    place = polling_place
    async with place.manager(ttl=30.0) as locks, place.manager(ttl=30.0) as others:
        async with locks.lock(NAME), locks.fair_lock("fair"), locks.rw_lock(NAME).write:
            waiters = [
                asyncio.create_task(others.lock(NAME).acquire()),
                asyncio.create_task(others.fair_lock("fair").acquire()),
                asyncio.create_task(others.rw_lock(NAME).read.acquire()),
                asyncio.create_task(others.latch(NAME, 1).wait()),
            ]
            await until(lambda: place.listeners(NAME) and place.listeners("fair") and place.listeners(NAME, "latch"))
            assert await raw.pubsub_channels() == []
            assert {client["sub"] for client in await raw.client_list()} == {"0"}
        await locks.latch(NAME, 1).count_down()
        async with asyncio.timeout(ENOUGH):
            *leases, opened = await asyncio.gather(*waiters)
        assert opened is True
        for lease in leases:
            await lease.release()
    assert (await commandstats.counts())["subscribe"] == 0


async def test_a_revocation_is_noticed_at_the_next_renewal(polling_place: PollingPlace) -> None:
    async with polling_place.manager() as locks, polling_place.manager() as others:
        with pytest.raises(LockLost) as caught:
            async with asyncio.timeout(ENOUGH), locks.lock(NAME) as lease:
                assert await others.lock(NAME).force_release()
                renew_now(lease)
                await asyncio.sleep(60)
    assert caught.value.reason is LossReason.DELETED


async def test_polling_and_listening_managers_together(redis_place: RedisPlace) -> None:
    """A fleet of both, under load: no two are inside at once, and every task gets in."""
    inside = 0

    async def work(manager: LockManager) -> None:
        nonlocal inside
        for _ in range(10):
            async with manager.lock(NAME):
                inside += 1
                assert inside == 1
                await asyncio.sleep(0)
                inside -= 1

    async with (
        redis_place.manager(waiting=OFTEN) as polling,
        redis_place.manager(recheck=60.0) as listening,
        asyncio.timeout(20),
        asyncio.TaskGroup() as group,
    ):
        for manager in (polling, listening) * 5:
            group.create_task(work(manager))


# Servers and proxies without pub/sub.


@pytest.fixture
def deaf_server() -> Iterator[RedisServer]:
    """A server that does not know SUBSCRIBE."""
    with RedisServer.start("--rename-command", "SUBSCRIBE", "") as server:
        yield server


async def test_a_server_that_does_not_know_subscribe(
    deaf_server: RedisServer, caplog: pytest.LogCaptureFixture
) -> None:
    """You need to configure nothing. Kept by ReleaseListener._on_confirmed."""
    async with LockManager(deaf_server.url, ttl=30.0) as locks, LockManager(deaf_server.url, ttl=30.0) as others:
        for lock, there in ((locks.lock(NAME), others.lock(NAME)), (locks.fair_lock(NAME), others.fair_lock(NAME))):
            async with there:
                waiter = asyncio.create_task(lock.acquire())
                await asyncio.sleep(0.05)
                assert not waiter.done()
            async with asyncio.timeout(ENOUGH):
                await (await waiter).release()
    warnings = [record for record in caplog.records if "waiting=Poll()" in record.getMessage()]
    assert [warning.levelno for warning in warnings] == [logging.WARNING] * 2  # one a manager
    assert all("unknown command" in warning.getMessage() for warning in warnings)


@pytest.fixture
def old_server() -> Iterator[RedisServer]:
    """A server that speaks only RESP2, as many proxies do."""
    with RedisServer.start("--rename-command", "HELLO", "") as server:
        yield server


async def test_a_server_without_resp3(old_server: RedisServer) -> None:
    """A polling manager needs no pushes. Kept by ServerConnector: `3 if pushes else 2`."""
    with pytest.raises(ConfigurationError, match=r"RESP3.*waiting=Poll\(\)"):
        async with LockManager(old_server.url):
            pytest.fail("entered")
    for options in ({}, {"parser_class": _AsyncRESP2Parser}):
        client = redis.asyncio.Redis.from_url(old_server.url, protocol=2, **options)  # type: ignore[arg-type]
        async with (
            LockManager(client, waiting=OFTEN) as locks,
            LockManager(old_server.url, waiting=OFTEN) as others,
        ):
            async with locks.lock(NAME) as lease:
                waiter = asyncio.create_task(_enter(others.lock(NAME)))
                info = await others.lock(NAME).info()
                assert info is not None
                await renewed(lease)
            async with asyncio.timeout(ENOUGH):
                assert await waiter > lease.fence
        await client.aclose()


@pytest.fixture
async def hanging_up(redis_place: RedisPlace) -> AsyncIterator[FaultProxy]:
    """A proxy that closes the connection on SUBSCRIBE instead of refusing it."""
    host, port = redis_place.url.removeprefix("redis://").split("/")[0].split(":")
    async with FaultProxy(host, int(port)) as proxy:

        async def hang_up() -> None:
            while True:
                await proxy.drop("requests", 1, matching=b"$9\r\nSUBSCRIBE").hit()
                proxy.reset()

        task = asyncio.create_task(hang_up())
        yield proxy
        task.cancel()
        await asyncio.wait({task})


async def test_a_proxy_that_hangs_up_on_subscribe(hanging_up: FaultProxy) -> None:
    """You cannot tell it from a bad connection: the error names the remedy, which works."""
    with pytest.raises(BackendError, match=r"waiting=Poll\(\)") as caught:
        async with LockManager(hanging_up.url, request_timeout=0.6):
            pytest.fail("entered")
    assert caught.value.transient
    assert hanging_up.connections > 1
    async with (
        LockManager(hanging_up.url, waiting=OFTEN) as locks,
        LockManager(hanging_up.url, waiting=OFTEN) as others,
    ):
        seen = hanging_up.connections  # with those of the first manager, whose last may have come late
        async with others.lock(NAME):
            waiter = asyncio.create_task(_enter(locks.lock(NAME)))
            await asyncio.sleep(0.05)
        async with asyncio.timeout(ENOUGH):
            assert await waiter
    assert hanging_up.connections == seen
