"""What the runner of a round sees of it while it lasts."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable
from pathlib import Path

from .journal import Event, Events

Who = tuple[int, str]
"""A process, and what it uses."""


class Lookout:
    """Follows a journal.

    Args:
        path: the journal.

    Attributes:
        ready: the processes that have begun.
        failures: errors that no user may see.
    """

    def __init__(self, path: Path) -> None:
        self._events = Events(path)
        self._seen = 0
        self._uses: dict[tuple[int, int], str] = {}
        self._granted: dict[Who, list[float]] = defaultdict(list)
        self.ready: set[int] = set()
        self.failures: list[str] = []

    def look(self) -> None:
        """Take in what was written since the last time."""
        events = self._events.so_far()
        for event in events[self._seen :]:
            self._take(event)
        self._seen = len(events)

    def missing(self, pids: Collection[int], uses: Iterable[str], since: float) -> set[Who]:
        """Who has not been granted what it uses since then."""
        self.look()
        return {
            (pid, use) for pid in pids for use in uses if not any(at >= since for at in self._granted[pid, use][-1:])
        }

    def first(self, pids: Collection[int], use: str, since: float) -> float:
        """When the last of these processes got in for the first time since then."""
        return max(next(at for at in self._granted[pid, use] if at >= since) for pid in pids)

    def history(self) -> list[Event]:
        """All events."""
        return self._events.so_far()

    def _take(self, event: Event) -> None:
        pid, what, at = event["pid"], event["event"], event["at"]
        if what == "began":
            self._uses[pid, event["op"]] = event["use"]
        elif what == "granted":
            self._granted[pid, self._uses[pid, event["op"]]].append(at)
        elif what == "ended":
            use = self._uses.pop((pid, event["op"]))
            if use in ("latch", "joined") and event["how"] == "done":
                self._granted[pid, use].append(at)
        elif what == "ready":
            self.ready.add(pid)
        elif what == "failed":
            self.failures.append(f"process {pid}: {event['text']}")
