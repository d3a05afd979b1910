"""What a run of rounds showed, as JSON and as text."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

from benchmarks.environment import head

from .round import Outcome


class Report:
    """Gathers rounds, and writes two files again after each.

    Args:
        folder: where `report.json` and `report.txt` go.
        command: what was run.
        seed: the first seed.
        minutes: how long it should last.
    """

    def __init__(self, folder: Path, command: str, seed: int, minutes: float) -> None:
        self._folder = folder
        self._head: dict[str, Any] = {**head(command), "seed": seed, "minutes": minutes}
        self._outcomes: list[Outcome] = []

    def add(self, outcome: Outcome) -> None:
        """Take in a round, and write."""
        self._outcomes.append(outcome)
        self._head["versions"]["server"] = outcome.server
        found = self.as_json()
        (self._folder / "report.json").write_text(json.dumps(found, indent=1) + "\n")
        (self._folder / "report.txt").write_text(as_text(found))

    @property
    def violations(self) -> int:
        return sum(len(outcome.violations) for outcome in self._outcomes)

    def as_json(self) -> dict[str, Any]:
        """All of it."""
        names = dict.fromkeys(outcome.plan.place for outcome in self._outcomes)
        places = [_sum(name, [one for one in self._outcomes if one.plan.place == name]) for name in names]
        rounds = [
            {
                "seed": one.plan.seed, "place": one.plan.place, "options": one.plan.options,
                "seconds": round(one.seconds), "violations": one.violations, "unfinished": one.unfinished,
            }
            for one in self._outcomes
        ]  # fmt: skip
        spent = sum(one.seconds for one in self._outcomes)
        return {**self._head, "seconds": round(spent), "places": places, "rounds": rounds}


def as_text(found: dict[str, Any]) -> str:
    """For people."""
    versions = found["versions"]
    servers, python = versions.get("server", "no server"), versions["python"]
    lines = [
        found["command"],
        f"began {found['began']}, {found['seconds']} s, {servers}, Python {python}, {found['machine']}",
        "",
    ]
    for place in found["places"]:
        faults = sum(place["faults"].values())
        lines += [
            f"{place['name']}: {place['rounds']} rounds, {place['operations']} operations, {place['grants']} grants, "
            f"{place['writes']} writes ({place['refused']} refused), {faults} faults",
            f"  faults: {_counted(place['faults'])}",
            f"  lost: {_counted(place['lost']) or 'nothing'}",
            f"  everybody in again: {_seconds(place['recoveries'])}",
            *(f"    {use}: {_seconds(times)}" for use, times in place["recoveries"]["uses"].items()),
        ]
    broken = [one for one in found["rounds"] if one["violations"]]
    early = [one for one in found["rounds"] if one["unfinished"]]
    lines += [f"rounds that ended early, because servers did not recover: {len(early)}"] if early else []
    lines += ["", f"violations: {sum(len(one['violations']) for one in broken)}"]
    for one in broken:
        lines += ["", f"seed {one['seed']} ({one['place']}); again: make chaos ARGS='{_again(one)}'"]
        lines += one["violations"]
    return "\n".join(lines) + "\n"


def _again(found: dict[str, Any]) -> str:
    return f"--only {found['seed']} --place {found['place']}"


def _sum(name: str, outcomes: list[Outcome]) -> dict[str, Any]:
    total: Counter[str] = Counter()
    faults: Counter[str] = Counter()
    lost: Counter[str] = Counter()
    uses: dict[str, list[float]] = {}
    for outcome in outcomes:
        counts = outcome.counts
        total.update({key: counts.get(key, 0) for key in ("operations", "grants", "writes", "refused")})
        faults.update(counts.get("faults", {}))
        lost.update(counts.get("lost", {}))
        for use, times in outcome.recoveries.items():
            uses.setdefault(use, []).extend(times)
    # The latch is apart: a new one begins only once a second.
    steps = [max(times) for outcome in outcomes for times in zip(*_locks(outcome.recoveries), strict=False)]
    recoveries = {**_spread(steps), "uses": {use: _spread(times) for use, times in sorted(uses.items())}}
    return {
        "name": name, "rounds": len(outcomes), **total, "faults": dict(faults.most_common()),
        "lost": dict(lost.most_common()), "recoveries": recoveries,
        "violations": [text for outcome in outcomes for text in outcome.violations],
    }  # fmt: skip


def _locks(recoveries: dict[str, list[float]]) -> list[list[float]]:
    return [times for use, times in recoveries.items() if use != "latch"]


def _spread(times: list[float]) -> dict[str, Any]:
    if not times:
        return {"count": 0, "median": None, "p99": None, "longest": None}
    times = sorted(times)
    return {
        "count": len(times), "median": times[len(times) // 2], "p99": times[int(len(times) * 0.99)],
        "longest": times[-1],
    }  # fmt: skip


def _seconds(spread: dict[str, Any]) -> str:
    if not spread["count"]:
        return "never measured"
    return (
        f"median {spread['median']:.2f} s, 99 % within {spread['p99']:.2f} s, longest {spread['longest']:.2f} s "
        f"({spread['count']} times)"
    )


def _counted(found: dict[str, int]) -> str:
    return ", ".join(f"{what} {count}" for what, count in found.items())
