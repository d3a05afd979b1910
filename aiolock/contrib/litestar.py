"""Locks in Litestar, as a plugin."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager

from ..manager import LockManager
from ..recipes.client import current_client
from .client import AsgiClient
from .extra import needs
from .http import ANSWERED, answer_to

with needs("litestar"):
    from litestar import Litestar, Request, Response
    from litestar.config.app import AppConfig
    from litestar.datastructures import State
    from litestar.di import NamedDependency, Provide
    from litestar.enums import ScopeType
    from litestar.exceptions import HTTPException
    from litestar.exceptions.responses import create_exception_response
    from litestar.plugins import InitPlugin
    from litestar.types import ASGIApp, Message, Receive, Scope, Send

Locks = NamedDependency[LockManager]
"""A parameter for the application's manager: `async def ship(order_id: int, locks: Locks)`. Name it `locks`."""


class LocksPlugin(InitPlugin):
    """Opens the manager while the application runs; handlers get it as `locks`, and its errors become responses.

    A dependency cannot hold a lock for a handler, as Litestar may run it in a task of its own: decorate the handler
    with `exclusive(locks, key=…)`, or lock in it.

    Args:
        locks: the manager. It is the dependency `locks`, and in `app.state.locks`.
        strict: True if the application must not start without Redis. Otherwise it starts with a WARNING, and what needs
            a lock gets a 503 until Redis is there: see `LockManager.open()`.
        busy, retry_after: as for `aiolock.contrib.http.answer_to()`.

    Example:
        ```python
        @post("/orders/{order_id:int}/ship")
        @exclusive(locks, key="order:{order_id}")
        async def ship(order_id: int) -> int:
            return current_lease().fence


        app = Litestar([ship], plugins=[LocksPlugin(locks)])
        ```
    """

    def __init__(self, locks: LockManager, *, strict: bool = False, busy: int = 409, retry_after: int = 1) -> None:
        self._locks = locks
        self._strict = strict
        self._busy = busy
        self._retry_after = retry_after

    def on_app_init(self, app_config: AppConfig) -> AppConfig:
        """Add the lifespan, the dependency and the exception handlers; those that you have given stay."""
        app_config.lifespan.insert(0, self._opened)
        app_config.middleware.append(_with_client)
        app_config.state["locks"] = self._locks
        app_config.dependencies.setdefault("locks", Provide(self._provide, sync_to_thread=False))
        for kind in ANSWERED:
            app_config.exception_handlers.setdefault(kind, self._answer)
        return app_config

    @asynccontextmanager
    async def _opened(self, app: Litestar) -> AsyncIterator[None]:
        async with aclosing(await self._locks.open(strict=self._strict)):
            yield

    def _provide(self) -> LockManager:
        return self._locks

    def _answer(self, request: Request[object, object, State], error: Exception) -> Response[object]:
        answer = answer_to(error, busy=self._busy, retry_after=self._retry_after)
        if answer is not None:
            error = HTTPException(answer.detail, status_code=answer.status, headers=answer.headers)
        return create_exception_response(request, error)


def _with_client(app: ASGIApp) -> ASGIApp:
    """A middleware: what a handler locks is not run if its client goes while it waits."""

    async def with_client(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != ScopeType.HTTP:
            await app(scope, receive, send)
            return
        client = AsgiClient(receive)

        async def answer(message: Message) -> None:
            current_client.set(None)  # what runs after the answer is for no client
            client.answered = True
            await send(message)

        current_client.set(client)
        await app(scope, client, answer)

    return with_client
