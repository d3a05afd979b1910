"""The latch: a number that goes down by one with each count, once for each `by`, and then stays at zero.

A history of it is right if every operation can be put at one moment between its begin and its end, so that each
answers what one server, which does one thing after the other, would have answered.
"""

from __future__ import annotations

from ..attempt import NEVER, Attempt
from ..history import History
from ..period import Period
from ..violation import Violation

MODEL = "latch"


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
    """Whether one order of the operations explains all their answers."""
    total = attempts[0].permits
    sure = [attempt for attempt in attempts if _answered(attempt)]
    # A count whose reply is lost is written again: it happened at one moment, and its answer is of a later one.
    again = [attempt for attempt in sure if attempt.kind == "count" and attempt.by]
    maybe = again + [attempt for attempt in attempts if not _answered(attempt) and attempt.kind == "count"]
    seen: set[tuple[frozenset[int], frozenset[int], int, frozenset[str]]] = set()
    stack: list[tuple[frozenset[int], frozenset[int], int, frozenset[str]]] = [
        (frozenset(range(len(sure))), frozenset(range(len(maybe))), total, frozenset())
    ]
    while stack:
        state = stack.pop()
        if state in seen:
            continue
        seen.add(state)
        todo, open_, left, counted = state
        if not todo:
            return True
        first = min(sure[number].ended for number in todo)  # whatever comes next began before that
        for number in todo:
            attempt = sure[number]
            if attempt.began <= first:
                after, by = _counted(attempt, left, counted)
                if _answers(attempt, after):
                    stack.append((todo - {number}, open_, after, by))
        for number in open_:
            if maybe[number].began <= first:
                after, by = _counted(maybe[number], left, counted)
                stack.append((todo, open_ - {number}, after, by))
    return False


def _answered(attempt: Attempt) -> bool:
    return attempt.counted is not None or (attempt.kind == "wait" and attempt.how == "done")


def _last(attempt: Attempt) -> float:
    return attempt.began if attempt.ended == NEVER else attempt.ended


def _counted(attempt: Attempt, left: int, counted: frozenset[str]) -> tuple[int, frozenset[str]]:
    if attempt.kind != "count" or left == 0 or attempt.by in counted:
        return left, counted
    return left - 1, counted | ({attempt.by} if attempt.by else frozenset())


def _answers(attempt: Attempt, left: int) -> bool:
    return left == (0 if attempt.kind == "wait" else attempt.counted)


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
