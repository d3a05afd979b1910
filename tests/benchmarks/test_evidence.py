"""The page of evidence and the README: each figure is of one run, which is not too old, and none was typed."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from aiolock import __version__
from benchmarks import evidence, report

ROOT = Path(__file__).parents[2]
EVIDENCE = ROOT / "docs" / "explanation" / "evidence.md"
RESULTS = report.newest()
RUN: dict[str, Any] = json.loads(RESULTS.read_text(encoding="utf-8"))
CHAOS: dict[str, Any] = json.loads(report.CHAOS.read_text(encoding="utf-8"))
EVERY: dict[str, Any] = json.loads(report.EVERY.read_text(encoding="utf-8"))


@pytest.mark.parametrize("page", report.PAGES, ids=lambda page: page.name)
def test_the_pages_have_the_figures_of_the_newest_run(page: Path, tmp_path: Path) -> None:
    """Broken by a table that was changed by hand, and by a run without `make evidence` after it."""
    copy, path = tmp_path / page.relative_to(ROOT), tmp_path / RESULTS.relative_to(ROOT)
    for each in (copy, path):
        each.parent.mkdir(parents=True, exist_ok=True)
    text = page.read_text(encoding="utf-8")
    copy.write_text(text, encoding="utf-8")
    report.fill(copy, RUN, path, CHAOS, EVERY)
    assert copy.read_text(encoding="utf-8") == text


def test_the_report_beside_the_results_is_of_them(tmp_path: Path) -> None:
    text = report.write_report(RUN, tmp_path / RESULTS.name).read_text(encoding="utf-8")
    assert RESULTS.with_suffix(".md").read_text(encoding="utf-8") == text


@pytest.mark.parametrize(
    "versions",
    [RUN["environment"]["libraries"], CHAOS["versions"], EVERY["versions"]],
    ids=["bench", "chaos", "every"],
)
def test_the_runs_are_not_too_old(versions: dict[str, str]) -> None:
    """Broken by a release if neither it nor the one before was measured: `make bench`, `make chaos`, and then
    `make evidence`."""
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    released = re.findall(r"^## \[(\d.+?)\]", changelog, re.M)
    assert versions["aiolock-redis"] in (__version__, *released[:2])


def test_no_figure_was_typed() -> None:
    """Outside the marked blocks and code there is no digit but in a name, a rank or a heading."""
    text = re.sub(r"^```.*?^```$", "", report.BLOCK.sub("", EVIDENCE.read_text(encoding="utf-8")), flags=re.M | re.S)
    text = re.sub(r"`[^`]*`|\(\S+\)|\bp99\b|\b200 (?:locks|names)\b", "", text)
    assert re.findall(r".*\d.*", text) == []


def test_what_is_better_than_ours_is_bold() -> None:
    def library(name: str, ratio: float, p99: float, overlaps: int = 0) -> dict[str, Any]:
        return {
            "name": name, "versions": {name: "1"}, "uncontended": {"crowds": [[1, {"ratio": ratio}]]},
            "contended": {"p99": p99}, "exclusion": {"overlaps": overlaps, "visits": 10},
            "cancelled": {"acquires": 1, "releases": 0, "rounds": 20}, "lost": {"ran_on": True, "after": 1.0},
            "orphaned": {"after": None}, "idle": {"connections": 7, "commands": 10, "seconds": 5.0},
        }  # fmt: skip

    results = {"peers": [library("aiolock", 1.0, 0.01), library("fast b", 1.1, 0.02, 3), library("slow", 0.9, 0.009)]}
    fast, lines = 3, evidence.speed(results).splitlines()
    assert lines[0] == "| library | alone, × base | wait in a process, ms | commands/s |"
    assert lines[2:] == [
        "| aiolock 1 | 1.00 | 10.0 | 2.00 |",
        "| fast 1 b ⚠ | **1.10** | 20.0 | 2.00 |",
        "| slow 1 | 0.900 | **9.00** | 2.00 |",
    ]
    did = evidence.behaviour(results).splitlines()[fast]
    assert did == "| fast 1 b ⚠ | **30%** | **2%** | **ran on** | **never** | 7 |"
    del results["peers"][1]["exclusion"], results["peers"][1]["orphaned"]
    assert evidence.behaviour(results).splitlines()[fast] == "| fast 1 b | failed | **2%** | **ran on** | failed | 7 |"


def test_a_broken_promise_is_told() -> None:
    spread = {"count": 1, "median": 0.51, "p99": 0.61, "longest": 0.71}
    place = {
        "name": "server", "rounds": 1, "operations": 1234, "grants": 5, "writes": 6, "refused": 7, "faults": {"cut": 8},
        "recoveries": spread, "violations": ["one", "two"],
    }  # fmt: skip
    found = {
        "command": "make chaos --minutes 1 --report /tmp/x --seed 7", "began": "2026-01-02T03:04:05", "seconds": 60,
        "machine": "it", "commit": "abc", "versions": {"aiolock-redis": "9", "python": "3", "server": "S"},
        "places": [place],
    }  # fmt: skip
    told = " ".join(evidence.faults(evidence.without_folder(found)).split())
    assert "On 2026-01-02, of commit abc (version 9), `make chaos ARGS='--minutes 1 --seed 7'` took 1 minutes" in told
    assert "**Broken promises: 2.**" in told
    assert "| server | 1 | 1,234 | 8 | 0.5 s, 0.6 s, 0.7 s | 2 |" in told
