"""The latch: a number that goes down by one with each count, once for each `by`, and then stays at zero.

A history of it is right if each count, and each answer, can be put at one moment between the begin and the end of its
call, so that each answers what one server, which does one thing after the other, would have answered.
"""

from __future__ import annotations

from ..attempt import NEVER, Attempt
from ..history import History
from ..period import Period
from ..violation import Violation

MODEL = "latch"
State = tuple[frozenset[int], frozenset[int], int, frozenset[str]]
"""Who has to be answered, what may still be counted, how many are missing, and whose counts were taken."""


def check(history: History) -> Violation | None:
    """Return the first latch that no single server can have been."""
    for name, attempts in history.of("latch").items():
        if history.lost_data(Period(attempts[0].began, max(map(_last, attempts)))):
            continue
        found = _unexplained(name, attempts) or _late(history, attempts)
        if found is not None:
            return found
    return None


def possible(attempts: list[Attempt]) -> bool:
    """Whether one order of what happened explains all answers.

    A count whose answer was lost is written again: it has happened at one moment, and its answer is of a later one.
    """
    sure = [attempt for attempt in attempts if _answered(attempt)]
    counts = [attempt for attempt in attempts if attempt.kind == "count"]
    seen: set[State] = set()
    stack: list[State] = [
        (frozenset(range(len(sure))), frozenset(range(len(counts))), attempts[0].permits, frozenset())
    ]
    while stack:
        state = stack.pop()
        if state in seen:
            continue
        seen.add(state)
        asked, counting, left, counted = state
        if not asked:
            return True
        first = min(sure[number].ended for number in asked)  # whatever comes next began before that
        for number in asked:
            attempt = sure[number]
            done = attempt.kind != "count" or _id(attempt) in counted or left == 0
            if attempt.began <= first and done and left == (0 if attempt.kind == "wait" else attempt.counted):
                stack.append((asked - {number}, counting, left, counted))
        for number in counting:
            attempt = counts[number]
            if attempt.began <= first:
                new = left > 0 and _id(attempt) not in counted
                stack.append(
                    (asked, counting - {number}, left - new, counted | ({_id(attempt)} if new else frozenset()))
                )
    return False


def _id(attempt: Attempt) -> str:
    return attempt.by or f"{attempt.pid}:{attempt.number}"


def _answered(attempt: Attempt) -> bool:
    return attempt.counted is not None or (attempt.kind == "wait" and attempt.how == "done")


def _last(attempt: Attempt) -> float:
    return attempt.began if attempt.ended == NEVER else attempt.ended


def _unexplained(name: str, attempts: list[Attempt]) -> Violation | None:
    if possible(attempts):
        return None
    ends = sorted(attempt.ended for attempt in attempts if _answered(attempt))
    for moment in ends:  # the shortest beginning that cannot be explained
        begun = [_until(attempt, moment) for attempt in attempts if attempt.began <= moment]
        if not possible(begun):
            answered = [attempt for attempt in attempts if _answered(attempt) and attempt.ended <= moment]
            words = f"no order of the counts explains what {max(answered, key=_last)} saw of {name!r}"
            return Violation.of(MODEL, words, *begun)
    raise AssertionError("the whole of it cannot be explained, but each beginning can")


def _until(attempt: Attempt, moment: float) -> Attempt:
    """What was known of it then."""
    if attempt.ended <= moment:
        return attempt
    known = Attempt.of(attempt.events[0])
    known.events = attempt.events[:1]
    return known


def _late(history: History, attempts: list[Attempt]) -> Violation | None:
    """Nobody waits in vain for a latch that is open."""
    opened = min((one.ended for one in attempts if _answered(one) and _answers_open(one)), default=NEVER)
    for attempt in attempts:
        in_vain = attempt.kind == "wait" and attempt.reason == "WaitTimeout" and attempt.began > opened
        if in_vain and history.calm(attempt.call) and not history.stood_still(attempt.pid, attempt.call):
            return Violation.of(MODEL, f"{attempt} waited in vain, though it was open", attempt)
    return None


def _answers_open(attempt: Attempt) -> bool:
    return attempt.kind == "wait" or attempt.counted == 0
