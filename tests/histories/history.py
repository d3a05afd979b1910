"""What happened to some names, read from the notes of the processes that used them."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Iterable
from typing import Any, NamedTuple

from .attempt import NEVER, Attempt
from .journal import Event
from .period import Period, union

NOTICED = 0.1
"""Seconds in which a process that stood still notices its loss, and notes that it left."""


class Fault(NamedTuple):
    """Something was broken on purpose.

    Attributes:
        excuses: for so many seconds after its end two may be inside.
        names: of these; of all if empty.
        loses: the server may have lost what it knew.
    """

    what: str
    period: Period
    excuses: float
    names: tuple[str, ...]
    loses: bool

    @property
    def excused(self) -> Period:
        """When two may be inside; empty for most."""
        since, until = self.period
        return Period(since, until + self.excuses if self.excuses else since)


class History:
    """All that some processes and those who disturbed them noted.

    Args:
        events: the notes of all.

    Attributes:
        plan: what they used, and how.
        attempts: in the order in which they began.
        faults: in the order in which they began.
        healed: when nothing was wrong any more.
        stalls: when a process stood still and could notice no loss, by its pid.
        failed: what the processes noted that must not happen.
    """

    def __init__(self, events: Iterable[Event]) -> None:
        self.plan: dict[str, Any] = {}
        self.attempts: list[Attempt] = []
        self.healed: list[float] = []
        self.failed: list[Event] = []
        self.totals: dict[str, int] = {}
        self.last: dict[int, float] = {}
        self.killed: dict[int, float] = {}
        self.ready: dict[int, float] = {}
        self.stalls: dict[int, list[Period]] = defaultdict(list)
        known: dict[tuple[int, int], Attempt] = {}
        begun: dict[int, Event] = {}
        mended: dict[int, float] = {}
        for event in events:
            pid, at = event["pid"], event["at"]
            self.last[pid] = max(at, self.last.get(pid, at))
            if "op" in event:
                self._of_an_attempt(event, known)
                continue
            match event["event"]:
                case "plan":
                    self.plan |= event
                case "ready":
                    self.ready[pid] = at
                case "stalled":
                    self.stalls[pid].append(Period(event["since"], event["until"] + NOTICED))
                case "killed":
                    self.killed[event["process"]] = at
                case "fault":
                    begun[event["number"]] = event
                case "mended":
                    mended[event["number"]] = at
                case "failed":
                    self.failed.append(event)
                case "healed":
                    self.healed.append(at)
                case "total":
                    self.totals[event["name"]] = event["count"]
        self.faults = [_fault(event, mended.get(number, NEVER)) for number, event in begun.items()]
        # The network is in the process of the plan: it stands still with it.
        standing = self.stalls[self.plan["pid"]] if self.plan else []
        self._disturbances = union([*(fault.period for fault in self.faults), *standing])
        self._finish(known)
        self._forces = self.of("force")

    def _of_an_attempt(self, event: Event, known: dict[tuple[int, int], Attempt]) -> None:
        which = event["pid"], event["op"]
        if event["event"] == "began":
            known[which] = Attempt.of(event)
        else:
            known[which].add(event)

    def _finish(self, known: dict[tuple[int, int], Attempt]) -> None:
        self.attempts = sorted(known.values(), key=lambda attempt: attempt.began)
        for attempt in self.attempts:
            attempt.root = attempt if attempt.outer is None else known[attempt.pid, attempt.outer].root
            if attempt.granted < NEVER and attempt.left == NEVER:
                attempt.left = self.last[attempt.pid]  # it was killed: what it did after its last note is not known

    def of(self, space: str) -> dict[str, list[Attempt]]:
        """The attempts on each name of a space ("lock", "rw", "semaphore" or "latch"), in the order of their begin."""
        found: dict[str, list[Attempt]] = defaultdict(list)
        for attempt in self.attempts:
            if attempt.space == space:
                for name in attempt.names:
                    found[name].append(attempt)
        return found

    def excuses(self, attempt: Attempt, name: str) -> list[Period]:
        """When another may be inside a name although this one is: a fault's documented window; or its process stood
        still, and it did lose what it had.
        """
        excused = [fault.excused for fault in self.faults if fault.excuses and (not fault.names or name in fault.names)]
        return excused + self.forced(name) + (self.stalls[attempt.pid] if attempt.how != "done" else [])

    def forced(self, name: str) -> list[Period]:
        """When somebody had ended by force what was held there, and its holder may not know it yet."""
        limits = self.plan.get("ttl", 30.0) / 3 + self.plan.get("request_timeout", 5.0) + NOTICED
        return [Period(force.began, min(force.ended, self.last[force.pid]) + limits) for force in self._forces[name]]

    def stood_still(self, pid: int, period: Period) -> bool:
        """Whether a process stood still then."""
        return any(stall.meets(period) for stall in self.stalls[pid])

    def paused(self, period: Period) -> float:
        """For how many seconds of a period processes stood still, each of them counted: a turn passes through all."""
        stalls = (stall for stalls in self.stalls.values() for stall in stalls)
        return sum(max(0.0, min(period.until, s.until) - max(period.since, s.since)) for s in stalls)

    def calm(self, period: Period) -> bool:
        """Whether no fault was there at any moment of a period, and the network did not stand still."""
        at = bisect_left(self._disturbances, period.since, key=lambda found: found.until)
        return at == len(self._disturbances) or self._disturbances[at].since > period.until

    def lost_data(self, period: Period) -> bool:
        """Whether the server may have lost what it knew."""
        return any(fault.loses and fault.period.meets(period) for fault in self.faults)

    def forgot_fences(self, period: Period) -> bool:
        """Whether fences may have begun again: what the server knew was lost when its clock had been set back."""
        steps = [fault.period.since for fault in self.faults if fault.what == "step_clock"]
        losses = (fault.period for fault in self.faults if fault.loses and fault.what != "step_clock")
        return any(loss.meets(period) and min(steps, default=NEVER) < loss.until for loss in losses)

    def recoveries(self) -> list[float]:
        """After each time when all was well again: seconds until each process that was there had been granted something
        that it or another wanted.
        """
        grants: dict[int, list[float]] = defaultdict(list)
        for attempt in self.attempts:
            if attempt.granted < NEVER:
                grants[attempt.pid].append(attempt.granted)
        found = []
        for moment in self.healed:
            seconds = 0.0
            for pid, times in grants.items():
                times.sort()
                if self.ready.get(pid, 0.0) <= moment <= self.killed.get(pid, self.last[pid]):
                    at = bisect_left(times, moment)
                    seconds = max(seconds, (times[at] if at < len(times) else NEVER) - moment)
            found.append(seconds)
        return found

    def counts(self) -> dict[str, Any]:
        """What there was, for a report."""
        writes = [write for attempt in self.attempts for write in attempt.writes]
        return {
            "operations": len(self.attempts),
            "grants": sum(attempt.granted < NEVER for attempt in self.attempts),
            "writes": sum(write["accepted"] is True for write in writes),
            "refused": sum(write["accepted"] is False for write in writes),
            "faults": dict(Counter(fault.what for fault in self.faults)),
            "lost": dict(Counter(attempt.reason for attempt in self.attempts if attempt.how == "lost")),
        }


def _fault(event: Event, until: float) -> Fault:
    names = tuple(event.get("names") or ())
    period = Period(event["at"], until)
    return Fault(event["what"], period, event.get("excuses") or 0.0, names, bool(event.get("loses")))
