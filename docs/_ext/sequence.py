"""Mermaid's sequence diagrams as SVG, drawn when the site is built: no network, no script in the reader's browser.

Only what the pages use: participants, messages, notes, and the blocks `loop`, `alt`, `opt` and `par`. Anything else is
an error that names the line. The colours come from site.css, so that a diagram follows the theme, light or dark.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from html import escape
from itertools import pairwise
from textwrap import TextWrapper

LETTER, LINE, PAD = 6.6, 16.0, 10.0
"""Pixels: the mean width of a letter, the height of a line of text, and the space around a text."""

PARTICIPANT = re.compile(r"participant (\w+) as (.+)")
MESSAGE = re.compile(r"(\w+)(-?-(?:>>|\)|x))(\w+): (.+)")
NOTE = re.compile(r"Note over (\w+)(?:,(\w+))?: (.+)")
OPEN = re.compile(r"(loop|alt|opt|par)(?: (.+))?")
NEXT = re.compile(r"(else|and)(?: (.+))?")


def wrap(text: str, width: int) -> list[str]:
    """Break a text into lines that are no longer than this many letters, if its words allow."""
    return TextWrapper(width, break_long_words=False, break_on_hyphens=False).wrap(text)


def width_of(lines: list[str]) -> float:
    """Estimate how wide these lines are."""
    return max((len(line) for line in lines), default=0) * LETTER + 2 * PAD


@dataclass
class Diagram:
    """A drawing in progress: y grows as lines are read."""

    names: list[str] = field(default_factory=list)
    titles: list[list[str]] = field(default_factory=list)
    lines: list[list[str]] = field(default_factory=list)
    x: list[float] = field(default_factory=list)
    parts: list[str] = field(default_factory=list)
    blocks: list[float] = field(default_factory=list)
    y: float = 0.0

    def read(self, source: list[str]) -> None:
        """Participants come first; everything else waits until their places are known."""
        rest = []
        for line in map(str.strip, source):
            if found := PARTICIPANT.fullmatch(line):
                self.names.append(found[1])
                self.titles.append(wrap(found[2], 18))
            elif line and line != "sequenceDiagram":
                rest.append(line)
        self.place(rest)
        top = max(len(title) for title in self.titles) * LINE + PAD
        for x, title in zip(self.x, self.titles, strict=True):
            self.box("party", x - width_of(title) / 2, 4, width_of(title), top, title)
        self.y = top + 16
        for line in rest:
            self.draw(line)
        lifelines = [f'<line class="life" x1="{x:g}" x2="{x:g}" y1="{top + 4:g}" y2="{self.y:g}"/>' for x in self.x]
        self.parts[:0] = lifelines

    def place(self, rest: list[str]) -> None:
        """Place columns far enough apart for their titles, and for the texts between neighbours."""
        gaps = [(width_of(a) + width_of(b)) / 2 + 12 for a, b in pairwise(self.titles)]
        for line in rest:
            found = MESSAGE.fullmatch(line)
            if found:
                a, b = sorted((self.names.index(found[1]), self.names.index(found[3])))
                for gap in range(a, b):
                    gaps[gap] = max(gaps[gap], (width_of(wrap(found[4], 30)) + 12) / (b - a))
        first = max(width_of(self.titles[0]) / 2 + 8, 106)
        self.x = [first]
        for gap in gaps:
            self.x.append(self.x[-1] + gap)

    @property
    def width(self) -> float:
        return self.x[-1] + max(width_of(self.titles[-1]) / 2 + 8, 106)

    def draw(self, line: str) -> None:
        """One line of the source."""
        if found := MESSAGE.fullmatch(line):
            self.message(found[1], found[2], found[3], wrap(found[4], 30))
        elif found := NOTE.fullmatch(line):
            a, b = (self.x[self.names.index(name)] for name in (found[1], found[2] or found[1]))
            span = max(b - a + 40, 0)
            text = wrap(found[3], max(27, int(span / LETTER)))
            size = max(width_of(text), span if b > a else 0)
            self.box("note", (a + b - size) / 2, self.y, size, len(text) * LINE + 8, text)
            self.y += len(text) * LINE + 20
        elif found := OPEN.fullmatch(line):
            self.blocks.append(self.y)
            self.label(f"{found[1]} {found[2] or ''}".strip())
        elif found := NEXT.fullmatch(line):
            self.rule()
            self.label(f"{found[1]} {found[2] or ''}".strip())
        elif line == "end":
            top, inset = self.blocks.pop(), 4 + 6 * len(self.blocks)
            size = f'width="{self.width - 2 * inset:g}" height="{self.y - top:g}"'
            self.parts.append(f'<rect class="block" x="{inset}" y="{top:g}" {size} rx="4"/>')
            self.y += 14
        else:
            raise ValueError(f"no sequence diagram knows {line!r}")

    def message(self, sender: str, arrow: str, receiver: str, text: list[str]) -> None:
        a, b = (self.x[self.names.index(name)] for name in (sender, receiver))
        self.text("word", (a + b) / 2, self.y, text)
        self.y += len(text) * LINE + 2
        kind = "reply" if arrow.startswith("--") else "call"
        head = {">>": "arrow", ")": "open", "x": "cross"}[arrow.lstrip("-")]
        end = b - 3 if b > a else b + 3
        self.parts.append(f'<line class="{kind}" x1="{a:g}" x2="{end:g}" y1="{self.y:g}" y2="{self.y:g}"/>')
        s = -1 if b > a else 1
        shape = {
            "arrow": f"M{end:g} {self.y:g} l{8 * s} -4.5 v9 z",
            "open": f"M{end + 8 * s:g} {self.y - 4.5:g} L{end:g} {self.y:g} l{8 * s} 4.5",
            "cross": f"M{end - 4:g} {self.y - 4:g} l8 8 m-8 0 l8 -8",
        }[head]
        self.parts.append(f'<path class="{head}" d="{shape}"/>')
        self.y += 14

    def label(self, text: str) -> None:
        lines = wrap(text, int((self.width - 40) / LETTER))
        self.text("label", 14 + 6 * len(self.blocks), self.y + 2, lines)
        self.y += len(lines) * LINE + 8

    def rule(self) -> None:
        inset = 4 + 6 * (len(self.blocks) - 1)
        self.parts.append(
            f'<line class="rule" x1="{inset}" x2="{self.width - inset:g}" y1="{self.y:g}" y2="{self.y:g}"/>'
        )

    def box(self, kind: str, x: float, y: float, width: float, height: float, text: list[str]) -> None:
        self.parts.append(f'<rect class="{kind}" x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" rx="4"/>')
        self.text("word", x + width / 2, y + (height - len(text) * LINE) / 2, text)

    def text(self, kind: str, x: float, y: float, lines: list[str]) -> None:
        for number, line in enumerate(lines):
            baseline = y + number * LINE + 12
            self.parts.append(f'<text class="{kind}" x="{x:g}" y="{baseline:g}">{escape(line)}</text>')

    def svg(self) -> str:
        size = f'viewBox="0 0 {self.width:g} {self.y + 4:g}" width="{self.width:g}" height="{self.y + 4:g}"'
        parties = escape(", ".join(" ".join(title) for title in self.titles), quote=True)
        head = f'<svg class="sequence" role="img" aria-label="Sequence diagram: {parties}" {size}>'
        return "".join([head, *self.parts, "</svg>"])


def draw(source: list[str]) -> str:
    """Return the SVG of a diagram."""
    diagram = Diagram()
    diagram.read(source)
    return diagram.svg()
