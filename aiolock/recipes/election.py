"""Leader election: one of many processes leads, and another one takes over when it is gone."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from datetime import timedelta
from types import TracebackType
from typing import TypeVar

from ..clock import format_seconds, pause
from ..core.lease import Lease
from ..core.policy import check_duration
from ..core.polling import Poll
from ..errors import BackendError, ConfigurationError, LockLost, LossReason
from ..log import Log
from ..primitives.lock import Lock, LockInfo
from .function import check_takes
from .tenure import Tenure

T = TypeVar("T")

logger: Log = Log("aiolock.leader")

OUTAGE_PAUSE = 1.0
"""The longest time, in seconds, between two attempts while the server is unreachable: it may be back at any moment."""


def leader(lock: Lock, *, backoff: float | timedelta = 1.0, max_backoff: float | timedelta = 60.0) -> Election:
    """Return an election: whoever holds `lock` leads. No I/O; works before you enter the manager.

    Args:
        lock: `locks.lock(name, ttl=…)`, the same name in every process; a fair lock works, too. Its ttl decides how
            soon another process leads after the leader was killed or frozen. Its `acquire_timeout` does not matter.
        backoff: seconds before this process contends again after its function failed; doubled with each failure in a
            row. A random half of it is left out, so that processes do not come in step.
        max_backoff: the longest such pause, in seconds. A term that lasted as long begins the row again.

    Returns:
        The election: `run()` it, run it next to your service with `running()`, or enter it for a single term.

    Raises:
        ConfigurationError: not a lock, one with `cancel_on_loss=False`, or a duration that cannot work.

    Example:
        ```python
        async def fetch_feed(term: Lease) -> None:
            while True:
                await store(await fetch(), fence=term.fence)
                await asyncio.sleep(60)

        await leader(locks.lock("feed", ttl=10.0)).run(fetch_feed)
        ```

    Source: etcd's `concurrency.Election`, Kubernetes' `leaderelection`, Curator's `LeaderSelector`.
    """
    if not isinstance(lock, Lock):
        raise ConfigurationError("", f"leader() needs a lock, as locks.lock(name, ttl=…) returns it, not {lock!r}")
    if not lock._policy.cancel_on_loss:
        raise ConfigurationError(
            lock.name,
            f"a leader must end with its term, or two would lead: leave cancel_on_loss=False of lock {lock.name!r} out",
        )
    return election_of(lock, backoff, max_backoff)


def election_of(lock: Lock, backoff: float | timedelta, max_backoff: float | timedelta) -> Election:
    """Return the election. Raises `ConfigurationError` for a duration that cannot work."""
    first = check_duration(lock.name, "backoff", backoff, least=0.001)
    return Election(lock, first, check_duration(lock.name, "max_backoff", max_backoff, least=first))


class Election:
    """Decides which of many processes leads. Comes from `leader()`; `async with` it for a single term.

    Entering it waits until this process leads, however long that takes, also through an outage. The block is cancelled
    if the term is lost, and then raises `LockLost`. Leaving it gives leadership up. One block at a time: call
    `leader()` for each.

    Args:
        lock: whose holder leads.
        backoff: seconds to wait after the first failure.
        max_backoff: the most seconds to wait after a failure.
    """

    def __init__(self, lock: Lock, backoff: float, max_backoff: float) -> None:
        self._lock = lock
        self._max_backoff = max_backoff
        self._failed = Poll(backoff, max_backoff)
        self._away = Poll(min(0.1, OUTAGE_PAUSE), OUTAGE_PAUSE)
        self._terms: list[Lease] = []
        self._entered = False
        self._runs = 0
        self._block: Lease | None = None

    @property
    def name(self) -> str:
        """The lock's name."""
        return self._lock.name

    @property
    def leading(self) -> bool:
        """True while a term of this election object lasts, by the clock. No I/O; raises in a forked child."""
        self._check_process()
        return any(not term.lost and not term.released for term in self._terms)

    @property
    def contending(self) -> bool:
        """True while this election object leads or wants to lead: in `run()`, `running()`, or its block. No I/O.

        It stays False once `run()` has ended next to your service, by an error or because its function returned:
        let a health check read it. Raises in a forked child.
        """
        self._check_process()
        return self._entered or self._runs > 0

    async def current(self) -> LockInfo | None:
        """Return who leads: host and pid, the lock's `metadata`, and the fence of the term; None if no one does.

        Raises:
            BackendError: Redis is unreachable or refuses.

        Cancellation: nothing changes. Cost: one round trip, read-only.
        """
        return await self._lock.info()

    async def changes(self, every: float | timedelta = 1.0) -> AsyncGenerator[LockInfo | None, None]:
        """Iterate over who leads: at first who leads now, then whenever a new term begins, or no one leads any more.

        It asks again and again, so it misses a term that is shorter than `every`. An outage is no change: the iteration
        goes on after it.

        Args:
            every: seconds between two questions, from 0.01.

        Raises:
            ConfigurationError: an `every` that cannot work; or the manager is not entered, or closed.

        Cancellation: nothing is left. Cost: one round trip each time, read-only.

        Example:
            ```python
            async for now in leader(lock).changes():
                print("no one leads" if now is None else f"{now.holder} leads, under fence {now.fence}")
            ```
        """
        seconds = check_duration(self.name, "every", every, least=0.01)
        seen: int | None = -1  # no fence is negative
        while True:
            try:
                info = await self.current()
            except BackendError as error:
                logger.debug("who leads %r is unknown: %s", self.name, error, extra={"lock_name": self.name})
            else:
                fence = None if info is None else info.fence
                if fence != seen:
                    seen = fence
                    yield info
            await pause(self._lock.clock, seconds)

    async def run(self, fn: Callable[[Lease], Awaitable[T]]) -> T:
        """Contend without limit, and run `fn(term)` while this process leads.

        - If the term is lost, `fn` is cancelled, and each await of its clean-up again: use `term.shielded()` for what
          must end properly. Once it has ended, however it ended, this process contends again.
        - If another asks for it with `lock.request_release()`, `fn` is cancelled once, as by `task.cancel()`: it leads
          until its clean-up has ended. Then leadership is given up, and this process contends again, behind those that
          wait by then.
        - If `fn` fails, the error is logged, leadership is given up so that another process can try, and after the
          backoff this process contends again.
        - If `fn` returns, leadership is given up, and its result is returned. That is how `fn` resigns permanently.
        - An outage of any length ends nothing: it goes on contending when the server is back.

        To stop it, cancel the task that runs it, or return from `fn`. To stop at the first error of `fn` or the first
        loss, take a single term instead: `async with leader(lock) as term: await fn(term)`.

        Args:
            fn: a coroutine function. It gets the lease of the term: pass `term.fence` to what it writes to. If it
                swallows its cancellation and runs on after a loss, two processes lead. Blocking calls in it keep the
                lease from being renewed: put them into `await asyncio.to_thread(…)`.

        Returns:
            What `fn` returned in a term that was not lost.

        Raises:
            NotAcquired: the manager closes while this process waits.
            LockLost: the manager was closed while this process led (`CLOSED`); no other loss.
            ConfigurationError: the manager is not entered, closed, of another loop, or of a parent process.
            TypeError: `fn` takes no term, or returns nothing that can be awaited.

        Cancellation: `fn` is cancelled, then leadership is given up; an error that `fn` raises then is raised here.
        Cost: what the lock costs; nothing more while it leads or waits.
        """
        self._check(fn)
        self._runs += 1
        try:
            return await self._contend(fn)
        finally:
            self._runs -= 1

    def _check(self, fn: Callable[[Lease], Awaitable[object]]) -> None:
        """Raise at once what would end a term, perhaps hours later: a mistake in the code."""
        with suppress(BackendError):  # a manager that has not reached Redis yet: it contends when that is back
            self._lock._runtime.binding.check(self.name)
        check_takes(fn, "a leader's function", "the term")

    async def _contend(self, fn: Callable[[Lease], Awaitable[T]]) -> T:
        task = asyncio.current_task()
        assert task is not None
        cancelled, row = task.cancelling(), 0
        while True:
            term = await self._elected()
            began = self._lock.clock.now()
            tenure = Tenure(term, fn, task, cancelled)
            await self._lead(tenure, term)
            if self._lock.clock.now() - began >= self._max_backoff:
                row = 0
            failure = tenure.failure
            if failure is None:
                if tenure.results:
                    return tenure.results[0]
                continue
            if tenure.cancelled:
                raise failure
            seconds = self._failed.pause(row)
            row += 1
            logger.error(
                "the leader's function failed in its term on %r; contends again in %s s: %r",
                self.name,
                format_seconds(seconds),
                failure,
                extra={"lock_name": self.name},
                exception=failure,
            )
            del failure, tenure
            await pause(self._lock.clock, seconds)

    @asynccontextmanager
    async def running(self, fn: Callable[[Lease], Awaitable[object]]) -> AsyncIterator[Election]:
        """Do `run(fn)` in a task of its own while the block lasts: for a service's lifespan.

        A lost term, a failure of `fn` and an outage do not disturb the block. At its end the task is cancelled and
        awaited, and leadership given up. If `fn` returns, which is logged as a WARNING, this process has resigned
        permanently, and the block goes on: `contending` is False then.

        Args:
            fn: as for `run()`.

        Raises:
            ConfigurationError: the manager is not entered yet: put it first, as below.
            TypeError: `fn` takes no term.
            AiolockError: at the end of the block, if `run()` had ended with an error before, which was logged then.
                An error of the block itself comes first.

        Cancellation: the task still ends. Cost: as for `run()`.

        Example:
            ```python
            async with locks, leader(locks.lock("feed", ttl=10.0)).running(fetch_feed):
                yield
            ```
        """
        self._check(fn)
        task = asyncio.create_task(self._run_aside(fn), name=f"leader {self.name!r}")
        try:
            await asyncio.sleep(0)  # it contends from now on
            yield self
        finally:
            task.cancel()
            await asyncio.wait((task,))
            error = None if task.cancelled() else task.exception()
        if error is not None:
            raise error

    async def _run_aside(self, fn: Callable[[Lease], Awaitable[object]]) -> None:
        try:
            await self.run(fn)
        except Exception as error:
            logger.error(
                "no longer contends for %r: %s", self.name, error, extra={"lock_name": self.name}, exception=error
            )
            raise
        logger.warning(
            "no longer contends for %r: the leader's function returned, which resigns permanently",
            self.name,
            extra={"lock_name": self.name},
        )

    async def _elected(self) -> Lease:
        """Wait until this process leads."""
        attempts, told = 0, ""
        while True:
            try:
                term = await self._lock.acquire(timeout=None)
            except BackendError as error:
                pauses = self._away if error.transient else self._failed
                seconds = pauses.pause(attempts)
                attempts += 1
                if str(error) != told:
                    told = str(error)
                    say = logger.warning if error.transient else logger.error
                    say("contending for %r failed, and goes on: %s", self.name, error, extra={"lock_name": self.name})
            else:
                logger.info("leads %r under fence %d", self.name, term.fence, extra={"lock_name": self.name})
                return term
            await pause(self._lock.clock, seconds)

    async def _lead(self, tenure: Tenure[T], term: Lease) -> None:
        """Let the function run for one term; `tenure` has how it ended."""
        try:
            with self._known(term):
                await tenure.serve()
        except LockLost as loss:
            if term.reason is LossReason.CLOSED:
                raise loss from tenure.failure
            tenure.results.clear()  # a function that takes its cancellation for a reason to return has not resigned
            logger.warning(
                "no longer leads %r, and contends again: %s", self.name, loss, extra={"lock_name": self.name}
            )
        except BackendError as refusal:
            logger.warning("leadership of %r lasts until its ttl: %s", self.name, refusal)
        except BaseExceptionGroup as errors:  # of a task group, together with its cancellation, or with it (anyio 4.6)
            others = errors.split(asyncio.CancelledError)[1]
            if not isinstance(others, ExceptionGroup | None):
                raise
            tenure.failure = errors
        if tenure.wanted:
            if tenure.failure is None and tenure.cancelled:
                raise asyncio.CancelledError  # the function has swallowed that
            logger.info("gives up leadership of %r, as it was asked to", self.name, extra={"lock_name": self.name})

    @contextmanager
    def _known(self, term: Lease) -> Iterator[None]:
        self._terms.append(term)
        try:
            yield
        finally:
            self._terms.remove(term)

    async def __aenter__(self) -> Lease:
        if self._entered:
            raise ConfigurationError(
                self.name, f"this election of {self.name!r} has a block already: call leader(lock) for another one"
            )
        self._entered = True
        try:
            term = await self._elected()
            await term.__aenter__()
        except BaseException:
            self._entered = False
            raise
        self._block = term
        self._terms.append(term)
        return term

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        term, self._block = self._block, None
        assert term is not None
        try:
            await term.__aexit__(kind, error, trace)
        finally:
            self._terms.remove(term)
            self._entered = False

    def _check_process(self) -> None:
        self._lock._runtime.binding.check_process(self.name)

    def __repr__(self) -> str:
        if self._lock._runtime.binding.inherited:
            return f"<Election {self.name!r} of the parent process>"
        state = " leading" if self.leading else " contending" if self.contending else ""
        return f"<Election {self.name!r}{state}>"
