"""Async views under a lock, with the manager of `settings.AIOLOCK`."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Any

import django
import pytest
from asgiref.sync import async_to_sync
from asgiref.testing import ApplicationCommunicator
from django.conf import settings
from django.core.handlers.asgi import ASGIHandler
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.test import AsyncClient, Client
from django.test.utils import override_settings
from django.urls import path
from django.views import View

from aiolock import BackendError, ConfigurationError, LockManager
from aiolock.contrib.django import LockErrorsMiddleware, get_locks, locked
from aiolock.recipes import current_lease
from tests.contrib.conftest import NAME, Work

if not settings.configured:
    settings.configure(LOGGING_CONFIG=None)
    django.setup()


class Errors(LockErrorsMiddleware):
    retry_after = 4


def synchronous(get_response: Callable[[HttpRequest], HttpResponse]) -> Callable[[HttpRequest], HttpResponse]:
    """A middleware that Django runs in a thread, and the view below it again on the loop."""
    return lambda request: get_response(request)


works: list[Work] = []


@locked("order:{order_id}")
async def ship(request: HttpRequest, order_id: int) -> HttpResponse:
    await works[-1]()
    lease = current_lease()
    assert lease is not None
    return JsonResponse(lease.fence, safe=False)


class Order(View):
    @locked("order:{order_id}", busy="raise")
    async def post(self, request: HttpRequest, order_id: int) -> HttpResponse:
        return HttpResponse()


async def misconfigured(request: HttpRequest) -> HttpResponse:
    raise BackendError(NAME, "NOPERM")


async def by_hand(request: HttpRequest) -> HttpResponse:
    locks = await get_locks()
    async with locks.lock(NAME):
        return HttpResponse(f"{id(locks)}")


urlpatterns = [
    path("<int:order_id>/ship", ship),
    path("<int:order_id>", Order.as_view()),
    path("misconfigured", misconfigured),
    path("by-hand", by_hand),
]


@pytest.fixture(autouse=True)
def settings_of_the_test(redis_url: str, work: Work) -> Iterator[None]:
    """The manager's arguments, and the application's parts."""
    works.append(work)
    middlewares = [f"{__name__}.synchronous", "django.middleware.common.CommonMiddleware", f"{__name__}.Errors"]
    with override_settings(
        AIOLOCK={"source": redis_url}, ALLOWED_HOSTS=["*"], MIDDLEWARE=middlewares, ROOT_URLCONF=__name__
    ):
        yield
    works.clear()


async def test_requests_share_a_manager() -> None:
    """Also those that come while it is being opened."""
    managers = await asyncio.gather(*(get_locks() for _ in range(3)))
    assert len(set(managers)) == 1
    await managers[0].close()


async def test_a_view(work: Work, elsewhere: LockManager) -> None:
    work.go_on.set()
    client = AsyncClient()
    answers = await asyncio.gather(*(client.post("/42/ship") for _ in range(3)))
    assert [answer.status_code for answer in answers] == [200] * 3
    assert len({answer.content for answer in answers}) == 3
    async with elsewhere.lock(NAME):
        answer = await client.post("/42")
    assert (answer.status_code, answer.headers["Retry-After"]) == (409, "4")
    await (await get_locks()).close()


async def test_the_lock_is_lost(work: Work, elsewhere: LockManager) -> None:
    request = asyncio.create_task(AsyncClient().post("/42/ship"))
    await work.begun.wait()
    await elsewhere.lock(NAME).force_release()
    answer = await request
    assert (answer.status_code, work.cancelled) == (503, 1)
    await (await get_locks()).close()


async def test_the_client_goes_away(work: Work, elsewhere: LockManager) -> None:
    """Django cancels the view, and the lock is free."""
    scope = {"type": "http", "method": "POST", "path": "/42/ship", "headers": [], "query_string": b""}
    connection = ApplicationCommunicator(ASGIHandler(), scope)
    await connection.send_input({"type": "http.request", "body": b""})
    await work.begun.wait()
    await connection.send_input({"type": "http.disconnect"})
    async with elsewhere.lock(NAME).acquire(timeout=5.0) as lease:
        assert not lease.abandoned
    await connection.wait()
    assert work.cancelled == 1
    await (await get_locks()).close()


async def test_a_mistake_is_raised() -> None:
    with pytest.raises(BackendError, match="NOPERM"):
        await AsyncClient().get("/misconfigured")


async def test_settings_that_are_missing() -> None:
    with override_settings(AIOLOCK=None), pytest.raises(ConfigurationError, match="AIOLOCK must be a dict"):
        await get_locks()


async def test_an_outage_at_the_first_request(redis_url: str) -> None:
    """The client may come again, if its view was not run."""
    with override_settings(AIOLOCK={"source": "redis://127.0.0.1:1/0"}):
        for _ in range(2):
            answer = await AsyncClient().get("/by-hand")
            assert answer.status_code == 503
        answer = await AsyncClient().post("/42/ship")
        assert (answer.status_code, answer.headers.get("Retry-After")) == (503, "4")
        await (await get_locks()).close()


def test_wsgi() -> None:
    """Where an async view has a loop of its own for each call. The synchronous test client is WSGI, too."""
    with pytest.raises(ConfigurationError, match=r"ship is an async view.*aiolock\.sync.*AsyncClient"):
        Client().post("/42/ship")
    with pytest.raises(ConfigurationError, match=r"Order\.post is an async view"):
        Client().post("/42")


def test_each_loop_has_a_manager(redis_url: str) -> None:
    """As in a test suite, whose tests run on loops of their own. It is closed when the loop ends."""

    async def request() -> Any:
        await AsyncClient().get("/by-hand")
        return await get_locks()

    managers = [async_to_sync(request)() for _ in range(2)]
    assert managers[0] is not managers[1]
    assert [repr(manager).endswith("closed>") for manager in managers] == [True, True]
