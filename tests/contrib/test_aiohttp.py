"""A lock in a handler, and a middleware that answers to errors."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from aiohttp.test_utils import TestClient as AiohttpClient
from aiohttp.test_utils import TestServer as AiohttpServer
from aiohttp.typedefs import Handler

from aiolock import ConfigurationError, LockManager
from aiolock.contrib.aiohttp import LOCKS, get_locks, setup
from aiolock.recipes import current_lease, exclusive
from tests.contrib.conftest import NAME, Work

Client = AiohttpClient[Any, Any]


class Order(web.View):
    @exclusive(get_locks, key="order:{self.request.match_info[order]}", busy="raise")
    async def post(self) -> web.Response:
        lease = current_lease()
        assert lease is not None
        return web.json_response(lease.fence)


async def rows(request: web.Request) -> web.StreamResponse:
    response = web.StreamResponse()
    async with request.config_dict[LOCKS].lock(NAME):
        await response.prepare(request)
        while True:
            await response.write(b"row")
            await asyncio.sleep(0.005)


async def stream(request: web.Request) -> web.StreamResponse:
    response = web.StreamResponse()
    async with request.config_dict[LOCKS].lock(NAME):
        await response.prepare(request)
        await response.write(b"a")
        await asyncio.Event().wait()
    return response


@web.middleware
async def marked(request: web.Request, handler: Handler) -> web.StreamResponse:
    response = await handler(request)
    if not response.prepared:
        response.headers["X-Shop"] = "yes"
    return response


@pytest.fixture
def app(redis_url: str, work: Work) -> web.Application:
    """An application that locks orders, also in one below it."""

    @exclusive(get_locks, key="order:{request.match_info[order]}")
    async def ship(request: web.Request) -> web.Response:
        await work()
        return web.Response()

    app, below = web.Application(middlewares=[marked]), web.Application()
    setup(app, LockManager(redis_url))
    app.router.add_view("/{order}", Order)
    app.router.add_post("/{order}/ship", ship)
    app.router.add_get("/stream", stream)
    app.router.add_get("/rows", rows)
    below.router.add_view("/{order}", Order)
    app.add_subapp("/below/", below)
    return app


@pytest.fixture
async def client(app: web.Application) -> AsyncIterator[Client]:
    """A client of the running application."""
    server = AiohttpServer(app, handler_cancellation=True)
    async with AiohttpClient(server) as client:
        yield client


async def status(client: Client, path: str) -> tuple[int, str | None]:
    async with client.post(path) as answer:
        assert answer.headers["X-Shop"] == "yes"
        return answer.status, answer.headers.get("Retry-After")


@pytest.mark.parametrize("path", ["/42", "/below/42"])
async def test_a_view(client: Client, elsewhere: LockManager, path: str) -> None:
    """An application has the locks of the one above it. Middlewares that were there before see what errors became."""
    assert await status(client, path) == (200, None)
    async with elsewhere.lock(NAME):
        assert await status(client, path) == (409, "1")


async def test_the_lock_is_lost(client: Client, work: Work, elsewhere: LockManager) -> None:
    request = asyncio.create_task(status(client, "/42/ship"))
    await work.begun.wait()
    await elsewhere.lock(NAME).force_release()
    assert await request == (503, None)
    assert work.cancelled == 1


async def test_the_client_goes_away(client: Client, work: Work, elsewhere: LockManager) -> None:
    """With `handler_cancellation=True` the handler is cancelled, and its lock is free."""
    request = asyncio.create_task(status(client, "/42/ship"))
    await work.begun.wait()
    request.cancel()
    async with elsewhere.lock(NAME).acquire(timeout=5.0) as lease:
        assert not lease.abandoned
    assert work.cancelled == 1


async def test_a_response_that_has_begun(client: Client, elsewhere: LockManager) -> None:
    """It cannot become a 503 any more: the connection is closed before the response is complete."""
    async with client.get("/stream") as answer:
        assert answer.status == 200
        await elsewhere.lock(NAME).force_release()
        async with asyncio.timeout(10):
            with pytest.raises(aiohttp.ClientPayloadError):
                await answer.read()


async def test_a_stream_whose_client_goes_away(client: Client, elsewhere: LockManager) -> None:
    """Its writes fail, and the lock is free."""
    answer = await client.get("/rows")
    assert await answer.content.readexactly(3) == b"row"
    assert await elsewhere.lock(NAME).is_locked()
    answer.close()
    async with elsewhere.lock(NAME).acquire(timeout=5.0):
        pass


async def test_the_manager_lives_as_long_as_the_application(app: web.Application, work: Work) -> None:
    async with AiohttpClient(AiohttpServer(app)):
        assert "holds=0" in repr(app[LOCKS])
    assert "closed" in repr(app[LOCKS])


async def test_an_application_without_locks() -> None:
    request = aiohttp.test_utils.make_mocked_request("POST", "/42", app=web.Application())
    with pytest.raises(ConfigurationError, match=r"setup\(app, locks\)"):
        get_locks(request)


@pytest.mark.parametrize("by_hand", [False, True])
async def test_shutdown_past_the_grace(app: web.Application, work: Work, elsewhere: LockManager, by_hand: bool) -> None:
    """The handler is cancelled, and gives its lock back; aiohttp closes the connection, so there is no response."""

    async def hold(request: web.Request) -> web.Response:
        async with request.config_dict[LOCKS].lock(NAME):
            await work()
        return web.Response()

    app.router.add_post("/hold", hold)
    async with AiohttpClient(AiohttpServer(app)) as client:
        request = asyncio.create_task(client.post("/hold" if by_hand else "/42/ship"))
        await work.begun.wait()
        assert client.server.runner is not None
        client.server.runner._shutdown_timeout = 0.01
        await client.server.runner.cleanup()
        with pytest.raises(aiohttp.ServerDisconnectedError):
            await request
    assert work.cancelled == 1
    async with elsewhere.lock(NAME).acquire(timeout=0) as lease:
        assert not lease.abandoned
