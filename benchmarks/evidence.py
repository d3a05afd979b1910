"""The parts of the page of evidence: libraries side by side, and what the last long run of faults saw."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from textwrap import fill
from typing import Any

from .tables import NOTHING, WRONG, is_wrong, number, table

Json = dict[str, Any]
OURS = "aiolock"
"""Which row the others are compared with."""
LEFT_OUT = ("aiolock renew=False",)
"""What only the report has."""


@dataclass(frozen=True, slots=True)
class Column:
    """A number of each library.

    Attributes:
        head: above it, with its unit.
        value: the number; None if it was not measured.
        at_least: more is better.
    """

    head: str
    value: Callable[[Json], float | None]
    at_least: bool = False


def _against_base(tasks: int) -> Callable[[Json], float | None]:
    return lambda peer: dict(peer.get("uncontended", {}).get("crowds", [])).get(tasks, {}).get("ratio")


def _p99(seen: Json) -> float | None:
    return seen["p99"] * 1e3 if "p99" in seen else None


def _shared(peer: Json) -> float | None:
    found = peer.get("handoff", {})
    return found["least"] / found["most"] if found.get("most") else None


def _asked(peer: Json) -> float | None:
    return peer["idle"]["commands"] / peer["idle"]["seconds"] if "idle" in peer else None


SPEED = [
    Column("alone, × base", _against_base(1), at_least=True),
    Column("200 locks, × base", _against_base(200), at_least=True),
    Column("wait in a process, ms", lambda peer: _p99(peer.get("contended", {}))),
    Column("commands/s", _asked),
    Column("wait between processes, ms", lambda peer: _p99(peer.get("handoff", {}).get("wait", {}))),
    Column("least / most entries", _shared, at_least=True),
    Column("entries/s, × BLPOP", lambda peer: peer.get("handoff", {}).get("rate_ratio"), at_least=True),
]


def speed(results: Json) -> str:
    """Return how fast each library is; what is better than aiolock's is bold."""
    ours = next(peer for peer in _libraries(results) if peer["name"] == OURS)
    rows = [[_named(peer), *(_cell(column, peer, ours) for column in SPEED)] for peer in _libraries(results)]
    return table(["library", *(column.head for column in SPEED)], rows)


def _libraries(results: Json) -> list[Json]:
    return [peer for peer in results["peers"] if "absent" not in peer and peer["name"] not in LEFT_OUT]


def _named(peer: Json) -> str:
    name, space, variant = peer["name"].partition(" ")
    return f"{name} {next(iter(peer['versions'].values()))}{space}{variant}{WRONG if is_wrong(peer) else ''}"


def _cell(column: Column, peer: Json, ours: Json) -> str:
    value, own = column.value(peer), column.value(ours)
    shown = number(value)
    if value is None or own is None or shown == number(own):
        return shown
    return f"**{shown}**" if (value > own) == column.at_least else shown


def behaviour(results: Json) -> str:
    """Return what each library did when something went wrong."""
    head = ["library", "two inside", "left locked", "lock lost", "free after a kill, s", "connections"]
    return table(head, [[_named(peer), *_did(peer)] for peer in _libraries(results)])


def _did(peer: Json) -> list[str]:
    exclusion, cut, lost, orphaned, idle = (
        peer.get(part) for part in ("exclusion", "cancelled", "lost", "orphaned", "idle")
    )
    return [
        _share(exclusion["overlaps"], exclusion["visits"]) if exclusion else "failed",
        _share(cut["acquires"] + cut["releases"], 2 * cut["rounds"]) if cut else "failed",
        _lost(lost) if lost else "failed",
        ("**never**" if orphaned["after"] is None else number(orphaned["after"])) if orphaned else "failed",
        f"{idle['connections']:,}" if idle else "failed",
    ]


def _share(some: int, of: int) -> str:
    return f"**{max(1, round(100 * some / of))}%**" if some else "0"


def _lost(lost: Json) -> str:
    return "**ran on**" if lost["ran_on"] else f"cancelled after {number(lost['after'], 's')}"


def source(results: Json, name: str, folder: str) -> str:
    """Return where the figures were taken, and where all of them are.

    Args:
        results: of the run.
        name: of its file, without a suffix.
        folder: the address of that.
    """
    where = results["environment"]
    told = (
        f"Taken on {results['taken'][:10]}, of commit {where['commit']} (version "
        f"{where['libraries']['aiolock-redis']}), by one `make bench` on one machine: {where['cpu']}, {where['cores']} "
        f"cores, {where['kernel'].split()[0]}, {where['python']}, {where['server']} on loopback. "
        f"[All figures and settings]({folder}/{name}.md) of this run, and [the raw data]({folder}/{name}.json)."
    )
    return fill(told, 118, break_on_hyphens=False, break_long_words=False)


def faults(report: Json) -> str:
    """Return what a run of `make chaos` saw, without the table of its faults."""
    arguments = report["command"].removeprefix("make chaos ")
    versions, places = report["versions"], report["places"]
    operations, grants, writes, refused = (
        sum(place[key] for place in places) for key in ("operations", "grants", "writes", "refused")
    )
    broken = sum(len(place["violations"]) for place in places)
    told = (
        f"On {report['began'][:10]}, of commit {report['commit']} (version {versions['aiolock-redis']}), `make chaos "
        f"ARGS='{arguments}'` took {report['seconds'] / 60:.0f} minutes ({report['machine']}; {versions['server']}, "
        f"Python {versions['python']}). {operations:,} calls, {grants:,} of them granted; {writes:,} writes to the "
        f"protected resource accepted, {refused:,} refused. **Broken promises: {broken}.**"
    )
    head = ["place", "rounds", "calls", "faults", "everybody in again: median, p99, longest", "broken promises"]
    return f"{fill(told, 118, break_on_hyphens=False)}\n\n{table(head, map(_place, places))}"


def exhausted(report: Json) -> str:
    """Return what a run of `make simulate ARGS=--all` has exhausted."""
    versions, kinds = report["versions"], report["kinds"]
    told = (
        f"On {report['began'][:10]}, of commit {report['commit']} (version {versions['aiolock-redis']}), "
        f"`{report['command']}` ({report['machine']}; Python {versions['python']}). **Broken promises: "
        f"{sum(kind['broken'] for kind in kinds.values())}.**"
    )
    rows = [
        [MEANINGS[name], f"{kind['scenes']} of {kind['begun']}", f"{kind['runs']:,}"] for name, kind in kinds.items()
    ]
    return f"{fill(told, 118, break_on_hyphens=False)}\n\n{table(['what', 'scenes exhausted', 'runs'], rows)}"


MEANINGS = {
    "singles": "each fault before each step",
    "preemption": "each small delay",
    "preemptions": "each pair of small delays",
    "pairs": "each pair of cuts, stalls and cancellations; of first ones that look alike, one",
}
"""What each kind of search is."""


def _place(place: Json) -> list[str]:
    spread = place["recoveries"]
    again = ", ".join(f"{spread[key]:.1f} s" for key in ("median", "p99", "longest")) if spread["count"] else NOTHING
    counts = f"{place['operations']:,}", f"{sum(place['faults'].values()):,}"
    return [place["name"], str(place["rounds"]), *counts, again, str(len(place["violations"]))]


def without_folder(report: Json) -> Json:
    """Return the report of `make chaos` without the folder that its command named."""
    return {**report, "command": re.sub(r" --report[ =]\S+", "", report["command"])}
