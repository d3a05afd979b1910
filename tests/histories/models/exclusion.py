"""Who may be inside a name at the same time: mutex, reentrant mutex, read-write lock and semaphore.

All four are one model. A name has so much room, an attempt takes so much of it, and what is nested in an attempt takes
nothing of its own. A mutex has room for one. A writer takes all of a read-write lock. A name that stays taken after its
release is as full as before.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from heapq import heappop, heappush
from itertools import pairwise
from typing import NamedTuple

from ..attempt import NEVER, Attempt
from ..history import History
from ..period import Period
from ..violation import Violation

MODELS = {
    "lock": "mutex", "rw": "read-write lock", "semaphore": "semaphore",
    "rlock": "mutex", "rrw": "read-write lock", "rsemaphore": "semaphore",
}  # fmt: skip
EARLY = 0.01
"""Seconds by which clocks may differ in what stays taken after a release."""
READERS = 1_000_000
"""The room of a read-write lock: more than there are readers."""


class Stay(NamedTuple):
    """An attempt, and all that is nested in it, takes so much room for so long."""

    period: Period
    weight: int
    attempt: Attempt


def check(history: History) -> Violation | None:
    """Return the first moment at which more were inside a name than there was room for."""
    found = [
        violation
        for space, model in MODELS.items()
        for name, attempts in history.of(space).items()
        if (violation := crowded(model, name, _room(attempts), list(_stays(history, name, attempts))))
    ]
    return min(found, key=lambda violation: max(event["at"] for event in violation.events), default=None)


def _room(attempts: list[Attempt]) -> int:
    space = attempts[0].space
    return {"mutex": 1, "read-write lock": READERS}.get(MODELS[space]) or max(attempt.permits for attempt in attempts)


def crowded(model: str, name: str, room: int, stays: list[Stay]) -> Violation | None:
    """Return the first moment at which more were inside than there was room for."""
    taken = 0
    ends: list[tuple[float, int]] = []
    inside: dict[int, Stay] = {}
    for number, stay in enumerate(sorted(stays, key=lambda stay: stay.period)):
        while ends and ends[0][0] <= stay.period.since:
            taken -= inside.pop(heappop(ends)[1]).weight
        if taken + stay.weight > room:
            others = {id(other.attempt): other.attempt for other in inside.values()}
            who = ", ".join(map(str, others.values()))
            words = f"{stay.attempt} was inside {name!r} together with {who}"
            return Violation.of(model, words, *others.values(), stay.attempt)
        taken += stay.weight
        inside[number] = stay
        heappush(ends, (stay.period.until, number))
    return None


def _stays(history: History, name: str, attempts: list[Attempt]) -> Iterator[Stay]:
    families: dict[tuple[int, int], list[Attempt]] = defaultdict(list)
    for attempt in attempts:
        if attempt.granted < NEVER and attempt.root is not None:
            families[attempt.pid, attempt.root.number].append(attempt)
    resumed = {attempt.ticket: attempt for attempt in attempts if attempt.ticket and attempt.granted < NEVER}
    for family in families.values():
        excuses = [excuse for attempt in family for excuse in history.excuses(attempt, name)]
        for period, weight in _takes(family):
            for part in period.without(excuses):
                yield Stay(part, weight, family[0])
        for attempt in family:
            if attempt.kept_until - EARLY > attempt.left and not _ended_early(history, name, attempt):
                yield Stay(Period(attempt.left, attempt.kept_until - EARLY), _weight(attempt), attempt)
            after = resumed.get(attempt.detached["ticket"]) if attempt.detached else None
            if after is not None:  # it was resumed: so no other can have had it in between
                for part in Period(attempt.left, after.began).without(history.excuses(after, name)):
                    yield Stay(part, 1, attempt)


def _ended_early(history: History, name: str, attempt: Attempt) -> bool:
    """Whether the name need not stay taken: it was freed by force, or the server has forgotten it."""
    period = Period(attempt.began, attempt.kept_until)
    return history.lost_data(period) or any(force.meets(period) for force in history.forced(name))


def _takes(family: list[Attempt]) -> Iterator[tuple[Period, int]]:
    """How much a family takes, and when: as much as the one of it that takes most."""
    parts = [part for attempt in family for part in _parts(attempt)]
    moments = sorted({moment for period, _ in parts for moment in period})
    for since, until in pairwise(moments):
        weight = max((weight for period, weight in parts if period.since <= since and period.until >= until), default=0)
        if weight:
            yield Period(since, until), weight


def _weight(attempt: Attempt) -> int:
    return READERS if attempt.kind in ("write", "rwrite") else attempt.weight if attempt.permits > 1 else 1


def _parts(attempt: Attempt) -> Iterator[tuple[Period, int]]:
    weight = _weight(attempt)
    since, until = attempt.inside
    for moment, left in [*attempt.kept, (until, 0)]:
        yield Period(since, moment), weight
        since, weight = moment, left
