"""The plots that a run has, and the lines that they show."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .figure import Series
from .plot import MOST, draw

FIRST = (
    "aiolock", "lock", "aiolock fair_lock", "fair_lock", "base", "bare BLPOP", "redis-py", "steindamm",
    "redis-lock-py", "coredis",
)  # fmt: skip
"""The order in which lines get a place; all others follow in their own order."""
THICK = ("aiolock", "lock")


@dataclass(frozen=True, slots=True)
class Kind:
    """A plot that a run may have.

    Attributes:
        name: its name in the results.
        title: above it.
        x_label: below it.
        y_label: beside it.
        log_x: the x axis is logarithmic.
        log_y: the y axis is logarithmic.
    """

    name: str
    title: str
    x_label: str
    y_label: str
    log_x: bool = True
    log_y: bool = True


@dataclass(frozen=True, slots=True)
class Plot:
    """A plot that was drawn.

    Attributes:
        kind: the name of its kind.
        path: its file.
        title: what it shows.
        left_out: labels of lines that found no place.
    """

    kind: str
    path: Path
    title: str
    left_out: Sequence[str]


KINDS = [
    Kind("wait between processes", "Wait of a task, 4 × 5 tasks", "one wait in this many is longer", "ms"),
    Kind(
        "hand-off between processes",
        "Hand-off to another process, 4 × 5 tasks",
        "one hand-off in this many takes longer",
        "ms",
    ),
    Kind("throughput", "Throughput, each task with its own name", "tasks", "pairs/s"),
    Kind("cost against number of names", "Cost of an operation, by names", "names", "µs"),
    Kind("cost against number of waiters", "Cost of an operation, by waiters", "waiters", "µs"),
    Kind("cost against number of leases", "Cost of an operation, by leases", "leases", "µs"),
    Kind("commands per hand-off", "Requests per hand-off", "waiting processes", "requests", log_y=False),
]


def write_plots(results: dict[str, Any], path: Path) -> list[Plot]:
    """Write one SVG for each plot that has a line; their names begin like that of the results."""
    written = []
    for kind in KINDS:
        shown, left_out = chosen([Series(**line) for line in results["series"] if line["plot"] == kind.name])
        if not shown:
            continue
        target = path.with_name(f"{path.stem}-{kind.name.replace(' ', '-')}.svg")
        drawn = draw(kind.title, kind.x_label, kind.y_label, shown, kind.log_x, kind.log_y, THICK)
        target.write_text(drawn, encoding="utf-8")
        written.append(Plot(kind.name, target, kind.title, left_out))
    return written


def chosen(lines: Sequence[Series]) -> tuple[list[Series], list[str]]:
    """Choose as many lines as you can tell apart, and name the rest; of two with the same label the first counts."""
    unlike: dict[str, Series] = {}
    for line in lines:
        if line.points:
            unlike.setdefault(line.label, line)
    rank = {label: number for number, label in enumerate(FIRST)}
    ordered = sorted(unlike.values(), key=lambda line: rank.get(line.label, len(rank)))
    return ordered[:MOST], [line.label for line in ordered[MOST:]]
