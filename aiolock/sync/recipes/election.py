"""Leader election, for threads: one of many processes leads, and another one takes over when it is gone."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from datetime import timedelta
from functools import partial
from typing import TypeVar

from ...clock import format_seconds, pause
from ...errors import BackendError, ConfigurationError, LockLost, LossReason
from ...log import Log
from ...primitives.lock import LockInfo
from ...recipes.election import Election as AsyncElection
from ...recipes.election import election_of
from ..lease import Lease
from ..lock import Lock

R = TypeVar("R")
T = TypeVar("T")

logger: Log = Log("aiolock.leader")


def leader(lock: Lock, *, backoff: float | timedelta = 1.0, max_backoff: float | timedelta = 60.0) -> Election:
    """Return an election: whoever holds `lock` leads. No I/O; works before you open the manager.

    Arguments and errors: as for `aiolock.recipes.leader()`; elections of that name are the same.

    Example:
        ```python
        def fetch_feed(term: Lease, stop: threading.Event) -> None:
            while not stop.wait(60):
                store(fetch(), fence=term.fence)

        with locks, leader(locks.lock("feed", ttl=10.0)).running(fetch_feed):
            serve()
        ```
    """
    if not isinstance(lock, Lock):
        raise ConfigurationError("", f"leader() needs a lock, as locks.lock(name, ttl=…) returns it, not {lock!r}")
    return Election(lock, election_of(lock._core, backoff, max_backoff))


class Election:
    """Decides which of many processes leads. Comes from `leader()`.

    Args:
        lock: whose holder leads.
        core: what it stands for.
    """

    def __init__(self, lock: Lock, core: AsyncElection) -> None:
        self._lock = lock
        self._core = core
        self._contests: list[_Contest] = []

    @property
    def name(self) -> str:
        """The lock's name."""
        return self._lock.name

    @property
    def leading(self) -> bool:
        """True while a term of this election object lasts, by the clock. No I/O."""
        return any(term is not None and not (term.lost or term.released) for term in self._terms())

    @property
    def contending(self) -> bool:
        """True while this election object leads or wants to lead: let a health check read it. No I/O."""
        return bool(self._contests)

    def current(self) -> LockInfo | None:
        """Return who leads: host and pid, the lock's `metadata`, and the fence of the term; None if no one does.

        Raises:
            BackendError: Redis is unreachable or refuses.

        Cost: one round trip, read-only.
        """
        return self._lock.info()

    def run(self, fn: Callable[[Lease, threading.Event], T]) -> T | None:
        """Contend without limit, and run `fn(term, stop)` in this thread while this process leads.

        The event `stop` is set once the term is lost, another asks for it with `lock.request_release()`, or `stop()` is
        called. Nothing else ends the function: it must look, or two processes lead after a loss.

        - If it returns after that, this process contends again; after `stop()`, this returns None.
        - If it returns by itself, leadership is given up, and its result is returned: it has resigned permanently.
        - If it fails, the error is logged, and after the backoff this process contends again.
        - An outage of any length ends nothing.

        Args:
            fn: gets the lease of the term, whose `fence` what it writes to should check, and the event.

        Returns:
            What `fn` returned in a term that was not over; None after `stop()`.

        Raises:
            NotAcquired: the manager closes while this process waits.
            LockLost: the manager was closed while this process led (`CLOSED`); no other loss.
            ConfigurationError: the manager is not open.

        If a signal interrupts it, leadership is given up. Cost: what the lock costs.
        """
        contest = _Contest(self._lock, self._core)
        self._contests.append(contest)
        try:
            return contest.run(fn)
        finally:
            self._contests.remove(contest)

    def stop(self) -> None:
        """End each `run()` of this election object, in whichever thread: set the event of the term, and return."""
        for contest in list(self._contests):
            contest.stop()

    @contextmanager
    def running(self, fn: Callable[[Lease, threading.Event], object]) -> Iterator[Election]:
        """Do `run(fn)` in a thread of its own while the block lasts: for a service's lifespan.

        At its end `stop` is set, and the thread awaited: it waits for `fn`, however long that takes.

        Args:
            fn: as for `run()`.

        Raises:
            ConfigurationError: the manager is not open yet: put it first, as below.
            AiolockError: at the end of the block, if `run()` had ended with an error before.

        Example:
            ```python
            with locks, leader(locks.lock("feed", ttl=10.0)).running(fetch_feed):
                serve()
            ```
        """
        self._lock._portal.task(self.name)  # raises if it is not open
        contest = _Contest(self._lock, self._core)
        self._contests.append(contest)
        errors: list[BaseException] = []

        def work() -> None:
            try:
                contest.run(fn)
                if not contest.stopped.is_set():
                    logger.warning(
                        "no longer contends for %r: the leader's function returned, which resigns permanently",
                        self.name,
                        extra={"lock_name": self.name},
                    )
            except BaseException as error:
                errors.append(error)
                logger.error(
                    "no longer contends for %r: %s", self.name, error, extra={"lock_name": self.name}, exception=error
                )
            finally:
                self._contests.remove(contest)

        context = contextvars.copy_context()
        thread = threading.Thread(target=context.run, args=(work,), name=f"leader {self.name!r}", daemon=True)
        thread.start()
        try:
            yield self
        finally:
            contest.stop()
            thread.join()
        if errors:
            raise errors.pop()

    def _terms(self) -> list[Lease | None]:
        return [contest.term for contest in self._contests]

    def __repr__(self) -> str:
        state = " leading" if self.leading else " contending" if self.contending else ""
        return f"<Election {self.name!r}{state}>"


class _Contest:
    """One `run()`.

    Args:
        lock: whose holder leads.
        core: the election.

    Attributes:
        stopped: set once it shall end.
        term: the lease of the term that lasts.
    """

    def __init__(self, lock: Lock, core: AsyncElection) -> None:
        self.stopped = threading.Event()
        self.term: Lease | None = None
        self._lock = lock
        self._core = core
        self._over: threading.Event | None = None  # of the term
        self._limit: asyncio.Timeout | None = None

    def stop(self) -> None:
        self.stopped.set()
        over = self._over
        if over is not None:
            over.set()
        self._lock._portal.post(self._cut_short)

    def _cut_short(self) -> None:
        if self._limit is not None:
            self._limit.reschedule(asyncio.get_running_loop().time())

    def run(self, fn: Callable[[Lease, threading.Event], T]) -> T | None:
        row = 0
        while True:
            elected = self._until_stopped(self._elected, _take_back)
            if not elected:
                return None
            began = self._lock.clock.now()
            results, failure = self._serve(fn, elected.pop())
            if results and not self.stopped.is_set():
                return results[0]
            if failure is None:
                continue
            row = 0 if self._lock.clock.now() - began >= self._core._max_backoff else row
            seconds = self._core._failed.pause(row)
            row += 1
            logger.error(
                "the leader's function failed in its term on %r; contends again in %s s: %r",
                self._lock.name,
                format_seconds(seconds),
                failure,
                extra={"lock_name": self._lock.name},
                exception=failure,
            )
            del failure
            self._until_stopped(partial(pause, self._lock.clock, seconds))

    async def _elected(self) -> Lease:
        return self._lock._lease(await self._core._elected())

    def _serve(self, fn: Callable[[Lease, threading.Event], T], term: Lease) -> tuple[list[T], Exception | None]:
        """Let the function run for one term; return its result, if it came to its end by itself, or how it failed."""
        name, over = self._lock.name, threading.Event()
        results: list[T] = []
        failure: Exception | None = None
        self._over, self.term = over, term
        if self.stopped.is_set():
            over.set()
        try:
            with term:
                term._portal.call(name, lambda: _tell(term, over))
                try:
                    result = fn(term, over)
                    if not (over.is_set() or term.lost or term.wanted):
                        results.append(result)
                except Exception as error:
                    failure = error
        except LockLost as loss:
            if term.reason is LossReason.CLOSED:
                raise loss from failure
            results.clear()
            logger.warning("no longer leads %r, and contends again: %s", name, loss, extra={"lock_name": name})
        except BackendError as refusal:
            logger.warning("leadership of %r lasts until its ttl: %s", name, refusal)
        finally:
            self._over = self.term = None
        if isinstance(failure, LockLost) and term.lost:  # `term.ensure()` has told it
            failure = None
        return results, failure

    def _until_stopped(
        self, work: Callable[[], Coroutine[object, object, R]], unclaimed: Callable[[list[R]], object] | None = None
    ) -> list[R]:
        """Return what the coroutine returns, alone in a list; nothing if it was stopped before."""

        async def limited() -> list[R]:
            if self.stopped.is_set():
                return []
            self._limit = limit = asyncio.timeout(None)
            try:
                async with limit:
                    return [await work()]
            except TimeoutError:
                if not limit.expired():
                    raise
                return []
            finally:
                self._limit = None

        return self._lock._portal.call(self._lock.name, limited, unclaimed)


async def _tell(term: Lease, over: threading.Event) -> None:
    """Set the event as soon as the term is lost, or another asks for it."""
    hold = term._core._hold
    hold.watch(term._core, wants=True).add_done_callback(lambda _: over.set())
    if hold.wanted:
        over.set()


def _take_back(elected: list[Lease]) -> None:
    for term in elected:
        term._take_back()
