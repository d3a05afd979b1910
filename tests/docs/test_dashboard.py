"""The Grafana dashboard and the alerts: what they ask for is exported, and the page explains each panel."""

from __future__ import annotations

import itertools
import json
import re
from typing import Any

import pytest
from prometheus_client import CollectorRegistry
from prometheus_client.openmetrics.exposition import generate_latest
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from aiolock import LossReason
from aiolock.contrib.prometheus import PrometheusObserver
from aiolock.events import Disconnected, Ran
from aiolock.scripts.condition import ConditionCalls
from aiolock.scripts.latch import LatchCalls
from tests.unit.happenings import acquired

from .blocks import ROOT

FOLDER = ROOT / "docs/examples/dashboard"
DASHBOARD: dict[str, Any] = json.loads((FOLDER / "aiolock.json").read_text(encoding="utf-8"))
PANELS: list[dict[str, Any]] = DASHBOARD["panels"]
GRAPHS = [panel for panel in PANELS if panel["type"] != "row"]
ALERTS = (FOLDER / "alerts.yml").read_text(encoding="utf-8")
PAGE = (ROOT / "docs/how-to/monitoring.md").read_text(encoding="utf-8")
SELECTOR = re.compile(r"\b(aiolock_\w+)(?:\{([^}]*)\})?")
MATCHER = re.compile(r'(\w+)(!?[=~]+)"([^"]*)"')
FROM_PROMETHEUS = {"instance", "job"}
"""Labels that the scrape adds."""


def rows(title: str) -> list[list[str]]:
    """The cells of the table in a section of the page."""
    section = re.split(rf"^## {title}$", PAGE, flags=re.M)[1].partition("\n## ")[0]
    return [line.strip("| ").split(" | ") for line in section.splitlines() if line.startswith("| ")][2:]


@pytest.fixture(scope="module")
def exported() -> dict[str, dict[str, set[str]]]:
    """The values of each label of each series that an observer exports, by the series' name."""
    registry = CollectorRegistry()
    observer = PrometheusObserver(registry=registry, label=lambda name: name.partition(":")[0])
    observer(acquired())
    observer(Ran("nightly", "once", True, "succeeded"))
    observer(Disconnected("redis:6379", ConnectionResetError(), ""))
    found: dict[str, dict[str, set[str]]] = {}
    for family in text_string_to_metric_families(generate_latest(registry).decode()):
        for sample in family.samples:
            labels = found.setdefault(sample.name, {})
            for label, value in sample.labels.items():
                labels.setdefault(label, set()).add(value)
    return found


@pytest.mark.parametrize("queries", ["the dashboard", "the alerts"])
def test_every_query_asks_for_what_is_exported(exported: dict[str, dict[str, set[str]]], queries: str) -> None:
    """Broken by renaming a metric, a label, an outcome or a bucket in the exporter alone."""
    expressions = [target["expr"] for panel in GRAPHS for target in panel["targets"]]
    text = "\n".join(expressions) if queries == "the dashboard" else ALERTS
    asked = SELECTOR.findall(text)
    assert len(asked) >= 8
    for name, matchers in asked:
        assert name in exported, name
        for label, operator, value in MATCHER.findall(matchers):
            if label in FROM_PROMETHEUS:
                continue
            assert label in exported[name], (name, label)
            if operator == "=":
                assert value in exported[name][label], (name, label, value)
            elif not value.startswith("$"):
                assert set(value.split("|")) <= {*LossReason, LatchCalls.kind, ConditionCalls.kind}
    for labels in re.findall(r"\b(?:by|on) \(([^)]*)\)", text):
        for label in labels.split(", "):
            known = any(label in of for of in exported.values())
            assert known or label in FROM_PROMETHEUS, label


def test_every_metric_is_explained(exported: dict[str, dict[str, set[str]]]) -> None:
    """The table of the page on metrics has each, and no other."""
    bases = {re.sub(r"_(bucket|count|sum)$", "", name) for name in exported if not name.endswith("_created")}
    assert {row[0].strip("`") for row in rows("The metrics")} == bases


def test_every_panel_is_explained() -> None:
    """Where it is looked at: what is normal, and what to do if it is otherwise."""
    assert all(re.search(r"Normal: .+ Otherwise: .+", panel["description"]) for panel in GRAPHS)


def test_every_alert_is_named() -> None:
    alerts = re.findall(r"alert: (\w+)", ALERTS)
    assert re.findall(r"`(\w+)`", PAGE.partition("## Alerts")[2].partition("\n## ")[0]) == alerts


def test_grafana_can_load_it() -> None:
    """It has what Grafana needs of a dashboard, and panels do not lie on one another."""
    assert DASHBOARD["schemaVersion"] >= 36
    assert DASHBOARD["uid"]
    assert DASHBOARD["title"]
    ids = [panel["id"] for panel in PANELS]
    assert len(set(ids)) == len(ids)
    taken: set[tuple[int, int]] = set()
    for panel in PANELS:
        at = panel["gridPos"]
        assert at["x"] + at["w"] <= 24
        cells = set(itertools.product(range(at["x"], at["x"] + at["w"]), range(at["y"], at["y"] + at["h"])))
        assert not cells & taken, panel["title"]
        taken |= cells
    variables = {variable["name"]: variable for variable in DASHBOARD["templating"]["list"]}
    assert variables["datasource"]["type"] == "datasource"
    for panel in GRAPHS:
        assert panel["datasource"]["uid"] == "${datasource}"
        assert len({target["refId"] for target in panel["targets"]}) == len(panel["targets"])
        used = {name for target in panel["targets"] for name in re.findall(r'"\$(\w+)"', target["expr"])}
        assert used <= variables.keys()
        assert "instance" in used
