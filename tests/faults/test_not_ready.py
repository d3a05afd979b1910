"""A server that answers, but not yet: it loads its data, or another client's script keeps it busy."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
from collections.abc import AsyncIterator, Iterator

import pytest
import redis
import redis.asyncio

from aiolock import BackendError, LockManager
from aiolock.backends.redis.connection import Link
from aiolock.backends.redis.dialer import Dialer
from aiolock.backends.redis.failures import Unready
from aiolock.backends.redis.handshake import Handshake
from aiolock.testing.server import RedisServer
from tests.support import redis_cli

from .scene import until

SLOW = ("--enable-debug-command", "yes", "--loading-process-events-interval-bytes", "1024", "--lua-time-limit", "10")
WORDS = {"loading": "loading its data", "busy": "a script has been running"}


@pytest.fixture(scope="module")
def slow_server() -> Iterator[RedisServer]:
    """A server with data that it loads as slowly as it is told to."""
    with RedisServer.start(*SLOW, owned=True) as server, redis_cli.client(server.url) as link:
        link.mset({f"key:{i}": secrets.token_bytes(2000) for i in range(400)})
        yield server


@contextlib.asynccontextmanager
async def not_ready(server: RedisServer, how: str) -> AsyncIterator[None]:
    """The server refuses nearly every command inside the block."""
    async with redis.asyncio.Redis.from_url(server.url) as link, redis.asyncio.Redis.from_url(server.url) as other:
        if how == "loading":
            await link.config_set("key-load-delay", 20_000)  # µs
            task = asyncio.ensure_future(other.execute_command("DEBUG", "RELOAD"))
        else:
            task = asyncio.ensure_future(other.eval("while true do end", 0))  # type: ignore[arg-type]
        try:
            await refused(link)
            yield
        finally:
            if how == "loading":
                await link.config_set("key-load-delay", 0)
            else:
                await link.script_kill()
            await asyncio.wait([task])
            task.exception()


async def refused(link: redis.asyncio.Redis) -> None:
    async with asyncio.timeout(10):
        while True:
            try:
                await link.get("key:0")
            except redis.exceptions.RedisError:
                return
            await asyncio.sleep(0.002)


def waited_for(locks: LockManager) -> str:
    """Why there is no connection."""
    return str(locks._runtime.backend.unreachable)


@pytest.mark.parametrize("how", ["loading", "busy"])
async def test_it_is_ridden_out(slow_server: RedisServer, how: str) -> None:
    """By those that hold, those that wait, and those that come. Kept by Refusals.judge, and Handshake.greet."""
    async with LockManager(slow_server.url) as here, LockManager(slow_server.url) as there:
        lease = await here.lock("held").acquire()
        waiting = asyncio.create_task(there.lock("held").acquire(timeout=20.0))
        await until(lambda: there._runtime.queue_entries)
        async with not_ready(slow_server, how):
            coming = [asyncio.create_task(there.lock(name).acquire()) for name in ("held", "free")]
            await until(lambda: WORDS[how] in waited_for(there))
            assert there._runtime.backend._dialer.opened == 1  # type: ignore[attr-defined]
        async with asyncio.timeout(10):
            await (await coming[1]).release()
            assert not lease.lost
            await lease.release()
            await (await waiting).release()
            await (await coming[0]).release()


@pytest.mark.parametrize("how", ["loading", "busy"])
async def test_it_takes_too_long(slow_server: RedisServer, how: str) -> None:
    """A first attempt is told what it waited for, as in an outage; so is a new manager."""
    async with LockManager(slow_server.url, request_timeout=1.0) as locks:
        async with not_ready(slow_server, how):
            with pytest.raises(BackendError, match=WORDS[how]) as first:
                await locks.lock("free").acquire()
            with pytest.raises(BackendError, match=WORDS[how]):
                await locks.lock("free").acquire(timeout=0.1)
            with pytest.raises(BackendError, match=WORDS[how]) as entering:
                async with LockManager(slow_server.url, request_timeout=1.0):
                    pytest.fail("entered")
            assert first.value.transient
            assert entering.value.transient
        await until(lambda: waited_for(locks) == "None")
        async with locks.lock("free"):
            pass


class Tiring:
    """A connector whose server is busy at first, and then does not answer."""

    address, db, fixed, credentials = "", 0, True, None

    def __init__(self) -> None:
        self.asked = 0

    async def connect(self) -> Link:
        self.asked += 1
        if self.asked > 1:
            await asyncio.sleep(60)
        raise Unready("BUSY")


async def test_the_reason_that_is_known_counts() -> None:
    """Kept by Dialer.find_master: `known`."""
    with pytest.raises(BackendError, match=WORDS["busy"]):
        await Dialer(Tiring(), Handshake()).find_master(0.05)
