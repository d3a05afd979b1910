"""Why a lease was lost, in words, and what to do about it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..errors import AiolockError, LockLost, LossReason
from ..log import Log

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
