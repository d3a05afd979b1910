"""A decorator: one call at a time for each key, across processes and threads."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from datetime import timedelta
from functools import wraps
from typing import Any, Literal, ParamSpec, Protocol, TypeVar, Unpack, cast, overload

from ...errors import ConfigurationError
from ...primitives.options import DEFAULT, Default
from ...recipes.exclusion import check_options, limit_of, runs_without, tell_skipped
from ...recipes.joining import Joining
from ...recipes.key import namer
from ...recipes.not_run import Unavailable
from ...recipes.taking import take
from ..lease import Lease
from ..lock import Lock
from ..manager import LockManager
from ..options import LockOptions
from .current import running_under

P = ParamSpec("P")
R = TypeVar("R")


class Exclusive(Protocol):
    """What `exclusive()` returns: keeps the function's signature."""

    def __call__(self, fn: Callable[P, R], /) -> Callable[P, R]:
        """Decorate a function."""


class Skipping(Protocol):
    """What `exclusive(…, busy="skip")` returns: the function may also return None."""

    def __call__(self, fn: Callable[P, R], /) -> Callable[P, R | None]:
        """Decorate a function."""


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
    """Let one call of a function or method run at a time for each key, in all processes and threads together.

    As `aiolock.recipes.exclusive`, which explains the arguments, and excludes it: the function runs in the thread that
    calls it, which nests. A thread cannot be cancelled: if the lock is lost, the function runs on, and the call raises
    `LockLost` at its end. `current_lease()` in the function tells.

    Args:
        locks: the manager; or a function that gets the first argument, for a method its `self`.
        key: a format string over the arguments, by their names; or a function of the arguments.
        busy: what a call does while another one runs: `"wait"`, `"join"` (waits for its end, and returns its result,
            from another thread or process as JSON, or raises `JoinFailed`), `"skip"` (returns None), or `"raise"`
            (`Busy`).
        timeout: how many seconds `"wait"` and `"join"` wait before they raise `Busy`; None for no limit.
        outage: what a call does if Redis cannot be asked: `"raise"` raises `Unavailable`; `"run"` runs the function
            without the lock, with a WARNING.
        options: as for `locks.lock()`.

    Returns:
        A decorator. The decorated function has the same signature; with `"skip"` it may also return None.

    Raises:
        ConfigurationError: on decorating: a key that names no argument, or another option that cannot work.
        TypeError: on decorating: a coroutine function or generator, or an unknown keyword.

    The decorated function raises what the function raises, `Busy` or `Unavailable` (it was not run), `LockLost` (it ran
    to its end, and the lock was lost), and what `acquire()` and `release()` raise. If a signal interrupts it while it
    waits, nothing is held. Cost: two round trips if it is free.

    Example:
        ```python
        @exclusive(locks, key="order:{order}", busy="raise", ttl=30.0)
        def pay(order: str, amount: int) -> str: ...
        ```
    """
    check_options(busy, timeout, outage)
    if isinstance(locks, LockManager):
        locks.lock("checks the options", **options)
        if busy == "join":
            locks._core._runtime.backend.abilities.need_scripts(str(key), "calls that others join")
    elif not callable(locks):
        raise ConfigurationError(
            "",
            f"exclusive() needs an aiolock.sync.LockManager, or a function of the first argument that returns it, not "
            f"{locks!r}",
        )

    def decorate(fn: Callable[P, R]) -> Callable[P, R | None]:
        check_plain(fn, "exclusive()")
        name_of = namer(fn, key)
        first = next(iter(inspect.signature(fn).parameters), "")

        @wraps(fn)
        def call(*args: P.args, **kwargs: P.kwargs) -> R | None:
            subject = args[:1] if args or first not in kwargs else (kwargs[first],)
            manager = locks if isinstance(locks, LockManager) else locks(*subject)
            lock = manager.lock(name_of(*args, **kwargs), **options)
            guard: AbstractContextManager[Lease | None] = nullcontext()
            joining: Joining | None = None
            try:
                if busy == "join":
                    joining = Joining(lock._core._runtime, lock.name)
                    lease, ended = _join(lock, joining, limit_of(lock._core, timeout))
                    if ended is not None:
                        return cast(R, ended())
                else:
                    lease = lock._obtain_now(lambda: take(lock._core, busy, timeout))
                if lease is None:
                    tell_skipped(lock.name)
                    return None
                guard = lease
            except Unavailable as error:
                runs_without(error, lock._core, busy, timeout, outage)
            with guard as held, running_under(held), _telling(joining, held) as tell:
                result = fn(*args, **kwargs)
                tell(result)
                return result

        return call

    return decorate


def _join(lock: Lock, joining: Joining, timeout: float | None) -> tuple[Lease | None, Callable[[], Any] | None]:
    """Return a lease under which the function runs, or what became of the call that ran."""
    began = lock.clock.now()
    until = None if timeout is None else began + timeout
    while True:
        joining.asked_at = lock.clock.now()
        lease = lock._obtain_now(lambda: take(lock._core, "skip", DEFAULT))
        if lease is not None:
            return lease, None
        ended = lock._portal.call(lock.name, lambda: joining.follow(began, until))
        if ended is not None:
            return None, ended


@contextmanager
def _telling(joining: Joining | None, lease: Lease | None) -> Iterator[Callable[[object], None]]:
    """Tell those that join how the block ends; not what is in another call of this thread, which tells that itself."""

    def tell(result: object, error: BaseException | None = None) -> None:
        if joining is not None and lease is not None and lease.depth == 1 and not lease.lost:
            lease._portal.post(joining.tell, lease.fence, joining.clock.now(), result, error)

    try:
        yield tell
    except Exception as error:
        tell(None, error)
        raise


def check_plain(fn: Callable[..., object], what: str) -> None:
    """Raise unless a call of the function does its work, and ends with it.

    Raises:
        TypeError: it returns something that others run.
    """
    if (
        not callable(fn)
        or inspect.iscoroutinefunction(fn)
        or inspect.isgeneratorfunction(fn)
        or inspect.isasyncgenfunction(fn)
    ):
        shown = getattr(fn, "__qualname__", repr(fn))
        raise TypeError(f"{what} for threads decorates functions without async and yield, not {shown}")
