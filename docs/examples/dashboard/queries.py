"""Asks a Prometheus what the panels of the dashboard show."""

from __future__ import annotations

import json
import urllib.parse
import urllib.request
from pathlib import Path
from typing import Any, NamedTuple

DASHBOARD = Path(__file__).with_name("aiolock.json")
RATE_INTERVAL = "12s"
"""Longer than a worker is stopped for: an increase needs a value before it and one after it."""


class Line(NamedTuple):
    """One line of a panel."""

    legend: str
    times: list[float]
    values: list[float]


class Span(NamedTuple):
    """The time that is shown, in seconds since 1970."""

    start: float
    end: float


def panels() -> list[dict[str, Any]]:
    """The dashboard's panels, in order."""
    found: list[dict[str, Any]] = json.loads(DASHBOARD.read_text(encoding="utf-8"))["panels"]
    return found


def expression(text: str, span: Span) -> str:
    """What Grafana makes of a panel's query, with all of its variables set to "All"."""
    text = text.replace("$__rate_interval", RATE_INTERVAL).replace("$__range", f"{span.end - span.start:.0f}s")
    for name in ("instance", "kind", "lock"):
        text = text.replace(f'"${name}"', '".*"')
    return text


def lines(url: str, panel: dict[str, Any], span: Span) -> list[Line]:
    """What one panel shows."""
    found: list[Line] = []
    for target in panel.get("targets", []):
        of_target = []
        for result in _ask(url, expression(target["expr"], span), span):
            legend = target["legendFormat"]
            for name, value in result["metric"].items():
                legend = legend.replace("{{" + name + "}}", value)
            points = [(float(time), float(value)) for time, value in result["values"] if value != "NaN"]
            of_target.append(Line(legend, [time for time, _ in points], [value for _, value in points]))
        found += sorted(of_target)
    return found


def _ask(url: str, query: str, span: Span) -> list[dict[str, Any]]:
    options = urllib.parse.urlencode({"query": query, "start": span.start, "end": span.end, "step": 1})
    with urllib.request.urlopen(f"{url}/api/v1/query_range?{options}", timeout=30) as answer:
        data: list[dict[str, Any]] = json.load(answer)["data"]["result"]
    return data
