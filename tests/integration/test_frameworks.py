"""The lock inside web frameworks: a loss in a handler becomes its response, and managers live as long as apps do."""

from __future__ import annotations

import asyncio
import threading
import warnings
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import anyio
import httpx
import pytest
from aiohttp import web
from aiohttp.test_utils import TestClient as AiohttpClient
from aiohttp.test_utils import TestServer as AiohttpServer
from fastapi import Depends, FastAPI, HTTPException, Request
from fastapi.responses import JSONResponse, StreamingResponse
from starlette.middleware.base import BaseHTTPMiddleware
from starlette.responses import Response

from aiolock import AcquireTimeout, Lease, LockLost, LockManager, LossReason
from aiolock.testing import MemoryBackend, VirtualClock
from tests.unit.world import TTL, assert_empty, lock_keys, settle

if TYPE_CHECKING:
    from fastapi.testclient import TestClient

Next = Callable[[Request], Awaitable[Response]]


class Shop:
    """An application, its manager, and what happens while a request is inside."""

    def __init__(
        self, scope: str | None = None, middleware: bool = False, backend: MemoryBackend | None = None
    ) -> None:
        self.backend = backend or MemoryBackend()
        self.locks = LockManager(self.backend)
        self.inside = asyncio.Event()
        self.go_on = asyncio.Event()
        self.log: list[str] = []
        self.app = FastAPI(lifespan=self.lifespan)
        self.app.add_exception_handler(LockLost, self.lost)
        self.app.add_exception_handler(AcquireTimeout, self.busy)
        if middleware:
            self.app.add_middleware(BaseHTTPMiddleware, dispatch=self.dispatch)
        locked = Depends(self.locked, scope=scope) if scope else Depends(self.locked)  # type: ignore[arg-type]

        @self.app.get("/handler/{sku}")
        async def handler(sku: str) -> dict[str, int]:
            async with self.locks.lock(sku).acquire(timeout=0.5) as lease:
                return await self.work(lease)

        @self.app.get("/dependency/{sku}")
        async def dependency(lease: Lease = locked) -> dict[str, int]:
            return await self.work(lease)

        @self.app.get("/try/{sku}")
        async def attempt(sku: str) -> dict[str, int]:
            async with self.locks.lock(sku).try_acquire() as lease:
                if lease is None:
                    raise HTTPException(409)
                return await self.work(lease)

        @self.app.get("/stream/{sku}")
        async def stream(sku: str) -> StreamingResponse:
            async def chunks() -> AsyncIterator[bytes]:
                async with self.locks.lock(sku) as lease:
                    for _ in range(3):
                        yield f"{lease.fence} ".encode()

            return StreamingResponse(chunks())

    async def locked(self, sku: str) -> AsyncIterator[Lease]:
        async with self.locks.lock(sku) as lease:
            yield lease

    async def work(self, lease: Lease) -> dict[str, int]:
        self.inside.set()
        try:
            await self.go_on.wait()
        except asyncio.CancelledError:
            self.log.append("cancelled")
            raise
        return {"fence": lease.fence}

    async def lost(self, request: Request, error: Exception) -> JSONResponse:
        assert isinstance(error, LockLost)
        return JSONResponse({"lost": error.reason.name}, status_code=503)

    async def busy(self, request: Request, error: Exception) -> JSONResponse:
        return JSONResponse({"busy": str(error)}, status_code=409)

    async def dispatch(self, request: Request, call_next: Next) -> Response:
        response = await call_next(request)
        response.headers["x-seen"] = "yes"
        return response

    @asynccontextmanager
    async def lifespan(self, app: FastAPI) -> AsyncIterator[None]:
        async with self.locks:
            yield

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[httpx.AsyncClient]:
        transport = httpx.ASGITransport(app=self.app)
        async with self.lifespan(self.app), httpx.AsyncClient(transport=transport, base_url="http://shop") as client:
            yield client
            await settle(self.backend)
            assert_empty(self.locks)

    async def lose(self, sku: str) -> None:
        """A real loss: the server no longer has the key, and the next renewal finds out."""
        self.backend.steal(sku)
        await self.backend.clock.advance(TTL / 3)


PLACES = [
    pytest.param("handler", {}, id="handler"),
    pytest.param("try", {}, id="try_acquire"),
    pytest.param("dependency", {}, id="dependency"),
    pytest.param("dependency", {"scope": "function"}, id="dependency, scope=function"),
]
each_place = pytest.mark.parametrize(("place", "options"), PLACES)
each_stack = pytest.mark.parametrize("middleware", [False, True], ids=["bare", "BaseHTTPMiddleware"])


@each_place
@each_stack
async def test_a_request_that_ends_well(place: str, options: dict[str, Any], middleware: bool) -> None:
    shop = Shop(middleware=middleware, **options)
    async with shop.serving() as client:
        shop.go_on.set()
        answers = [await client.get(f"/{place}/42") for _ in range(3)]
        assert [answer.status_code for answer in answers] == [200] * 3
        fences = [answer.json()["fence"] for answer in answers]
        assert fences == sorted(set(fences))
        assert lock_keys(shop.backend) == []


@each_place
@each_stack
async def test_a_loss_becomes_a_503(place: str, options: dict[str, Any], middleware: bool) -> None:
    """The endpoint is cancelled and the exception handler answers; the same for a dependency, which runs in the same
    task.
    """
    shop = Shop(middleware=middleware, **options)
    async with shop.serving() as client:
        request = asyncio.create_task(client.get(f"/{place}/42"))
        await shop.inside.wait()
        await shop.lose("42")
        answer = await request
        assert (answer.status_code, answer.json()) == (503, {"lost": "TAKEN_OVER"})
        assert shop.log == ["cancelled"]
        assert answer.headers.get("x-seen") == ("yes" if middleware else None)


async def test_force_release_becomes_a_503() -> None:
    shop = Shop()
    async with shop.serving() as client:
        request = asyncio.create_task(client.get("/handler/42"))
        await shop.inside.wait()
        await shop.locks.lock("42").force_release()
        assert (await request).json() == {"lost": "REVOKED"}


async def test_requests_take_turns() -> None:
    shop = Shop()
    async with shop.serving() as client:
        first = asyncio.create_task(client.get("/handler/42"))
        await shop.inside.wait()
        others = [asyncio.create_task(client.get("/handler/42")) for _ in range(5)]
        assert (await client.get("/try/42")).status_code == 409
        shop.go_on.set()
        answers = await asyncio.gather(first, *others)
        assert [answer.status_code for answer in answers] == [200] * 6
        assert len({answer.json()["fence"] for answer in answers}) == 6
        assert shop.backend.calls.count("transfer") >= 4


async def test_a_timeout_becomes_a_409() -> None:
    shop = Shop()
    async with shop.serving() as client:
        first = asyncio.create_task(client.get("/handler/42"))
        await shop.inside.wait()
        second = asyncio.create_task(client.get("/handler/42"))
        await settle(shop.backend)
        await shop.backend.clock.advance(0.5)
        answer = await second
        assert answer.status_code == 409
        assert "another task of this process" in answer.json()["busy"]
        shop.go_on.set()
        assert (await first).status_code == 200


async def test_a_client_that_disconnects() -> None:
    shop = Shop()
    async with shop.serving() as client:
        request = asyncio.create_task(client.get("/handler/42"))
        await shop.inside.wait()
        request.cancel()
        with pytest.raises(asyncio.CancelledError):
            await request
        await settle(shop.backend)
        assert lock_keys(shop.backend) == []


@pytest.mark.filterwarnings("ignore:async generator")
@each_stack
async def test_a_streaming_response(middleware: bool) -> None:
    shop = Shop(middleware=middleware)
    async with shop.serving() as client:
        answer = await client.get("/stream/42")
        assert len(answer.text.split()) == 3
        await settle(shop.backend)
        assert lock_keys(shop.backend) == []


def client_class() -> type[TestClient]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # starlette's, about the client it wraps
        from fastapi.testclient import TestClient
    return TestClient


def test_two_test_clients_in_one_process() -> None:
    """`with TestClient(app)` has a loop of its own each time; the module-level manager follows."""
    TestClient = client_class()  # noqa: N806
    shop = Shop()
    identities = set()
    for _ in range(2):
        shop.go_on = asyncio.Event()
        shop.inside = asyncio.Event()
        with TestClient(shop.app) as client:
            shop.go_on.set()
            for place in ("handler", "dependency", "try"):
                answer = client.get(f"/{place}/42")
                assert answer.status_code == 200
            identities.add(shop.locks._runtime.binding.id)
    assert len(identities) == 2
    assert lock_keys(shop.backend) == []


def test_a_request_through_a_test_client_waits_in_real_time(aiolock_memory: MemoryBackend) -> None:
    """Guards the fixture's clock: no one can advance it while the test waits for the response."""
    shop = Shop(backend=aiolock_memory)
    with client_class()(shop.app) as client:
        shop.go_on.set()
        aiolock_memory.steal("42")
        assert client.get("/handler/42").status_code == 409
        aiolock_memory.give_back("42")
        assert client.get("/handler/42").status_code == 200


def test_time_can_pass_between_the_requests_of_a_test_client(aiolock_memory: MemoryBackend) -> None:
    """testing.md's `client.portal.call(clock.advance, …)`."""
    shop = Shop(backend=aiolock_memory)
    with client_class()(shop.app) as client:
        assert client.portal is not None
        request = threading.Thread(target=client.get, args=("/handler/42",))
        request.start()
        client.portal.call(shop.inside.wait)
        aiolock_memory.steal("42")
        client.portal.call(aiolock_memory.clock.advance, TTL / 3)
        request.join()
    assert shop.log == ["cancelled"]


async def test_the_virtual_clock_is_for_who_asks(aiolock_memory: MemoryBackend, aiolock_clock: VirtualClock) -> None:
    assert aiolock_memory.clock is aiolock_clock
    before = aiolock_clock.now()
    await asyncio.to_thread(lambda: None)
    assert aiolock_clock.now() == before


async def test_shutdown_with_a_request_inside() -> None:
    shop = Shop()
    transport = httpx.ASGITransport(app=shop.app)
    async with httpx.AsyncClient(transport=transport, base_url="http://shop") as client:
        async with shop.lifespan(shop.app):
            request = asyncio.create_task(client.get("/handler/42"))
            await shop.inside.wait()
        assert (await request).json() == {"lost": "CLOSED"}
    assert lock_keys(shop.backend) == []


@asynccontextmanager
async def aiohttp_shop(locks: LockManager, inside: asyncio.Event) -> AsyncIterator[AiohttpClient[Any, Any]]:
    async def buy(request: web.Request) -> web.Response:
        try:
            async with locks.lock(request.match_info["sku"]) as lease:
                inside.set()
                if "wait" in request.query:
                    await asyncio.Event().wait()
                return web.json_response({"fence": lease.fence})
        except LockLost as error:
            raise web.HTTPServiceUnavailable(text=error.reason.name) from error

    async def run(app: web.Application) -> AsyncIterator[None]:
        async with locks:
            yield

    app = web.Application()
    app.cleanup_ctx.append(run)
    app.router.add_get("/buy/{sku}", buy)
    async with AiohttpClient(AiohttpServer(app)) as client:
        yield client


async def test_aiohttp() -> None:
    backend, inside = MemoryBackend(), asyncio.Event()
    locks = LockManager(backend)
    async with aiohttp_shop(locks, inside) as client:
        async with client.get("/buy/42") as answer:
            assert answer.status == 200
            assert (await answer.json())["fence"] > 0
        assert lock_keys(backend) == []
        inside.clear()
        request = asyncio.create_task(_text(client, "/buy/42?wait"))
        await inside.wait()
        backend.steal("42")
        await backend.clock.advance(TTL / 3)
        assert await request == (503, "TAKEN_OVER")
        backend.give_back("42")
        async with client.get("/buy/42") as answer:
            assert answer.status == 200
        assert_empty(locks)
    assert not locks._runtime.binding.bound
    assert lock_keys(backend) == []


async def _text(client: AiohttpClient[Any, Any], path: str) -> tuple[int, str]:
    async with client.get(path) as answer:
        return answer.status, await answer.text()


@pytest.mark.any_loop
async def test_an_anyio_program(backend: MemoryBackend) -> None:
    """Workers of a task group: one loses its lock and continues, the others do not notice."""
    outcome: dict[int, str] = {}

    async def worker(number: int, task_status: anyio.abc.TaskStatus[None]) -> None:
        try:
            async with locks.lock(f"shard {number}"):
                task_status.started()
                await stop.wait()
            outcome[number] = "done"
        except LockLost as error:
            outcome[number] = error.reason.name

    stop = anyio.Event()
    async with LockManager(backend) as locks, anyio.create_task_group() as group:
        for number in range(4):
            await group.start(worker, number)
        backend.steal("shard 2")
        await backend.clock.advance(TTL / 3)
        assert outcome == {2: LossReason.TAKEN_OVER.name}
        stop.set()
    assert outcome == {0: "done", 1: "done", 2: "TAKEN_OVER", 3: "done"}


@pytest.mark.any_loop
async def test_an_anyio_group_is_cancelled_with_the_lock(backend: MemoryBackend) -> None:
    seen: list[str] = []

    async def step(name: str) -> None:
        try:
            await anyio.sleep_forever()
        finally:
            seen.append(name)

    async def pipeline() -> None:
        async with locks.lock("a"), anyio.create_task_group() as group:
            group.start_soon(step, "read")
            group.start_soon(step, "write")

    async with LockManager(backend) as locks:
        running = asyncio.create_task(pipeline())
        await settle(backend)
        backend.expire("a")
        await backend.clock.advance(TTL / 3)
        with pytest.raises(LockLost) as caught:
            await running
    assert caught.value.reason is LossReason.DELETED
    assert sorted(seen) == ["read", "write"]
