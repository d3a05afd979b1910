"""A decorator: one call at a time for each key, across processes."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Coroutine
from contextlib import AbstractAsyncContextManager, nullcontext
from datetime import timedelta
from functools import wraps
from typing import Literal, ParamSpec, Protocol, TypeVar, Unpack, cast, overload

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
from .sharing import Tell, share
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
    busy: Literal["wait", "join", "raise"] = "wait",
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
    busy: Literal["wait", "join", "skip", "raise"] = "wait",
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
        busy: what a call does while another one runs: `"wait"` for it, in order; `"join"` waits for its end, and then
            returns its result or raises its error, so give each function that joins keys of its own; `"skip"` returns
            None at once, and `"raise"` raises `Busy` at once, without running the function.
        timeout: how many seconds `"wait"` and `"join"` wait before they raise `Busy`; None for no limit; by default the
            lock's `acquire_timeout`.
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
    - `JoinFailed`: the call of another process that it joined raised an error, or its result is no JSON, or has more
      than 256 Ki characters. In one process all get the result itself, or the error.
    - `NotAcquired`, `ConfigurationError`: as for `acquire()`, before it ran; also for a key that formats an object
      without its own `__str__`, or a set: another process would have another key.

    Cancellation: as for `async with lock`: nothing stays held. A call that others joined is cancelled, too: one of
    those starts again, as after the death of its process. Cost: what the lock costs, two round trips if it is free. Of
    the calls of one process that join, one asks: after 10 ms, then less often, up to every 0.5 s.

    Example:
        ```python
        @exclusive(locks, key="order:{order}", busy="raise", ttl=30.0)
        async def pay(order: str, amount: int) -> str: ...
        ```
    """
    check_options(busy, timeout, outage)
    if isinstance(locks, LockManager):
        locks.lock("checks the options", **options)
        if busy == "join":
            locks._runtime.backend.abilities.need_scripts(str(key), "calls that others join")
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
            begun = False
            async with Service(lock, client_of(locks, *subject)) as service:

                async def under(guard: AbstractAsyncContextManager[Lease | None], tell: Tell | None = None) -> R:
                    nonlocal begun
                    begun = True
                    async with guard as held:  # nothing is awaited between the grant and this line
                        await service.begin()
                        with running_under(held):
                            try:
                                result = await fn(*args, **kwargs)
                            except Exception as error:
                                if tell is not None and held is not None and not held.lost:
                                    tell(None, error)
                                raise
                        if tell is not None and held is not None and not held.lost:
                            tell(result, None)
                        return result

                try:
                    if busy == "join":
                        return cast(R, await share(lock, limit_of(lock, timeout), under))
                    lease = await take(lock, busy, timeout)
                    if lease is None:
                        tell_skipped(lock.name)
                        return None
                    guard = lease
                except Unavailable as error:
                    if begun:  # it is of another decorated function, which this one has called
                        raise
                    runs_without(error, lock, busy, timeout, outage)
                return await under(guard)

        return call

    return decorate


def check_options(busy: str, timeout: float | timedelta | Default | None, outage: str) -> None:
    """Raise a `ConfigurationError` unless these options of a decorator can work."""
    check_busy(busy, timeout, "wait", "join", "skip", "raise")
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


def limit_of(lock: Lock, timeout: float | timedelta | Default | None) -> float | None:
    """How many seconds a call waits."""
    return lock._policy.acquire_timeout if isinstance(timeout, Default) else check_timeout("", "timeout", timeout)


def _away(error: Unavailable, lock: Lock, busy: str, timeout: float | timedelta | Default | None) -> bool:
    """Whether Redis is known to be unreachable or to refuse, or was silent for a whole `request_timeout`.

    If only a shorter timeout is over, another may have the lock.
    """
    limit = limit_of(lock, timeout)
    silent = busy not in ("wait", "join") or not limit or limit >= lock._runtime.limits.request_timeout
    return silent or error.__cause__ is not None
