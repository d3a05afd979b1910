"""How attempts end: each does, in time, with an error that is known, and nothing is lost without a cause."""

from __future__ import annotations

from ..attempt import NEVER, Attempt
from ..history import History
from ..period import Period
from ..violation import Violation

MODEL = "endings"
KNOWN = {"AcquireTimeout", "WaitTimeout", "BackendError", "QuorumError", "NotAcquired", "Busy", "Unavailable"}
WANTED = {"EXPIRED", "MAX_HOLD", "CLOSED", "REVOKED"}
"""Reasons of a loss that somebody asked for."""
EARLY = 0.1
LATE = 3.0
"""Seconds that a noisy machine may add."""


def check(history: History) -> Violation | None:
    """Return the first attempt that ended badly."""
    if history.failed:
        return Violation(MODEL, history.failed[0]["text"], (history.failed[0],))
    last = max(history.last.values(), default=0.0)
    for attempt in history.attempts:
        found = _never(history, attempt) or _error(attempt) or _time(history, attempt) or _loss(history, attempt)
        if found is not None:
            return found
    patience = history.plan.get("patience")
    if patience is None:
        return None
    for moment in history.healed:
        for attempt in history.attempts:
            if attempt.began < moment < min(attempt.granted, attempt.ended):
                until = moment + patience + history.paused(Period(moment, moment + patience))
                waited = until < min(attempt.granted, attempt.ended, history.killed.get(attempt.pid, last))
                if waited and history.calm(Period(moment, until)):
                    return Violation.of(MODEL, f"{attempt} still waited {patience:.1f} s after all was well", attempt)
    return None


def _never(history: History, attempt: Attempt) -> Violation | None:
    if attempt.ended == NEVER and attempt.pid not in history.killed:
        return Violation.of(MODEL, f"{attempt} never ended, though nobody killed its process", attempt)
    return None


def _error(attempt: Attempt) -> Violation | None:
    known = KNOWN | ({"NotOwned"} if attempt.kind in ("resume", "job") else set())
    if attempt.how == "missed" and attempt.reason not in known:
        return Violation.of(MODEL, f"{attempt} ended with {attempt.reason}", attempt)
    return None


def _time(history: History, attempt: Attempt) -> Violation | None:
    if attempt.timeout is None:
        return None
    waited = Period(attempt.began, min(attempt.granted, attempt.ended))
    if attempt.reason.endswith(("Timeout", "Busy")) and waited.seconds < attempt.timeout - EARLY:
        return Violation.of(MODEL, f"{attempt} ended {attempt.timeout - waited.seconds:.1f} s too early", attempt)
    longest = attempt.timeout + history.plan.get("request_timeout", 5.0) + LATE
    if waited.until < NEVER and waited.seconds > longest + history.paused(waited):
        return Violation.of(MODEL, f"{attempt} waited {waited.seconds:.1f} s, for at most {attempt.timeout} s", attempt)
    return None


def _loss(history: History, attempt: Attempt) -> Violation | None:
    if attempt.how != "lost" or attempt.reason in WANTED:
        return None
    if attempt.kind == "reserve" and attempt.ended > attempt.began + 0.9 * attempt.within - EARLY:
        return None  # its time was over before it had its answers
    inside = Period(min(attempt.granted, attempt.ended), attempt.ended)
    if any(force.meets(inside) for name in attempt.names for force in history.forced(name)):
        return None
    period = Period(inside.since - history.plan.get("ttl", 30.0), attempt.ended)
    if history.calm(period) and not history.stood_still(attempt.pid, period):
        return Violation.of(MODEL, f"{attempt} was lost ({attempt.reason}), though nothing was wrong", attempt)
    return None
