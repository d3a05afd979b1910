"""What was released is free, also when another server takes the master's place just then, by order."""

from __future__ import annotations

from itertools import pairwise

from ..attempt import NEVER, Attempt
from ..history import History
from ..period import Period
from ..violation import Violation

ORDERED = "failover"
"""What the kinds of faults begin with that are such orders."""
LONG = 3.0
"""Seconds: a shorter ttl may be over before the release has reached the new master."""


def check(history: History) -> Violation | None:
    """Return the first attempt that was told of an abandoned lock, though its last holder had released it.

    Not on a quorum, where a node that has not heard of a release yet is enough to be told so: its page says that.
    """
    if history.plan.get("ttl", 30.0) < LONG or history.plan.get("place") == "quorum":
        return None
    for name, attempts in history.of("lock").items():
        granted = sorted(
            (attempt for attempt in attempts if attempt.outermost and attempt.granted < NEVER),
            key=lambda attempt: attempt.fence,
        )
        for before, attempt in pairwise(granted):
            period = Period(before.granted, attempt.granted)
            alone = len(attempt.names) == 1  # of several it is told if any was abandoned
            if alone and attempt.abandoned and _released(before) and _well(history, name, period, attempts):
                words = f"{attempt} was told that {before} had vanished, which had released it"
                return Violation.of("release", words, before, attempt)
    return None


def _released(attempt: Attempt) -> bool:
    return attempt.how == "done" and attempt.detached is None


def _well(history: History, name: str, period: Period, attempts: list[Attempt]) -> bool:
    """Whether nothing else went wrong: no other fault, no process that stood still or died, no one who gave up."""
    faults = [fault for fault in history.faults if fault.period.meets(period)]
    stalls = any(history.stood_still(pid, period) for pid in list(history.stalls))
    killed = any(at in period for at in history.killed.values())
    gave_up = any(attempt.ended in period and attempt.how not in ("done", "missed") for attempt in attempts)
    forced = any(force.meets(period) for force in history.forced(name))
    return not (stalls or killed or gave_up or forced) and all(fault.what.startswith(ORDERED) for fault in faults)
