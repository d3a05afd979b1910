"""In which order those who wait come in, while nothing goes wrong.

The fair lock: task by task, in the order of their places. The lock: process by process, so that whoever waits is passed
by a bounded number of younger ones.
"""

from __future__ import annotations

from bisect import bisect_right

from ..attempt import NEVER, Attempt
from ..history import History
from ..period import Period
from ..violation import Violation

SETTLED = 3.0
"""Seconds after a fault in which places may still be missing or late."""


def check(history: History) -> Violation | None:
    """Return the first one who came in too early."""
    for attempts in history.of("lock").values():
        granted = sorted(
            (attempt for attempt in attempts if attempt.outermost and attempt.granted < NEVER),
            key=lambda attempt: attempt.fence,
        )
        waited = [attempt for attempt in granted if attempt.queued < NEVER and _calm(history, attempt)]
        found = _overtaken(granted, waited) or _passed(history, granted, waited)
        if found is not None:
            return found
    return None


def _overtaken(granted: list[Attempt], waited: list[Attempt]) -> Violation | None:
    """The fences say in which order the server granted."""
    latest: Attempt | None = None
    waiting = {id(attempt) for attempt in waited if attempt.kind == "fair"}
    for attempt in granted:
        if attempt.kind != "fair":
            continue
        if id(attempt) in waiting and latest is not None and latest.began > attempt.queued:
            words = f"{latest} came in before {attempt}, which was in the queue when it asked"
            return Violation.of("fair order", words, attempt, latest)
        if latest is None or attempt.began > latest.began:
            latest = attempt
    return None


def _passed(history: History, granted: list[Attempt], waited: list[Attempt]) -> Violation | None:
    """Each process that waits has a turn after all others had one. A turn serves those who waited when it began, some
    tasks at most, and one more may get in at its beginning and one at its end.
    """
    plan = history.plan
    if "processes" not in plan:
        return None
    turn = plan["processes"] * (plan.get("handoff_limit", 16) + 2)
    places = {id(attempt): place for place, attempt in enumerate(granted)}
    begins = sorted(attempt.began for attempt in granted)
    for attempt in waited:
        if attempt.kind != "lock":
            continue
        place = places[id(attempt)]
        younger = bisect_right(begins, attempt.granted) - bisect_right(begins, attempt.queued)
        if min(place, younger) <= turn:
            continue  # quickly: there are not so many
        before = [other for other in granted[:place] if other.began > attempt.queued]
        tasks = sum(other.pid == attempt.pid and other.began < attempt.began < other.granted for other in granted)
        bound = turn * (1 + tasks // plan.get("handoff_limit", 16))
        if len(before) > bound:
            words = f"{attempt} waited while {len(before)} younger ones came in; at most {bound} may"
            return Violation.of("cohort order", words, attempt, *before[-2:])
    return None


def _calm(history: History, attempt: Attempt) -> bool:
    period = Period(attempt.queued - SETTLED, attempt.granted)
    return history.calm(period) and not history.stood_still(attempt.pid, period)
