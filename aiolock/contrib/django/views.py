"""A decorator for async views."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from datetime import timedelta
from functools import wraps
from typing import Literal, ParamSpec, TypeVar, Unpack

from ...errors import BackendError, ConfigurationError
from ...primitives.options import DEFAULT, Default, LockOptions
from ...recipes import Exclusive, Unavailable, exclusive
from ..extra import needs
from .manager import get_locks, open_manager

with needs("django"):
    from django.core.handlers.wsgi import WSGIRequest

P = ParamSpec("P")
R = TypeVar("R")


def locked(
    key: str | Callable[..., str],
    *,
    busy: Literal["wait", "raise"] = "wait",
    timeout: float | timedelta | Default | None = DEFAULT,
    **options: Unpack[LockOptions],
) -> Exclusive:
    """Let one call of an async view run at a time for each key, in all processes together.

    It is `exclusive()`, on the manager of `get_locks()`: `current_lease()` is the lease. The view is cancelled if that
    is lost, or if the client disconnects. `LockErrorsMiddleware` turns its errors into responses.

    Args:
        key: a format string over the view's arguments: `"order:{order_id}"`; or a function of them.
        busy, timeout, options: as for `exclusive()`.

    Raises:
        ConfigurationError: on decorating: as `exclusive()`. In a request: no `settings.AIOLOCK`; or Django runs under
            WSGI, where each call of an async view has an event loop, and so a connection, of its own.

    Cancellation: as for `exclusive()`. Cost: what the lock costs; the first request of a process connects.

    Example:
        ```python
        @locked("order:{order_id}", timeout=5.0)
        async def ship(request, order_id): ...
        ```
    """
    decorate = exclusive(open_manager, key=key, busy=busy, timeout=timeout, **options)

    def around(fn: Callable[P, Coroutine[object, object, R]]) -> Callable[P, Coroutine[object, object, R]]:
        inner = decorate(fn)

        @wraps(fn)
        async def view(*args: P.args, **kwargs: P.kwargs) -> R:
            if any(isinstance(argument, WSGIRequest) for argument in args[:2]):  # a method has it after its `self`
                raise ConfigurationError(
                    "",
                    f"{fn.__qualname__} is an async view, but Django runs under WSGI: serve it with ASGI, or make it "
                    "a `def` with aiolock.sync; in tests use django.test.AsyncClient",
                )
            try:
                await get_locks()
            except BackendError as error:
                raise Unavailable(error.name, error.message, error.transient) from error.__cause__
            return await inner(*args, **kwargs)

        return view

    return around
