"""A decorator: one call at a time for each key, across processes."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Coroutine
from contextlib import AbstractAsyncContextManager, nullcontext
from datetime import timedelta
from functools import wraps
from typing import Literal, ParamSpec, Protocol, TypeVar, Unpack, overload

from ..core.lease import Lease
from ..core.policy import check_timeout
from ..errors import ConfigurationError
from ..log import Log
from ..manager import LockManager
from ..primitives.lock import Lock
from ..primitives.options import DEFAULT, Default, LockOptions
from .client import Service, client_of
from .current import running_under
from .key import namer
from .not_run import Unavailable
from .taking import check_busy, take

P = ParamSpec("P")
R = TypeVar("R")

logger: Log = Log("aiolock.exclusive")


class Exclusive(Protocol):
    """What `exclusive()` returns: keeps the function's signature."""

    def __call__(self, fn: Callable[P, Coroutine[object, object, R]], /) -> Callable[P, Coroutine[object, object, R]]:
        """Decorate a coroutine function."""


class Skipping(Protocol):
    """What `exclusive(…, busy="skip")` returns: the function may also return None."""

    def __call__(
        self, fn: Callable[P, Coroutine[object, object, R]], /
    ) -> Callable[P, Coroutine[object, object, R | None]]:
        """Decorate a coroutine function."""


@overload
def exclusive(
    locks: LockManager | Callable[..., LockManager],
    *,
    key: str | Callable[..., str],
    busy: Literal["wait", "raise"] = "wait",
    timeout: float | timedelta | Default | None = DEFAULT,
    outage: Literal["raise", "run"] = "raise",
    **options: Unpack[LockOptions],
) -> Exclusive: ...


@overload
def exclusive(
    locks: LockManager | Callable[..., LockManager],
    *,
    key: str | Callable[..., str],
    busy: Literal["skip"],
    outage: Literal["raise", "run"] = "raise",
    **options: Unpack[LockOptions],
) -> Skipping: ...


def exclusive(
    locks: LockManager | Callable[..., LockManager],
    *,
    key: str | Callable[..., str],
    busy: Literal["wait", "skip", "raise"] = "wait",
    timeout: float | timedelta | Default | None = DEFAULT,
    outage: Literal["raise", "run"] = "raise",
    **options: Unpack[LockOptions],
) -> Exclusive | Skipping:
    """Let one call of a coroutine function or method run at a time for each key, in all processes together.

    Each call takes a lock of its own, under the key as its name, and is cancelled if it loses it. The lock is the one
    that `locks.lock(name)` returns: reentrant by task, so a recursive call runs.

    Args:
        locks: the manager; or a function that gets the first argument, for a method its `self`: `lambda self:
            self.locks`.
        key: a format string over the arguments, by their names: `"order:{order.id}"`, `"{self.tenant}:{month}"`; or a
            function of the arguments that returns the key.
        busy: what a call does while another one runs: `"wait"` for it, in order; `"skip"` returns None at once, and
            `"raise"` raises `Busy` at once, without running the function.
        timeout: how many seconds `"wait"` waits before it raises `Busy`; None for no limit; by default the lock's
            `acquire_timeout`.
        outage: what a call does if Redis cannot be asked: `"raise"` raises `Unavailable`; `"run"` runs the function
            without the lock, with a WARNING. That is for work that may run twice, but must not wait for Redis. If a
            `timeout` below the manager's `request_timeout` is over, and nothing says that Redis is unreachable, another
            may have the lock: it still raises `Unavailable`.
        options: as for `locks.lock()`.

    Returns:
        A decorator. The decorated function has the same signature; with `"skip"` it may also return None.

    Raises:
        ConfigurationError: on decorating: a key that names no argument, or another option that cannot work.
        TypeError: on decorating: not a coroutine function, or an unknown keyword.

    The decorated function raises what the function raises, and:

    - `Busy` or `Unavailable`, both a `NotRun`: the function was not run. In a request of a web framework also `Gone`.
    - `LockLost`: it ran, and was cancelled where it stood, because the lock was lost.
    - `BackendError`: it ran to its end, and Redis refused the release.
    - `NotAcquired`, `ConfigurationError`: as for `acquire()`, before it ran; also for a key that formats an object
      without its own `__str__`, or a set: another process would have another key.

    Cancellation: as for `async with lock`: nothing is held once the undo, which is written at once, has arrived. Cost:
    what the lock costs, two round trips if it is free.

    Example:
        ```python
        @exclusive(locks, key="order:{order}", busy="raise", ttl=30.0)
        async def pay(order: str, amount: int) -> str: ...
        ```
    """
    check_options(busy, timeout, outage)
    if isinstance(locks, LockManager):
        locks.lock("checks the options", **options)
    elif not callable(locks):
        raise ConfigurationError(
            "", f"exclusive() needs a LockManager, or a function of the first argument that returns it, not {locks!r}"
        )

    def decorate(fn: Callable[P, Coroutine[object, object, R]]) -> Callable[P, Coroutine[object, object, R | None]]:
        if not inspect.iscoroutinefunction(fn):
            shown = getattr(fn, "__qualname__", repr(fn))
            raise TypeError(f"exclusive() decorates coroutine functions (async def) without a yield, not {shown}")
        name_of = namer(fn, key)
        first = next(iter(inspect.signature(fn).parameters), "")

        @wraps(fn)
        async def call(*args: P.args, **kwargs: P.kwargs) -> R | None:
            subject = args[:1] if args or first not in kwargs else (kwargs[first],)
            manager = locks if isinstance(locks, LockManager) else locks(*subject)
            lock = manager.lock(name_of(*args, **kwargs), **options)
            guard: AbstractAsyncContextManager[Lease | None] = nullcontext()
            async with Service(lock, client_of(locks, *subject)) as service:
                try:
                    lease = await take(lock, busy, timeout)
                    if lease is None:
                        tell_skipped(lock.name)
                        return None
                    guard = lease
                except Unavailable as error:
                    runs_without(error, lock, busy, timeout, outage)
                async with guard as held:  # nothing is awaited between the grant and this line
                    await service.begin()
                    with running_under(held):
                        return await fn(*args, **kwargs)

        return call

    return decorate


def check_options(busy: str, timeout: float | timedelta | Default | None, outage: str) -> None:
    """Raise a `ConfigurationError` unless these options of a decorator can work."""
    check_busy(busy, timeout, "wait", "skip", "raise")
    if outage not in ("raise", "run"):
        raise ConfigurationError("", f'outage must be "raise" or "run", not {outage!r}')
    if not isinstance(timeout, Default):
        check_timeout("", "timeout", timeout)


def tell_skipped(name: str) -> None:
    """A call was skipped."""
    logger.debug("%r is busy: skipped", name, extra={"lock_name": name})


def runs_without(
    error: Unavailable, lock: Lock, busy: str, timeout: float | timedelta | Default | None, outage: str
) -> None:
    """Raise the error, unless the function shall run without its lock then."""
    if outage == "raise" or not _away(error, lock, busy, timeout):
        raise error
    logger.warning("runs without lock %r: %s", lock.name, error, extra={"lock_name": lock.name})


def _away(error: Unavailable, lock: Lock, busy: str, timeout: float | timedelta | Default | None) -> bool:
    """Whether Redis is known to be away or to refuse, or was silent for a whole `request_timeout`.

    If only a shorter timeout is over, another may have the lock.
    """
    limit = lock._policy.acquire_timeout if isinstance(timeout, Default) else check_timeout("", "timeout", timeout)
    silent = busy != "wait" or not limit or limit >= lock._runtime.limits.request_timeout
    return silent or error.__cause__ is not None
