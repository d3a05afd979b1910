"""Preludes of blocks that define an application or a worker: each runs as its framework would run it."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from io import StringIO
from types import ModuleType
from typing import Any

import django
import httpx
import pytest
from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer
from django.conf import settings
from django.core.management import call_command
from django.test import AsyncClient
from django.test.utils import override_settings
from django.utils.module_loading import import_string
from litestar import Litestar

import aiolock.sync
from aiolock import LockManager
from aiolock.contrib.django import get_locks
from aiolock.contrib.django import sync as django_sync
from aiolock.contrib.http import BUSY
from tests.support import redis_cli, root_logger
from tests.support.locks import nothing_held

Namespace = dict[str, Any]


@asynccontextmanager
async def client_of(app: Any) -> AsyncIterator[Callable[[str], Awaitable[tuple[int, Any]]]]:
    """Serve an application; yields a function that posts to a path, and returns the status and the JSON."""
    if isinstance(app, web.Application):
        async with TestServer(app) as server, TestClient(server) as client:

            async def post(path: str) -> tuple[int, Any]:
                async with client.post(path) as answer:
                    return answer.status, await answer.json()

            yield post
        return
    lifespan = app.lifespan() if isinstance(app, Litestar) else app.router.lifespan_context(app)
    async with lifespan, httpx.AsyncClient(transport=httpx.ASGITransport(app=app), base_url="http://shop") as asgi:

        async def post(path: str) -> tuple[int, Any]:
            answer = await asgi.post(path)
            return answer.status_code, answer.json()

        yield post


@asynccontextmanager
async def shipping(url: str) -> AsyncIterator[Namespace]:
    """For a block that defines an `app` that ships orders: it is asked twice, and once while another has the lock."""
    namespace: Namespace = {"__name__": __name__}
    with root_logger.kept():
        yield namespace
    async with client_of(namespace["app"]) as post, LockManager(url) as elsewhere:
        answers = [await post("/orders/42/ship") for _ in range(2)]
        assert answers[0][1]["fence"] < answers[1][1]["fence"]
        lock = elsewhere.lock("order:42")
        if "order_key" in namespace:
            async with lock:
                assert await post("/orders/042/ship") == (423, {"detail": BUSY})
        assert not await lock.is_locked()


@asynccontextmanager
async def readiness(url: str) -> AsyncIterator[Namespace]:
    """For a block that defines an `app` with a probe: it is asked while Redis is there."""
    namespace: Namespace = {"__name__": __name__}
    yield namespace
    app = namespace["app"]
    transport = httpx.ASGITransport(app=app)
    async with app.router.lifespan_context(app), httpx.AsyncClient(transport=transport, base_url="http://shop") as asgi:
        assert (await asgi.get("/ready")).json() == {"locks": True}


@asynccontextmanager
async def django_settings(url: str) -> AsyncIterator[Namespace]:
    """For a block with settings: Django takes them."""
    namespace: Namespace = {}
    yield namespace
    middlewares = [import_string(name) for name in namespace["MIDDLEWARE"]]
    assert middlewares
    async with LockManager(**namespace["AIOLOCK"]) as locks:
        assert not await locks.lock("order:42").is_locked()


@asynccontextmanager
async def django_views(url: str) -> AsyncIterator[Namespace]:
    """For a block that defines Django's `urlpatterns`: they are asked."""
    _configure()
    module = ModuleType("docs_urls")
    yield module.__dict__
    parts = {"ALLOWED_HOSTS": ["*"], "MIDDLEWARE": [], "ROOT_URLCONF": module}
    with override_settings(AIOLOCK={"source": url}, **parts):
        client = AsyncClient()
        assert (await client.post("/orders/42/ship")).json()["fence"] > 0
        if "cancel" in vars(module):
            assert (await client.post("/orders/42/cancel")).status_code == 200
        await (await get_locks()).close()


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
async def arq_worker(url: str) -> AsyncIterator[Namespace]:
    """For a block that defines a worker's settings: it is started, given a job, and shut down."""
    pytest.importorskip("arq", reason="arq wants redis-py < 6: make test-frameworks")
    namespace: Namespace = {}
    yield namespace
    hooks, context = vars(namespace["WorkerSettings"]), dict[str, Any]()
    await hooks["on_startup"](context)
    assert await hooks["functions"][0](context, "42") > 0
    await hooks["on_shutdown"](context)
    assert repr(context["locks"]).endswith("closed>")


@asynccontextmanager
async def taskiq_worker(url: str) -> AsyncIterator[Namespace]:
    """For a block that defines a `broker` with the task `ship`, and perhaps `cancel`: they are done."""
    namespace: Namespace = {"__name__": __name__}
    yield namespace
    await namespace["broker"].startup()
    for name, returned in (("ship", "shipped 42"), ("cancel", None)):
        if name in namespace:
            result = await (await namespace[name].kiq("42")).wait_result(check_interval=0.01, timeout=10)
            assert (result.error, result.return_value) == (None, returned)
    await namespace["broker"].shutdown()


@asynccontextmanager
async def scheduled(url: str) -> AsyncIterator[Namespace]:
    """For a block that schedules `nightly_report()` in its `main()`: two processes have it due at once."""
    written: list[str] = []

    async def write_report() -> None:
        written.append("report")
        namespace["stopped"].set()

    namespace: Namespace = {"__name__": __name__, "write_report": write_report, "stopped": asyncio.Event()}
    yield namespace
    (job,) = namespace["scheduler"].get_jobs()
    job.modify(next_run_time=datetime.now(UTC))
    namespace["scheduler"].add_job(namespace["nightly_report"])
    await namespace["main"]()
    assert written == ["report"]


@asynccontextmanager
async def two_hooks(url: str) -> AsyncIterator[Namespace]:
    """For a block that defines `on_startup()` and `on_shutdown()`."""
    namespace: Namespace = {}
    yield namespace
    await namespace["on_startup"]()
    assert "holds=0" in repr(namespace["locks"])
    await namespace["on_shutdown"]()
    assert repr(namespace["locks"]).endswith("closed>")


@asynccontextmanager
async def celery_app(url: str) -> AsyncIterator[Namespace]:
    """For a block that defines Celery's task `ship`, and perhaps `cancel`: they are called as functions."""
    namespace: Namespace = {"__name__": f"shop_{uuid.uuid4().hex}"}  # each app of a process gets the tasks of all
    yield namespace
    assert await asyncio.to_thread(namespace["ship"], "42") > 0
    if "cancel" in namespace:
        await asyncio.to_thread(namespace["cancel"], "42")
    await asyncio.to_thread(namespace["locks"].close)


@asynccontextmanager
async def django_command(url: str) -> AsyncIterator[Namespace]:
    """For a block that defines a management command: it runs."""
    _configure()
    namespace: Namespace = {"__name__": __name__}
    yield namespace
    with override_settings(AIOLOCK={"source": url}):
        out = StringIO()
        await asyncio.to_thread(call_command, namespace["Command"](stdout=out), skip_checks=True)
        assert "under fence 1" in out.getvalue()
        await asyncio.to_thread(lambda: django_sync.get_locks().close())


@asynccontextmanager
async def django_sync_view(url: str) -> AsyncIterator[Namespace]:
    """For a block that defines a synchronous view `ship`: Django asks it."""
    _configure()
    namespace: Namespace = {"__name__": __name__}
    yield namespace
    with override_settings(AIOLOCK={"source": url}):
        response = await asyncio.to_thread(namespace["ship"], None, 42)
        assert b"fence" in response.content
        await asyncio.to_thread(lambda: django_sync.get_locks().close())


@asynccontextmanager
async def django_until_commit(url: str) -> AsyncIterator[Namespace]:
    """For a block that defines a synchronous view `sell`: it is called without a transaction."""
    _configure()
    namespace: Namespace = {"__name__": __name__}
    yield namespace
    with override_settings(AIOLOCK={"source": url}):
        response = await asyncio.to_thread(namespace["sell"], None, 42)
        assert response.status_code == 200
        await asyncio.to_thread(lambda: django_sync.get_locks().close())


def _configure() -> None:
    if not settings.configured:
        settings.configure(LOGGING_CONFIG=None)
        django.setup()


@asynccontextmanager
async def threads(url: str) -> AsyncIterator[Namespace]:
    """For a block that runs in a thread without an event loop: `locks` is a manager of `aiolock.sync`. Nothing is held
    at its end.
    """
    manager = aiolock.sync.LockManager(url)
    await asyncio.to_thread(manager.open)
    try:
        yield {"locks": manager, "charge": lambda *_: None, "order": "42"}
    finally:
        await asyncio.to_thread(manager.close)
    with redis_cli.client(url) as client:
        assert nothing_held(client)


@asynccontextmanager
async def sync_job(url: str) -> AsyncIterator[Namespace]:
    """For a block that defines a synchronous `report()`: it runs in a thread, beside a holder and without one."""
    namespace: Namespace = {}
    yield namespace
    assert "done" in await asyncio.to_thread(namespace["report"])
    async with LockManager(url) as manager, manager.lock("nightly-report"):
        assert "another" in await asyncio.to_thread(namespace["report"])
