"""The handle that you get: one acquisition of a hold."""

from __future__ import annotations

import asyncio
import warnings
import weakref
from contextlib import AbstractAsyncContextManager
from datetime import timedelta
from logging import DEBUG
from sys import _getframe
from types import TracebackType
from typing import TypeVar

from ..clock import format_seconds
from ..errors import ConfigurationError, LockLost, LossReason, NotOwned
from ..event_log import SHOWN
from ..events import Released
from ..scripts.base import Ending
from ..usage import Renamed
from .binding import Process
from .calls import Calls
from .gate import Gate
from .guarding.blocks import spans
from .guarding.guard import Guard, Shielded, running_task
from .holding.hold import Hold
from .holding.level import Block, Level, Owner
from .holding.release import Release, Releasing
from .holding.telling import tell_abandoned, tell_released
from .holding.ticket import Ticket
from .policy import check_duration, check_part, check_ttl, first_slot, milliseconds
from .runtime import KINDS

_shown = SHOWN[Released]
T = TypeVar("T")


class Lease(Level, Renamed):
    """One acquisition of a lock. Comes from `acquire()` or `async with lock`; you never create one.

    `async with lease:` guards a block with a lease that you acquired with `await lock.acquire()`.
    """

    __slots__ = ("_detached", "_gate")

    _called = "lease"

    def __init__(self, gate: Gate, hold: Hold, calls: Calls, task: asyncio.Task[object] | None) -> None:
        self._gate = gate
        self._hold: Hold = hold
        self._calls: Calls = calls
        self._task: asyncio.Task[object] | None = task
        self._guard: Block | None = None
        self._lock: weakref.ref[object] | None = None
        self._result: Release | None = None
        self._detached = False
        self._pins = 0

    @property
    def name(self) -> str:
        """The lock's name."""
        return self._hold.calls.name

    @property
    def fence(self) -> int:
        """The fencing token, greater than in every earlier grant on the name: let the resource refuse lower ones.

        Raises `ConfigurationError` if it has none, because the library that you share the lock with keeps none.
        """
        return self._hold.fence or self._hold.no_fence()

    @property
    def abandoned(self) -> bool:
        """True if the previous holder vanished without releasing; False can mean unknown."""
        return self._hold.abandoned

    @property
    def depth(self) -> int:
        """How many acquisitions of this owner are open, over all its tasks; 0 after the release."""
        return self._own().depth

    @property
    def permits(self) -> int:
        """How many permits of a semaphore it has; 1 of anything else, and 0 after the release."""
        if self.released:
            return 0
        return self._calls.weight if self._gate.contention.divisible else 1

    @property
    def slots(self) -> tuple[int, ...]:
        """Which permits of a `semaphore(…, slots=True)` it has, ascending; no other lease has them. Otherwise empty.

        `release(n)` returns the highest. The others stay readable after the release, as the fence does.
        """
        return self._hold.slots

    @property
    def slot(self) -> int:
        """The lowest of its `slots`. Raises `ConfigurationError` if it has none."""
        return first_slot(self.name, self._hold.slots)

    @property
    def owner(self) -> Owner:
        """The owner of the lock, for a child task that should share it."""
        return Owner(self._hold)

    @property
    def released(self) -> bool:
        """True after this lease was released or detached."""
        self._own()
        return self._result is not None

    @property
    def lost(self) -> bool:
        """True once the lease is lost, by the clock; stays true. No I/O, changes nothing, and works in any thread.

        Raises:
            ConfigurationError: in a forked child, where only `name`, `fence` and `abandoned` can be read.
        """
        return self._own().loss_by_clock() is not None

    @property
    def reason(self) -> LossReason | None:
        """Why it was lost, or None. Works like `lost`."""
        return self._own().loss_by_clock()

    def remaining(self) -> float:
        """Seconds still guaranteed without another renewal; 0.0 once lost or released. Works like `lost`."""
        hold = self._own()
        if self._result is not None or hold.loss_by_clock() is not None:
            return 0.0
        return max(0.0, hold.deadline - self._gate.runtime.clock.now())

    def ensure(self, seconds: float | timedelta = 0.0) -> None:
        """Raise unless `seconds` are still guaranteed. Works in any thread.

        Args:
            seconds: how long your next step may take. A renewed lease guarantees at least ttl × 2/3 − margin while
                renewals succeed.

        Raises:
            LockLost: it is already lost, or has less time left (then the reason is EXPIRED, and the lease lives on).
            NotOwned: it was released or detached.
            ConfigurationError: not a number of seconds, or less than 0.
        """
        seconds = check_duration(self.name, "ensure()", seconds)
        self._check_valid()
        left = self.remaining()
        if left < seconds or not left:
            needs = format_seconds(seconds)
            text = f"lock {self.name!r} is guaranteed for only {left:.3f} s, not {needs} s: raise its ttl or renew it"
            raise LockLost(self.name, text, LossReason.EXPIRED)

    async def wait_lost(self) -> LossReason:
        """Wait until the lease is lost.

        Returns:
            The reason; even after the release, if it had been lost before.

        Raises:
            NotOwned: it was released or detached, before or meanwhile: it can no longer be lost.

        Cancellation: nothing changes. Cost: no round trip.
        """
        self._check_here("asyncio.run_coroutine_threadsafe(lease.wait_lost(), loop)")
        reason = await self._hold.watch(self)
        if reason is None:
            raise self._not_owned()
        self._hold.told = True
        return reason

    @property
    def wanted(self) -> bool:
        """True once another has called `lock.request_release()`: finish, and release. Works like `lost`."""
        return self._own().wanted

    async def wait_wanted(self) -> None:
        """Wait until another calls `lock.request_release()`; return at once if one has.

        Raises:
            LockLost: it was lost.
            NotOwned: it was released or detached, before or meanwhile.

        Cancellation: nothing changes. Cost: no round trip.
        """
        self._check_here("asyncio.run_coroutine_threadsafe(lease.wait_wanted(), loop)")
        await self._hold.wait_wanted(self)
        self._check_valid()

    async def renew(self, ttl: float | timedelta | None = None) -> None:
        """Extend the lease now; never shortens it. A lease with `renew=False` needs this to live on.

        Args:
            ttl: seconds from now, 0.1 s to 30 days; None for the ttl it has. A longer one stays in force.

        Raises:
            LockLost: it was lost.
            NotOwned: it was released or detached, before or meanwhile.
            BackendError: no answer within `request_timeout`, or refused; the lease lives on to its deadline.

        Cancellation: the renewal may still happen. Cost: one round trip.
        """
        self._check_here("asyncio.run_coroutine_threadsafe(lease.renew(), loop)")
        self.ensure()
        hold, before = self._hold, self._hold.ttl_ms
        if ttl is not None:
            hold.ttl_ms = max(hold.ttl_ms, milliseconds(check_ttl(self.name, ttl)))
        call = hold.calls.renew_many([hold.calls.renewal(hold.owner, hold.fence, hold.ttl_ms)])
        call.name = self.name  # a batch has none
        (outcome,) = await self._gate.runtime.ask(call, "renewing")
        hold.judged(outcome, call.sent_at, before)
        if hold.reason is not None:
            raise hold.loss()
        if self.released:
            raise self._not_owned()
        hold.raise_failure()

    async def detach(self, ttl: float | timedelta | None = None) -> str:
        """Let another process continue this lease: end it here without releasing the lock.

        The lock stays locked, with the old owner and fence, until `manager.resume(ticket)` takes it over with a higher
        fence, or until its ttl is over. A guarded block continues unguarded, and its end releases nothing.

        Args:
            ttl: seconds from now that the ticket may travel, 0.1 s to 30 days; None for the ttl the lease has. A longer
                one stays in force, even if this fails.

        Returns:
            The ticket: ASCII text for a queue, valid once. It reveals no server or password; but anyone who has it can
            take the lock, so do not log it.

        Raises:
            ConfigurationError: nested or shared: release the other leases of the same owner first. Or a lease of a kind
                that cannot move: a multi lock's, a quorum's, that of a run of `once()`.
            LockLost: it was lost.
            NotOwned: it was released or detached.
            BackendError: no answer within `request_timeout`, or refused; the lease lives on as if nothing had happened.

        Cancellation: the lease is still held here, and released as usual. Once this has returned it is not: a ticket
        that is dropped keeps the lock until its ttl is over. Cost: one round trip.
        """
        self._check_here("asyncio.run_coroutine_threadsafe(lease.detach(), loop)")
        if self._hold.calls.kind not in KINDS:
            raise ConfigurationError(self.name, f"lock {self.name!r} is of a kind that cannot be detached: release it")
        self._gate.runtime.backend.abilities.need_scripts(self.name, "tickets")
        self._check_alone()
        await self.renew(ttl)
        self.ensure()
        self._check_alone()
        ticket = Ticket.of(self._hold, self._gate.runtime.keys)
        self._result, self._detached = (result := self._gate.detach(self)), True
        tell_released(self._gate.runtime, self._hold, result.handed_on, detached=True)
        return ticket.encode()

    def release(self, n: int | None = None) -> Releasing:
        """Release this acquisition, or `n` of its permits. Sent when you call it; `await` waits for the reply.

        Without `n`, or once everything is released, it is idempotent. In a guarded block it ends the lease there: the
        rest of the block runs without the lock, and nothing is released at its end.

        Args:
            n: for a semaphore: how many permits, at most as many as it has; the lease keeps the rest. None for all.

        Returns:
            Something that you may await. Awaiting it raises `LockLost` if the lease had been lost, and `BackendError`
            if the server refuses. In an outage it returns after `request_timeout`, with a WARNING, and the release
            continues in the background until the lock expires.

        Raises:
            ConfigurationError: `n` is not a number of permits that it has, or the lease is not a semaphore's.
            NotOwned: `n` of a lease that was released or detached.

        Cancellation: the lock is still released. Cost: one round trip, which also hands it to a waiting task of
        this process.
        """
        self._check_here("loop.call_soon_threadsafe(lease.release)")
        rest = 0 if n is None else self._without(n)
        if rest:
            return Releasing(self._gate.lessen(self, rest))
        return Releasing(self._result or self._give_up("clean" if self._hold.check() is None else "dirty"))

    async def __aenter__(self) -> Lease:
        """Guard a block with a lease that guards none yet; the block's end releases it, as with `async with lock`.

        The task that enters has it from then on, even if another task acquired it.

        Raises:
            LockLost: it was already lost, and is given up.
            NotOwned: it was released or detached.
            ConfigurationError: it already guards a block; or its manager has another loop, thread or process.

        Cancellation: never before the block has begun, as nothing is awaited. Cost: no round trip.
        """
        self._check_here("lock.acquire() and enter its lease")
        if self._guard is not None:
            text = f"this lease of lock {self.name!r} guards a block already: acquire again for a block inside that"
            raise ConfigurationError(self.name, text)
        if self.released:
            raise self._not_owned()
        if self._hold.check() is not None:
            self._give_up("dirty")
            raise self._hold.loss()
        task = asyncio.current_task()
        if task is not self._task:
            self._gate.runtime.leases.remove(self)
            self._task = task
            self._gate.runtime.leases.add(self)
        Guard(self, spans(_getframe().f_back, self.name))
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if isinstance(self._guard, Guard):
            await self._guard.exit(running_task(), error)

    def _give_up(self, ending: Ending, abandoned: bool = False) -> Release:
        """Release it with a given ending; `release()` and the guard use this."""
        if self._result is None:
            self._result = result = self._gate.lower(self._hold, ending, self)
            runtime, hold = self._gate.runtime, self._hold
            if hold.reason is None and abandoned:
                tell_abandoned(runtime, hold)
            elif hold.reason is None and (runtime.observers.listening or _shown(DEBUG)):
                tell_released(runtime, hold, result.handed_on)
        return self._result

    def shielded(self, manager: AbstractAsyncContextManager[T]) -> AbstractAsyncContextManager[T]:
        """Wrap a context manager whose clean-up must not be cancelled when the lease is lost: a transaction's ROLLBACK.

        Its `__aexit__` runs shielded from cancellation until the server would let the lock expire: after a loss it has
        the margin. Its body and its `__aenter__` are cancelled as usual.

        If the clean-up is then cancelled, its outcome is unknown: `LockLost` is raised in its place. If the body raised
        an error, that error continues instead, with a note that says so.

        Args:
            manager: such as `pool.transaction()`. You enter what is returned, once.
        """
        self._own()
        return Shielded(self, self._gate.runtime.clock, manager)

    def __repr__(self) -> str:
        reason = self._hold.loss_by_clock()
        if self._gate.runtime.binding.inherited:
            state = "of the parent process"
        elif reason is not None:
            state = f"lost={reason.name}"
        elif self.released:
            state = self._ended()
        else:
            state = f"depth={self.depth} remaining={self.remaining():.1f}"
        fence = f"fence={self._hold.fence} " if self._hold.fence else ""
        return f"<Lease {self.name!r} {fence}{state}>"

    def _check_here(self, remedy: str) -> None:
        self._gate.runtime.binding.check_here(self.name, remedy)

    def _own(self) -> Hold:
        """Return its hold to those who look at it; raise in a forked child, for which nobody renews it."""
        binding = self._gate.runtime.binding
        if binding.process is not Process.current:
            binding.check_process(self.name)
        return self._hold

    def _without(self, n: object) -> int:
        """How many permits it keeps without `n` of them."""
        if self.released:
            raise NotOwned(self.name, f"this lease of {self.name!r} was {self._ended()}: it has nothing to release")
        return self.permits - check_part(self.name, n, self.permits if self._gate.contention.divisible else 0)

    def _check_valid(self) -> None:
        lost = self._own().failure()
        if lost is not None:
            raise lost
        if self._result is not None:
            raise self._not_owned()

    def _check_alone(self) -> None:
        self._check_may_leave()
        if self.depth > 1:
            raise ConfigurationError(
                self.name,
                f"lock {self.name!r} cannot be detached while its owner has {self.depth} acquisitions of it open: "
                "release the nested ones, and those of other tasks, first",
            )

    def _not_owned(self) -> NotOwned:
        return NotOwned(self.name, f"this lease of lock {self.name!r} was {self._ended()}: acquire it again")

    def _ended(self) -> str:
        return "detached" if self._detached else "released"

    def __reduce__(self) -> tuple[object, ...]:
        raise TypeError("a Lease cannot leave its process: send the ticket that `await lease.detach()` returns")

    def __del__(self) -> None:
        if self._result is None and not self._hold.ended and not self._gate.runtime.binding.inherited:
            self._gate.collected(self._hold)  # first, because a warning may be an error
            warnings.warn(f"unreleased {self!r}", ResourceWarning, stacklevel=2, source=self)
