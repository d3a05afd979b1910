"""Locks in arq: the worker's manager, and jobs that are retried if another one runs."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from contextvars import ContextVar
from datetime import timedelta
from functools import wraps
from typing import Any, ParamSpec, TypeVar, Unpack

from ..errors import ConfigurationError
from ..manager import LockManager
from ..primitives.options import LockOptions
from ..recipes import Exclusive, NotRun, Unavailable, exclusive
from .extra import needs

with needs("arq"):
    from arq import Retry

P = ParamSpec("P")
R = TypeVar("R")

_running: ContextVar[bool] = ContextVar("aiolock.arq", default=False)
"""Whether the body of a job runs."""


def startup(locks: LockManager, *, strict: bool = False) -> Callable[[dict[Any, Any]], Coroutine[object, object, None]]:
    """Return a worker's `on_startup` that opens the manager, and keeps it in `ctx["locks"]`.

    Args:
        locks: the manager.
        strict: True if the worker must not start without Redis. Otherwise it starts with a WARNING, and jobs that need
            a lock are not run until Redis is there: see `LockManager.open()`.

    Example:
        ```python
        class WorkerSettings:
            functions = [ship]
            on_startup = startup(LockManager("redis://localhost:6379/0"))
            on_shutdown = shutdown
        ```
    """

    async def open_locks(ctx: dict[Any, Any]) -> None:
        ctx["locks"] = await locks.open(strict=strict)

    return open_locks


async def shutdown(ctx: dict[Any, Any]) -> None:
    """Close the manager: for a worker's `on_shutdown`. Harmless if it was not opened, as arq also calls it then.

    Args:
        ctx: the worker's.
    """
    if "locks" in ctx:
        await get_locks(ctx).close()


def get_locks(ctx: dict[Any, Any]) -> LockManager:
    """Return the worker's manager; also for `exclusive(get_locks, key=…)`, whose jobs wait for each other.

    Args:
        ctx: the worker's, or a job's.

    Raises:
        ConfigurationError: the worker was started without.
    """
    locks = ctx.get("locks")
    if not isinstance(locks, LockManager):
        raise ConfigurationError("", "this worker has no locks: on_startup = aiolock.contrib.arq.startup(locks)")
    return locks


def locked(
    key: str | Callable[..., str], *, defer: float | timedelta = 5.0, **options: Unpack[LockOptions]
) -> Exclusive:
    """Let one job run at a time for each key, in all workers; the others are retried later.

    It is `exclusive(get_locks, key=…, busy="raise")`, whose `NotRun` is arq's `Retry`: a job that finds another one
    running, or Redis unreachable, does not keep its worker busy. It counts as a try, of which arq allows 5: raise the
    job's `max_tries`. A job that ran is not repeated: if it was cancelled because its lock was lost, it fails with
    `LockLost`.

    Args:
        key: a format string over the job's arguments: `"order:{order}"`; or a function of them.
        defer: seconds until the job is retried.
        options: as for `locks.lock()`.

    Raises:
        ConfigurationError: as `exclusive()`, on decorating.

    Cancellation: as for `exclusive()`. Cost: what the lock costs.

    Example:
        ```python
        @locked("order:{order}", ttl=30.0)
        async def ship(ctx, order): ...
        ```
    """
    decorate = exclusive(get_locks, key=key, busy="raise", **options)

    def around(fn: Callable[P, Coroutine[object, object, R]]) -> Callable[P, Coroutine[object, object, R]]:
        @wraps(fn)
        async def run(*args: P.args, **kwargs: P.kwargs) -> R:
            _running.set(True)
            return await fn(*args, **kwargs)

        inner = decorate(run)

        @wraps(fn)
        async def job(*args: P.args, **kwargs: P.kwargs) -> R:
            token = _running.set(_running.get())
            try:
                return await inner(*args, **kwargs)
            except NotRun as error:
                refused = isinstance(error, Unavailable) and not error.transient  # it would be refused again
                if refused or _running.get():  # this job ran: what did not is a function that it called
                    raise
                raise Retry(defer=defer) from error
            finally:
                _running.reset(token)

        return job

    return around
