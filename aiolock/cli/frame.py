"""What `top` shows at one moment, and how it comes to know."""

from __future__ import annotations

import asyncio
import time
from collections import Counter, deque
from collections.abc import AsyncIterator
from dataclasses import dataclass

from ..backends.reader import Reader
from ..scripts.view import NameView
from .namespace import Namespace
from .text import facts_of

SCANS = 25
"""Steps of the scan between two looks: each finds the names among 1000 keys."""
WINDOW = 5.0
"""Seconds over which hand-offs are counted, if the looks are not further apart."""
KEPT = 10.0
"""Seconds that a name is still looked at when nobody holds it."""

Name = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Row:
    """One name.

    Attributes:
        view: as it was last seen.
        hand_offs: how often a second its fence was seen to change; there may have been more between two looks.
    """

    view: NameView
    hand_offs: float


@dataclass(frozen=True, slots=True)
class Frame:
    """All names that are held or waited for, those with most waiters first.

    Attributes:
        rows: one a name.
        servers: addresses of the masters.
    """

    rows: tuple[Row, ...]
    servers: tuple[str, ...]

    @property
    def held(self) -> int:
        """How many names are held."""
        return sum(row.view.taken for row in self.rows)

    @property
    def waiting(self) -> int:
        """How many places all queues have."""
        return sum(row.view.waiting for row in self.rows)

    @property
    def hand_offs(self) -> float:
        """Of all names, a second."""
        return sum(row.hand_offs for row in self.rows)

    @property
    def oldest_wait(self) -> float | None:
        """Of all queues, in seconds."""
        return max((row.view.oldest_wait for row in self.rows if row.view.oldest_wait is not None), default=None)

    def facts(self) -> dict[str, object]:
        """What JSON says of it."""
        return {
            "servers": list(self.servers),
            "held": self.held,
            "waiting": self.waiting,
            "hand_offs_per_second": round(self.hand_offs, 1),
            "oldest_wait": None if self.oldest_wait is None else round(self.oldest_wait, 3),
            "names": [{**facts_of(row.view), "hand_offs_per_second": round(row.hand_offs, 1)} for row in self.rows],
        }


class Watched:
    """The names of some servers, looked at again and again.

    Args:
        names: where to look.
        pattern: which names.
        interval: seconds between two looks.
    """

    def __init__(self, names: Namespace, pattern: str, interval: float = 1.0) -> None:
        self._names = names
        self._pattern = pattern
        self._interval = interval
        self._began = time.monotonic()
        self._scans: dict[Reader, AsyncIterator[set[Name]]] = {}
        self._known: dict[Reader, dict[Name, float]] = {}  # until when each is looked at
        self._fences: dict[Name, int] = {}
        self._changes: deque[tuple[float, Name]] = deque()  # when the fence of which name was seen to change

    async def first_frame(self) -> Frame:
        """Search for all names, and look once at each. Cost: as `Namespace.find`."""
        for master in self._names.survey.masters:
            while await self._search(master):
                pass
        return await self.next_frame()

    async def next_frame(self) -> Frame:
        """Look once at all known names, and search on for others.

        Cost: on each master a round trip for 500 names, and at most 25 more to search.
        """
        masters = self._names.survey.masters
        views = [view for each in await asyncio.gather(*map(self._inspect, masters)) for view in each]
        now = time.monotonic()
        for view in views:
            name = view.kind, view.name
            if self._fences.setdefault(name, view.fence) != view.fence:
                self._fences[name] = view.fence
                self._changes.append((now, name))
        window = max(WINDOW, self._interval)
        while self._changes and self._changes[0][0] < now - window:
            self._changes.popleft()
        self._fences = {
            name: fence for name, fence in self._fences.items() if any(name in known for known in self._known.values())
        }
        counted = Counter(name for _, name in self._changes)
        passed = max(0.1, min(window, now - self._began))
        rows = [Row(view, counted[view.kind, view.name] / passed) for view in views]
        shown = [row for row in rows if row.view.listed or row.hand_offs]
        shown.sort(key=lambda row: (-row.view.waiting, -row.hand_offs, row.view.name, row.view.kind))
        return Frame(tuple(shown), tuple(master.address for master in masters))

    async def _inspect(self, master: Reader) -> list[NameView]:
        known = self._known.setdefault(master, {})
        for _ in range(SCANS):
            if not await self._search(master):
                break
        views = await self._names.inspect(master, known)
        now = time.monotonic()
        for view in views:
            if view.listed:
                known[view.kind, view.name] = now + KEPT
        for name in [name for name, until in known.items() if until < now]:
            del known[name]  # the next scan finds it again, and it is looked at once more
        return views

    async def _search(self, master: Reader) -> bool:
        """Take a step of the scan; return whether there is another one before it starts again."""
        scan = self._scans.setdefault(master, self._names.names(master, self._pattern))
        found = await anext(scan, None)
        if found is None:
            del self._scans[master]
            return False
        known = self._known.setdefault(master, {})
        for name in found:
            known.setdefault(name, 0.0)
        return True
