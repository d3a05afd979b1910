"""The condition variable, for threads."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from sys import _getframe
from time import monotonic
from types import TracebackType
from typing import Literal, TypeVar

from ..core.policy import check_timeout
from ..errors import WaitTimeout
from ..primitives.condition import Condition as AsyncCondition
from ..primitives.condition import untrue
from ..scripts.view import WaiterInfo
from ..usage import SyncOnly
from .interruption import insist
from .lease import Lease
from .lock import Lock
from .portal import Portal

T = TypeVar("T")


class Condition(SyncOnly):
    """A condition variable across processes, as `threading.Condition` is one within a process.

    Comes from `LockManager.condition()`. All conditions of one lock name, in all processes, are the same condition.
    Hold the lock to call any method; `with condition:` is `with lock:`. Waiting releases the lock, and acquires it
    again before it returns. A wait may end without a notification: look again at what you wait for, or use
    `wait_for()`.

    Args:
        portal: the manager's.
        core: what it stands for.
        lock: what guards that which changes.
    """

    __slots__ = ("_core", "_lock", "_portal")

    def __init__(self, portal: Portal, core: AsyncCondition, lock: Lock) -> None:
        self._portal = portal
        self._core = core
        self._lock = lock

    @property
    def name(self) -> str:
        """The lock's name."""
        return self._core.name

    def waiters(self) -> list[WaiterInfo]:
        """Return who waits to be notified, first to last. You need not hold the lock.

        Raises:
            BackendError: Redis is unreachable or refuses.

        Cost: one round trip, read-only. Its answer is as long as there are waiters.
        """
        return self._portal.call(self.name, self._core.waiters)

    def wait(self, timeout: float | timedelta | None = None) -> Literal[True]:
        """Release the lock, wait until notified, and acquire the lock again.

        Args:
            timeout: seconds to wait for a notification; None for no limit. The lock is acquired again after that, too,
                however long that takes.

        Returns:
            True.

        Raises:
            WaitTimeout: no notification came in time. The lock is held again.
            NotOwned: this thread does not hold the lock.
            ConfigurationError: this thread, or another with the same owner, holds it more than once.
            LockLost: the lock was lost before it could be released.
            BackendError: Redis is unreachable or refuses; see `aiolock.Condition.wait()`.
            NotAcquired: the manager was closed meanwhile; the lease is released.

        If Ctrl-C interrupts it, the lock is acquired again first. Cost: that of `aiolock.Condition.wait()`.
        """
        return self._portal.call(self.name, lambda: self._core.wait(timeout))

    def wait_for(self, predicate: Callable[[], T], timeout: float | timedelta | None = None) -> T:
        """Wait until `predicate()` is true; it is called in this thread, with the lock held.

        Args:
            predicate: a function.
            timeout: seconds for all waits together; None for no limit. At their end the predicate is called once more.

        Returns:
            What the predicate returned.

        Raises: as `wait()`. Cost: that of each wait; no round trip if the predicate is true at once.
        """
        limit, late = check_timeout(self.name, "timeout", timeout), False
        ends = None if limit is None else monotonic() + limit
        while True:
            self._portal.call(self.name, self._check_held)
            result = predicate()
            if result:
                return result
            if late:
                raise untrue(self.name, limit)
            try:
                self.wait(None if ends is None else max(0.0, ends - monotonic()))
            except WaitTimeout:
                late = True

    def notify(self, n: int = 1) -> int:
        """Wake up to `n` waiters, in the order in which they began to wait; they get the lock when you release it.

        Returns:
            How many were notified.

        Raises:
            NotOwned: this thread does not hold the lock.
            LockLost: the lock was lost.
            BackendError: Redis is unreachable or refuses. Without an answer some may have been notified.
            ConfigurationError: `n` is not a whole number from 0.

        Cost: one round trip for every 1,000 of them.
        """
        return self._portal.call(self.name, lambda: self._core.notify(n))

    def notify_all(self) -> int:
        """Wake all waiters: `notify()` without a number."""
        return self._portal.call(self.name, self._core.notify_all)

    def __enter__(self) -> Lease:
        """Enter the lock, as `with lock as lease:` does."""
        return self._lock._enter(_getframe(1))

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        found: list[Lease] = []
        insist(lambda: self._lock._leave(found, _getframe(3), kind, error, trace))

    async def _check_held(self) -> None:
        await self._core.wait_for(lambda: True)

    def __repr__(self) -> str:
        return repr(self._core)

    def __reduce__(self) -> tuple[object, ...]:
        return self._core.__reduce__()
