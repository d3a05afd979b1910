"""Statistics over the times at which the tasks of several processes asked, entered and left."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from statistics import median
from typing import Any

from .contention import Visit, Visits
from .figure import percentile


@dataclass(frozen=True)
class Crowd:
    """Processes whose tasks want one name.

    Attributes:
        processes: what the tasks of each process saw.
        permits: how many may be inside at once.
    """

    processes: Sequence[Visits]
    permits: int = 1

    @cached_property
    def visits(self) -> list[tuple[Visit, int]]:
        """The visits of all processes by time of entry, each with the number of its process."""
        all_of_them = [(visit, number) for number, seen in enumerate(self.processes) for visit in seen.times]
        return sorted(all_of_them, key=lambda visit: visit[0].entered)

    @cached_property
    def handoffs(self) -> list[float]:
        """Seconds from the end of a body in one process to the entry that it made possible in another.

        With n permits, that is the entry n places later.
        """
        leaving = sorted((visit.left, number) for visit, number in self.visits)
        found = []
        for place, (visit, number) in enumerate(self.visits[self.permits :]):
            left, leaver = leaving[place]
            if leaver != number and visit.asked < left:
                found.append(visit.entered - left)
        return found

    @property
    def share(self) -> float:
        """The share of the entries that `handoffs` covers: the rest follow another task of their own process."""
        return len(self.handoffs) / max(1, len(self.visits) - self.permits)

    def entered(self, began: float, ended: float) -> int:
        """Count the entries between these times."""
        return sum(began < visit.entered < ended for visit, _ in self.visits)

    def moves(self, began: float, ended: float) -> int:
        """Count those of them that follow an entry of another process."""
        pairs = zip(self.visits, self.visits[1:], strict=False)
        return sum(before != now and began < visit.entered < ended for (_, before), (visit, now) in pairs)

    @cached_property
    def waits(self) -> list[float]:
        """Seconds that the tasks waited; tasks that never got in count, too."""
        return [visit.wait for visit, _ in self.visits] + [wait for seen in self.processes for wait in seen.waiting]

    @cached_property
    def entries(self) -> list[int]:
        """How often each task entered while all of them kept asking."""
        return [
            each[task]
            for seen in self.processes
            for each in [Counter(visit.task for visit in seen.times if visit.entered < seen.until)]
            for task in range(seen.tasks)
        ]

    @property
    def evenness(self) -> float:
        """Entries of the task with the fewest, as a share of the entries of the task with the most."""
        return min(self.entries) / max(1, *self.entries)

    @property
    def rate(self) -> float:
        """Entries per second of all tasks, from the first entry until they stopped asking."""
        until = max(seen.until for seen in self.processes)
        return sum(self.entries) / (until - self.visits[0][0].entered)

    @property
    def overlaps(self) -> int:
        """How many visits began while the body of an earlier one still ran."""
        found, last = 0, 0.0
        for visit, _ in self.visits:
            found += visit.entered < last
            last = max(last, visit.left)
        return found


def summary(crowds: Sequence[Crowd], bare: Sequence[Crowd]) -> dict[str, Any]:
    """Summarize some rounds beside those of BLPOP; durations in seconds, None for what never happened."""
    pairs = list(zip(crowds, bare, strict=True))
    times = [time for crowd in crowds for time in crowd.handoffs]
    waits = [wait for crowd in crowds for wait in crowd.waits]
    halves = [median(one.handoffs) / median(other.handoffs) for one, other in pairs if one.handoffs]
    entries = min(crowds, key=lambda crowd: crowd.evenness).entries
    return {
        "p50": percentile(times, 0.5) if times else None, "p99": percentile(times, 0.99) if times else None,
        "ratio": median(halves) if halves else None, "number": len(times),
        "share": median(crowd.share for crowd in crowds),
        "wait": {
            "p50": percentile(waits, 0.5), "p99": percentile(waits, 0.99),
            "ratio": median(percentile(one.waits, 0.99) / percentile(other.waits, 0.99) for one, other in pairs),
        },
        "longest": max(waits), "stuck": sum(len(seen.waiting) for crowd in crowds for seen in crowd.processes),
        "least": min(entries), "most": max(entries), "rate": median(crowd.rate for crowd in crowds),
        "rate_ratio": median(one.rate / other.rate for one, other in pairs),
    }  # fmt: skip
