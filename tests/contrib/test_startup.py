"""An application that starts while Redis is away: it says so at once, and leaves nothing open."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest
from aiohttp import web
from fastapi import FastAPI
from litestar import Litestar
from starlette.applications import Starlette
from taskiq import InMemoryBroker

import aiolock.contrib.aiohttp
import aiolock.contrib.fastapi
import aiolock.contrib.litestar
import aiolock.contrib.starlette
import aiolock.contrib.taskiq
from aiolock import BackendError, LockManager

NOBODY = "redis://127.0.0.1:1/0"


async def fastapi(locks: LockManager) -> None:
    app = FastAPI(lifespan=aiolock.contrib.fastapi.lifespan(locks))
    async with app.router.lifespan_context(app):
        pass


async def starlette(locks: LockManager) -> None:
    app = Starlette(lifespan=aiolock.contrib.starlette.lifespan(locks))
    async with app.router.lifespan_context(app):
        pass


async def litestar(locks: LockManager) -> None:
    app = Litestar(plugins=[aiolock.contrib.litestar.LocksPlugin(locks)])
    try:
        async with app.lifespan():
            pass
    except BaseExceptionGroup as several:
        raise several.exceptions[0] from None


async def aiohttp(locks: LockManager) -> None:
    app = web.Application()
    aiolock.contrib.aiohttp.setup(app, locks)
    runner = web.AppRunner(app)
    try:
        await runner.setup()
    finally:
        await runner.cleanup()


async def taskiq(locks: LockManager) -> None:
    broker = InMemoryBroker()
    aiolock.contrib.taskiq.init(broker, locks)
    try:
        await broker.startup()
    finally:
        await broker.shutdown()


@pytest.mark.parametrize("start", [fastapi, starlette, litestar, aiohttp, taskiq])
async def test_without_a_server(start: Callable[[LockManager], Awaitable[None]]) -> None:
    locks = LockManager(NOBODY)
    with pytest.raises(BackendError, match=r"127\.0\.0\.1:1"):
        await start(locks)
    assert "closed" in repr(locks)
