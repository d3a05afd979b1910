"""A plugin: the manager as a dependency, and errors that become responses."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx
import pytest
from litestar import Litestar, Request, Response, get, post
from litestar.params import FromPath
from litestar.testing import AsyncTestClient

from aiolock import AcquireTimeout, BackendError, LockManager, NotAcquired
from aiolock.contrib.litestar import Locks, LocksPlugin
from aiolock.recipes import current_lease, exclusive
from tests.contrib.conftest import NAME, Work


@pytest.fixture
def locks(redis_url: str) -> LockManager:
    """The application's manager."""
    return LockManager(redis_url)


@pytest.fixture
def app(locks: LockManager, work: Work) -> Litestar:
    """An application that locks orders."""

    @post("/{order_id:int}")
    async def order(order_id: FromPath[int], locks: Locks) -> int:
        async with locks.lock(f"order:{order_id}").acquire(timeout=0) as lease:
            return lease.fence

    @post("/{order_id:int}/ship")
    @exclusive(locks, key="order:{order_id}")
    async def ship(order_id: FromPath[int]) -> int:
        await work()
        lease = current_lease()
        assert lease is not None
        return lease.fence

    @get("/misconfigured")
    async def misconfigured() -> None:
        raise BackendError(NAME, "NOPERM")

    return Litestar([order, ship, misconfigured], plugins=[LocksPlugin(locks, retry_after=2)], logging_config=None)


@asynccontextmanager
async def serving(app: Litestar) -> AsyncIterator[httpx.AsyncClient]:
    async with app.lifespan(), httpx.AsyncClient(transport=httpx.ASGITransport(app=app), base_url="http://shop") as it:
        yield it


async def test_another_one_has_it(app: Litestar, elsewhere: LockManager) -> None:
    """The response has the shape of all of Litestar's."""
    async with serving(app) as client:
        assert (await client.post("/42")).status_code == 201
        async with elsewhere.lock(NAME):
            answer = await client.post("/42")
    assert (answer.status_code, answer.headers["Retry-After"]) == (409, "2")
    assert answer.json()["status_code"] == 409


async def test_the_lock_is_lost(app: Litestar, work: Work, elsewhere: LockManager) -> None:
    async with serving(app) as client:
        request = asyncio.create_task(client.post("/42/ship"))
        await work.begun.wait()
        await elsewhere.lock(NAME).force_release()
        answer = await request
    assert (answer.status_code, work.cancelled) == (503, 1)
    assert "Retry-After" not in answer.headers


async def test_a_refusal_is_our_mistake(app: Litestar) -> None:
    async with serving(app) as client:
        assert (await client.get("/misconfigured")).status_code == 500


async def test_what_you_give_stays(locks: LockManager) -> None:
    """Your own handler of an error comes first. The manager is open before your own lifespan begins."""

    def busy(request: Request, error: Exception) -> Response:
        return Response("mine", status_code=418)

    @asynccontextmanager
    async def own(app: Litestar) -> AsyncIterator[None]:
        async with app.state.locks.lock(NAME):
            yield

    @post("/")
    async def fail(locks: Locks) -> None:
        raise AcquireTimeout(locks.lock(NAME).name, "held")

    app = Litestar(
        [fail],
        plugins=[LocksPlugin(locks)],
        lifespan=[own],
        exception_handlers={NotAcquired: busy},
        logging_config=None,
    )
    async with serving(app) as client:
        assert (await client.post("/")).status_code == 418


async def test_a_decorated_handler(app: Litestar, work: Work) -> None:
    """Through Litestar's own client, which runs the lifespan, on a loop of its own each time."""
    work.go_on.set()
    for _ in range(2):
        async with AsyncTestClient(app) as client:
            assert (await client.post("/42/ship")).json() > 0
