"""What one owner has: its time, from the grant to its end or its loss, the renewals that keep it, and who shares it."""

from __future__ import annotations

import asyncio
import weakref
from collections.abc import Callable
from logging import WARNING
from typing import Any

from ...errors import AiolockError, BackendError, ConfigurationError, LockLost, LossReason, explain_loss
from ...log import Line, Log
from ...scripts.base import Part
from ...scripts.outcomes import Failed, Granted, Renewed, RenewOutcome
from ..calls import Batch, Calls, joint
from ..policy import Policy
from ..scheduler import LATE, NEVER
from .level import Block, Home, Level, Watcher

logger: Log = Log("aiolock.hold")
NOT_RENEWED: Line = Line(
    logger,
    WARNING,
    "could not renew lock %(lock_name)r, trying until its deadline: %(error)s",
    "could not renew %(count)d more locks: %(lock_names)s",
)


class Hold:
    """One owner's state, shared by the leases of all its acquisitions.

    Args:
        owner: who has it.
        calls: requests for all that its leases have together.
        policy: how it is held.
        grant: what the server granted.
        sent_at: clock time before which that cannot have been.
        home: where it belongs.
        now: the clock's time.

    Attributes:
        began: clock time since which it is held.
        reason: why it is lost; None while it is not.
        blocked: seconds that the loop was blocked, if that is the reason.
        deadline: clock time at which it is lost unless renewed.
        expiry: clock time at which the server may let it expire.
    """

    __slots__ = (
        "__weakref__",
        "_clock",
        "_error",
        "_limit",
        "_patience",
        "_renew_at",
        "_retry",
        "_scheduler",
        "_silent",
        "abandoned",
        "began",
        "blocked",
        "calls",
        "capacity",
        "deadline",
        "depth",
        "dropped",
        "due",
        "ended",
        "entered",
        "expiry",
        "fence",
        "home",
        "kept_until",
        "leases",
        "nesting",
        "owner",
        "policy",
        "reason",
        "scopes",
        "slots",
        "stays",
        "strays",
        "tainted",
        "told",
        "ttl_ms",
        "wanted",
        "watchers",
    )

    def __init__(
        self, owner: str, calls: Calls, policy: Policy, grant: Granted, sent_at: float, home: Home, now: float
    ) -> None:
        services = home.runtime
        self.owner: str = owner
        self.calls: Calls = calls
        self.policy: Policy = policy
        self.home: Home = home
        self.fence: int = grant.fence
        self.abandoned: bool = grant.abandoned
        self.capacity: int = grant.capacity
        self.slots: tuple[int, ...] = grant.slots
        self.ttl_ms: int = policy.ttl_ms
        self.began: float = now
        self.reason: LossReason | None = None
        self.blocked: float = 0.0
        self.ended: bool = False
        self.entered: bool = False  # a task has it
        self.kept_until: float = 0.0  # clock time until which the name stays taken, however early it ends
        self.stays: str = policy.stays
        self.tainted: bool = False  # a request of the owner went unanswered
        self.depth: int = 1
        self.told: bool = False  # the loss was reported
        self.dropped: bool = False  # it was told that its user dropped a lease of it
        self.wanted: bool = False  # another asked its holder to finish
        self.leases: tuple[Level, ...] = ()  # not released, of tasks that still run
        self.strays: tuple[weakref.ref[Level], ...] = ()  # not released, of tasks that have ended
        self.nesting: tuple[Calls, ...] = ()  # requests for levels that have no lease yet
        self.scopes: tuple[Block, ...] = ()
        self.watchers: tuple[Watcher, ...] = ()
        self._clock = services.clock
        self._scheduler = services.scheduler
        self._limit = NEVER if policy.max_hold is None else now + policy.max_hold
        self.due: float = NEVER
        self.extend(sent_at, grant.pttl)

    # Its time.

    def extend(self, sent_at: float, pttl: int) -> None:
        """The server said, answering what was written at `sent_at`, that `pttl` ms were left."""
        # Not the later of the two: if the server's clock was stepped, the newer reply is the true one. And no more than
        # was requested: a clock that was stepped back may be corrected.
        ttl_ms, policy = self.ttl_ms, self.policy
        self.expiry: float = sent_at + (pttl if pttl < ttl_ms else ttl_ms) / 1000
        self.deadline: float = min(self.expiry - policy.margin, self._limit)
        self._retry = 0
        self._error: AiolockError | None = None
        self._silent = False  # the server did not answer while this loop ran
        self._patience = NEVER  # when a renewal on its way should have been answered
        self._renew_at = renew_at = sent_at + ttl_ms / 3000 if policy.renew else NEVER
        due, early = (renew_at, policy.early) if renew_at < self.deadline else (self.deadline, 0.0)
        self._scheduler.schedule(self, due, early)

    def loss_by_clock(self) -> LossReason | None:
        """The loss, by the clock: a blocked loop sees no timer. Changes nothing, and works in any thread."""
        return self._cause()[0]

    def check(self) -> LossReason | None:
        """The loss; marks it if its time has come. Only for the loop."""
        if self.reason is None and self._clock.now() >= self.deadline:
            reason, blocked = self._cause()
            if reason is not None:
                self.blocked = blocked
                self.lose(reason)
        return self.reason

    def lose(self, reason: LossReason) -> None:
        """Mark the loss, cancel what it guards, and tell of it; only the first one counts. Only for the loop."""
        if self.reason is not None or self.ended:
            return
        self.reason = reason
        self._scheduler.forget(self)
        for scope in self.scopes:
            _tell(scope.cancel, f"aiolock: lost {self.calls.name!r}: {reason.value}")
        self._tell_watchers(reason)
        if reason is LossReason.UNREACHABLE and self._error is None:
            self._error = self.home.unreachable
        self.home.lost(self)

    def end(self) -> None:
        """End it: it was released, moved, or given up."""
        self.ended = True
        self._scheduler.forget(self)
        self.depth = 0
        self.scopes = ()

    def explain(self) -> str:
        """Return why it was lost and what to do about it, in words."""
        assert self.reason is not None
        return explain_loss(self.reason, self.blocked, self._error)

    def raise_failure(self) -> None:
        """Raise what kept the last renewal from being judged, if anything did."""
        if self._error is not None:
            raise self._error

    def loss(self) -> LockLost:
        """Return the error for the marked loss."""
        error = self.failure()
        assert error is not None
        return error

    def failure(self) -> LockLost | None:
        """Return the error for the loss; None if there is none. By the clock, in any thread."""
        reason, blocked = self._cause()  # once: another thread may mark or end it meanwhile
        if reason is None:
            return None
        self.told = True
        name, why = self.calls.name, explain_loss(reason, blocked, self._error)
        fence = f" (fence {self.fence})" if self.fence else ""
        error = LockLost(name, f"lock {name!r}{fence} was lost: {why}", reason)
        if reason is LossReason.UNREACHABLE:
            error.__cause__ = self._error
        return error

    def no_fence(self) -> int:
        """Raise: it was granted without one."""
        name = self.calls.name
        raise ConfigurationError(
            name, f"this lease of lock {name!r} has no fence, as those who share the lock keep none: acquire it first "
            "through fenced_lock() if they do, too; otherwise call lease.ensure() before you write"
        )  # fmt: skip

    # Who waits for what becomes of it.

    async def wait_wanted(self, lease: Level) -> None:
        """Wait until another asks for it; or for a loss, or for the end of `lease`."""
        if self.check() is None and lease._result is None and not self.wanted:
            await self.watch(lease, wants=True)

    def watch(self, lease: Level, wants: bool = False) -> asyncio.Future[LossReason | None]:
        """Return what is done with the loss; or with None at the end of `lease`, or when it is wanted."""
        told: asyncio.Future[LossReason | None] = asyncio.get_running_loop().create_future()
        if self.check() is not None or lease._result is not None:
            told.set_result(self.reason)
        else:
            self.watchers += (Watcher(weakref.ref(lease), told, wants),)
            told.add_done_callback(self._unwatched)
        return told

    def _unwatched(self, told: asyncio.Future[LossReason | None]) -> None:
        self.watchers = tuple([other for other in self.watchers if other.told is not told])

    def _tell_watchers(self, reason: LossReason) -> None:
        for watcher in self.watchers:
            if not watcher.told.done():
                _tell(watcher.told.set_result, reason)
        self.watchers = ()

    def want(self) -> None:
        """Another asks its holder to finish."""
        self.wanted = True
        for watcher in self.watchers:
            if watcher.wants:
                watcher.end()

    def left(self, lease: Level) -> None:
        """A lease ended: no one needs to wait for what happens to it."""
        for watcher in self.watchers:
            if watcher.lease() is lease:
                watcher.end()

    def enter(self, policy: Policy, granted: float) -> None:
        """A task has it, or has it once more: by an acquisition with this policy, granted at that clock time."""
        self.entered, self.stays = True, self.stays or policy.stays
        if policy.hold_at_least:
            self.kept_until = max(self.kept_until, granted + policy.hold_at_least)

    def part_with(self, lease: Level) -> tuple[Watcher, ...]:
        """Return who watches `lease`, and forget them: it is given up for a while, and they go on watching it."""
        parting = tuple([watcher for watcher in self.watchers if watcher.lease() is lease])
        self.watchers = tuple([watcher for watcher in self.watchers if watcher.lease() is not lease])
        return parting

    def take_over(self, watchers: tuple[Watcher, ...]) -> None:
        """Tell those that watched an earlier hold of a lease what happens to this one."""
        self.watchers += watchers
        if self.wanted:
            self.want()
        if self.reason is not None:
            self._tell_watchers(self.reason)

    # Who shares it.

    def guarded(self, but: asyncio.Task[object] | None) -> bool:
        """Whether a task other than `but` is inside a guarded block."""
        return any(lease._guard is not None and lease._guard.task is not but for lease in self.leases)

    def weigh(self) -> None:
        """From now on its requests are for everything that its levels have together."""
        levels = [*self.nesting, *(lease._calls for lease in self.all_leases())]
        if levels:
            self.calls = joint(levels)

    def nested(self, calls: Calls) -> None:
        """A requested level has its lease, or will have none."""
        at = self.nesting.index(calls)
        self.nesting = (*self.nesting[:at], *self.nesting[at + 1 :])

    def all_leases(self) -> list[Level]:
        """The leases that are not released, including those that only their user can find."""
        return [*self.leases, *(lease for stray in self.strays if (lease := stray()) is not None)]

    def nesting_ttl_ms(self, wanted: int) -> int:
        """The ttl for one level more: the longest one requested. Only `renew()` extends a fixed lease."""
        if self.policy.renew:
            self.ttl_ms = max(self.ttl_ms, wanted)
            return self.ttl_ms
        return max(1, int((self.expiry - self._clock.now()) * 1000))

    # Renewal, as the scheduler sees it.

    def verify(self) -> None:
        """Ask the server at once; a fixed lease is checked, not extended."""
        if self.reason is None and not self.ended:
            self._renew_at = self._clock.now()
            self._rewatch()

    def on_due(self, now: float, late: float) -> Hold | None:
        if self.check() is not None or self.ended:
            return None
        if now >= self._patience:
            self._silent = not self._blocks(late)
            self._patience = NEVER if self._silent else now + self._grace
        wants = now >= self._renew_at - self.policy.early
        if wants:
            self._renew_at = NEVER
            self._patience = min(self._patience, now + self._grace)
        self._rewatch()
        return self if wants else None

    def part(self) -> tuple[Batch, Part]:
        ttl_ms = self.ttl_ms if self.policy.renew else 0
        return self.calls.renew_many, self.calls.renewal(self.owner, self.fence, ttl_ms)

    def judged(self, outcome: RenewOutcome, sent_at: float, before_ms: int = 0) -> None:
        """The server's verdict.

        Args:
            outcome: the verdict.
            sent_at: clock time at which it was asked for.
            before_ms: the ttl before another was wanted; 0 if none was.
        """
        # An answer that is read past the deadline revives nothing: another thread may have read `lost` since.
        if self.check() is not None or self.ended:
            return
        if isinstance(outcome, Renewed):
            deadline, pttl = self.deadline, outcome.pttl
            self.extend(sent_at, pttl)
            if self.policy.renew or pttl >= self.ttl_ms:  # a fixed one may only have been looked at
                self.home.extended(self, deadline, pttl, sent_at)
        elif isinstance(outcome, Failed):
            if before_ms and not outcome.transient:
                self.ttl_ms = before_ms  # a store that refuses a longer one would refuse each renewal
            message = f"could not renew {self.calls.name!r}: {outcome.error}"
            self.unknown(BackendError(self.calls.name, message, outcome.transient))
        else:
            self.lose(outcome.reason)

    def unknown(self, error: BackendError) -> None:
        if self.check() is not None or self.ended:
            return
        first = self._error is None
        self._error = error
        self._silent = True
        self._patience = NEVER
        self._retry += 1
        pause = min(self.ttl_ms / 10_000, 0.05 * 2 ** min(self._retry, 10))
        self._renew_at = self._clock.now() + pause
        self._rewatch()
        if first:
            self.home.runtime.warn(NOT_RENEWED, self.calls.name, error)

    @property
    def _grace(self) -> float:
        """Seconds without an answer after which a server counts as silent."""
        return self.ttl_ms / 10_000

    def _blocks(self, late: float) -> bool:
        """A loop that is this late may have missed an answer, or the time to ask."""
        return late >= (self.policy.margin or LATE)

    def _cause(self) -> tuple[LossReason | None, float]:
        """Why it is lost, and how many seconds the loop was blocked if that is why; changes nothing."""
        if self.reason is not None or self.ended:
            return self.reason, self.blocked
        now = self._clock.now()
        if now < self.deadline:
            return None, 0.0
        if self.deadline == self._limit:
            return LossReason.MAX_HOLD, 0.0
        if not self.policy.renew:
            return LossReason.EXPIRED, 0.0
        late = self._scheduler.lateness(now)
        if self._blocks(late) and not self._silent:
            return LossReason.LOOP_BLOCKED, late
        return LossReason.UNREACHABLE, 0.0

    def _rewatch(self) -> None:
        due, early = min(self.deadline, self._patience), 0.0
        if self._renew_at < due:
            due, early = self._renew_at, self.policy.early
        self._scheduler.schedule(self, due, early)


def _tell(tell: Callable[[Any], object], what: object) -> None:
    """Call back, whatever that raises: others must be told, too."""
    try:
        tell(what)
    except Exception:
        logger.exception("an error while reporting a loss; the others still get it")
