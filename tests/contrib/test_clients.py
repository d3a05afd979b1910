"""Clients that go while their request waits, and a server that stops: real servers and sockets."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Annotated, Any

import pytest
import uvicorn
from aiohttp import web
from fastapi import FastAPI, Request
from litestar import Litestar, post
from litestar import Request as LitestarRequest
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.base import BaseHTTPMiddleware
from starlette.requests import Request as StarletteRequest
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

import aiolock.contrib.aiohttp
import aiolock.contrib.fastapi
import aiolock.contrib.litestar
import aiolock.contrib.starlette
from aiolock import Lease, LockManager
from aiolock.recipes import client, exclusive
from tests.contrib.conftest import NAME

Handle = Callable[[object], Awaitable[None]]
Serve = Callable[[LockManager, Handle], AbstractAsyncContextManager["Shop"]]


class Shop:
    """A server; `stop()` ends it, after a grace period of a tenth of a second."""

    def __init__(self, port: int, stop: Callable[[], Awaitable[None]]) -> None:
        self.port = port
        self.stop = stop

    async def send(self, body: bytes = b"{}") -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Send a request, and return its connection."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        head = f"POST /ship HTTP/1.1\r\nHost: shop\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n"
        writer.write(f"{head}Connection: close\r\n\r\n".encode() + body)
        await writer.drain()
        return reader, writer


async def status(connection: tuple[asyncio.StreamReader, asyncio.StreamWriter]) -> int:
    reader, writer = connection
    answer = await reader.read()
    writer.close()
    return int(answer.split()[1])


@asynccontextmanager
async def served(app: Any) -> AsyncIterator[Shop]:
    config = uvicorn.Config(app, port=0, lifespan="on", log_config=None, timeout_graceful_shutdown=1)
    server = uvicorn.Server(config)
    running = asyncio.create_task(server.serve())

    async def stop() -> None:
        server.should_exit = True
        await running

    async with asyncio.timeout(60):
        while not server.started:  # noqa: ASYNC110 - it announces nothing
            await asyncio.sleep(0.01)
    try:
        yield Shop(server.servers[0].sockets[0].getsockname()[1], stop)
    finally:
        await stop()


@asynccontextmanager
async def fastapi(locks: LockManager, handle: Handle) -> AsyncIterator[Shop]:
    app = FastAPI(
        lifespan=aiolock.contrib.fastapi.lifespan(locks),
        exception_handlers=aiolock.contrib.fastapi.exception_handlers(),
    )

    @app.post("/ship")
    async def ship(lease: Annotated[Lease, aiolock.contrib.fastapi.locked(NAME)], request: Request) -> None:
        await handle("begins")
        await handle(await request.json())

    async with served(app) as shop:
        yield shop


async def unchanged(
    request: StarletteRequest, call_next: Callable[[StarletteRequest], Awaitable[Response]]
) -> Response:
    return await call_next(request)


@asynccontextmanager
async def starlette(locks: LockManager, handle: Handle, *middlewares: Middleware) -> AsyncIterator[Shop]:
    @exclusive(aiolock.contrib.starlette.get_locks, key=NAME)
    async def ship(request: StarletteRequest) -> Response:
        await handle("begins")
        await handle(await request.json())
        return JSONResponse({})

    app = Starlette(
        routes=[Route("/ship", ship, methods=["POST"])],
        lifespan=aiolock.contrib.starlette.lifespan(locks),
        exception_handlers=aiolock.contrib.starlette.exception_handlers(),
        middleware=middlewares,
    )
    async with served(app) as shop:
        yield shop


def starlette_with_middleware(locks: LockManager, handle: Handle) -> AbstractAsyncContextManager[Shop]:
    return starlette(locks, handle, Middleware(BaseHTTPMiddleware, dispatch=unchanged))


@asynccontextmanager
async def litestar(locks: LockManager, handle: Handle) -> AsyncIterator[Shop]:
    @post("/ship", status_code=200)
    @exclusive(locks, key=NAME)
    async def ship(request: LitestarRequest[Any, Any, Any]) -> None:
        await handle("begins")
        await handle(await request.json())

    async with served(Litestar([ship], plugins=[aiolock.contrib.litestar.LocksPlugin(locks)])) as shop:
        yield shop


@asynccontextmanager
async def aiohttp(locks: LockManager, handle: Handle) -> AsyncIterator[Shop]:
    @exclusive(aiolock.contrib.aiohttp.get_locks, key=NAME)
    async def ship(request: web.Request) -> web.Response:
        await handle("begins")
        await handle(await request.json())
        return web.json_response({})

    app = web.Application()
    aiolock.contrib.aiohttp.setup(app, locks)
    app.router.add_post("/ship", ship)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        yield Shop(runner.addresses[0][1], runner.cleanup)
    finally:
        await runner.cleanup()


async def till_waiting(lock: Any, waiters: int) -> None:
    async with asyncio.timeout(60):
        while len(lock._gate().waiters) < waiters:  # noqa: ASYNC110 - a request announces nothing
            await asyncio.sleep(0.01)


@pytest.mark.parametrize("serve", [fastapi, starlette, starlette_with_middleware, litestar, aiohttp])
async def test_clients_that_are_gone(
    serve: Serve, redis_url: str, elsewhere: LockManager, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Their requests give the lock back, and run nothing; the body of one that stayed is complete. Kept by
    Service.begin.
    """
    monkeypatch.setattr(client, "NOTICED", 0.0)
    ran: list[object] = []

    async def handle(body: object) -> None:
        ran.append(body)

    locks = LockManager(redis_url)
    async with serve(locks, handle) as shop:
        assert await status(await shop.send(b'{"first": 1}')) == 200
        async with elsewhere.lock(NAME):
            for count in range(3):
                _, writer = await shop.send()
                await till_waiting(locks.lock(NAME), count + 1)
                writer.transport.abort()
            stays = await shop.send(b'{"stays": 1}')
            await till_waiting(locks.lock(NAME), 4)
        assert await status(stays) == 200
    assert ran == ["begins", {"first": 1}, "begins", {"stays": 1}]


@pytest.mark.parametrize("serve", [fastapi, starlette, litestar])
async def test_the_grace_of_a_server_that_stops_is_over(
    serve: Serve, redis_url: str, elsewhere: LockManager, caplog: pytest.LogCaptureFixture
) -> None:
    """A request that waits, and one that runs, are told of it: 503, though the server cancels them before it closes the
    manager. Kept by Service.__aexit__.
    """
    begun, locks = asyncio.Event(), LockManager(redis_url)

    async def handle(body: object) -> None:
        begun.set()
        await asyncio.Event().wait()

    async with serve(locks, handle) as shop:
        runs = await shop.send()
        await begun.wait()
        waits = await shop.send()
        await till_waiting(locks.lock(NAME), 1)
        await shop.stop()
        assert [await status(runs), await status(waits)] == [503, 503]
    assert "Exception in ASGI" not in caplog.text
