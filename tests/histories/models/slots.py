"""Which permits of a semaphore: no two have the same at the same time, and none is beyond their number."""

from __future__ import annotations

from collections.abc import Iterator

from ..attempt import NEVER, Attempt
from ..history import History
from ..period import Period
from ..violation import Violation
from .exclusion import Stay, crowded

MODEL = "slots"


def check(history: History) -> Violation | None:
    """Return the first moment at which two had the same permit."""
    found = list(_violations(history))
    return min(found, key=lambda violation: max(event["at"] for event in violation.events), default=None)


def _violations(history: History) -> Iterator[Violation]:
    for name, attempts in history.of("semaphore").items():
        stays: dict[int, list[Stay]] = {}
        for attempt in attempts:
            if attempt.granted < NEVER and attempt.slots and max(attempt.slots) >= attempt.permits:
                yield Violation.of(MODEL, f"{attempt} has {attempt.slots} of {attempt.permits} permits", attempt)
            for at, slot in enumerate(attempt.slots):
                excuses = history.excuses(attempt, name)
                parts = [Stay(part, 1, attempt) for part in _has(attempt, at).without(excuses)]
                stays.setdefault(slot, []).extend(parts)
        for slot, theirs in stays.items():
            if found := crowded(MODEL, f"slot {slot} of {name}", 1, theirs):
                yield found


def _has(attempt: Attempt, at: int) -> Period:
    """For how long it has its slot in this place; what it gives back are the last ones."""
    until = next((moment for moment, left in attempt.kept if left <= at), attempt.left)
    return Period(attempt.granted, until)
