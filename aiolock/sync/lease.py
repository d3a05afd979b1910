"""The handle that a thread gets: one acquisition."""

from __future__ import annotations

import asyncio
import threading
import warnings
import weakref
from collections.abc import Callable, Coroutine
from datetime import timedelta
from types import TracebackType
from typing import TypeVar

from ..clock import format_seconds
from ..core.holding.level import Owner
from ..core.lease import Lease as AsyncLease
from ..core.policy import check_timeout
from ..errors import AiolockError, ConfigurationError, LossReason, WaitTimeout
from ..scripts.base import Ending
from ..usage import Renamed
from .interruption import insist
from .portal import Portal
from .thread_task import ThreadTask

R = TypeVar("R")


class Lease(Renamed):
    """One acquisition of a lock by a thread. Comes from `acquire()` or `with lock`; you never create one.

    A thread cannot be cancelled, so a block runs on when its lease is lost. `lost`, `reason`, `remaining()` and
    `ensure()` tell; `wait_lost()` waits for it in another thread; `on_lost=` of the lock calls a function. At its end
    the block raises `LockLost`.

    `with lease:` guards a block with a lease that you acquired with `lock.acquire()`.
    """

    __slots__ = ("__weakref__", "_core", "_host", "_portal")

    _called = "lease"

    def __init__(self, portal: Portal, core: AsyncLease) -> None:
        self._portal = portal
        self._core = core
        self._host: ThreadTask | None = None  # of the thread whose block it guards

    @property
    def name(self) -> str:
        """The lock's name."""
        return self._core.name

    @property
    def fence(self) -> int:
        """The fencing token, greater than in every earlier grant on the name: let the resource refuse lower ones."""
        return self._core.fence

    @property
    def abandoned(self) -> bool:
        """True if the previous holder vanished without releasing; False can mean unknown."""
        return self._core.abandoned

    @property
    def depth(self) -> int:
        """How many acquisitions of this owner are open, over all its threads; 0 after the release."""
        return self._core.depth

    @property
    def permits(self) -> int:
        """How many permits of a semaphore it has; 1 of anything else, and 0 after the release."""
        return self._core.permits

    @property
    def slots(self) -> tuple[int, ...]:
        """Which permits of a `semaphore(…, slots=True)` it has, ascending; no other lease has them. Otherwise empty.

        `release(n)` returns the highest. The others stay readable after the release, as the fence does.
        """
        return self._core.slots

    @property
    def slot(self) -> int:
        """The lowest of its `slots`. Raises `ConfigurationError` if it has none."""
        return self._core.slot

    @property
    def owner(self) -> Owner:
        """The owner of the lock, for another thread that should share it: `lock.acquire(owner=lease.owner)`."""
        return self._core.owner

    @property
    def released(self) -> bool:
        """True after this lease was released or detached."""
        return self._core.released

    @property
    def lost(self) -> bool:
        """True once the lease is lost, by the clock; stays true. No I/O, and works in any thread.

        Raises:
            ConfigurationError: in a forked child, where only `name`, `fence` and `abandoned` can be read.
        """
        return self._core.lost

    @property
    def reason(self) -> LossReason | None:
        """Why it was lost, or None. Works like `lost`."""
        return self._core.reason

    @property
    def wanted(self) -> bool:
        """True once another has called `lock.request_release()`: finish, and release. Works like `lost`."""
        return self._core.wanted

    def remaining(self) -> float:
        """Seconds still guaranteed without another renewal; 0.0 once lost or released. Works like `lost`."""
        return self._core.remaining()

    def ensure(self, seconds: float | timedelta = 0.0) -> None:
        """Raise unless `seconds` are still guaranteed: call it before each step that must not run without the lock.

        Args:
            seconds: how long your next step may take.

        Raises:
            LockLost: it is already lost, or has less time left (then the reason is EXPIRED, and the lease lives on).
            NotOwned: it was released or detached.
            ConfigurationError: not a number of seconds, or less than 0.

        Cost: none, it looks at the clock.
        """
        self._core.ensure(seconds)

    def wait_lost(self, timeout: float | timedelta | None = None) -> LossReason:
        """Wait until the lease is lost, in a thread that watches over another.

        Args:
            timeout: seconds to wait; None for no limit.

        Returns:
            The reason; even after the release, if it had been lost before.

        Raises:
            WaitTimeout: it was not lost in that time.
            NotOwned: it was released or detached, before or meanwhile: it can no longer be lost.

        Cost: no round trip.
        """
        return self._within(timeout, self._core.wait_lost, "lost")

    def wait_wanted(self, timeout: float | timedelta | None = None) -> None:
        """Wait until another calls `lock.request_release()`; return at once if one has.

        Args:
            timeout: seconds to wait; None for no limit.

        Raises:
            WaitTimeout: nobody called it in that time.
            LockLost: it was lost.
            NotOwned: it was released or detached, before or meanwhile.

        Cost: no round trip.
        """
        self._within(timeout, self._core.wait_wanted, "wanted")

    def renew(self, ttl: float | timedelta | None = None) -> None:
        """Extend the lease now; never shortens it. A lease with `renew=False` needs this to live on.

        Args:
            ttl: seconds from now, 0.1 s to 30 days; None for the ttl it has. A longer one stays in force.

        Raises:
            LockLost: it was lost.
            NotOwned: it was released or detached, before or meanwhile.
            BackendError: no answer within `request_timeout`, or refused; the lease lives on to its deadline.

        Cost: one round trip.
        """
        self._portal.call(self.name, lambda: self._core.renew(ttl))

    def detach(self, ttl: float | timedelta | None = None) -> str:
        """Let another process continue this lease: end it here without releasing the lock.

        The ticket is for `resume()` of a manager of either kind, `aiolock.LockManager` or this one.

        Args:
            ttl: seconds from now that the ticket may travel; None for the ttl the lease has.

        Returns:
            The ticket: ASCII text for a queue, valid once. Anyone who has it can take the lock, so do not log it.

        Raises:
            ConfigurationError: nested or shared, or a lease of a kind that cannot move.
            LockLost: it was lost.
            NotOwned: it was released or detached.
            BackendError: no answer within `request_timeout`, or refused; the lease lives on as if nothing had happened.

        Cost: one round trip.
        """
        return self._portal.call(self.name, lambda: self._core.detach(ttl))

    def release(self, n: int | None = None) -> None:
        """Give this acquisition back, or `n` of its permits, and wait for the answer. Any thread may do that.

        Without `n`, or once everything is released, it is idempotent. In a `with` block it ends the lease there: the
        rest of the block runs without the lock, and nothing is released at its end.

        Args:
            n: for a semaphore: how many permits, at most as many as it has; the lease keeps the rest. None for all.

        Raises:
            LockLost: the lease was lost.
            BackendError: the server refuses. In an outage it returns after `request_timeout`, with a WARNING, and the
                release continues in the background until the lock expires.
            ConfigurationError: `n` is not a number of permits that it has, or the lease is not a semaphore's.
            NotOwned: `n` of a lease that was released or detached.

        If a signal interrupts it, the lock is still released. Cost: one round trip, which also hands it to a
        waiting thread of this process.
        """
        begun: list[bool] = []

        async def work() -> None:
            if not begun:
                begun.append(True)
                await self._core.release(n)

        insist(lambda: begun or self._portal.call(self.name, work, certain=True))

    def __enter__(self) -> Lease:
        """Guard a block with a lease that guards none yet; the block's end releases it, as with `with lock`.

        The thread that enters has it from then on, even if another acquired it.

        Raises:
            LockLost: it was already lost, and is given up.
            NotOwned: it was released or detached.
            ConfigurationError: it already guards a block.
        """
        try:
            host = self._portal.task(self.name)

            async def guard() -> Lease:
                await self._guard(host)
                return self

            return self._portal.call(self.name, guard, Lease._take_back)
        except AiolockError:
            raise
        except BaseException:  # interrupted: there is no block that would release it
            try:
                self._portal.post(_give_up, self._core, None, "undone")
            except BaseException:
                self._portal.post(_give_up, self._core, None, "undone")
                raise
            raise

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        insist(lambda: self._exit(kind, error, trace))

    def _exit(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        host = self._host
        if host is None:
            return
        if self._portal.here:
            if self._portal.leaving is not None and kind is None:
                self._portal.leaving(self)
            try:
                self._portal.call(self.name, lambda: self._leave(kind, error, trace), certain=True)
                return
            except ConfigurationError:
                if self._portal.here:
                    if self._host is not None:  # nothing may wait here: an event loop's thread, a garbage collection
                        self._host = None
                        self._portal.post(_give_up, self._core, host, "clean")
                    raise
        self._host = None
        if error is None and self.lost:  # its manager was closed while the block ran
            self.ensure()

    async def _guard(self, host: ThreadTask) -> None:
        await self._core.__aenter__()
        self._host = host
        host.entered()

    async def _leave(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        host, self._host = self._host, None
        if host is None:
            return
        try:
            await self._core.__aexit__(kind, error, trace)
        finally:
            host.left()

    def _take_back(self) -> None:
        """Its thread was interrupted before it got it; called on the loop."""
        host, self._host = self._host, None
        _give_up(self._core, host, "undone")

    def _give_back(self) -> None:
        """Release it where nothing may be raised, or waited for: perhaps in a garbage collection."""
        if not self._portal.inherited and not self._core.released:
            self._portal.post(_give_up, self._core, None, "clean")

    def _within(
        self, timeout: float | timedelta | None, wait: Callable[[], Coroutine[object, object, R]], what: str
    ) -> R:
        limit = check_timeout(self.name, "timeout", timeout)

        async def work() -> R:
            limited = asyncio.timeout(limit)
            try:
                async with limited:
                    return await wait()
            except TimeoutError:
                if not limited.expired():
                    raise
                late = f"the lease of lock {self.name!r} was not {what} within {format_seconds(limit or 0.0)} s"
                raise WaitTimeout(self.name, late) from None

        return self._portal.call(self.name, work)

    def __repr__(self) -> str:
        return repr(self._core)

    def __reduce__(self) -> tuple[object, ...]:
        raise TypeError("a Lease cannot leave its process: send the ticket that `lease.detach()` returns")

    def __del__(self) -> None:
        if self._host is not None and not self._portal.inherited and not self._core.released:
            self._portal.post(_give_up, self._core, self._host, "dirty")  # first, because a warning may be an error
            warnings.warn(f"unreleased {self!r}", ResourceWarning, stacklevel=2, source=self)


def watch_over(lease: Lease, on_lost: Callable[[Lease], object]) -> None:
    """Call `on_lost` in a thread of its own, if the lease is lost; called on the loop."""
    portal, core, known = lease._portal, weakref.ref(lease._core), weakref.ref(lease)

    def ended(told: asyncio.Future[LossReason | None]) -> None:
        kept = core()
        if told.cancelled() or told.result() is None or kept is None:
            return
        lost = known() or Lease(portal, kept)  # a thread that has it may have dropped the handle
        threading.Thread(target=on_lost, args=(lost,), name=f"aiolock lost {lost.name}", daemon=True).start()

    lease._core._hold.watch(lease._core).add_done_callback(ended)


def _give_up(core: AsyncLease, host: ThreadTask | None, ending: Ending) -> None:
    core._give_up(ending if core._hold.check() is None else "dirty")
    if host is not None:
        host.left()
