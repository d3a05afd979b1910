"""What has been run so far, in a file, so that a long search can be stopped and go on."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path

from .search import Outcome, Search


@dataclass
class Done:
    """How far a search is.

    Attributes:
        units: how many there are.
        runs: by the number of the unit.
        bad: how many runs broke a promise.
        seconds: how long it took, over all sessions.
    """

    units: int = 0
    runs: dict[int, int] = field(default_factory=dict)
    bad: int = 0
    seconds: float = 0.0

    @property
    def whole(self) -> bool:
        """Whether nothing is left of it."""
        return 0 < self.units <= len(self.runs)


class Log:
    """A file with a line for each unit that is done.

    Args:
        path: where it is; it is made if it is missing.
        tree: what the sources are: what was run with other sources does not count.
        anew: forget what it has.

    Attributes:
        bad: how many runs broke a promise.
    """

    def __init__(self, path: Path, tree: str, *, anew: bool = False) -> None:
        self._path = path
        self._searches: dict[str, Done] = {}
        self.bad = 0
        lines = path.read_text(encoding="utf-8").splitlines() if path.exists() and not anew else []
        if not lines or json.loads(lines[0]) != {"tree": tree}:
            path.parent.mkdir(exist_ok=True)
            path.write_text(json.dumps({"tree": tree}) + "\n", encoding="utf-8")
            lines = []
        for line in lines[1:]:
            self._count(json.loads(line))

    def _count(self, entry: dict[str, object]) -> None:
        done = self._of(str(entry["search"]))
        match entry:
            case {"unit": int(unit), "runs": int(runs), "bad": int(bad)}:
                done.runs[unit] = runs
                done.bad += bad
                self.bad += bad
            case {"units": int(units)}:
                done.units = units
            case {"seconds": float(seconds)}:
                done.seconds += seconds

    def _write(self, search: Search, **more: object) -> None:
        entry = {"search": str(search), **more}
        with self._path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(entry) + "\n")
        self._count(entry)

    def _of(self, search: str) -> Done:
        return self._searches.setdefault(search, Done())

    def has(self, search: Search, unit: int) -> bool:
        """Whether a unit is done."""
        return unit in self._of(str(search)).runs

    def begins(self, search: Search, units: int) -> None:
        """A search begins, or goes on; it has so many units."""
        self._write(search, units=units)

    def add(self, search: Search, unit: int, outcome: Outcome) -> None:
        """A unit is done."""
        self._write(search, unit=unit, runs=outcome.runs, bad=outcome.bad, told=outcome.told)

    def spent(self, search: Search, seconds: float) -> None:
        """A search has taken so long."""
        self._write(search, seconds=seconds)

    def line(self, search: Search) -> str:
        """How far a search is."""
        done = self._of(str(search))
        runs = sum(done.runs.values())
        share = 100 * len(done.runs) / max(1, done.units)
        return f"{search}: {share:.0f} %, {runs:,} runs, {done.bad} broken promises"

    def summary(self) -> dict[str, dict[str, float]]:
        """Of each kind: how many scenes are exhausted, of how many that were begun; how many runs in how many seconds;
        and how many broke a promise.
        """
        kinds: dict[str, dict[str, float]] = {}
        for name, done in self._searches.items():
            empty = {"scenes": 0, "begun": 0, "runs": 0, "seconds": 0, "broken": 0}
            kind = kinds.setdefault(name.partition(" of ")[0], empty)
            kind["scenes"] += done.whole
            kind["begun"] += 1
            kind["runs"] += sum(done.runs.values())
            kind["seconds"] += round(done.seconds)
            kind["broken"] += done.bad
        return kinds
