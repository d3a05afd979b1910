"""The report of a run, its plots, and its tables in the documentation.

python -m benchmarks.report RESULTS.json                                        # the report and the plots, beside them
python -m benchmarks.report RESULTS.json --into docs/explanation/benchmarks.md  # fills the page's marked blocks
python -m benchmarks.report RESULTS.json --into README.md                       # the same, for `headline` and `picture`
"""

from __future__ import annotations

import argparse
import json
import os
import re
import tomllib
from collections.abc import Callable
from pathlib import Path
from textwrap import fill as wrap
from typing import Any

from . import tables
from .plots import Plot, write_plots

Json = dict[str, Any]
ROOT = Path(__file__).resolve().parents[1]
PICTURE = "throughput"
"""The plot that the README shows."""
BLOCK = re.compile(r"(<!-- benchmarks: (\w+) -->\n).*?(<!-- /benchmarks -->)", re.DOTALL)


class NoBlock(Exception):
    """The page has no marked block."""


def write_report(results: Json, path: Path) -> Path:
    """Write the report and the plots beside the results.

    Args:
        results: of a run.
        path: the file of these results.
    """
    report = path.with_suffix(".md")
    plots = write_plots(results, path)
    parts = [
        f"# Benchmark of {results['taken'][:10]}",
        tables.environment(results),
        "## Targets", tables.targets(results),
        "## Libraries: how fast", tables.speeds(results), _footnote(),
        "## Libraries: between processes", tables.between(results),
        "## Libraries: behaviour", tables.behaviour(results),
        "## Not measured here", tables.absent(results),
        "## Measured without a target", tables.measured(results),
        "## How the libraries were used", tables.settings(results),
        "## Plots", _images(plots, report),
    ]  # fmt: skip
    report.write_text("\n\n".join(parts) + "\n", encoding="utf-8")
    return report


def fill(page: Path, results: Json, path: Path) -> None:
    """Replace the contents of the page's marked blocks.

    Raises:
        NoBlock: the page has none.
    """
    blocks: dict[str, Callable[[Json], str]] = {
        "environment": tables.environment, "targets": tables.targets, "speeds": tables.speeds,
        "between": tables.between, "behaviour": tables.behaviour, "absent": tables.absent, "measured": tables.measured,
        "settings": tables.settings, "headline": lambda results: f"{tables.headline(results)}\n\n{_source(path)}",
        "picture": lambda results: _picture(write_plots(results, path)),
        "plots": lambda results: _images(write_plots(results, path), page),
    }  # fmt: skip
    text = page.read_text(encoding="utf-8")
    filled, number = BLOCK.subn(lambda found: f"{found[1]}\n{blocks[found[2]](results)}\n\n{found[3]}", text)
    if not number:
        raise NoBlock(f"{page} has no block between '<!-- benchmarks: headline -->' and '<!-- /benchmarks -->'")
    page.write_text(filled, encoding="utf-8")


def _images(plots: list[Plot], page: Path) -> str:
    here = page.resolve().parent
    parts = []
    for plot in plots:
        parts.append(f"![{plot.title}]({Path(os.path.relpath(plot.path.resolve(), here)).as_posix()})")
        if plot.left_out:
            parts.append(
                wrap(f"Not drawn: {', '.join(plot.left_out)}. The tables have them.", 118, break_on_hyphens=False)
            )
    return "\n\n".join(parts)


def _source(path: Path) -> str:
    return f"From [{path.name}]({_repository()}/blob/main/benchmarks/results/{path.name})."


def _picture(plots: list[Plot]) -> str:
    # PyPI shows the README too, without the files beside it: the address must be absolute.
    raw = _repository().replace("https://github.com/", "https://raw.githubusercontent.com/")
    plot = next((plot for plot in plots if plot.kind == PICTURE), plots[0])
    return f"![{plot.title}]({raw}/main/benchmarks/results/{plot.path.name})"


def _repository() -> str:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return str(project["urls"]["Repository"])


def _footnote() -> str:
    return f"{tables.WRONG.strip()}: let a second holder in beside the first in this run; see the next table."


def main() -> None:
    """Do what the module's docstring says."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.report", description=__doc__.partition("\n")[0])
    parser.add_argument("results", type=Path)
    parser.add_argument("--into", type=Path, action="append", default=[], metavar="PAGE.md")
    asked = parser.parse_args()
    results = json.loads(asked.results.read_text(encoding="utf-8"))
    for page in asked.into:
        fill(page, results, asked.results)
        print(f"filled {page}")
    if not asked.into:
        print(f"wrote {write_report(results, asked.results)}")


if __name__ == "__main__":
    main()
