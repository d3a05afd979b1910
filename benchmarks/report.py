"""The report of a run, its plots, and its tables in the documentation.

python -m benchmarks.report RESULTS.json                            # the report beside the results, and the plots
python -m benchmarks.report RESULTS.json --into docs/benchmarks.md  # fills the page's marked blocks
python -m benchmarks.report RESULTS.json --into README.md           # the same: the block `headline`
"""

from __future__ import annotations

import argparse
import json
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from . import tables
from .figure import Series
from .plot import draw

Json = dict[str, Any]
BLOCK = re.compile(r"(<!-- benchmarks: (\w+) -->\n).*?(<!-- /benchmarks -->)", re.DOTALL)
PLOTS = {
    "handoff": (
        "Hand-off between processes, 4 × 5 tasks",
        "ms from release to entry",
        "share of hand-offs",
        True,
        False,
    ),
    "throughput": ("Throughput, a name for each task", "tasks", "pairs/s", True, True),
    "cost against number of names": ("Cost of an operation", "names", "µs", True, True),
    "cost against number of waiters": ("Cost of an operation", "waiters", "µs", True, True),
    "cost against number of leases": ("Cost of an operation", "leases", "µs", True, True),
    "commands per hand-off": ("Commands a hand-off", "processes that wait", "commands", True, False),
}


class NoBlock(Exception):
    """The page has no marked block."""


def write_report(results: Json, path: Path) -> Path:
    """Write the report and the plots beside the results.

    Args:
        results: of a run.
        path: where they are kept.
    """
    report = path.with_suffix(".md")
    plots = write_plots(results, path)
    parts = [
        f"# Benchmark of {results['taken'][:10]}",
        tables.environment(results),
        "## What it must reach", tables.targets(results),
        "## Libraries: how fast", tables.speeds(results), _footnote(),
        "## Libraries: what they did", tables.behaviour(results),
        "## Not measured here", tables.absent(results),
        "## Measured, without a target", tables.measured(results),
        "## How the libraries were used", tables.settings(results),
        "## Plots", _images(plots, report, path),
    ]  # fmt: skip
    report.write_text("\n\n".join(parts) + "\n", encoding="utf-8")
    return report


def write_plots(results: Json, path: Path) -> list[Path]:
    """One SVG for each plot that has a line; the names begin as the results'."""
    written = []
    for name, (title, x_label, y_label, log_x, log_y) in PLOTS.items():
        lines = {line["label"]: Series(**line) for line in results["series"] if line["plot"] == name}
        if not any(line.points for line in lines.values()):
            continue
        target = path.with_name(f"{path.stem}-{name.replace(' ', '-')}.svg")
        target.write_text(draw(title, x_label, y_label, list(lines.values()), log_x, log_y), encoding="utf-8")
        written.append(target)
    return written


def fill(page: Path, results: Json, path: Path) -> None:
    """Replace what stands in the page's marked blocks.

    Raises:
        NoBlock: there is none.
    """
    blocks: dict[str, Callable[[Json], str]] = {
        "environment": tables.environment, "targets": tables.targets, "speeds": tables.speeds,
        "behaviour": tables.behaviour, "absent": tables.absent, "measured": tables.measured,
        "settings": tables.settings, "headline": tables.headline,
        "plots": lambda results: _images(write_plots(results, path), page, path),
    }  # fmt: skip
    text = page.read_text(encoding="utf-8")
    filled, number = BLOCK.subn(lambda found: f"{found[1]}\n{blocks[found[2]](results)}\n\n{found[3]}", text)
    if not number:
        raise NoBlock(f"{page} has no block between '<!-- benchmarks: headline -->' and '<!-- /benchmarks -->'")
    page.write_text(filled, encoding="utf-8")


def _images(plots: list[Path], page: Path, results: Path) -> str:
    here = page.resolve().parent
    told = {plot: plot.stem.removeprefix(f"{results.stem}-").replace("-", " ") for plot in plots}
    return "\n\n".join(f"![{told[plot]}]({Path(os.path.relpath(plot.resolve(), here)).as_posix()})" for plot in plots)


def _footnote() -> str:
    return f"{tables.WRONG.strip()}: let somebody in beside another in this run; see the next table."


def main() -> None:
    """As the module says."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.report", description=__doc__.partition("\n")[0])
    parser.add_argument("results", type=Path)
    parser.add_argument("--into", type=Path, action="append", default=[], metavar="PAGE.md")
    asked = parser.parse_args()
    results = json.loads(asked.results.read_text(encoding="utf-8"))
    for page in asked.into:
        fill(page, results, asked.results)
        print(f"filled {page}")
    if not asked.into:
        print(f"written {write_report(results, asked.results)}")


if __name__ == "__main__":
    main()
