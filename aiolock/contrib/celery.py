"""Locks in Celery, whose workers are synchronous: a decorator for tasks, and the worker's manager."""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import timedelta
from functools import wraps
from typing import Literal, NoReturn, ParamSpec, Protocol, TypeVar, Unpack, overload

from ..errors import ConfigurationError
from ..log import Log
from ..primitives.options import DEFAULT, Default
from ..recipes.current import Current
from ..recipes.key import namer
from ..recipes.not_run import NotRun, Unavailable, before_it_runs
from ..recipes.taking import check_busy, take
from ..sync import Lease, Lock, LockManager, LockOptions
from .extra import needs

with needs("celery"):
    from celery import current_task
    from celery.signals import worker_process_shutdown, worker_shutdown

P = ParamSpec("P")
R = TypeVar("R")

logger: Log = Log("aiolock.celery")

_current = Current[Lease]("aiolock.celery")
_mutex = threading.Lock()
_opened: list[LockManager] = []


class Exclusive(Protocol):
    """What `exclusive()` returns: keeps the function's signature."""

    def __call__(self, fn: Callable[P, R], /) -> Callable[P, R]:
        """Decorate a function."""


class Skipping(Protocol):
    """What `exclusive(…, busy="skip")` returns: the function may also return None."""

    def __call__(self, fn: Callable[P, R], /) -> Callable[P, R | None]:
        """Decorate a function."""


def opened(locks: LockManager) -> LockManager:
    """Open the manager if it is not, in this process; it is closed when the worker's process stops.

    If Redis is unreachable, it is open anyway: see `LockManager.open()`. Call it in a task, never while the worker is
    imported: a prefork worker forks afterwards.

    Args:
        locks: the manager.

    Returns:
        The same.

    Raises:
        BackendError: Redis refuses; the next call tries again.
        ConfigurationError: gevent or eventlet stands in for threads; or it was opened before a fork.

    Cost: none, if it is open.

    Example:
        ```python
        @app.task
        def ship(order):
            with opened(locks).lock(f"order:{order}") as lease: ...
        ```
    """
    if not locks._portal.ready:
        with _mutex:
            if not locks._portal.ready:
                _opened.append(locks.open(strict=False))
    return locks


@overload
def exclusive(
    locks: LockManager,
    *,
    key: str | Callable[..., str],
    busy: Literal["retry", "wait", "raise"] = "retry",
    countdown: float | None = None,
    timeout: float | timedelta | Default | None = DEFAULT,
    **options: Unpack[LockOptions],
) -> Exclusive: ...


@overload
def exclusive(
    locks: LockManager,
    *,
    key: str | Callable[..., str],
    busy: Literal["skip"],
    **options: Unpack[LockOptions],
) -> Skipping: ...


def exclusive(
    locks: LockManager,
    *,
    key: str | Callable[..., str],
    busy: Literal["retry", "skip", "wait", "raise"] = "retry",
    countdown: float | None = None,
    timeout: float | timedelta | Default | None = DEFAULT,
    **options: Unpack[LockOptions],
) -> Exclusive | Skipping:
    """Let one call of a task run at a time for each key, in all workers together. Put it below `@app.task`.

    The manager is opened by the first task that a process runs, after the fork, and closed when the process stops. A
    task cannot be cancelled when it loses its lock: look at `current_lease().ensure()` before each step that must not
    run twice, and give `current_lease().fence` to what you write to.

    Args:
        locks: a manager of `aiolock.sync`, not opened.
        key: a format string over the task's arguments, by their names: `"order:{order}"`; or a function of them.
        busy: what a call does while another one runs: `"retry"` sends the task back to the queue, to be retried after
            `countdown`, as often as the task's `max_retries` allows (3, if you do not say; None for no limit), and then
            fails with `Busy`; `"skip"` returns None; `"raise"` raises `Busy`, for Celery's `autoretry_for`; `"wait"`
            waits, which occupies the worker. `"retry"` also retries if Redis is unreachable.
        countdown: seconds after which `"retry"` tries again; None for the task's `default_retry_delay`.
        timeout: how many seconds `"wait"` waits before it raises `Busy`; by default the lock's `acquire_timeout`.
        options: as for `locks.lock()`.

    Raises:
        ConfigurationError: on decorating: a key that names no argument, or another option that cannot work.
        TypeError: on decorating: an unknown keyword.

    The task raises what its function raises, and:

    - `Busy` or `Unavailable`, both a `NotRun`: it was not run.
    - `LockLost`: it ran to its end, but had lost the lock.
    - `BackendError`: it ran to its end, and Redis refused the release.

    Example:
        ```python
        locks = LockManager("redis://localhost:6379/0")


        @app.task(max_retries=None)
        @exclusive(locks, key="order:{order}", countdown=5)
        def ship(order): ...
        ```
    """
    check_busy(busy, timeout, "retry", "skip", "wait", "raise")
    if busy != "retry" and countdown is not None:
        raise ConfigurationError("", f'busy="{busy}" is never retried: leave countdown out, or pass busy="retry"')
    if not isinstance(locks, LockManager):
        raise ConfigurationError("", f"exclusive() needs a LockManager of aiolock.sync, not {locks!r}")
    locks.lock("checks the options", **options)

    def decorate(fn: Callable[P, R]) -> Callable[P, R | None]:
        name_of = namer(fn, key)

        @wraps(fn)
        def call(*args: P.args, **kwargs: P.kwargs) -> R | None:
            name = name_of(*args, **kwargs)
            lock = locks.lock(name, **options)
            try:
                lease = _take(locks, lock, "raise" if busy == "retry" else busy, timeout)
            except NotRun as error:
                if busy == "retry":
                    _retry(error, countdown)
                raise
            if lease is None:
                logger.debug("%r is busy: skipped", name, extra={"lock_name": name})
                return None
            with lease, _current.running_under(lease):
                return fn(*args, **kwargs)

        return call

    return decorate


def current_lease() -> Lease | None:
    """Return the lease of the innermost decorated task that runs; None outside of one. No I/O."""
    return _current.get()


def _take(
    locks: LockManager, lock: Lock, busy: Literal["skip", "wait", "raise"], timeout: float | timedelta | Default | None
) -> Lease | None:
    with before_it_runs():
        opened(locks)
    return lock._obtain_now(lambda: take(lock._core, busy, timeout))


def _retry(error: NotRun, countdown: float | None) -> NoReturn:
    refused = isinstance(error, Unavailable) and not error.transient
    if refused or not current_task:  # it would be refused again; or the function was called, and no task runs
        raise error
    raise current_task.retry(exc=error, countdown=countdown)


def _close(**_: object) -> None:
    with _mutex:
        managers, _opened[:] = _opened[:], []
    for locks in managers:
        locks.close()


worker_process_shutdown.connect(_close, weak=False)  # of a prefork worker, in each of its processes
worker_shutdown.connect(_close, weak=False)  # of the other pools
