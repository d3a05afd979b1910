"""At most one run in the whole fleet per window."""

from __future__ import annotations

import enum
import inspect
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import wraps
from typing import Any, Generic, Literal, ParamSpec, TypeVar, Unpack

from ..core.holding.telling import tell_ran
from ..core.lease import Lease
from ..core.policy import check_duration, milliseconds
from ..errors import BackendError, ConfigurationError
from ..log import Log
from ..manager import LockManager
from ..primitives.options import LockOptions
from ..scripts.once import KeptRun, OnceCalls
from .current import running_under
from .function import check_takes
from .key import namer
from .not_run import before_it_runs

P = ParamSpec("P")
T = TypeVar("T")

logger: Log = Log("aiolock.once")

HELD = "held"
"""The status of who has the lock while no run is kept: one that outlasts its window, or has not begun."""

STAYS = "a run of once() has it, and another one could begin if the run gave it up before its end"


class RunStatus(enum.StrEnum):
    """How a run is. Each status is also its own text, for metrics and JSON."""

    RUNNING = "running"
    """It has begun, and has its lock."""
    SUCCEEDED = "succeeded"
    """Its function returned."""
    FAILED = "failed"
    """Its function raised an error."""
    INTERRUPTED = "interrupted"
    """It did not come to an end: its process died, it was cancelled, or it lost its lock."""


REPEATABLE: dict[str, tuple[RunStatus, ...]] = {
    "never": (),
    "failed": (RunStatus.FAILED,),
    "interrupted": (RunStatus.INTERRUPTED,),
    "both": (RunStatus.FAILED, RunStatus.INTERRUPTED),
}


@dataclass(frozen=True, slots=True)
class Run(Generic[T]):
    """The run of a window.

    Attributes:
        ran: True if your call ran the function; False if the run is another's, or an earlier one.
        status: how it is.
        result: what the function returned, if your call ran it; otherwise None.
        by: host and pid of the process that ran it.
        fence: the fencing token under which it ran; 0 if it has only just taken its lock.
        age: seconds since it began, by the server's clock; once it has outlasted its window, since it took its lock.
        left: seconds until its window is over, and the next call runs; 0.0 while it outlasts that.
    """

    ran: bool
    status: RunStatus
    result: T | None
    by: str
    fence: int
    age: float
    left: float


def once(
    locks: LockManager,
    key: str,
    *,
    window: float | timedelta,
    repeat: Literal["never", "failed", "interrupted", "both"],
    **options: Unpack[LockOptions],
) -> Once:
    """Return a job that runs at most once per window, however many processes start it. No I/O.

    Args:
        locks: the manager. A quorum cannot do this, as the record of the last run is on one server.
        key: names the job: any text of 1 to 512 bytes in UTF-8. While it runs it has the lock of this name.
        window: seconds from the beginning of a run, by the server's clock, in which no other begins; from 0.1. Make it
            a little shorter than the period of a job that runs again and again.
        repeat: which runs may be followed by another one in their window: none (`"never"`), those that `"failed"`,
            those that were `"interrupted"` (their process died, they were cancelled, or lost their lock), or `"both"`.
            The new run begins a window of its own. A run that succeeded is never repeated.
        options: as for `locks.lock()`. The `ttl` decides how soon a run whose process died counts as interrupted.

    Raises:
        ConfigurationError: an argument that cannot work, or a manager of a quorum.
        TypeError: an unknown keyword.

    Example:
        ```python
        report = once(locks, "nightly-report", window=timedelta(hours=20), repeat="interrupted")
        run = await report.run(write_report)
        if not run.ran:
            print(f"{run.status} by {run.by}, {run.age:.0f} s ago")


        @once(locks, "bill:{month}", window=timedelta(days=20), repeat="both")
        async def bill(month: str) -> int: ...  # `await bill("2026-11")` returns a `Run[int]`
        ```
    """
    if not isinstance(locks, LockManager):
        raise ConfigurationError(str(key), f"once() needs an aiolock.LockManager, not {locks!r}")
    if repeat not in REPEATABLE:
        raise ConfigurationError(key, f"repeat of {key!r} must be one of {', '.join(REPEATABLE)}, not {repeat!r}")
    locks._runtime.backend.abilities.need_scripts(key, "jobs that run once per window")
    return Once(locks, key, check_duration(key, "window", window, least=0.1), REPEATABLE[repeat], options)


class Once:
    """A job that runs at most once per window: `await job.run(fn)`, or `@job`. Comes from `once()`; shareable between
    tasks.

    Args:
        locks: the manager.
        key: names it.
        window: in seconds.
        repeatable: which runs may be followed by another one.
        options: of its lock.
    """

    def __init__(
        self,
        locks: LockManager,
        key: str,
        window: float,
        repeatable: tuple[RunStatus, ...],
        options: LockOptions,
    ) -> None:
        self._locks = locks
        self._options = options
        self._lock = locks.lock(key, **options)
        self._lock._policy = replace(self._lock._policy, stays=STAYS)
        self._runtime = locks._runtime
        self._calls = OnceCalls(self._runtime.keys, key)
        self._window = window
        self._repeatable = repeatable

    @property
    def key(self) -> str:
        """Names the job."""
        return self._lock.name

    def __call__(self, fn: Callable[P, Coroutine[object, object, T]]) -> Callable[P, Coroutine[object, object, Run[T]]]:
        """Decorate a coroutine function: a call runs it as `run()` does, and returns the `Run`.

        The key is then a format string over the function's arguments, as for `exclusive()`: each key that comes of it
        is a job of its own, with its own window. `current_lease()` is the lease under which the function runs.

        Raises:
            ConfigurationError: on decorating: a key that names no argument.
            TypeError: on decorating: not a coroutine function.

        The decorated function raises what `run()` raises; `TypeError` for arguments that do not fit, before it runs.
        Cancellation and cost: those of `run()`.
        """
        if not inspect.iscoroutinefunction(fn):
            shown = getattr(fn, "__qualname__", repr(fn))
            raise TypeError(f"once() decorates coroutine functions (async def) without a yield, not {shown}")
        name_of = namer(fn, self.key)

        @wraps(fn)
        async def call(*args: P.args, **kwargs: P.kwargs) -> Run[T]:
            async def work(lease: Lease) -> T:
                with running_under(lease):
                    return await fn(*args, **kwargs)

            key = name_of(*args, **kwargs)
            return await Once(self._locks, key, self._window, self._repeatable, self._options).run(work)

        return call

    async def run(self, fn: Callable[[Lease], Awaitable[T]]) -> Run[T]:
        """Run `fn(lease)`, unless this window has had its run: then return at once, and say how that is.

        Args:
            fn: a coroutine function. It gets the lease under which it runs; it is cancelled if that is lost. The lease
                cannot be detached, nor wait for the lock's condition: both raise `ConfigurationError`. If it releases
                the lease, its run counts as interrupted until it has returned.

        Returns:
            The run of this window. Whether your call ran the function is in `ran`.

        Raises:
            Exception: what `fn` raised. The run has failed; if the lock was lost before, it was interrupted.
            LockLost: the lock was lost while `fn` ran; the run was interrupted. If `fn` still returned, that is
                kept as a success, unless another run has begun by then.
            Unavailable: Redis is unreachable or refuses, and `fn` was not run. It is a `BackendError` and a `NotRun`.
            BackendError: no `NotRun`: `fn` has run to its end, and Redis refuses the release.
            NotAcquired, ConfigurationError: as for `lock.acquire()`; `fn` was not run.
            TypeError: `fn` takes no lease, and was not run; or it returns nothing that can be awaited, and the run has
                failed.

        If Redis is unreachable when `fn` has returned, the run still counts as a success: that is written once the
        connection is back, unless another run has begun by then.

        Cancellation: `fn` is cancelled, and its run interrupted; before `fn` began, the window is as it was.
        Cost: one round trip if the window has had its run; otherwise five (look, lock, begin, end, release), or two
        more than the first if another one has the lock just now.
        """
        check_takes(fn, "a job", "the lease")
        entered = await self._enter()
        if isinstance(entered, Run):
            return entered
        async with entered:
            begun = await self._begin(entered)
            if isinstance(begun, Run):
                return begun
            began = self._runtime.clock.now()
            result = await self._call(fn, entered)
            return self._done(begun, began, result)

    # What happens before `fn` and after it, also to a thread that runs it.

    async def _enter(self) -> Lease | Run[Any]:
        """Take the lock, unless this window has had its run: then return that."""
        with before_it_runs():
            kept = await self._runtime.ask(self._calls.last_run(), "looking at")
            if kept is not None and kept.status not in (*self._repeatable, HELD):
                return self._not_run(kept)
            attempt = self._lock.try_acquire()
            lease = await attempt
            if lease is not None:
                return lease
            kept = await self._runtime.ask(self._calls.last_run(), "looking at")
        if kept is not None and kept.status not in self._repeatable:
            return self._not_run(kept)
        holder = attempt.holder
        tell_ran(self._runtime, self._calls, False, RunStatus.RUNNING)
        return Run(False, RunStatus.RUNNING, None, holder.process if holder else "", 0, 0.0, self._window)

    async def _begin(self, lease: Lease) -> KeptRun | Run[Any]:
        """Begin the run, unless another has begun meanwhile: then return that."""
        with before_it_runs():
            kept = await self._write_begin(lease)
        return kept if kept is not None and kept.mine else self._not_run(kept)

    async def _end(self, lease: Lease, status: RunStatus) -> None:
        """`fn` has ended."""
        if status is RunStatus.FAILED:
            self._runtime.backend.post(self._calls.finish(lease.fence, status))
        tell_ran(self._runtime, self._calls, True, status)
        if status is RunStatus.SUCCEEDED:
            await self._succeed(lease)

    def _done(self, kept: KeptRun, began: float, result: T) -> Run[T]:
        age = self._runtime.clock.now() - began
        return Run(True, RunStatus.SUCCEEDED, result, kept.by, kept.fence, age, max(0.0, self._window - age))

    def _not_run(self, kept: KeptRun | None) -> Run[Any]:
        run: Run[Any] = self._told(kept)
        tell_ran(self._runtime, self._calls, False, run.status)
        return run

    async def last(self) -> Run[object] | None:
        """Return the last run, if its window is not over, or one that outlasts it; otherwise None: the next call runs.

        Raises:
            BackendError: Redis is unreachable or refuses.

        Cancellation: nothing changes. Cost: one round trip, read-only.
        """
        kept = await self._runtime.ask(self._calls.last_run(), "looking at")
        return None if kept is None else self._told(kept)

    async def forget(self) -> bool:
        """End the window now: the next call runs. One that runs goes on, and keeps others out while it has its lock.

        Returns:
            True if there was a run.

        Raises:
            BackendError: Redis is unreachable or refuses. Without an answer it may have been forgotten.

        Cancellation: it may still happen. Cost: one round trip.
        """
        return await self._runtime.ask(self._calls.forget(), "forgetting the last run of", again=False)

    async def _write_begin(self, lease: Lease) -> KeptRun | None:
        """Begin a run; if this does not return, the run is undone."""
        holder = self._runtime.binding.holder
        call = self._calls.begin(lease.fence, milliseconds(self._window), self._repeatable, holder)
        try:
            return await self._runtime.ask(call, "beginning a run of")
        except BaseException:
            if call.writes:
                self._runtime.backend.post(self._calls.undo(lease.fence))
            raise

    async def _call(self, fn: Callable[[Lease], Awaitable[T]], lease: Lease) -> T:
        status = RunStatus.INTERRUPTED
        try:
            work = fn(lease)
            if not inspect.isawaitable(work):
                raise TypeError(f"a job must be a coroutine function, but {fn!r} returned {work!r}")
            result = await work
            status = RunStatus.SUCCEEDED
        except Exception:
            if not lease.lost:  # otherwise it was interrupted, whatever a driver makes of its cancellation
                status = RunStatus.FAILED
            raise
        finally:
            await self._end(lease, status)
        return result

    async def _succeed(self, lease: Lease) -> None:
        """Write that the run succeeded, and wait for the answer for at most `request_timeout`."""
        runtime = self._runtime
        call = self._calls.finish(lease.fence, RunStatus.SUCCEEDED)
        reply = runtime.backend.run(call)
        due = runtime.clock.now() + runtime.limits.request_timeout
        try:
            await runtime.within(reply, due, lambda: runtime.unanswered(self.key, "ending a run of"))
        except BackendError as error:
            say = logger.warning if error.transient else logger.error
            say("%r has run, but that may not be recorded: %s", self.key, error, extra={"lock_name": self.key})

    def _told(self, kept: KeptRun | None) -> Run[T]:
        if kept is None:  # its hold was ended before it could begin
            return Run(False, RunStatus.INTERRUPTED, None, "", 0, 0.0, 0.0)
        status = RunStatus.RUNNING if kept.status == HELD else RunStatus(kept.status)
        return Run(False, status, None, kept.by, kept.fence, kept.age / 1000, kept.left / 1000)

    def __repr__(self) -> str:
        return f"<Once {self.key!r}>"
