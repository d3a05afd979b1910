"""A lock as a dependency of a path operation."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Annotated, Any

import httpx
import pytest
from fastapi import APIRouter, BackgroundTasks, Depends, FastAPI, WebSocket
from fastapi.responses import StreamingResponse

from aiolock import ConfigurationError, Lease, LockManager
from aiolock.contrib.fastapi import Locks, exception_handlers, lifespan, locked
from tests.contrib.conftest import NAME, Work

OrderLease = Annotated[Lease, locked("order:{order_id}", timeout=0)]


async def order_key(order_id: int) -> str:
    return f"order:{order_id}"


async def session(lease: OrderLease) -> AsyncIterator[list[str]]:
    rows: list[str] = []
    yield rows
    rows.append("committed under the lock" if not lease.released else "committed too late")


@asynccontextmanager
async def serving(app: FastAPI) -> AsyncIterator[httpx.AsyncClient]:
    transport = httpx.ASGITransport(app=app)
    async with app.router.lifespan_context(app), httpx.AsyncClient(transport=transport, base_url="http://shop") as it:
        yield it


@pytest.fixture
def app(redis_url: str) -> FastAPI:
    """An application that locks orders."""
    return FastAPI(lifespan=lifespan(LockManager(redis_url)), exception_handlers=exception_handlers())


@pytest.fixture
async def client(app: FastAPI) -> AsyncIterator[httpx.AsyncClient]:
    """A client of the running application."""
    async with serving(app) as client:
        yield client


@pytest.fixture
def seen() -> list[bool]:
    """Whether the lease was released, when something ran beside the path operation."""
    return []


@pytest.fixture(autouse=True)
async def routes(app: FastAPI, work: Work, seen: list[bool]) -> None:
    """The path operations."""
    loop = asyncio.get_running_loop()

    @app.post("/{order_id}/ship")
    async def ship(lease: OrderLease) -> int:
        await work()
        return lease.fence

    @app.post("/{order_id}/ship-now")
    async def ship_now(lease: Annotated[Lease, locked(order_key, busy="raise")]) -> int:
        return lease.fence

    @app.post("/{order_id}/notify")
    async def notify(lease: OrderLease, background: BackgroundTasks) -> None:
        async def mail() -> None:
            seen.append(lease.released)

        background.add_task(mail)
        assert not lease.released

    @app.post("/{order_id}/export")
    async def export(lease: OrderLease) -> StreamingResponse:
        async def lines() -> AsyncIterator[str]:
            seen.append(lease.released)
            yield "a"

        assert not lease.released
        return StreamingResponse(lines())

    @app.post("/{order_id}/rows", response_model=None)
    async def rows(lease: OrderLease) -> AsyncIterator[bool]:
        yield lease.released

    @app.post("/{order_id}/lines", response_model=None)
    def lines(lease: OrderLease) -> Iterator[bool]:
        yield lease.released

    @app.post("/{order_id}/thread")
    def thread(lease: OrderLease) -> None:
        asyncio.run_coroutine_threadsafe(work(), loop).result(10)

    @app.post("/{order_id}/write")
    async def write(rows: Annotated[list[str], Depends(session, scope="function")]) -> StreamingResponse:
        async def lines() -> AsyncIterator[str]:
            yield rows[-1]

        return StreamingResponse(lines())

    @app.websocket("/{order_id}/watch")
    async def watch(socket: WebSocket, lease: OrderLease) -> None:
        await socket.accept()
        await work()

    router = APIRouter(dependencies=[locked("order:{order_id}")])

    @router.post("/{order_id}/depth")
    async def depth(one: OrderLease, same: OrderLease, locks: Locks, order_id: str) -> tuple[int, bool]:
        async with locks.lock(f"order:{order_id}"):
            return one.depth, one is same

    @router.post("/orders")
    async def orders() -> None: ...

    app.include_router(router)


async def test_a_request_holds_the_lock(client: httpx.AsyncClient, work: Work, elsewhere: LockManager) -> None:
    """And has given it back when its client has the response."""
    work.go_on.set()
    answers = [await client.post("/42/ship") for _ in range(2)]
    assert [answer.status_code for answer in answers] == [200, 200]
    assert answers[0].json() < answers[1].json()
    assert not await elsewhere.lock(NAME).is_locked()


@pytest.mark.parametrize("path", ["/42/ship", "/42/ship-now", "/042/ship-now"])
async def test_another_one_has_it(client: httpx.AsyncClient, elsewhere: LockManager, path: str) -> None:
    """The key of a dependency is made of the parameter's value, not of its text."""
    async with elsewhere.lock(NAME):
        answer = await client.post(path)
    assert (answer.status_code, answer.headers["Retry-After"]) == (409, "1")


async def test_the_lock_is_lost(client: httpx.AsyncClient, work: Work, elsewhere: LockManager) -> None:
    request = asyncio.create_task(client.post("/42/ship"))
    await work.begun.wait()
    await elsewhere.lock(NAME).force_release()
    answer = await request
    assert (answer.status_code, work.cancelled) == (503, 1)
    assert "Retry-After" not in answer.headers


@pytest.mark.parametrize("path", ["/42/notify", "/42/export"])
async def test_what_runs_after_the_operation_runs_without_the_lock(
    client: httpx.AsyncClient, seen: list[bool], path: str
) -> None:
    """Broken by the default scope of dependencies, which ends after the response."""
    assert (await client.post(path)).status_code == 200
    assert seen == [True]


@pytest.mark.parametrize("path", ["/42/rows", "/42/lines"])
async def test_an_operation_that_yields_is_refused(
    client: httpx.AsyncClient, elsewhere: LockManager, path: str
) -> None:
    """FastAPI runs it while it sends the response, without the lock."""
    with pytest.raises(ConfigurationError, match="yields"):
        await client.post(path)
    assert not await elsewhere.lock(NAME).is_locked()


async def test_a_loss_waits_for_a_thread(client: httpx.AsyncClient, work: Work, elsewhere: LockManager) -> None:
    """A `def` operation cannot be cancelled: the answer comes when it has ended."""
    request = asyncio.create_task(client.post("/42/thread"))
    await work.begun.wait()
    await elsewhere.lock(NAME).force_release()
    work.go_on.set()
    assert (await request).status_code == 503
    assert work.cancelled == 0


async def test_a_dependency_that_depends_on_the_lease_ends_before_it(client: httpx.AsyncClient) -> None:
    assert (await client.post("/42/write")).text == "committed under the lock"


async def test_the_same_lock_again_in_one_request(client: httpx.AsyncClient) -> None:
    """A dependency that is used twice runs once; another one for the same key, and the operation itself, nest."""
    assert (await client.post("/42/depth")).json() == [3, True]


async def test_a_web_socket(app: FastAPI, client: httpx.AsyncClient, work: Work, elsewhere: LockManager) -> None:
    """Closed before it is accepted if the lock is held, and while it is open if that is lost."""
    scope = {"type": "websocket", "path": "/42/watch", "headers": [], "query_string": b"", "subprotocols": []}
    sent: asyncio.Queue[dict[str, Any]] = asyncio.Queue()

    async def connect() -> dict[str, str]:
        return {"type": "websocket.connect"}

    async with elsewhere.lock(NAME):
        await app(dict(scope), connect, sent.put)
    closed = sent.get_nowait()
    assert (closed["type"], closed["code"]) == ("websocket.close", 1013)
    connection = asyncio.create_task(app(dict(scope), connect, sent.put))
    await work.begun.wait()
    await elsewhere.lock(NAME).force_release()
    await connection
    assert [message.get("code") for message in (sent.get_nowait(), sent.get_nowait())] == [None, 1011]


async def test_mistakes(app: FastAPI, client: httpx.AsyncClient, redis_url: str) -> None:
    with pytest.raises(ConfigurationError, match="'order_id', but /orders has no such parameter"):
        await client.post("/orders")
    with pytest.raises(ConfigurationError, match="must name its arguments"):
        locked("order:{}")
    with pytest.raises(ConfigurationError, match="never waits"):
        locked("orders", busy="raise", timeout=1.0)
    with pytest.raises(ConfigurationError, match='"wait" or "raise"'):
        locked("orders", busy="skip")  # type: ignore[arg-type]
    without = FastAPI()
    without.include_router(app.router)
    transport = httpx.ASGITransport(app=without)
    async with httpx.AsyncClient(transport=transport, base_url="http://shop") as stranger:
        with pytest.raises(ConfigurationError, match="lifespan=lifespan"):
            await stranger.post("/42/ship-now")


async def test_a_lifespan_of_your_own(redis_url: str) -> None:
    """Your own lifespan runs while the manager is open, and its state is kept."""
    locks = LockManager(redis_url)
    seen: list[object] = []

    @asynccontextmanager
    async def own(app: FastAPI) -> AsyncIterator[dict[str, str]]:
        async with locks.lock(NAME):
            yield {"its": "state"}
        seen.append(app.state.locks)

    app = FastAPI(lifespan=lifespan(locks, own))
    async with app.router.lifespan_context(app) as state:
        assert state == {"its": "state"}
        assert await locks.lock(NAME).is_locked()
    assert seen == [locks]
    assert "closed" in repr(locks)
