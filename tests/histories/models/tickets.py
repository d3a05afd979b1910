"""Tickets: a lock that is detached is resumed once at most, with a higher fence, and by nobody else in between."""

from __future__ import annotations

from collections import defaultdict

from ..attempt import NEVER, Attempt
from ..history import History
from ..period import Period
from ..violation import Violation

MODEL = "ticket"


def check(history: History) -> Violation | None:
    """Return the first ticket that was worth too much or too little."""
    holders = history.of("lock")
    uses: dict[str, list[Attempt]] = defaultdict(list)
    for attempt in history.attempts:
        if attempt.ticket is not None:
            uses[attempt.ticket].append(attempt)
    for giver in history.attempts:
        if giver.detached is None:
            continue
        used = uses[giver.detached["ticket"]]
        found = _worth_too_much(giver, used, holders[giver.names[0]]) or _refused(history, giver, used)
        if found is not None:
            return found
    return None


def _worth_too_much(giver: Attempt, used: list[Attempt], holders: list[Attempt]) -> Violation | None:
    resumed = [attempt for attempt in used if attempt.granted < NEVER]
    if len(resumed) > 1:
        return Violation.of(MODEL, f"{resumed[0]} and {resumed[1]} used one ticket", giver, *resumed)
    for attempt in resumed:
        if attempt.fence <= giver.fence:
            return Violation.of(MODEL, f"{attempt} has no higher fence than {giver} had", giver, attempt)
        for other in holders:
            if giver.fence < other.fence < attempt.fence and other.granted < NEVER:
                words = f"{other} had the name between {giver} and {attempt}"
                return Violation.of(MODEL, words, giver, other, attempt)
    return None


def _refused(history: History, giver: Attempt, used: list[Attempt]) -> Violation | None:
    """A ticket that is neither used nor too old is good."""
    assert giver.detached is not None
    until = giver.left + giver.detached.get("lasts", 0.0)
    for attempt in used:
        others = [other for other in used if other is not attempt and other.began < attempt.ended]
        refused = attempt.reason == "NotOwned" and attempt.ended < until and not others
        if refused and history.calm(Period(giver.left, attempt.ended)):
            return Violation.of(MODEL, f"{attempt} was refused a good ticket", giver, attempt)
    return None
