"""Put the report of a run into the documentation: `python -m tests.histories.page build/chaos/report.json`.

The report is kept beside the page, and what lies between the page's two marks is written anew from it.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from pathlib import Path
from typing import Any

EXPLANATION = Path(__file__).parents[2] / "docs" / "explanation"
PAGE, KEPT = EXPLANATION / "verification.md", EXPLANATION / "verification.json"
BEGIN, END = "<!-- histories -->\n", "<!-- /histories -->\n"


def main() -> int:
    options = argparse.ArgumentParser(prog="python -m tests.histories.page", description=__doc__)
    options.add_argument("report", type=Path, help="what `make chaos` wrote")
    given = options.parse_args()
    report = json.loads(given.report.read_text(encoding="utf-8"))
    report["command"] = re.sub(r" --report[ =]\S+", "", report["command"])  # a folder of that machine
    KEPT.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    PAGE.write_text(insert(PAGE.read_text(encoding="utf-8"), report), encoding="utf-8")
    return 0


def insert(text: str, report: dict[str, Any]) -> str:
    """Return the page with the report between its marks."""
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not (begin and end):
        raise ValueError(f"the page has no {BEGIN.strip()} or no {END.strip()}")
    return f"{before}{BEGIN}\n{render(report)}\n{END}{after}"


def render(report: dict[str, Any]) -> str:
    """Return the report as Markdown."""
    _, _, arguments = report["command"].partition("make chaos ")
    versions, places = report["versions"], report["places"]
    operations, grants, writes, refused = (
        sum(place[key] for place in places) for key in ("operations", "grants", "writes", "refused")
    )
    faults = sum(sum(place["faults"].values()) for place in places)
    violations = sum(len(place["violations"]) for place in places)
    lines = [
        f"- command: `make chaos ARGS='{arguments}'`",
        f"- began: {report['began']}, took {report['seconds'] / 60:.0f} minutes, {len(report['rounds'])} rounds",
        f"- machine: {report['machine']}; {versions.get('server', '')}, Python {versions['python']}",
        f"- operations: {operations:,}, of which {grants:,} were granted something",
        f"- writes to the protected resource: {writes:,} accepted, {refused:,} refused",
        f"- faults: {faults:,}",
        f"- **broken promises: {violations}**",
        "",
        "| place | rounds | operations | faults | everybody in again: median, 99 %, longest | broken promises |",
        "| --- | --- | --- | --- | --- | --- |",
        *map(_row, places),
        "",
        "| fault | how often |",
        "| --- | --- |",
        *_counts(places, "faults"),
        "",
        "| lease lost because | how often |",
        "| --- | --- |",
        *_counts(places, "lost"),
    ]
    broken = [one for one in report["rounds"] if one["violations"]]
    if broken:
        lines += ["", "| seed | place | what was broken |", "| --- | --- | --- |"]
        lines += [f"| {one['seed']} | {one['place']} | {_first(one['violations'])} |" for one in broken]
    return "\n".join(lines) + "\n"


def _row(place: dict[str, Any]) -> str:
    spread = place["recoveries"]
    again = "" if not spread["count"] else " s, ".join(f"{spread[key]:.1f}" for key in ("median", "p99", "longest"))
    return (
        f"| {place['name']} | {place['rounds']} | {place['operations']:,} | {sum(place['faults'].values()):,} | "
        f"{again}{' s' if again else ''} | {len(place['violations'])} |"
    )


def _counts(places: list[dict[str, Any]], key: str) -> list[str]:
    total: dict[str, int] = {}
    for place in places:
        for what, count in place[key].items():
            total[what] = total.get(what, 0) + count
    return [f"| {what} | {count:,} |" for what, count in sorted(total.items(), key=lambda pair: (-pair[1], pair[0]))]


def _first(violations: list[str]) -> str:
    words = violations[0].strip().splitlines()[0].replace("|", "\\|")
    return words if len(violations) == 1 else f"{words} (and {len(violations) - 1} more)"


if __name__ == "__main__":
    sys.exit(main())
