"""The condition variable: tasks in any process wait until a holder of the lock says that something has changed."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from datetime import timedelta
from types import TracebackType
from typing import Any, Literal, TypeVar, cast

import anyio

from ..clock import format_seconds
from ..core.guarding.guard import Guard
from ..core.holding.level import Watcher
from ..core.holding.telling import told_of
from ..core.lease import Lease
from ..core.policy import check_timeout
from ..core.resume import reacquire
from ..core.runtime import Runtime
from ..errors import AiolockError, ConfigurationError, NotOwned, WaitTimeout
from ..scripts.condition import ConditionCalls
from ..scripts.view import WaiterInfo
from ..usage import AsyncOnly
from .condition_waiter import ConditionWaiter
from .lock import Lock
from .looking import look

T = TypeVar("T")

AT_ONCE = 1000
"""How many waiters one request may notify: a longer script would block the server."""


def untrue(name: str, timeout: float | None) -> WaitTimeout:
    """Return the error of a `wait_for()` whose time is over."""
    seconds = format_seconds(timeout or 0.0)
    return WaitTimeout(name, f"what a task waits for with lock {name!r} did not become true within {seconds} s")


class Condition(AsyncOnly):
    """A condition variable across processes, as `asyncio.Condition` is one within a loop.

    Comes from `LockManager.condition()`. All conditions of one lock name, in all processes, are the same condition.
    Hold the lock to call any method; `async with condition:` is `async with lock:`. Waiting releases the lock, and
    acquires it again before it returns: while a task waits it holds nothing, so it can lose nothing. The lease that you
    have continues, with a new fence.

    A waiter that dies, or is cancelled after it was notified, passes its notification on to the next. A wait may end
    without a notification, as after a restart of the server: look again at what you wait for, or use `wait_for()`.

    Args:
        runtime: the manager's.
        lock: what guards that which changes.

    Example:
        ```python
        ready = locks.condition(lock)

        async with lock as lease:  # a consumer
            await ready.wait_for(lambda: redis.llen("jobs"))
            job = await redis.lpop("jobs")

        async with lock:  # a producer
            await redis.rpush("jobs", job)
            await ready.notify()
        ```

    Source: `asyncio.Condition`; Mesa's monitors, where a notification is a hint.
    """

    __slots__ = ("_calls", "_lock", "_runtime")

    def __init__(self, runtime: Runtime, lock: Lock) -> None:
        if not isinstance(lock, Lock):
            raise ConfigurationError("", f"a condition needs a lock, as locks.lock(name) returns it, not {lock!r}")
        if lock._runtime is not runtime:
            raise ConfigurationError(lock.name, f"lock {lock.name!r} is another manager's: use that one's condition()")
        self._runtime = runtime
        self._lock = lock
        self._calls = ConditionCalls(runtime.keys, lock.name, runtime.limits.liveness_ms)

    @property
    def name(self) -> str:
        """The lock's name."""
        return self._lock.name

    async def waiters(self) -> list[WaiterInfo]:
        """Return who waits to be notified, first to last. You need not hold the lock.

        Raises:
            BackendError: Redis is unreachable or refuses.

        Cost: one round trip, read-only. Its answer is as long as there are waiters.
        """
        view = await look(self._runtime, self._calls)
        return [] if view is None else list(view.queue)

    async def wait(self, timeout: float | timedelta | None = None) -> Literal[True]:
        """Release the lock, wait until notified, and acquire the lock again.

        Args:
            timeout: seconds to wait for a notification; None for no limit. The lock is acquired again after that, too,
                however long that takes.

        Returns:
            True, as with `asyncio.Condition`.

        Raises:
            WaitTimeout: no notification came in time. The lock is held again.
            NotOwned: this task does not hold the lock.
            ConfigurationError: this task, or another with the same owner, holds it more than once; or this is a nested
                block, even if the lease around it was released manually; or it is the lock of a run of `once()`.
            LockLost: the lock was lost before it could be released. If the answer to the release says so, the lock is
                held again by then.
            BackendError: Redis is unreachable or refuses. If it came after the lock was released, and the lock could
                not be acquired again, the lease is released: the rest of its block runs without the lock, and
                `lease.ensure()` raises.
            NotAcquired: the manager was closed meanwhile; the lease is released.

        Cancellation: the lock is acquired again first, as by `asyncio.Condition`, and a notification passed on. If the
        lock cannot be acquired, the cancellation continues without it.

        Cost: two round trips until it waits; while it waits, one request every third of `liveness`; then a message, two
        round trips, and the wait for the lock.
        """
        lease, limit = self._held(), check_timeout(self.name, "timeout", timeout)
        self._check_alone(lease)
        waiter, passes = ConditionWaiter(self._runtime, self._calls), True
        waiter.join()
        try:
            await self._joined(waiter)
            self._check_alone(lease)  # while it joined, another task may have changed that
            watchers = lease._hold.part_with(lease)
            lease.release()
            released = lease._result
            try:
                await self._notified(waiter, limit)
            except asyncio.CancelledError:
                with suppress(AiolockError):  # the cancellation comes first, and `lease.ensure()` tells of the rest
                    await self._again(lease, watchers)
                raise
            except AiolockError:
                await self._again(lease, watchers)
                raise
            await self._again(lease, watchers)
            if released is not None and released.failure is not None:
                raise released.failure
            passes = False
            return True
        finally:
            waiter.leave(passes)

    async def wait_for(self, predicate: Callable[[], T | Awaitable[T]], timeout: float | timedelta | None = None) -> T:
        """Wait until `predicate()` is true; it is called with the lock held.

        Args:
            predicate: a function, or a coroutine function.
            timeout: seconds for all waits together; None for no limit. At their end the predicate is called once more.

        Returns:
            What the predicate returned.

        Raises and cancellation: as for `wait()`. Cost: that of each wait; none if the predicate is true at once.
        """
        limit, clock, late = check_timeout(self.name, "timeout", timeout), self._runtime.clock, False
        ends = None if limit is None else clock.now() + limit
        while True:
            self._held()
            found = predicate()
            result = cast(T, await found if inspect.isawaitable(found) else found)
            if result:
                return result
            if late:
                raise untrue(self.name, limit)
            try:
                await self.wait(None if ends is None else max(0.0, ends - clock.now()))
            except WaitTimeout:
                late = True

    async def notify(self, n: int = 1) -> int:
        """Wake up to `n` waiters, in the order in which they began to wait; they get the lock when you release it.

        Returns:
            How many were notified.

        Raises:
            NotOwned: this task does not hold the lock.
            LockLost: the lock was lost.
            BackendError: Redis is unreachable or refuses. Without an answer some may have been notified.
            ConfigurationError: `n` is not a whole number from 0.

        Cancellation: they may still be notified. Cost: one round trip for every 1,000 of them.
        """
        if isinstance(n, bool) or not isinstance(n, int) or n < 0:
            raise ConfigurationError(self.name, f"n must be a whole number from 0, not {n!r}")
        self._held().ensure()
        notified = 0
        while notified < n:
            asked = min(n - notified, AT_ONCE)
            found = await self._runtime.ask(self._calls.notify(asked), "notifying the waiters of", again=False)
            notified += found
            if found < asked:
                break
        return notified

    async def notify_all(self) -> int:
        """Wake all waiters: `notify()` without a number."""
        return await self.notify(2**31)

    def __aenter__(self) -> Coroutine[Any, Any, Lease]:
        """Enter the lock, as `async with lock as lease:` does."""
        return self._lock.__aenter__()  # not awaited here: the lock tells its blocks apart by what awaits it

    def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> Coroutine[Any, Any, None]:
        return self._lock.__aexit__(kind, error, trace)

    def _held(self) -> Lease:
        """The lease of the running task."""
        lease = self._lock._find()
        if lease is None:
            raise NotOwned(
                self.name,
                f"this task does not hold lock {self.name!r}: wait for its condition, and notify, inside `async with`",
            )
        return lease

    def _check_alone(self, lease: Lease) -> None:
        """Raise unless the end of `lease` releases the lock, and a loss of what it gets then cancels its block."""
        lease._check_valid()
        lease._check_may_leave()
        if lease.depth > 1:
            raise ConfigurationError(
                self.name,
                f"lock {self.name!r} is held {lease.depth} times by this owner: waiting for its condition would not "
                "release it. Wait in the outermost block, and share the lock with no other task",
            )
        if isinstance(lease._guard, Guard) and lease._guard.nested:
            raise ConfigurationError(
                self.name, f"this block is nested in another of lock {self.name!r}: wait in the outermost block"
            )

    async def _joined(self, waiter: ConditionWaiter) -> None:
        runtime = self._runtime
        patience = runtime.clock.now() + runtime.limits.request_timeout
        await runtime.within(waiter.joined, patience, lambda: runtime.unanswered(self.name, "waiting for"))

    async def _notified(self, waiter: ConditionWaiter, timeout: float | None) -> None:
        runtime = self._runtime
        with told_of(runtime, self._calls):
            if timeout is None:
                await waiter.notified
            else:
                await runtime.within(waiter.notified, runtime.clock.now() + timeout, lambda: self._late(timeout))

    async def _again(self, lease: Lease, watchers: tuple[Watcher, ...]) -> None:
        """Acquire it again in spite of cancellations, and tell of them afterwards; not if the manager closes."""
        cancelled: BaseException | None = None
        try:
            while not self._runtime.binding.closing:
                try:
                    with anyio.CancelScope(shield=True):
                        await reacquire(lease, watchers)
                    break
                except asyncio.CancelledError as error:
                    cancelled = error
                except AiolockError as error:
                    if cancelled is None:
                        raise
                    raise cancelled from error
        finally:
            if lease.released:
                for watcher in watchers:
                    watcher.end()
        if cancelled is not None:
            raise cancelled

    def _late(self, timeout: float) -> WaitTimeout:
        what = f"nobody notified the condition of lock {self.name!r} within {format_seconds(timeout)} s"
        return WaitTimeout(self.name, what)

    def __repr__(self) -> str:
        return f"<Condition of {self._lock!r}>"

    def __reduce__(self) -> tuple[object, ...]:
        raise TypeError("a Condition cannot leave its process: create one with the same lock from the other's manager")
