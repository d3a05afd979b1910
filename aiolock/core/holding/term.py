"""How long one owner still has what it was granted, the renewals that keep it, and why it is lost."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import Any

from ...errors import AiolockError, BackendError, LockLost, LossReason
from ...log import Log
from ...scripts.base import Part
from ...scripts.outcomes import Failed, Granted, Renewed, RenewOutcome
from ..calls import Batch, Calls
from ..policy import Policy
from ..scheduler import LATE, NEVER
from ..services import Services

logger: Log = Log("aiolock.hold")


EXPLAINED = {
    LossReason.EXPIRED: "its ttl ran out, and it is not renewed (renew=False): raise the ttl, or call lease.renew()",
    LossReason.UNREACHABLE: "renewals got no answer until its deadline: check the connection to Redis",
    LossReason.DELETED: "the server no longer has its key (flushed, evicted, restarted empty, or deleted by hand)",
    LossReason.TAKEN_OVER: "another owner holds it now",
    LossReason.LOOP_BLOCKED: "the event loop was blocked, or the process stopped: move blocking calls to a thread",
    LossReason.REVOKED: "force_release() was called",
    LossReason.MAX_HOLD: "it was held for longer than max_hold",
    LossReason.CLOSED: "its manager was closed",
}


def explain_loss(reason: LossReason, blocked: float, failure: AiolockError | None) -> str:
    """Return the reason, and its remedy.

    Args:
        reason: why.
        blocked: seconds that the loop stood still, if that is the reason.
        failure: what kept the last renewals from being judged; None if there was no answer at all.
    """
    if reason is LossReason.UNREACHABLE and failure is not None:
        return f"{reason.name}: no renewal succeeded until its deadline: {failure}"
    lasting = f" for at least {blocked:.1f} s" if reason is LossReason.LOOP_BLOCKED else ""
    return f"{reason.name}{lasting}: {EXPLAINED[reason]}"


def tells_of_losses(error: Exception) -> bool:
    """Whether it is a `LockLost`, or a group of nothing else, as a task group raises it."""
    if isinstance(error, ExceptionGroup):
        return error.split(LockLost)[1] is None
    return isinstance(error, LockLost)


def tell_of_loss(tell: Callable[[Any], object], what: object) -> None:
    """Call back, whatever that raises: others must be told, too."""
    try:
        tell(what)
    except Exception:
        logger.exception("an error while telling of a loss; the others are told of it")


class Term:
    """One owner's time, from its grant to its end or its loss; subclasses say what a loss does.

    Args:
        owner: who has it.
        calls: requests for all that it has.
        policy: how it is held.
        grant: what the server granted.
        sent_at: clock time before which that cannot have been.
        services: the manager's.

    Attributes:
        calls: requests for all that the owner has.
        reason: why it is lost; None while it is not.
        blocked: seconds that the loop stood still, if that is the reason.
        deadline: clock time at which it is lost unless renewed.
        expiry: clock time at which the server may let it expire.
    """

    __slots__ = (
        "_clock",
        "_error",
        "_limit",
        "_patience",
        "_renew_at",
        "_retry",
        "_scheduler",
        "_silent",
        "blocked",
        "calls",
        "deadline",
        "due",
        "ended",
        "expiry",
        "fence",
        "owner",
        "policy",
        "reason",
        "ttl_ms",
    )

    def __init__(
        self, owner: str, calls: Calls, policy: Policy, grant: Granted, sent_at: float, services: Services
    ) -> None:
        clock = services.clock
        self.calls: Calls = calls
        self.policy: Policy = policy
        self.owner: str = owner
        self.fence: int = grant.fence
        self.ttl_ms: int = policy.ttl_ms
        self.reason: LossReason | None = None
        self.blocked: float = 0.0
        self.ended: bool = False
        self._clock = clock
        self._scheduler = services.scheduler
        self._limit = NEVER if policy.max_hold is None else clock.now() + policy.max_hold
        self.due: float = NEVER
        self.extend(sent_at, grant.pttl)

    def extend(self, sent_at: float, pttl: int) -> None:
        """The server said, answering what was written at `sent_at`, that `pttl` ms were left."""
        # Not the later of the two: if the server's clock was stepped, the newer reply is the true one. And no more than
        # was requested: a clock that was stepped back may be corrected.
        ttl_ms, policy = self.ttl_ms, self.policy
        self.expiry: float = sent_at + (pttl if pttl < ttl_ms else ttl_ms) / 1000
        deadline = self.expiry - policy.margin
        self.deadline: float = deadline if deadline < self._limit else self._limit
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
        """Mark the loss, and tell of it; only the first one counts. Only for the loop."""
        if self.reason is not None or self.ended:
            return
        self.reason = reason
        self._scheduler.forget(self)
        self._lost(reason)

    @abstractmethod
    def _lost(self, reason: LossReason) -> None:
        """It is lost: called once."""

    def _extended(self, deadline: float, pttl: int, sent_at: float) -> None:
        """It was extended by `pttl` ms, by the answer to what was written at `sent_at`.

        Args:
            deadline: clock time at which it would have been lost.
            pttl: ms that the server keeps it.
            sent_at: clock time.
        """

    def end(self) -> None:
        """End it: it was released, moved, or given up."""
        self.ended = True
        self._scheduler.forget(self)

    def explain(self) -> str:
        """Return why it was lost and what to do about it, in words."""
        assert self.reason is not None
        return explain_loss(self.reason, self.blocked, self._error)

    def raise_failure(self) -> None:
        """Raise what kept the last renewal from being judged, if anything did."""
        if self._error is not None:
            raise self._error

    # Renewal, as the scheduler sees it.

    def verify(self) -> None:
        """Ask the server at once; a fixed lease is checked, not extended."""
        if self.reason is None and not self.ended:
            self._renew_at = self._clock.now()
            self._rewatch()

    def on_due(self, now: float, late: float) -> Term | None:
        if self.check() is not None or self.ended:
            return None
        if now >= self._patience:
            self._silent = not self._blocks(late)
            self._patience = NEVER if self._silent else now + self._grace
        wants = now >= self._renew_at - self.policy.early
        if wants:
            self._renew_at = NEVER
            self._patience = now + self._grace
        self._rewatch()
        return self if wants else None

    def part(self) -> tuple[Batch, Part]:
        ttl_ms = self.ttl_ms if self.policy.renew else 0
        return self.calls.renew_many, self.calls.renewal(self.owner, self.fence, ttl_ms)

    def judged(self, outcome: RenewOutcome, sent_at: float) -> None:
        # An answer that is read past the deadline revives nothing: another thread may have read `lost` since.
        if self.check() is not None or self.ended:
            return
        if isinstance(outcome, Renewed):
            deadline, pttl = self.deadline, outcome.pttl
            self.extend(sent_at, pttl)
            if self.policy.renew or pttl >= self.ttl_ms:  # a fixed one may only have been looked at
                self._extended(deadline, pttl, sent_at)
        elif isinstance(outcome, Failed):
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
            logger.warning(
                "could not renew lock %r, trying until its deadline: %s",
                self.calls.name,
                error,
                extra={"lock_name": self.calls.name},
            )

    @property
    def _grace(self) -> float:
        """Seconds without an answer after which a server counts as silent."""
        return self.ttl_ms / 10_000

    def _blocks(self, late: float) -> bool:
        """A loop that is this late may have missed an answer, or the time to ask."""
        return late >= (self.policy.margin or LATE)

    def _cause(self) -> tuple[LossReason | None, float]:
        """Why it is lost, and how many seconds the loop stood still if that is why; changes nothing."""
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
        due, early = self.deadline, 0.0
        if self._patience < due:
            due = self._patience
        if self._renew_at < due:
            due, early = self._renew_at, self.policy.early
        self._scheduler.schedule(self, due, early)
