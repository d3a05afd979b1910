"""The fenced mutex: fences rise with grants, and what they protect refuses those who are late."""

from __future__ import annotations

from bisect import bisect_left
from itertools import accumulate

from ..attempt import NEVER, Attempt
from ..history import History
from ..period import Period
from ..violation import Violation

MODEL = "fenced mutex"


def check(history: History) -> Violation | None:
    """Return the first fence that is not above all earlier ones, or the first write that went wrong."""
    for space in ("lock", "rw", "semaphore"):
        for name, attempts in history.of(space).items():
            granted = [attempt for attempt in attempts if attempt.outermost and attempt.granted < NEVER]
            found = (
                _unequal(history, granted)
                or _rising(history, granted)
                or _in_turn(history, name, granted)
                or _refused(history, name, granted)
            )
            if found is not None:
                return found
    return _totals(history)


def _mints(attempt: Attempt) -> bool:
    return attempt.kind != "read"


def _higher(one: Attempt, other: Attempt) -> Attempt:
    return other if other.fence > one.fence else one


def _began_again(history: History, one: Attempt, other: Attempt) -> bool:
    """Whether fences may have begun again between two grants: see docs/explanation/guarantees.md."""
    moments = sorted((one.began, one.granted, other.began, other.granted))
    return history.forgot_fences(Period(moments[0], moments[-1]))


def _unequal(history: History, granted: list[Attempt]) -> Violation | None:
    seen: dict[int, Attempt] = {}
    for attempt in filter(_mints, granted):
        other = seen.setdefault(attempt.fence, attempt)
        if other is not attempt and not _began_again(history, other, attempt):
            return Violation.of(MODEL, f"{attempt} has the fence of {other}", other, attempt)
    return None


def _rising(history: History, granted: list[Attempt]) -> Violation | None:
    """Whoever asked after another was granted has the higher fence."""
    earlier = sorted(granted, key=lambda attempt: attempt.granted)
    moments = [attempt.granted for attempt in earlier]
    highest = list(accumulate(earlier, _higher))
    for attempt in granted:
        at = bisect_left(moments, attempt.began)
        if at == 0:
            continue
        other = highest[at - 1]
        # A reader has the fence of the last writer that the server knows; it may have lost one.
        forgotten = not _mints(attempt) and history.lost_data(Period(other.began, attempt.granted))
        if attempt.fence < other.fence + _mints(attempt) and not (forgotten or _began_again(history, other, attempt)):
            return Violation.of(MODEL, f"{attempt} asked when {other} was in, and has no higher fence", other, attempt)
    return None


def _in_turn(history: History, name: str, granted: list[Attempt]) -> Violation | None:
    """Of those that exclude each other, whoever was in after another had left has the higher fence.

    Unless two may have been inside: then the one that was in later may have been granted first.
    """
    alone = sorted((attempt for attempt in granted if attempt.alone), key=lambda attempt: attempt.left)
    ends = [attempt.left for attempt in alone]
    highest = list(accumulate(alone, _higher))
    for attempt in alone:
        at = bisect_left(ends, attempt.granted)
        if at == 0 or attempt.fence >= highest[at - 1].fence:
            continue
        other = highest[at - 1]
        if not _late(history, name, attempt) and not _began_again(history, other, attempt):
            return Violation.of(MODEL, f"{attempt} came after {other}, and has a lower fence", other, attempt)
    return None


def _late(history: History, name: str, attempt: Attempt) -> bool:
    """Whether something explains that it was no longer alone when it came in."""
    waiting = Period(attempt.began, attempt.granted)
    return attempt.lost_at_once or any(excuse.meets(waiting) for excuse in history.excuses(attempt, name))


def _refused(history: History, name: str, granted: list[Attempt]) -> Violation | None:
    """A write that was accepted comes before all with a higher fence; only those may be refused that may be late."""
    writes = sorted(
        ((write, attempt) for attempt in granted for write in attempt.writes_to(name)), key=lambda pair: pair[0]["at"]
    )
    highest: Attempt | None = None
    pending = sorted(writes, key=lambda pair: pair[0]["since"])
    at = 0
    for write, attempt in pending:
        while at < len(writes) and writes[at][0]["at"] < write["since"]:
            done, other = writes[at]
            if done["accepted"] and (highest is None or other.fence > highest.fence):
                highest = other
            at += 1
        if write["accepted"] and highest is not None and attempt.fence < highest.fence:
            return Violation.of(MODEL, f"{attempt} wrote to {name!r} after {highest}", highest, attempt)
        if write["accepted"] is False and write["since"] < attempt.left:  # else it knew of its loss, and wrote on
            during = Period(write["since"], write["at"])
            if not any(excuse.meets(during) for excuse in history.excuses(attempt, name)):
                later = [other for other in granted if other.fence > attempt.fence and other.began < write["at"]]
                if any(_began_again(history, other, attempt) for other in later):
                    continue
                words = f"{attempt} was refused by {name!r}, and nothing excuses that it was late"
                return Violation.of(MODEL, words, attempt, *later[-1:])
    return None


def _totals(history: History) -> Violation | None:
    """What the resource counts is what it has accepted, and perhaps what nobody heard the answer of."""
    for name, total in history.totals.items():
        known = unknown = 0
        for attempt in history.attempts:
            if name in attempt.names:
                answers = [write["accepted"] for write in attempt.writes_to(name)]
                known += answers.count(True)
                unknown += answers.count(None) + (attempt.ended == NEVER)
        if not known <= total <= known + unknown:
            words = f"{name!r} counts {total} writes; {known} were accepted, and {unknown} more may have been"
            return Violation(MODEL, words, ())
    return None
