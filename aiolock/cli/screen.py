"""The live picture of `top`, in a terminal of any size."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
import termios
import tty
from collections.abc import Iterator

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from .duration import in_words
from .frame import Frame, Row
from .output import holder_of

WIDE, NARROW = 72, 44
"""Columns from which it is shown who holds a name, and below which only who waits."""
_LEAVING = (b"q", b"Q", b"\x03", b"\x1b")


class Screen:
    """Shows frames until someone presses q; `with` begins and restores the terminal.

    Args:
        console: where.
    """

    def __init__(self, console: Console | None = None) -> None:
        self._console = console or Console()
        self._live = Live(console=self._console, screen=True, auto_refresh=False)
        self.left: asyncio.Event = asyncio.Event()

    @contextlib.contextmanager
    def shown(self) -> Iterator[None]:
        """Take the terminal, and give it back as it was."""
        with self._keys(), self._live:
            yield

    @contextlib.contextmanager
    def _keys(self) -> Iterator[None]:
        if not sys.stdin.isatty():
            yield
            return
        stdin, loop = sys.stdin.fileno(), asyncio.get_running_loop()
        before = termios.tcgetattr(stdin)
        tty.setcbreak(stdin)
        loop.add_reader(stdin, self._pressed, stdin)
        try:
            yield
        finally:
            loop.remove_reader(stdin)
            termios.tcsetattr(stdin, termios.TCSADRAIN, before)

    def _pressed(self, stdin: int) -> None:
        keys = os.read(stdin, 16)
        if not keys or keys[:1] in _LEAVING:
            self.left.set()

    def show(self, frame: Frame | None, trouble: str = "") -> None:
        """Show a frame; `trouble` says why there is no newer one."""
        self._live.update(picture(frame, self._console.width, self._console.height, trouble), refresh=True)


def picture(frame: Frame | None, width: int, height: int, trouble: str = "") -> Group:
    """Draw a frame.

    Args:
        frame: None if there is none yet.
        width: columns.
        height: lines.
        trouble: shown in place of the summary.
    """
    head = Text(trouble or (_summary(frame) if frame else "looking …"), "bold red" if trouble else "bold")
    head.truncate(width, overflow="ellipsis")
    rows = frame.rows if frame else ()
    room = max(0, height - 3)
    table = Table(box=None, pad_edge=False, expand=True, header_style="reverse")
    table.add_column("NAME", no_wrap=True, overflow="ellipsis", ratio=3, min_width=8)
    shown = {"STATE": NARROW, "HOLDER": WIDE, "TTL": WIDE, "WAITING": 0, "OLDEST": NARROW, "PER S": NARROW}
    columns = [heading for heading, least in shown.items() if width >= least]
    for heading in columns:
        left = heading in ("STATE", "HOLDER")
        table.add_column(
            heading, no_wrap=True, overflow="ellipsis", justify="left" if left else "right",
            ratio=2 if heading == "HOLDER" else None, width=None if heading == "HOLDER" else 9 if left else 7,
        )  # fmt: skip
    for row in rows[:room]:
        cells = _cells(row)
        table.add_row(*(_plain(cells[heading]) for heading in ("NAME", *columns)))
    hidden = len(rows) - room
    foot = Text(f"{hidden} more  " if hidden > 0 else "", "dim")
    foot.append("q: leave", "dim")
    foot.truncate(width, overflow="ellipsis")
    return Group(head, table, foot)


def _summary(frame: Frame) -> str:
    oldest = "" if frame.oldest_wait is None else f", for {in_words(frame.oldest_wait)} at most"
    where = frame.servers[0] if len(frame.servers) == 1 else f"{len(frame.servers)} masters"
    return f"{frame.held} held, {frame.waiting} waiting{oldest}; {frame.hand_offs:.1f} hand-offs/s seen; {where}"


def _cells(row: Row) -> dict[str, str]:
    view = row.view
    return {
        "NAME": view.name if view.kind == "lock" else f"{view.name} ({view.kind})",
        "STATE": view.state,
        "HOLDER": holder_of(view),
        "TTL": "" if view.ttl is None else in_words(view.ttl),
        "WAITING": str(view.waiting) if view.waiting else "",
        "OLDEST": "" if view.oldest_wait is None else in_words(view.oldest_wait),
        "PER S": f"{row.hand_offs:.1f}" if row.hand_offs else "",
    }


def _plain(cell: str) -> Text:
    return Text("".join(sign if sign.isprintable() else "?" for sign in cell))
