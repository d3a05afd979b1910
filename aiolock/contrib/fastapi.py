"""Locks in FastAPI: a dependency that holds one while the path operation runs."""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import timedelta
from typing import Annotated, Literal, Unpack

from ..core.lease import Lease
from ..errors import ConfigurationError
from ..manager import LockManager
from ..primitives.options import DEFAULT, Default, LockOptions
from ..recipes.client import Service
from ..recipes.key import fields
from ..recipes.taking import check_busy, take
from .extra import needs

with needs("fastapi"):
    from fastapi import Depends, params
    from starlette.requests import HTTPConnection

from .starlette import _client_of
from .starlette import exception_handlers as exception_handlers
from .starlette import get_locks as get_locks
from .starlette import lifespan as lifespan


async def _get_locks(connection: HTTPConnection) -> LockManager:
    return get_locks(connection)


Locks = Annotated[LockManager, Depends(_get_locks)]
"""A parameter for the application's manager: `async def ship(order_id: str, locks: Locks)`."""


def locked(
    key: str | Callable[..., object],
    *,
    busy: Literal["wait", "raise"] = "wait",
    timeout: float | timedelta | Default | None = DEFAULT,
    **options: Unpack[LockOptions],
) -> params.Depends:
    """Return a dependency: its lock is held while the path operation runs, which gets the lease if it asks for it.

    The lock is released when the path operation has returned, before the response is sent: background tasks, and what
    a `StreamingResponse` streams, run without it. If the lease is lost, an `async def` operation is cancelled, and the
    client gets a 503 from `exception_handlers()`. (A `def` operation runs in a thread, which nothing can cancel: the
    client gets the 503 when that ends.)

    Args:
        key: a format string over the path parameters, as they stand in the URL; or a dependency of yours that returns
            the key. Take that for parameters that are no `str`: `/orders/7` and `/orders/07` may be the same order.
        busy: if another request has the lock: `"wait"` for it, or `"raise"` at once.
        timeout: how many seconds to wait; None for no limit; by default the lock's `acquire_timeout`.
        options: as for `locks.lock()`.

    Raises:
        ConfigurationError: a key that is not a format string, or a timeout without a wait. In a request: a path
            parameter that does not exist, an option that cannot work, an application without locks, or an operation
            that yields: FastAPI runs that while it sends the response.

    In a request: `Busy`, `Unavailable` or `Gone`, all a `NotRun`, if the path operation was not run; and `LockLost`.

    Cancellation: as for `async with lock`. Cost: what the lock costs, two round trips if it is free.

    Example:
        ```python
        @app.post("/orders/{order_id}/ship")
        async def ship(order_id: str, lease: Annotated[Lease, locked("order:{order_id}")]) -> int:
            return lease.fence
        ```
    """
    check_busy(busy, timeout, "wait", "raise")

    name_of = key if callable(key) else _of_path(key)

    async def lease(connection: HTTPConnection, locks: Locks, name: str = Depends(name_of)) -> AsyncIterator[Lease]:
        _check_operation(connection.scope["endpoint"])
        lock = locks.lock(name, **options)
        async with Service(lock, _client_of(connection)) as service, await take(lock, busy, timeout) as held:
            await service.begin()
            yield held

    return params.Depends(lease, scope="function")


def _check_operation(operation: Callable[..., object]) -> None:
    """Refuse one that would run without the lock."""
    inner = inspect.unwrap(operation)
    if inspect.isasyncgenfunction(inner) or inspect.isgeneratorfunction(inner):
        raise ConfigurationError(
            "",
            f"{inner.__qualname__} yields, so FastAPI runs it after its lock was released: take the lock in "
            "it, with `async with locks.lock(…)`",
        )


def _of_path(key: str) -> Callable[[HTTPConnection], Awaitable[str]]:
    """Return a dependency that formats the key."""
    wanted = fields(key, "locked()")

    async def name_of(connection: HTTPConnection) -> str:
        missing = wanted - connection.path_params.keys()
        if missing:
            raise ConfigurationError(
                key,
                f"the key {key!r} names {min(missing)!r}, but {connection.scope['route'].path} has no such parameter",
            )
        return key.format_map(connection.path_params)

    return name_of
