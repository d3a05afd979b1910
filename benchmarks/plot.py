"""Line plots as SVG, drawn by hand: you need to install nothing, and a diff shows what changed."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from html import escape

from .figure import Series

WIDTH, HEIGHT = 860, 420
LEFT, RIGHT, TOP, BOTTOM = 70, 290, 40, 50
SAMPLE, ROW = 26, 17
"""Lengths in the legend: of a sample of the line, and from one label to the next."""
STYLES = (
    ("#d62728", ""), ("#1f77b4", "7 3"), ("#2ca02c", "2 3"), ("#9467bd", "9 3 2 3"), ("#8c564b", "5 2"),
    ("#444444", "1 2"),
)  # fmt: skip
"""A colour and a dash pattern for each line: if you cannot tell the colours apart, you can tell the patterns."""
MOST = len(STYLES)
Text = tuple[float, float, str, str]


@dataclass(frozen=True, slots=True)
class Axis:
    """How values map to a length.

    Attributes:
        low: the least value.
        high: the greatest value.
        log: logarithmic.
    """

    low: float
    high: float
    log: bool

    @classmethod
    def over(cls, values: Sequence[float], log: bool) -> Axis:
        """Return an axis for all these values; a logarithmic one has no place for 0 and less."""
        kept = [value for value in values if value > 0] if log else [0.0, *values]
        low, high = min(kept), max(kept)
        return cls(low, high if high > low else low + 1, log)

    def at(self, value: float) -> float:
        """Return the value's place, from 0 to 1."""
        if not self.log:
            return (value - self.low) / (self.high - self.low)
        value = max(value, self.low)
        return math.log(value / self.low) / math.log(self.high / self.low)

    def ticks(self) -> list[float]:
        """Return the values that deserve a grid line."""
        if self.log:
            first, last = math.floor(math.log10(self.low)), math.ceil(math.log10(self.high))
            fine = (1, 2, 5) if last - first <= 3 else (1,)
            every = [digit * 10.0**power for power in range(first, last + 1) for digit in fine]
            return [value for value in every if self.low * 0.999 <= value <= self.high * 1.001]
        step = 10.0 ** math.floor(math.log10(self.high - self.low))
        step = next(step * part for part in (0.1, 0.2, 0.5, 1, 2) if (self.high - self.low) / (step * part) <= 6)
        return [self.low + step * number for number in range(int((self.high - self.low) / step + 1.001))]


def draw(
    title: str, x_label: str, y_label: str, lines: Sequence[Series], log_x: bool = True, log_y: bool = True,
    thick: Collection[str] = (),
) -> str:  # fmt: skip
    """Return an SVG of the lines, each with its name where it ends.

    Args:
        title: above the plot.
        x_label: below it.
        y_label: beside it.
        lines: six at most.
        log_x: the x axis is logarithmic.
        log_y: the y axis is logarithmic.
        thick: labels of the lines that the plot is about.
    """
    points = [point for line in lines for point in line.points]
    x = Axis.over([point[0] for point in points], log_x)
    y = Axis.over([point[1] for point in points], log_y)

    def across(value: float) -> float:
        return LEFT + x.at(value) * (WIDTH - LEFT - RIGHT)

    def up(value: float) -> float:
        return HEIGHT - BOTTOM - y.at(value) * (HEIGHT - TOP - BOTTOM)

    parts = [_grid(x, y, across, up)]
    rows = apart([up(line.points[-1][1]) for line in lines])
    for line, row, (colour, dashes) in zip(lines, rows, STYLES, strict=False):
        path = " ".join(f"{across(one):.1f},{up(two):.1f}" for one, two in line.points)
        width = 3.5 if line.label in thick else 1.5
        look = f'fill="none" stroke="{colour}" stroke-width="{width}" stroke-dasharray="{dashes or "none"}"'
        parts.append(f'<polyline points="{path}" {look}/>')
        end, legend = line.points[-1], WIDTH - RIGHT + 24
        leader = f"M{across(end[0]):.1f} {up(end[1]):.1f}L{legend - 4} {row:.1f}"
        parts.append(f'<path d="{leader}" stroke="{colour}" stroke-width="0.5"/>')
        parts.append(f'<path d="M{legend} {row:.1f}h{SAMPLE}" {look}/>')
        label = f"{line.label}, {line.note}" if line.note else line.label
        parts.append(_text((legend + SAMPLE + 6, row + 4, "start", label)))
    middle = LEFT + (WIDTH - LEFT - RIGHT) / 2
    parts.append(_text((middle, 22, "middle", title)))
    parts.append(_text((middle, HEIGHT - 12, "middle", x_label)))
    turned = _text((0, 0, "middle", y_label))
    parts.append(f'<g transform="translate(16 {(HEIGHT - BOTTOM + TOP) / 2}) rotate(-90)">{turned}</g>')
    style = 'font-family="sans-serif" font-size="12"'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" {style}>'
    return "\n".join([head, f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>', *parts, "</svg>", ""])


def apart(heights: Sequence[float]) -> list[float]:
    """Place labels that want these heights: in the same order, without overlap, none below the plot."""
    placed = [0.0] * len(heights)
    row = -math.inf
    for number in sorted(range(len(heights)), key=lambda number: heights[number]):
        row = placed[number] = max(heights[number], row + ROW)
    below = max(placed, default=0.0) - (HEIGHT - BOTTOM)
    return [height - below for height in placed] if below > 0 else placed


def _grid(x: Axis, y: Axis, across: Callable[[float], float], up: Callable[[float], float]) -> str:
    parts = []
    for value in x.ticks():
        at = across(value)
        parts.append(f'<path d="M{at:.1f} {TOP}V{HEIGHT - BOTTOM}" stroke="#ddd"/>')
        parts.append(_text((at, HEIGHT - BOTTOM + 17, "middle", f"{value:,g}")))
    for value in y.ticks():
        at = up(value)
        parts.append(f'<path d="M{LEFT} {at:.1f}H{WIDTH - RIGHT}" stroke="#ddd"/>')
        parts.append(_text((LEFT - 6, at + 4, "end", f"{value:,g}")))
    return "\n".join(parts)


def _text(text: Text) -> str:
    left, top, anchor, words = text
    return f'<text x="{left:.1f}" y="{top:.1f}" text-anchor="{anchor}">{escape(words)}</text>'
