"""A measured number and the target for it."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Literal

TAILS = (1.1, 1.25, 1.5, 2, 3, 5, 10, 20, 50, 100, 200, 500, 1_000)
"""One value in this many is greater: 2 is the median, 100 the 99th percentile."""
Verdict = Literal["aim", "must", "missed", "measured", "absent"]


@dataclass(slots=True)
class Figure:
    """One number of a row.

    Attributes:
        row: letter of the row.
        what: what was measured.
        value: the median; None if it could not be measured here, and then `note` says why.
        unit: of the value; "×" for a ratio.
        must: the target it has to reach, or None if it has none.
        aim: a better value to aim for.
        at_least: bigger is better.
        note: how it was measured, or why not.
        samples: the value of each round, if there were rounds.
    """

    row: str
    what: str
    value: float | None
    unit: str = "×"
    must: float | None = None
    aim: float | None = None
    at_least: bool = True
    note: str = ""
    samples: list[float] = field(default_factory=list)

    @classmethod
    def median(
        cls, row: str, what: str, samples: Sequence[float], unit: str = "×", must: float | None = None,
        aim: float | None = None, at_least: bool = True, note: str = "",
    ) -> Figure:  # fmt: skip
        """Return the figure of several rounds."""
        return cls(row, what, statistics.median(samples), unit, must, aim, at_least, note, list(samples))

    @property
    def verdict(self) -> Verdict:
        """How the value compares with its target."""
        if self.value is None:
            return "absent"
        if self.must is None:
            return "measured"
        if self.aim is not None and self._reaches(self.value, self.aim):
            return "aim"
        return "must" if self._reaches(self.value, self.must) else "missed"

    def _reaches(self, value: float, bound: float) -> bool:
        return value >= bound if self.at_least else value <= bound

    def as_json(self) -> dict[str, object]:
        """Return the figure with its verdict, for `from_json` to read."""
        return {**asdict(self), "verdict": self.verdict}

    @classmethod
    def from_json(cls, told: dict[str, object]) -> Figure:
        """Read what `as_json` returned."""
        return cls(**{name: value for name, value in told.items() if name != "verdict"})  # type: ignore[arg-type]


@dataclass(slots=True)
class Series:
    """A line of a plot.

    Attributes:
        plot: the name of its plot.
        label: the name of the line.
        points: x and y of each point.
        note: what to read beside it.
    """

    plot: str
    label: str
    points: list[tuple[float, float]]
    note: str = ""


@dataclass(slots=True)
class Findings:
    """What a row found."""

    figures: list[Figure] = field(default_factory=list)
    series: list[Series] = field(default_factory=list)

    def as_json(self) -> dict[str, object]:
        """Return it as JSON, for another process and for the file of results."""
        return {
            "figures": [figure.as_json() for figure in self.figures],
            "series": [asdict(line) for line in self.series],
        }


def percentile(values: Sequence[float], share: float) -> float:
    """Return the value that `share` of them do not exceed; NaN if there are none."""
    if not values:
        return math.nan
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def tail(values: Sequence[float]) -> list[tuple[float, float]]:
    """For each n in `TAILS`, return n and the value that one in n exceeds."""
    return [(number, percentile(values, 1 - 1 / number)) for number in TAILS if number <= len(values)]
