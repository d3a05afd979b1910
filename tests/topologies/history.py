"""What happened to some locks, read from the notes of the processes that used them."""

from __future__ import annotations

from itertools import pairwise
from typing import Any, NamedTuple

from .stalls import Stalls

Event = dict[str, Any]


class Hold(NamedTuple):
    """From when until when a process was inside."""

    name: str
    pid: int
    fence: int
    since: float
    until: float


class Overlap(NamedTuple):
    """Two processes were inside one name for this many seconds, and the first one's process was not standing still."""

    seconds: float
    first: Hold
    second: Hold


class Attempt(NamedTuple):
    """A task wanted a lock.

    Attributes:
        end: "enter", "missed", "lost", or "" if it did not end.
        error: the type of what a missed attempt raised.
    """

    name: str
    pid: int
    since: float
    until: float
    end: str
    error: str
    text: str


class History:
    """Several names' holds and attempts.

    Args:
        events: the notes of all processes.
    """

    def __init__(self, events: list[Event]) -> None:
        self.stalls = Stalls(events)
        leaves = {_which(event): event for event in events if event["event"] == "leave"}
        self.holds = sorted(
            (
                Hold(event["name"], event["pid"], event["fence"], event["at"], leaves[_which(event)]["at"])
                for event in events
                if event["event"] == "enter" and _which(event) in leaves and not self._late(event)
            ),
            key=lambda hold: hold.since,
        )
        self.unfinished = [event for event in events if event["event"] == "enter" and _which(event) not in leaves]
        ends: dict[tuple[int, int], Event] = {}
        for event in events:
            if event["event"] in ("enter", "missed", "lost"):
                ends.setdefault(_which(event), event)
        self.attempts = [_attempt(event, ends.get(_which(event))) for event in events if event["event"] == "ask"]

    def _late(self, event: Event) -> bool:
        """It was lost before the first line of its body, because the process stood still, and it knows that."""
        return bool(event["lost"]) and self.stalls.during(event) is not None

    @property
    def names(self) -> set[str]:
        return {hold.name for hold in self.holds}

    def of(self, name: str) -> list[Hold]:
        """The holds of a name, in the order in which they began."""
        return [hold for hold in self.holds if hold.name == name]

    def overlaps(self) -> list[Overlap]:
        """All that no stall explains, the longest one first."""
        found = []
        for name in self.names:
            open_: list[Hold] = []
            for hold in self.of(name):
                open_ = [other for other in open_ if other.until > hold.since]
                for other in open_:
                    if not self._stood_still(other, hold.since):
                        seconds = min(other.until, hold.until) - hold.since
                        found.append(Overlap(seconds, other, hold))
                open_.append(hold)
        return sorted(found, reverse=True)

    @property
    def window(self) -> float:
        """For how long two were inside at most."""
        return max((overlap.seconds for overlap in self.overlaps()), default=0.0)

    def check_fences(self) -> None:
        """Fences rise strictly in the order of grants. Two grants of which one came from a server that was no longer
        the master have no order among each other.
        """
        for name in self.names:
            holds = self.of(name)
            assert len({hold.fence for hold in holds}) == len(holds), f"two holds of {name} have one fence"
            for earlier, later in pairwise(holds):
                if later.since > earlier.until:
                    assert later.fence > earlier.fence, f"{later} after {earlier}"

    def waits(self, moment: float) -> list[Attempt]:
        """The attempts that had begun and not ended then, in the order in which they ended."""
        waiting = [attempt for attempt in self.attempts if attempt.since < moment < attempt.until]
        return sorted(waiting, key=lambda attempt: attempt.until)

    def paused(self, since: float, until: float) -> float:
        """For how many seconds in between processes stood still, each of them counted: a turn passes through all."""
        return sum(max(0.0, min(until, stall.until) - max(since, stall.since)) for stall in self.stalls)

    def _stood_still(self, hold: Hold, at: float) -> bool:
        return any(stall.pid == hold.pid and stall.since <= at <= stall.until for stall in self.stalls)


def _which(event: Event) -> tuple[int, int]:
    return event["pid"], event.get("attempt", -1)


def _attempt(asked: Event, end: Event | None) -> Attempt:
    until, how = (float("inf"), "") if end is None else (end["at"], end["event"])
    more = {} if end is None else end
    return Attempt(asked["name"], asked["pid"], asked["at"], until, how, more.get("error", ""), more.get("text", ""))
