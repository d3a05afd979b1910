"""An application that starts while Redis is away: it runs, and gets its locks when Redis is there."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager

import pytest
from aiohttp import web
from django.conf import settings
from django.test.utils import override_settings
from fastapi import FastAPI
from litestar import Litestar
from starlette.applications import Starlette
from taskiq import InMemoryBroker

import aiolock.contrib.aiohttp
import aiolock.contrib.celery
import aiolock.contrib.django
import aiolock.contrib.django.sync
import aiolock.contrib.fastapi
import aiolock.contrib.litestar
import aiolock.contrib.starlette
import aiolock.contrib.taskiq
import aiolock.sync
from aiolock import BackendError, LockManager
from aiolock.contrib.http import answer_to
from aiolock.core import lifecycle
from aiolock.recipes import Unavailable, exclusive
from aiolock.testing.server import RedisServer

if not settings.configured:
    settings.configure(LOGGING_CONFIG=None)

Start = Callable[[LockManager, bool], AbstractAsyncContextManager[None]]


@asynccontextmanager
async def fastapi(locks: LockManager, strict: bool) -> AsyncIterator[None]:
    app = FastAPI(lifespan=aiolock.contrib.fastapi.lifespan(locks, strict=strict))
    async with app.router.lifespan_context(app):
        yield


@asynccontextmanager
async def starlette(locks: LockManager, strict: bool) -> AsyncIterator[None]:
    app = Starlette(lifespan=aiolock.contrib.starlette.lifespan(locks, strict=strict))
    async with app.router.lifespan_context(app):
        yield


@asynccontextmanager
async def litestar(locks: LockManager, strict: bool) -> AsyncIterator[None]:
    app = Litestar(plugins=[aiolock.contrib.litestar.LocksPlugin(locks, strict=strict)])
    try:
        async with app.lifespan():
            yield
    except BaseExceptionGroup as several:
        raise several.exceptions[0] from None


@asynccontextmanager
async def aiohttp(locks: LockManager, strict: bool) -> AsyncIterator[None]:
    app = web.Application()
    aiolock.contrib.aiohttp.setup(app, locks, strict=strict)
    runner = web.AppRunner(app)
    try:
        await runner.setup()
        yield
    finally:
        await runner.cleanup()


@asynccontextmanager
async def taskiq(locks: LockManager, strict: bool) -> AsyncIterator[None]:
    broker = InMemoryBroker()
    aiolock.contrib.taskiq.init(broker, locks, strict=strict)
    try:
        await broker.startup()
        yield
    finally:
        await broker.shutdown()


@asynccontextmanager
async def arq(locks: LockManager, strict: bool) -> AsyncIterator[None]:
    pytest.importorskip("arq")
    from aiolock.contrib.arq import shutdown, startup

    worker: dict[object, object] = {}
    try:
        await startup(locks, strict=strict)(worker)
        yield
    finally:
        await shutdown(worker)


EACH = pytest.mark.parametrize("start", [fastapi, starlette, litestar, aiohttp, taskiq, arq])


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[RedisServer]:
    """One that is away."""
    monkeypatch.setattr(lifecycle, "PAUSE", 0.05)
    with RedisServer.start(owned=True) as server:
        server.kill()
        yield server


async def till_connected(locks: LockManager | aiolock.sync.LockManager) -> None:
    async with asyncio.timeout(60):
        while not locks.connected:  # noqa: ASYNC110 - its background attempts announce nothing
            await asyncio.sleep(0.02)


@EACH
async def test_it_starts_and_gets_its_locks_later(
    start: Start, server: RedisServer, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a WARNING, and a 503 until then. Kept by Lifecycle._open: `strict`."""
    monkeypatch.setattr(logging.getLogger("aiolock.manager"), "handlers", [caplog.handler])  # Litestar takes the root's
    locks = LockManager(server.url)

    @exclusive(locks, key="a")
    async def work() -> bool:
        return await locks.lock("a").is_locked()

    async with start(locks, False):
        assert not locks.connected
        with pytest.raises(Unavailable, match=str(server.port)) as away:
            await work()
        answer = answer_to(away.value)
        assert answer is not None
        assert (answer.status, "Retry-After" in answer.headers) == (503, True)
        server.restart()
        await till_connected(locks)
        assert await work()
    assert "closed" in repr(locks)
    assert "opened without a connection" in caplog.text


@EACH
async def test_strict(start: Start, server: RedisServer) -> None:
    """It says so at once, and leaves nothing open."""
    locks = LockManager(server.url)
    with pytest.raises(BackendError, match=str(server.port)):
        async with start(locks, True):
            raise AssertionError("it has started")
    assert "closed" in repr(locks)


async def test_a_refusal_is_no_outage(redis_url: str) -> None:
    """Nobody comes to mend a wrong password while the application seems to run."""
    locks = LockManager(redis_url.replace("://", "://nobody:wrong@"))
    with pytest.raises(BackendError) as refused:
        async with fastapi(locks, False):
            raise AssertionError("it has started")
    assert not refused.value.transient
    assert "closed" in repr(locks)


async def test_django(server: RedisServer) -> None:
    """The first request finds no server; the manager of the loop is there when that is."""
    with override_settings(AIOLOCK={"source": server.url}):
        locks = await aiolock.contrib.django.get_locks()
        with pytest.raises(BackendError, match=str(server.port)):
            await locks.lock("a").is_locked()
        server.restart()
        await till_connected(await aiolock.contrib.django.get_locks())
        assert not await locks.lock("a").is_locked()
        await locks.close()


@pytest.mark.parametrize("by", ["django", "celery"])
async def test_in_threads(server: RedisServer, by: str) -> None:
    """Once it is there, also those get their locks who came before."""
    own = aiolock.sync.LockManager(server.url)

    def get_locks() -> aiolock.sync.LockManager:
        return aiolock.contrib.celery.opened(own) if by == "celery" else aiolock.contrib.django.sync.get_locks()

    def look() -> bool:
        return get_locks().lock("a").is_locked()

    with override_settings(AIOLOCK={"source": server.url}):
        several = await asyncio.gather(*(asyncio.to_thread(look) for _ in range(3)), return_exceptions=True)
        assert [type(one) for one in several] == [BackendError] * 3
        locks = await asyncio.to_thread(get_locks)
        server.restart()
        await till_connected(locks)
        assert not await asyncio.to_thread(look)
        await asyncio.to_thread(locks.close)
