"""Locks in Starlette: open while the application runs, and errors become responses."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import aclosing, asynccontextmanager, nullcontext
from typing import Any, TypeVar

from ..errors import ConfigurationError
from ..manager import LockManager
from ..recipes.client import FINDERS
from .client import AsgiClient
from .extra import needs
from .http import ANSWERED, answer_to

with needs("starlette"):
    from starlette.applications import Starlette
    from starlette.endpoints import HTTPEndpoint, WebSocketEndpoint
    from starlette.requests import HTTPConnection, Request
    from starlette.responses import JSONResponse, Response
    from starlette.types import Lifespan, Receive, Scope, Send
    from starlette.websockets import WebSocket, WebSocketState


class _Nothing(Response):
    """For a web socket, which is closed: sends nothing."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send nothing."""


App = TypeVar("App", bound=Starlette)
Handler = Callable[[Request, Exception], Coroutine[object, object, Response]]


def lifespan(locks: LockManager, inner: Lifespan[App] | None = None, *, strict: bool = False) -> Lifespan[App]:
    """Return a lifespan that opens the manager, and keeps it in `app.state.locks`.

    Args:
        locks: the manager.
        inner: your own lifespan. It runs while the manager is open.
        strict: True if the application must not start without Redis. Otherwise it starts with a WARNING, and what needs
            a lock gets a 503 until Redis is there: see `LockManager.open()`.

    Example:
        ```python
        app = Starlette(routes=routes, lifespan=lifespan(locks), exception_handlers=exception_handlers())
        ```
    """

    @asynccontextmanager
    async def run(app: App) -> AsyncIterator[Any]:
        app.state.locks = locks
        async with aclosing(await locks.open(strict=strict)), nullcontext() if inner is None else inner(app) as state:
            yield state

    return run


def exception_handlers(*, busy: int = 409, retry_after: int = 1) -> dict[int | type[Exception], Handler]:
    """Return handlers for the application: a lock that is held becomes 409, one that is lost 503, an outage 503.

    A web socket is closed, with 1013 ("try again later") or 1011.

    Args:
        busy, retry_after: as for `aiolock.contrib.http.answer_to()`.

    Example:
        ```python
        app = Starlette(exception_handlers={**exception_handlers(busy=423), OutOfStock: sold_out})
        ```
    """

    async def answered(request: Request | WebSocket, error: Exception) -> Response:
        answer = answer_to(error, busy=busy, retry_after=retry_after)
        if answer is None:
            raise error
        if isinstance(request, WebSocket):
            gone = WebSocketState.DISCONNECTED
            if gone not in (request.application_state, request.client_state):  # otherwise no one can be told
                await request.close(1013 if answer.headers else 1011, answer.detail)
            return _Nothing()
        return JSONResponse({"detail": answer.detail}, answer.status, answer.headers)

    kinds: tuple[type[Exception], ...] = ANSWERED
    return dict.fromkeys(kinds, answered)


def get_locks(request: HTTPConnection | HTTPEndpoint | WebSocketEndpoint) -> LockManager:
    """Return the manager of the application that serves this request; also for `exclusive(get_locks, key=…)`.

    Args:
        request: a request, a web socket, or the endpoint object.

    Raises:
        ConfigurationError: the application has none.

    Example:
        ```python
        @exclusive(get_locks, key="order:{request.path_params[order_id]}")
        async def ship(request: Request) -> Response: ...
        ```
    """
    app = request.scope["app"]
    locks = getattr(app.state, "locks", None)
    if not isinstance(locks, LockManager):
        raise ConfigurationError(
            "",
            "this application has no locks: pass lifespan=lifespan(locks) to it, and run its lifespan; a mounted "
            "application needs its own `app.state.locks = locks`",
        )
    return locks


def _client_of(request: HTTPConnection | HTTPEndpoint | WebSocketEndpoint) -> AsgiClient | None:
    """The client of a request; None of a web socket, whose messages the handler awaits."""
    if not isinstance(request, Request):
        return None
    if not isinstance(request._receive, AsgiClient):
        request._receive = AsgiClient(request._receive)
    return request._receive


FINDERS[get_locks] = _client_of
