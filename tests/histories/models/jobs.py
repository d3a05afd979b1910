"""Reserved jobs: from enqueue to its end one at a time has the name, and a reservation that is in force is good."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from ..attempt import NEVER, Attempt
from ..history import History
from ..period import Period, union
from ..violation import Violation
from .exclusion import Stay, crowded

MODEL = "reserved job"
EARLY = 0.01
"""Seconds by which clocks may differ."""
LATE = 0.2
"""Seconds in which a name is free after the end, or the expiry, of its reservation."""


@dataclass(eq=False)
class Job:
    """A reservation.

    Attributes:
        reserve: what got it.
        attempts: those of its job.
        revokes: what ended it otherwise.
    """

    reserve: Attempt
    attempts: list[Attempt] = field(default_factory=list)
    revokes: list[Attempt] = field(default_factory=list)

    @property
    def since(self) -> float:
        """From when on it was surely in force."""
        assert self.reserve.reserved is not None
        return float(self.reserve.reserved["at"])

    @property
    def until(self) -> float:
        """When somebody may have ended it."""
        return min(
            (*(attempt.finished for attempt in self.attempts), *(revoke.began for revoke in self.revokes)),
            default=NEVER,
        )

    def parts(self, history: History, before: float = NEVER) -> Iterator[Period]:
        """When it was surely in force, as far as attempts that began before that moment say so.

        In the queue, while it runs, and until it is tried again. Not after an attempt that was cancelled or lost.
        """
        begun = [attempt for attempt in self.attempts if attempt.began < before]
        waits = [(self.since, self.reserve.began + self.reserve.within)]
        parts = []
        for attempt in begun:
            if attempt.granted < NEVER and attempt.left < NEVER:
                parts.append(Period(attempt.granted, attempt.left))
                again = attempt.how == "done" and attempt.finished == NEVER
                if again and history.calm(Period(attempt.left - LATE, attempt.ended)):
                    waits.append((attempt.left, attempt.left + attempt.within))
        for since, until in waits:
            taken = min((attempt.began for attempt in begun if attempt.began >= since), default=NEVER)
            parts.append(Period(since, min(taken, until - EARLY)))
        for since, until in parts:
            if since < (until := min(until, self.until)):
                yield Period(since, until)

    def over(self, history: History, moment: float) -> float:
        """When it was surely over, in the eyes of somebody who asks at that moment."""
        ended = [attempt.ended for attempt in self.attempts if attempt.finished < NEVER and attempt.how == "done"]
        ended += [revoke.ended for revoke in self.revokes if revoke.how == "done"]
        if ended and history.calm(Period(self.since, moment)):
            return min(ended)
        asked = [self.reserve, *(attempt for attempt in self.attempts if attempt.began < moment)]
        ttl = float(history.plan.get("ttl", 10.0))
        return max(_answered(history, one) + max(one.within, 0.0 if one is self.reserve else ttl) for one in asked)


def check(history: History) -> Violation | None:
    """Return the first job that ran without its reservation, or beside another one."""
    for name, attempts in history.of("job").items():
        jobs = _jobs(attempts)
        stays = [
            Stay(part, 1, job.reserve)
            for job in jobs
            for part in union(job.parts(history))
            if not history.lost_data(Period(job.reserve.began, part.until))
        ]
        found = (
            _together(name, jobs, stays)
            or _ran_without(history, jobs)
            or _refused(history, jobs)
            or _not_reserved(history, attempts, jobs)
        )
        if found is not None:
            return found
    return None


def _jobs(attempts: list[Attempt]) -> list[Job]:
    jobs = {one.reserved["ticket"]: Job(one) for one in attempts if one.reserved is not None}
    for attempt in attempts:
        if attempt.ticket is not None and attempt.ticket in jobs:
            job = jobs[attempt.ticket]
            (job.attempts if attempt.kind == "job" else job.revokes).append(attempt)
    return list(jobs.values())


def _together(name: str, jobs: list[Job], stays: list[Stay]) -> Violation | None:
    """Two are reserved at the same time."""
    found = crowded(MODEL, name, 1, stays)
    if found is None:
        return None
    both = [job for job in jobs if job.reserve.events[0] in found.events]
    shown = [attempt for job in both for attempt in (job.reserve, *job.attempts, *job.revokes)]
    return Violation.of(MODEL, found.words, *shown)


def _answered(history: History, attempt: Attempt) -> float:
    """When its request was surely on no server's way any more."""
    if attempt.ended < NEVER:
        return attempt.ended
    return history.killed.get(attempt.pid, NEVER) + float(history.plan.get("request_timeout", 5.0))


def _ran_without(history: History, jobs: list[Job]) -> Violation | None:
    """It runs, though another one was reserved meanwhile, and has run to its end."""
    for job in jobs:
        for attempt in job.attempts:
            if attempt.granted == NEVER or history.lost_data(Period(job.reserve.began, attempt.granted)):
                continue
            for other in jobs:
                later = [one for one in jobs if one.reserve.began > job.since and one.reserve.began < attempt.ended]
                if later == [other] and any(one.finished < attempt.began for one in other.attempts):
                    words = f"{attempt} ran, though the job of {other.reserve} has, since {job.reserve}"
                    return Violation.of(MODEL, words, job.reserve, other.reserve, attempt)
    return None


def _refused(history: History, jobs: list[Job]) -> Violation | None:
    """It is not run, though its reservation was in force."""
    for job in jobs:
        for attempt in job.attempts:
            if attempt.reason != "NotOwned" or history.lost_data(Period(job.reserve.began, attempt.ended)):
                continue
            if any(
                part.since < attempt.began and attempt.ended < part.until for part in job.parts(history, attempt.began)
            ):
                words = f"{attempt} was not run, though {job.reserve} had reserved it"
                return Violation.of(MODEL, words, job.reserve, attempt)
    return None


def _not_reserved(history: History, attempts: list[Attempt], jobs: list[Job]) -> Violation | None:
    """Nobody has the name, nor asks for it, and it is refused."""
    known: dict[int, Job] = {id(job.reserve): job for job in jobs}
    reserves = [attempt for attempt in attempts if attempt.kind == "reserve"]
    for refused in reserves:
        if refused.how != "done" or refused.reserved is not None or not history.calm(_around(refused)):
            continue
        free = True
        for other in reserves:
            if other is refused or other.began > refused.ended:
                continue
            if other.call.meets(refused.call):
                free = False
            elif id(other) in known:
                free = free and known[id(other)].over(history, refused.ended) + LATE < refused.began
            elif other.how != "done":
                free = free and _answered(history, other) + other.within + LATE < refused.began
            if not free:
                break
        if free:
            return Violation.of(MODEL, f"{refused} was refused, though nobody had the name", refused)
    return None


def _around(attempt: Attempt) -> Period:
    return Period(attempt.began - LATE, attempt.ended)
