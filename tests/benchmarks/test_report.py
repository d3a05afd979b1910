"""Tables and plots, and the pages that they fill."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from benchmarks import report, tables
from benchmarks.figure import Figure, Series
from benchmarks.plot import draw

ROOT = Path(__file__).parents[2]
README = ROOT / "README.md"


def peer(name: str, **changes: Any) -> dict[str, Any]:
    crowd = {"ratio": 0.9, "pairs": 5000.0, "base": 5500.0, "cpu": 1.1}
    return {
        "name": name, "failed": {}, "settings": "timeout=ttl", "versions": {name: "1.2.3"},
        "uncontended": {"crowds": [[1, crowd], [200, crowd]]},
        "contended": {"acquisitions": 900.0, "p50": 0.001, "p99": 0.2, "errors": {}},
        "handoff": {
            "p50": 0.002, "p99": 0.1, "ratio": 4.0, "number": 9, "share": 0.02, "longest": 1.5, "stuck": 2,
            "wait": {"p50": 0.001, "p99": 0.3, "ratio": 9.0}, "least": 14, "most": 95, "rate": 743.0,
            "rate_ratio": 0.99, "lead": 1.2, "seconds": 3.0,
        },
        "idle": {"commands": 8846, "connections": 200, "cpu": 0.4, "seconds": 5.0},
        "exclusion": {"overlaps": 0, "visits": 100, "errors": {}},
        "cancelled": {"acquires": 0, "releases": 0, "rounds": 20},
        "lost": {"ran_on": False, "after": 0.3, "error": "LockLost", "beside": 0.2},
        "orphaned": {"after": 1.02},
        **changes,
    }  # fmt: skip


@pytest.fixture
def results() -> dict[str, Any]:
    wrong = peer(
        "wrong", exclusion={"overlaps": 7, "visits": 100, "errors": {}},
        cancelled={"acquires": 3, "releases": 0, "rounds": 20},
        lost={"ran_on": True, "after": 3.0, "error": "", "beside": 2.9}, orphaned={"after": None},
    )  # fmt: skip
    half = peer("half", failed={"handoff": "WorkerFailed: " + "long " * 50})
    del half["handoff"]
    figures = [
        Figure.median("A", "pairs/s | base", [1.0, 1.4, 1.2], must=1.35, aim=1.6),
        Figure("A", "pinned", None, must=1.35, note="not measured: no"),
        Figure("A", "µs per pair", 123.4, "µs"),
    ]
    plots = [Series("throughput", name, [(0.1, 0.0), (2.0, 1.0)]) for name in ("aiolock", "<other>")]
    environment = {
        "cpu": "a CPU", "cores": 2, "kernel": "Linux", "python": "CPython", "loop": "asyncio", "server": "valkey 9",
        "server_from": "path", "libraries": {"redis": "8"}, "commit": "abc", "load": 0.1, "fingerprint": "00ff00ff",
    }  # fmt: skip
    told = {
        "schema": 1, "quick": True, "taken": "2026-01-02T03:04:05Z", "seconds": 99.0, "environment": environment,
        "figures": [{**figure.as_json(), "loop": "asyncio"} for figure in figures],
        "series": [{"plot": line.plot, "label": line.label, "points": line.points} for line in plots],
        "peers": [peer("aiolock"), wrong, half, {"name": "gone", "failed": {}, "absent": "needs Python 2"}],
        "left_out": ["row E"],
    }  # fmt: skip
    return json.loads(json.dumps(told))


def row(table: str, name: str) -> list[str]:
    (line,) = [line for line in table.splitlines() if line.startswith(f"| {name}")]
    return [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]


def test_a_fast_lock_that_is_wrong_looks_wrong(results: dict[str, Any]) -> None:
    did = row(tables.behaviour(results), "wrong")
    assert "**7 of 100**" in did
    assert "**3 of 20**" in did
    assert any(cell.startswith("**ran on**") for cell in did)
    assert "**stays locked**" in did
    assert row(tables.speeds(results), "wrong")[0] == "wrong ⚠"
    assert row(tables.speeds(results), "aiolock")[0] == "aiolock"
    told = tables.headline(results, ["aiolock", "wrong", "not there"])
    assert told.splitlines()[0] == "|  | aiolock 1.2.3 | wrong 1.2.3 ⚠ |"
    assert "inside: wrong in 7 of 100 entries" in " ".join(told.split())
    assert "⚠" not in tables.headline(results, ["aiolock"])


def test_the_wait_between_processes_and_the_share_of_handoffs_are_shown(results: dict[str, Any]) -> None:
    told = row(tables.between(results), "aiolock")
    assert told[1:6] == ["1.00 ms", "300 ms", "9.00", "1,500 ms, 2 never entered", "14 / 95"]
    assert told[6:] == ["743", "0.990", "1.20", "2.00 %", "2.00 ms", "100 ms", "4.00"]
    assert tables.BEFORE not in tables.between(results)


def test_results_of_an_older_run_say_what_is_missing(results: dict[str, Any]) -> None:
    """The hand-offs of an older run are not shown, because their share of the entries is unknown."""
    new = {"share", "wait", "least", "most", "rate", "rate_ratio", "lead"}
    results["peers"] = [one for one in results["peers"] if "handoff" in one]
    for one in results["peers"]:
        one["handoff"] = {key: value for key, value in one["handoff"].items() if key not in new}
    told = tables.between(results)
    assert told.splitlines()[0] == "| library | longest wait |"
    assert tables.BEFORE in told


def test_nothing_is_left_out_in_silence(results: dict[str, Any]) -> None:
    missing = tables.absent(results)
    assert "- gone: needs Python 2" in missing
    assert "- half, handoff: WorkerFailed" in missing
    assert "- row E: left out of this run" in missing
    assert "failed" in row(tables.between(results), "half")
    results["peers"][2]["failed"]["exclusion"] = "died"
    del results["peers"][2]["exclusion"]
    assert "failed" in row(tables.behaviour(results), "half")
    assert row(tables.targets(results), "A | pinned")[2:6] == ["–", "≥ 1.35", "", "not measured"]


def test_targets(results: dict[str, Any]) -> None:
    cells = row(tables.targets(results), r"A | pairs/s \| base")
    assert cells[2:6] == ["1.20 × (1.00 … 1.40)", "≥ 1.35", "≥ 1.60", "**missed**"]
    assert "µs per pair" not in tables.targets(results)
    assert tables.missed(results).startswith("1 of the 2 targets are missed:\n")
    assert row(tables.missed(results), r"pairs/s \| base")[1:] == ["1.20 ×", "≥ 1.35"]
    assert row(tables.measured(results), "A | µs per pair")[2] == "123 µs"


def test_the_report_and_its_plots(results: dict[str, Any], tmp_path: Path) -> None:
    path = tmp_path / "2026-01-02-00ff00ff.json"
    text = report.write_report(results, path).read_text()
    (image,) = re.findall(r"!\[.*?\]\((.*?)\)", text)
    drawn = ElementTree.parse(tmp_path / image)
    labels = [element.text for element in drawn.iter("{http://www.w3.org/2000/svg}text")]
    assert {"aiolock", "<other>"} <= set(labels)


def test_a_flat_line_and_a_zero_can_be_drawn() -> None:
    for log in (True, False):
        drawn = ElementTree.fromstring(draw("t", "x", "y", [Series("p", "l", [(0.0, 1.0), (1.0, 1.0)])], log, log))
        assert "nan" not in ElementTree.tostring(drawn, encoding="unicode")


def test_the_readme_shows_four_rows_and_a_picture(results: dict[str, Any], tmp_path: Path) -> None:
    page, path = tmp_path / "README.md", tmp_path / "r.json"
    page.write_text(README.read_text(encoding="utf-8"), encoding="utf-8")
    report.fill(page, results, path, {}, {})
    told = page.read_text(encoding="utf-8")
    assert row(told, "1 task, pairs/s")[1:] == ["0.900 ×"]
    assert row(told, "200 tasks, a lock each")[1:] == ["0.900 ×"]
    assert row(told, "20 tasks, one lock")[1:] == ["200 ms"]
    assert row(told, "200 tasks wait")[1:] == ["8,846 commands in 5 s, 200 connections"]
    assert re.findall(r"!\[.*?\]\((https://\S+)/benchmarks/results/(\S+)\)", told)[0][1] == "r-throughput.svg"


def test_a_page_without_a_block_is_refused(results: dict[str, Any], tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("nothing\n")
    with pytest.raises(report.NoBlock, match="benchmarks: headline"):
        report.fill(page, results, tmp_path / "r.json", {}, {})
