"""The report of a run, its plots, and the figures of the README and of the page of evidence.

`make evidence` fills their marked blocks from the newest whole run in benchmarks/results, and from the last long run of
`make chaos` and `make simulate ARGS=--all` there; `make evidence ARGS='--chaos build/chaos/report.json --every
build/every.json'` puts newer ones in their place first.
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

from . import evidence, tables
from .plots import Plot, write_plots
from .rows import ROWS

Json = dict[str, Any]
ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "benchmarks" / "results"
CHAOS = RESULTS / "chaos.json"
"""The last long run of `make chaos`."""
EVERY = RESULTS / "every.json"
"""What simulation has exhausted."""
PAGES = (ROOT / "README.md", ROOT / "docs" / "explanation" / "evidence.md")
PICTURE, WAITS = "throughput", "wait between processes"
"""The plots that the README shows, and the page of evidence."""
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


def fill(page: Path, results: Json, path: Path, chaos: Json, every: Json) -> None:
    """Replace the contents of the page's marked blocks.

    Args:
        page: the page.
        results: of a run of benchmarks.
        path: the file of these results.
        chaos: the report of a run of `make chaos`.
        every: that of a run of `make simulate ARGS=--all`.

    Raises:
        NoBlock: the page has none.
    """
    folder = f"{_repository()}/blob/main/benchmarks/results"
    blocks: dict[str, Callable[[], str]] = {
        "headline": lambda: f"{tables.headline(results)}\n\nFrom [{path.name}]({folder}/{path.name}).",
        "picture": lambda: _picture(write_plots(results, path)),
        "source": lambda: evidence.source(results, path.stem, folder),
        "speed": lambda: evidence.speed(results),
        "waits": lambda: _image(next(plot for plot in write_plots(results, path) if plot.kind == WAITS), page),
        "behaviour": lambda: evidence.behaviour(results),
        "missed": lambda: tables.missed(results),
        "absent": lambda: tables.absent(results),
        "chaos": lambda: evidence.faults(chaos),
        "exhausted": lambda: evidence.exhausted(every),
    }
    text = page.read_text(encoding="utf-8")
    filled, number = BLOCK.subn(lambda found: f"{found[1]}\n{blocks[found[2]]()}\n\n{found[3]}", text)
    if not number:
        raise NoBlock(f"{page} has no block between '<!-- benchmarks: headline -->' and '<!-- /benchmarks -->'")
    page.write_text(filled, encoding="utf-8")


def newest(folder: Path = RESULTS) -> Path:
    """Return the file of the newest run in which nothing was left out but what is seldom measured."""
    whole, seldom = {}, {row.label for row in ROWS if row.seldom}
    for path in folder.glob("*.json"):
        results = json.loads(path.read_text(encoding="utf-8"))
        if not results.get("quick", True) and seldom.issuperset(results["left_out"]):
            whole[results["taken"]] = path
    return whole[max(whole)]


def _images(plots: list[Plot], page: Path) -> str:
    parts = []
    for plot in plots:
        parts.append(_image(plot, page))
        if plot.left_out:
            parts.append(
                wrap(f"Not drawn: {', '.join(plot.left_out)}. The tables have them.", 118, break_on_hyphens=False)
            )
    return "\n\n".join(parts)


def _image(plot: Plot, page: Path) -> str:
    return f"![{plot.title}]({Path(os.path.relpath(plot.path.resolve(), page.resolve().parent)).as_posix()})"


def _picture(plots: list[Plot]) -> str:
    # PyPI shows the README too, without the files beside it: the address must be absolute.
    raw = _repository().replace("https://github.com/", "https://raw.githubusercontent.com/")
    plot = next((plot for plot in plots if plot.kind == PICTURE), plots[0])
    return f"![{plot.title}]({raw}/main/benchmarks/results/{plot.path.name})"


def _repository() -> str:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return str(project["urls"]["Repository"])


def _footnote() -> str:
    return f"{tables.WRONG.strip()}: two were inside at once in this run; see the next table but one."


def main() -> None:
    """Do what the module's docstring says."""
    parser = argparse.ArgumentParser(prog="make evidence", description=__doc__.partition("\n")[0])
    parser.add_argument("--chaos", type=Path, metavar="REPORT.json", help="keep this report of `make chaos`")
    parser.add_argument("--every", type=Path, metavar="EVERY.json", help="keep this report of the simulation")
    asked = parser.parse_args()
    path = newest()
    results = json.loads(path.read_text(encoding="utf-8"))
    chaos = evidence.without_folder(json.loads((asked.chaos or CHAOS).read_text(encoding="utf-8")))
    CHAOS.write_text(json.dumps(chaos, indent=1) + "\n", encoding="utf-8")
    every = json.loads((asked.every or EVERY).read_text(encoding="utf-8"))
    EVERY.write_text(json.dumps(every, indent=1) + "\n", encoding="utf-8")
    print(f"wrote {write_report(results, path)}")
    for page in PAGES:
        fill(page, results, path, chaos, every)
        print(f"filled {page}")


if __name__ == "__main__":
    main()
