"""Preludes of blocks that define an application or a worker: each runs as its framework would run it."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from tempfile import TemporaryDirectory
from typing import Any

import httpx
from aiohttp.test_utils import TestClient, TestServer
from starlette.responses import PlainTextResponse

from aiolock import LockManager

Namespace = dict[str, Any]


@asynccontextmanager
async def rush(namespace: Namespace) -> AsyncIterator[list[int]]:
    """The answers to forty customers of the tutorial's shop, which comes from the block and has ten books."""
    answers: list[int] = []
    with TemporaryDirectory() as folder, contextlib.chdir(folder):
        yield answers
        app = namespace["app"]
        async with app.router.lifespan_context(app):
            transport = httpx.ASGITransport(app=app)
            async with httpx.AsyncClient(transport=transport, base_url="http://shop") as client:
                await client.put("/stock/book/10")
                bought = await asyncio.gather(*(client.post("/buy/book") for _ in range(40)))
        namespace["db"].close()
    answers += [answer.status_code for answer in bought]


@asynccontextmanager
async def racing_shop(url: str) -> AsyncIterator[Namespace]:
    """For the tutorial's shop before it has a lock: it sells more than it has."""
    namespace: Namespace = {"__name__": __name__}
    async with rush(namespace) as answers:
        yield namespace
    assert answers.count(200) > 10


@asynccontextmanager
async def shop(url: str) -> AsyncIterator[Namespace]:
    """For the tutorial's shop: it sells ten books to forty customers."""
    namespace: Namespace = {"__name__": __name__}
    async with rush(namespace) as answers:
        yield namespace
    assert (answers.count(200), answers.count(409)) == (10, 30)


@asynccontextmanager
async def aiohttp_app(url: str) -> AsyncIterator[Namespace]:
    """For a block that defines an aiohttp `app`: it is served, and asked twice."""
    namespace: Namespace = {}
    yield namespace
    async with TestServer(namespace["app"]) as server, TestClient(server) as client:
        fences = [(await (await client.post("/orders/42/pay")).json())["fence"] for _ in range(2)]
    assert fences[0] < fences[1]


@asynccontextmanager
async def leading(url: str, namespace: Namespace) -> AsyncIterator[None]:
    """At the end, with the application of a block served: it leads, also again after its term is lost, and serves."""
    fences: list[int] = []

    async def store_the_feed(fence: int) -> None:
        fences.append(fence)

    namespace["store_the_feed"] = store_the_feed
    async with LockManager(url) as elsewhere:
        yield
        lock = elsewhere.lock("feed")
        async with asyncio.timeout(10):
            while not fences:  # noqa: ASYNC110 - the block sets no event
                await asyncio.sleep(0.005)
            await lock.force_release()
            while len(fences) < 2:  # noqa: ASYNC110
                await asyncio.sleep(0.005)
    assert fences[0] < fences[1]


@asynccontextmanager
async def leading_app(url: str) -> AsyncIterator[Namespace]:
    """For a block that defines an `app` that leads in its lifespan."""
    namespace: Namespace = {"__name__": __name__}
    yield namespace
    app = namespace["app"]
    client = httpx.AsyncClient(transport=httpx.ASGITransport(app=app), base_url="http://shop")
    async with app.router.lifespan_context(app), client:
        async with leading(url, namespace):
            pass
        assert (await client.get("/leader")).json()["leading"] is True
    await nobody_leads(url)


@asynccontextmanager
async def leading_aiohttp(url: str) -> AsyncIterator[Namespace]:
    """For a block that defines an aiohttp `app` that leads while it is served."""
    namespace: Namespace = {}
    yield namespace
    async with TestServer(namespace["app"]) as server, TestClient(server) as client:
        async with leading(url, namespace):
            pass
        assert (await (await client.get("/leader")).json())["leading"] is True
    await nobody_leads(url)


async def nobody_leads(url: str) -> None:
    async with LockManager(url) as elsewhere:
        assert not await elsewhere.lock("feed").is_locked()


@asynccontextmanager
async def mounted(url: str) -> AsyncIterator[Namespace]:
    """For a block that mounts `django_application`: it is reached while its locks are open."""

    async def django_application(scope: Any, receive: Any, send: Any) -> None:
        async with namespace["locks"].lock("order:42"):
            await PlainTextResponse("locked")(scope, receive, send)

    namespace: Namespace = {"django_application": django_application}
    yield namespace
    app = namespace["application"]
    client = httpx.AsyncClient(transport=httpx.ASGITransport(app=app), base_url="http://shop")
    async with app.router.lifespan_context(app), client:
        assert (await client.get("/admin/")).text == "locked"


@asynccontextmanager
async def arq_worker(url: str) -> AsyncIterator[Namespace]:
    """For a block that defines a worker's settings: it is started, given a job, and shut down."""
    namespace: Namespace = {}
    yield namespace
    settings, context = namespace["WorkerSettings"], dict[str, Any]()
    await settings.on_startup(context)
    assert await settings.functions[0](context, "42") > 0
    await settings.on_shutdown(context)
    assert repr(context["locks"]).endswith("closed>")


@asynccontextmanager
async def sync_job(url: str) -> AsyncIterator[Namespace]:
    """For a block that defines a synchronous `report()`: it runs in a thread, beside a holder and without one."""
    namespace: Namespace = {}
    yield namespace
    assert "done" in await asyncio.to_thread(namespace["report"])
    async with LockManager(url) as manager, manager.lock("nightly-report"):
        assert "another" in await asyncio.to_thread(namespace["report"])
