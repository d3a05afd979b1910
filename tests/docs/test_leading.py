"""The web service of recipes.md leads while it serves, whatever framework its lifespan is given to."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from starlette.applications import Starlette

from aiolock import LockManager

from .blocks import ROOT, of

PROGRAM = next(
    block.text
    for block in of(ROOT / "docs/how-to/recipes.md")
    if block.text.startswith("# app.py\n") and block.language == "python"
)
Served = Callable[[dict[str, Any]], AbstractAsyncContextManager[httpx.AsyncClient | None]]


@asynccontextmanager
async def asgi(app: Any) -> AsyncIterator[httpx.AsyncClient]:
    client = httpx.AsyncClient(transport=httpx.ASGITransport(app=app), base_url="http://shop")
    async with app.router.lifespan_context(app), client:
        yield client


@asynccontextmanager
async def fastapi(page: dict[str, Any]) -> AsyncIterator[httpx.AsyncClient]:
    async with asgi(page["app"]) as client:
        yield client


@asynccontextmanager
async def starlette(page: dict[str, Any]) -> AsyncIterator[None]:
    async with asgi(Starlette(lifespan=page["lifespan"])):
        yield


@asynccontextmanager
async def aiohttp(page: dict[str, Any]) -> AsyncIterator[None]:
    app = web.Application()
    app.cleanup_ctx.append(page["lifespan"].__wrapped__)  # the generator, without its decorator
    async with TestServer(app):
        yield


@pytest.mark.parametrize("served", [fastapi, starlette, aiohttp])
async def test_it_leads_again_after_its_term_is_lost(served: Served, tmp_path: Path) -> None:
    """When it is shut down, nobody leads any more."""
    url = f"sqlite:///{tmp_path}/locks.db"
    fences: list[int] = []

    async def store_the_feed(fence: int) -> None:
        fences.append(fence)

    page: dict[str, Any] = {"__name__": __name__}
    exec(PROGRAM.replace("sqlite:///locks.db", url), page)
    page["store_the_feed"] = store_the_feed
    async with LockManager(url) as elsewhere:
        lock = elsewhere.lock("feed")
        async with served(page) as client, asyncio.timeout(10):
            for terms in (1, 2):
                while len(fences) < terms:  # noqa: ASYNC110 - the page sets no event
                    await asyncio.sleep(0.005)
                if terms == 1:
                    await lock.force_release()
            if client is not None:
                assert (await client.get("/leader")).json()["leading"] is True
                assert (await client.get("/health")).json() == {"contending": True}
        assert fences[0] < fences[1]
        assert not await lock.is_locked()


async def test_a_function_that_returns_is_found_by_the_health_check(tmp_path: Path) -> None:
    """Broken by an instance that has resigned, and says that it contends."""
    page: dict[str, Any] = {"__name__": __name__}
    here = PROGRAM.replace("sqlite:///locks.db", f"sqlite:///{tmp_path}/locks.db")
    exec(here.replace("while True", "for _ in ()"), page)
    async with fastapi(page) as client, asyncio.timeout(10):
        while (await client.get("/health")).status_code == 200:  # noqa: ASYNC110 - it sets no event
            await asyncio.sleep(0.005)
        assert (await client.get("/health")).json() == {"contending": False}
