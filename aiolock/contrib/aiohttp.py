"""Locks in aiohttp's server: open while the application runs, and errors become responses."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import aclosing

from ..errors import ConfigurationError
from ..manager import LockManager
from ..recipes.client import FINDERS
from .extra import needs
from .http import ANSWERED, answer_to

with needs("aiohttp"):
    from aiohttp import web
    from aiohttp.typedefs import Handler, Middleware

LOCKS: web.AppKey[LockManager] = web.AppKey("LOCKS", LockManager)
"""Where an application has its manager: `app[LOCKS]`, or in a handler `request.config_dict[LOCKS]`."""


def setup(
    app: web.Application, locks: LockManager, *, strict: bool = False, busy: int = 409, retry_after: int = 1
) -> None:
    """Open the manager while the application runs, and answer to its errors: 409 if a lock is held, 503 if one is lost.

    Call it before you add what uses locks: start-up runs in this order, clean-up in the opposite one, and middlewares
    that you add before see the errors' responses. Applications below this one have its locks, too.

    Args:
        app: the application. The manager is in `app[LOCKS]`.
        locks: the manager.
        strict: True if the application must not start without Redis. Otherwise it starts with a WARNING, and what needs
            a lock gets a 503 until Redis is there: see `LockManager.open()`.
        busy, retry_after: as for `aiolock.contrib.http.answer_to()`.

    Example:
        ```python
        app = web.Application()
        setup(app, LockManager("redis://localhost:6379/0"))
        ```
    """
    app[LOCKS] = locks
    app.cleanup_ctx.append(_opened(locks, strict))
    app.middlewares.append(_answering(busy, retry_after))


def get_locks(request: web.Request | web.View) -> LockManager:
    """Return the manager of the application that serves this request; also for `exclusive(get_locks, key=…)`.

    Args:
        request: a request, or a class-based view.

    Raises:
        ConfigurationError: neither the application nor one above it was set up.

    Example:
        ```python
        @exclusive(get_locks, key="order:{request.match_info[order]}")
        async def ship(request: web.Request) -> web.Response: ...
        ```
    """
    if isinstance(request, web.View):
        request = request.request
    if LOCKS not in request.config_dict:
        raise ConfigurationError("", "this application has no locks: call aiolock.contrib.aiohttp.setup(app, locks)")
    locks: LockManager = request.config_dict[LOCKS]
    return locks


def _opened(locks: LockManager, strict: bool) -> Callable[[web.Application], AsyncIterator[None]]:
    async def opened(app: web.Application) -> AsyncIterator[None]:
        async with aclosing(await locks.open(strict=strict)):
            yield

    return opened


class _Client:
    """The client of a request."""

    def __init__(self, request: web.Request | web.View) -> None:
        self._request = request.request if isinstance(request, web.View) else request

    async def gone(self) -> bool:
        """See `Client`."""
        transport = self._request.transport
        return transport is None or transport.is_closing()


FINDERS[get_locks] = _Client


def _answering(busy: int, retry_after: int) -> Middleware:
    @web.middleware
    async def answering(request: web.Request, handler: Handler) -> web.StreamResponse:
        try:
            return await handler(request)
        except ANSWERED as error:
            answer = answer_to(error, busy=busy, retry_after=retry_after)
            if answer is None or request.writer.output_size:  # the response has begun
                raise
            return web.json_response({"detail": answer.detail}, status=answer.status, headers=answer.headers)

    return answering
