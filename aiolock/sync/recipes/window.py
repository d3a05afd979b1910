"""At most one run in the whole fleet per window, for threads."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from functools import wraps
from typing import Any, Literal, ParamSpec, TypeVar, Unpack

from ...core.lease import Lease as AsyncLease
from ...errors import ConfigurationError
from ...recipes.function import check_takes
from ...recipes.key import namer
from ...recipes.window import Once as AsyncOnce
from ...recipes.window import Run, RunStatus
from ...recipes.window import once as async_once
from ..lease import Lease
from ..manager import LockManager
from ..options import LockOptions, split
from .current import running_under
from .exclusion import check_plain

P = ParamSpec("P")
T = TypeVar("T")


def once(
    locks: LockManager,
    key: str,
    *,
    window: float | timedelta,
    repeat: Literal["never", "failed", "interrupted", "both"],
    **options: Unpack[LockOptions],
) -> Once:
    """Return a job that runs at most once per window, however many processes start it. No I/O.

    Arguments and errors: as for `aiolock.recipes.once()`, whose jobs of that name are the same.

    Example:
        ```python
        report = once(locks, "nightly-report", window=timedelta(hours=20), repeat="interrupted")
        run = report.run(write_report)


        @once(locks, "bill:{month}", window=timedelta(days=20), repeat="both")
        def bill(month: str) -> int: ...  # `bill("2026-11")` returns a `Run[int]`
        ```
    """
    if not isinstance(locks, LockManager):
        raise ConfigurationError(str(key), f"once() for threads needs an aiolock.sync.LockManager, not {locks!r}")
    known, _ = split(options)

    def job(name: str) -> AsyncOnce:
        return async_once(locks._core, name, window=window, repeat=repeat, **known)

    return Once(locks, job, job(key), options)


class Once:
    """A job that runs at most once per window: `job.run(fn)`, or `@job`. Comes from `once()`; shareable between
    threads.

    Args:
        locks: the manager.
        job: makes the same job under another key.
        core: what it stands for.
        options: of its lock.
    """

    def __init__(
        self, locks: LockManager, job: Callable[[str], AsyncOnce], core: AsyncOnce, options: LockOptions
    ) -> None:
        self._locks = locks
        self._job = job
        self._core = core
        self._options = options
        self._lock = locks.lock(core.key, **options)  # for its `on_lost`; what it takes is the job's

    @property
    def key(self) -> str:
        """Names the job."""
        return self._core.key

    def __call__(self, fn: Callable[P, T]) -> Callable[P, Run[T]]:
        """Decorate a function: a call runs it as `run()` does, in its thread, and returns the `Run`.

        The key is then a format string over the function's arguments. `current_lease()` is the lease under which the
        function runs.

        Raises:
            ConfigurationError: on decorating: a key that names no argument.
            TypeError: on decorating: a coroutine function or generator.

        The decorated function raises what `run()` raises; `TypeError` for arguments that do not fit, before it runs.
        """
        check_plain(fn, "once()")
        name_of = namer(fn, self.key)

        @wraps(fn)
        def call(*args: P.args, **kwargs: P.kwargs) -> Run[T]:
            def work(lease: Lease) -> T:
                with running_under(lease):
                    return fn(*args, **kwargs)

            core = self._job(name_of(*args, **kwargs))
            return Once(self._locks, self._job, core, self._options).run(work)

        return call

    def run(self, fn: Callable[[Lease], T]) -> Run[T]:
        """Run `fn(lease)` in this thread, unless this window has had its run: then return at once, and say how that is.

        Args:
            fn: it gets the lease under which it runs. Nothing stops it if that is lost: let it look at `lease.lost`, or
                call `lease.ensure()`.

        Returns:
            The run of this window. Whether your call ran the function is in `ran`.

        Raises:
            Exception: what `fn` raised. The run has failed; if the lock was lost before, it was interrupted. So it was
                after Ctrl-C, or another `BaseException`.
            LockLost: the lock was lost while `fn` ran. If `fn` still returned, that is kept as a success, unless
                another run has begun by then.
            Unavailable: Redis is unreachable or refuses, and `fn` was not run. It is a `BackendError` and a `NotRun`.
            BackendError: no `NotRun`: `fn` has run to its end, and Redis refuses the release.
            NotAcquired, ConfigurationError: as for `lock.acquire()`; `fn` was not run.
            TypeError: `fn` takes no lease, and was not run.

        Cost: as `aiolock.recipes.Once.run()`, and a switch of threads for each round trip.
        """
        check_takes(fn, "a job", "the lease")
        core, portal = self._core, self._locks._portal

        async def enter() -> Lease | Run[Any]:
            entered = await core._enter()
            return self._lock._lease(entered) if isinstance(entered, AsyncLease) else entered

        entered = portal.call(self.key, enter, _take_back)
        if isinstance(entered, Run):
            return entered
        with entered:
            begun = portal.call(self.key, lambda: core._begin(entered._core))
            if isinstance(begun, Run):
                return begun
            began = core._runtime.clock.now()
            result = self._call(fn, entered)
            return core._done(begun, began, result)

    def last(self) -> Run[object] | None:
        """Return the last run, if its window is not over, or one that outlasts it; otherwise None: the next call runs.

        Raises:
            BackendError: Redis is unreachable or refuses.

        Cost: one round trip, read-only.
        """
        return self._locks._portal.call(self.key, self._core.last)

    def forget(self) -> bool:
        """End the window now: the next call runs. One that runs goes on, and keeps others out while it has its lock.

        Returns:
            True if there was a run.

        Raises:
            BackendError: Redis is unreachable or refuses. Without an answer it may have been forgotten.

        Cost: one round trip.
        """
        return self._locks._portal.call(self.key, self._core.forget)

    def _call(self, fn: Callable[[Lease], T], lease: Lease) -> T:
        status = RunStatus.INTERRUPTED
        try:
            result = fn(lease)
            status = RunStatus.SUCCEEDED
        except Exception:
            if not lease.lost:
                status = RunStatus.FAILED
            raise
        finally:
            with suppress(ConfigurationError):  # its manager was closed while it ran: the block says so
                self._locks._portal.call(self.key, lambda: self._core._end(lease._core, status), certain=True)
        return result

    def __repr__(self) -> str:
        return f"<Once {self.key!r}>"


def _take_back(entered: Lease | Run[Any]) -> None:
    if isinstance(entered, Lease):
        entered._take_back()
