"""Draws the panels of the dashboard, where Grafana would have them. It needs matplotlib."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter
from queries import Line, Span, lines, panels

BACK, PANEL, EDGE, TEXT, FAINT = "#111217", "#181b1f", "#2c3235", "#d8d9da", "#8e9297"
COLOURS = ["#73bf69", "#f2cc0c", "#8ab8ff", "#ff780a", "#f2495c", "#b877d9", "#5794f2", "#fade2a"]
NAMED = {"green": "#73bf69", "orange": "#ff9830", "red": "#f2495c", "blue": "#8ab8ff"}
WIDTH, UNIT = 24, 0.34
"""Columns of the grid, and inches a row of it."""


def shown(value: float, unit: str) -> str:
    """A value with its unit, as Grafana writes it."""
    if unit == "percentunit":
        return f"{value:.0%}"
    if unit == "s":
        return "0 s" if not value else f"{value:.3g} s" if value >= 1 else f"{value * 1000:.3g} ms"
    return f"{value:.3g}" + (" /s" if unit == "ops" else "")


def draw(url: str, span: Span, path: Path) -> None:
    """Draw all panels from what the Prometheus at `url` says of `span`."""
    all_panels = panels()
    rows = max(panel["gridPos"]["y"] + panel["gridPos"]["h"] for panel in all_panels)
    plt.rcParams.update({"font.size": 7, "text.color": TEXT, "axes.labelcolor": TEXT, "font.family": "DejaVu Sans"})
    figure = plt.figure(figsize=(12, rows * UNIT), facecolor=BACK)
    for panel in all_panels:
        at = panel["gridPos"]
        box = (at["x"] / WIDTH, 1 - (at["y"] + at["h"]) / rows, at["w"] / WIDTH, at["h"] / rows)
        if panel["type"] == "row":
            figure.text(0.008, box[1] + box[3] / 2, f"▾ {panel['title']}", va="center", size=9, weight="bold")
            continue
        gap = 0.0025
        frame = (box[0] + gap, box[1] + gap * 0.8, box[2] - 2 * gap, box[3] - 1.6 * gap)
        figure.patches.append(
            plt.Rectangle(
                frame[:2], *frame[2:], transform=figure.transFigure, facecolor=PANEL, edgecolor=EDGE, zorder=-1
            )
        )
        top = frame[1] + frame[3]
        figure.text(frame[0] + 0.006, top - 0.20 / (rows * UNIT), panel["title"], va="center", size=8, weight="bold")
        data = lines(url, panel, span)
        (_stat if panel["type"] == "stat" else _series)(figure, panel, frame, data, span, rows * UNIT)
    figure.savefig(path, dpi=100, facecolor=BACK)


Box = tuple[float, float, float, float]


def _stat(figure: Figure, panel: dict[str, Any], box: Box, data: list[Line], span: Span, height: float) -> None:
    defaults = panel["fieldConfig"]["defaults"]
    value = data[0].values[-1] if data and data[0].values else 0.0
    steps = defaults["thresholds"]["steps"]
    colour = [step["color"] for step in steps if step["value"] is None or value >= step["value"]][-1]
    text = f"{value:.{defaults.get('decimals', 0)}f}"
    figure.text(
        box[0] + box[2] / 2, box[1] + box[3] * 0.48, text, ha="center", va="center", size=22, color=NAMED[colour]
    )
    if data:
        axes = figure.add_axes((box[0], box[1], box[2], box[3] * 0.28))
        axes.fill_between(data[0].times, data[0].values, color=NAMED[colour], alpha=0.25, linewidth=0)
        axes.set(xlim=(span.start, span.end), ylim=(0, max(data[0].values, default=0) * 1.1 or 1))
        axes.axis("off")


def _series(figure: Figure, panel: dict[str, Any], box: Box, data: list[Line], span: Span, height: float) -> None:
    defaults = panel["fieldConfig"]["defaults"]
    custom, unit = defaults["custom"], defaults["unit"]
    inch = 1 / height
    axes = figure.add_axes((box[0] + 0.042, box[1] + 0.6 * inch, box[2] - 0.052, box[3] - 1.0 * inch), facecolor=PANEL)
    stacked = custom["stacking"]["mode"] == "normal"
    below: dict[float, float] = {}
    for number, line in enumerate(data):
        colour = COLOURS[number % len(COLOURS)]
        times = [time - span.start for time in line.times]
        floor = [below.get(time, 0.0) if stacked else 0.0 for time in times]
        top = [value + base for value, base in zip(line.values, floor, strict=True)]
        below.update(zip(times, top, strict=True))
        if custom["drawStyle"] == "bars":
            axes.bar(times, line.values, width=1.0, bottom=floor, color=colour, label=line.legend)
        else:
            axes.plot(times, top, color=colour, linewidth=1, label=line.legend)
            axes.fill_between(times, floor, top, color=colour, alpha=0.35 if stacked else 0.1, linewidth=0)
    for step in defaults.get("thresholds", {}).get("steps", []):
        if step["value"] is not None:
            axes.axhline(step["value"], color=NAMED[step["color"]], linestyle="--", linewidth=0.8)
    axes.set_xlim(0, span.end - span.start)
    axes.set_ylim(defaults.get("min", 0), defaults.get("max"))
    if not any(value for line in data for value in line.values):
        axes.set_ylim(0, 1)
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: shown(value, unit)))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:.0f} s"))
    axes.set_axisbelow(True)
    axes.grid(color=EDGE, linewidth=0.6)
    axes.tick_params(colors=FAINT, length=0)
    for spine in axes.spines.values():
        spine.set_visible(False)
    if data:
        columns = 8 if panel["gridPos"]["w"] > 8 else 2
        where = {"loc": "upper left", "bbox_to_anchor": (-0.02, -0.13), "ncol": columns, "handlelength": 1.0}
        axes.legend(
            **where, frameon=False, labelcolor=TEXT, columnspacing=1.0, fontsize=6.5, handletextpad=0.5, borderaxespad=0
        )
