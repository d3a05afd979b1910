"""Jobs of APScheduler 3 that run once in the fleet."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Coroutine
from datetime import timedelta
from functools import wraps
from typing import Literal, ParamSpec, Protocol, TypeVar, Unpack

from ..log import Log
from ..manager import LockManager
from ..primitives.options import LockOptions
from ..recipes import once

P = ParamSpec("P")
R = TypeVar("R")

logger: Log = Log("aiolock.apscheduler")


class OncePerWindow(Protocol):
    """What `once_in_fleet()` returns: the decorated job may also return None."""

    def __call__(
        self, fn: Callable[P, Coroutine[object, object, R]], /
    ) -> Callable[P, Coroutine[object, object, R | None]]:
        """Decorate a coroutine function."""


def once_in_fleet(
    locks: LockManager,
    *,
    window: float | timedelta,
    key: str | None = None,
    repeat: Literal["never", "failed", "interrupted", "both"] = "interrupted",
    **options: Unpack[LockOptions],
) -> OncePerWindow:
    """Let a job run at most once per window, however many schedulers start it: `once()` as a decorator.

    Every process keeps its own `AsyncIOScheduler` with the same jobs. The first one whose job is due runs it; in the
    others it returns None at once. A lock that is only held while the job runs would not do: a scheduler whose clock is
    a second late would find it free again. A job that fails, or loses its lock, raises, and APScheduler logs it.

    Args:
        locks: the manager. It must be open while the scheduler runs.
        window: seconds after the beginning of a run in which no other begins. Make it a little shorter than the period
            of the job, and longer than its `jitter` and the difference of your clocks.
        key: names the job: the same in every process; by default the function's `module:name`. In a script the module
            is `__main__`, as in every other script: pass a key there; and one for each job, if you add the function
            several times with other arguments, which do not count.
        repeat: which runs may be followed by another one in their window: see `once()`.
        options: as for `locks.lock()`.

    Raises:
        ConfigurationError: on decorating: an argument that cannot work.
        TypeError: on decorating: not a coroutine function, or an unknown keyword.

    Cancellation: as for `Once.run()`. Cost: one round trip if the window has had its run, otherwise five.

    Example:
        ```python
        @scheduler.scheduled_job("cron", hour=2)
        @once_in_fleet(locks, window=timedelta(hours=20))
        async def nightly_report() -> None: ...
        ```
    """

    def decorate(fn: Callable[P, Coroutine[object, object, R]]) -> Callable[P, Coroutine[object, object, R | None]]:
        if not inspect.iscoroutinefunction(fn):
            raise TypeError(f"once_in_fleet() decorates coroutine functions (async def), not {fn!r}")
        name = key or f"{fn.__module__}:{fn.__qualname__}"
        runs = once(locks, name, window=window, repeat=repeat, **options)

        @wraps(fn)
        async def job(*args: P.args, **kwargs: P.kwargs) -> R | None:
            run = await runs.run(lambda lease: fn(*args, **kwargs))
            if not run.ran:
                logger.debug("%r: %s by %s", name, run.status, run.by, extra={"lock_name": name})
            return run.result

        return job

    return decorate
