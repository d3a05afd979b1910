"""The live picture of `top`, in a terminal of any size."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
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
from .plain import plain

WIDE, NARROW = 72, 44
"""Columns from which it is shown who holds a name, and below which only who waits."""
_LEAVING = (b"q", b"Q", b"\x03")
_ESCAPE = b"\x1b"
"""Alone it is this key; arrows, and the wheel of a mouse, begin with it."""
_ENDING = (signal.SIGTERM, signal.SIGHUP)


class Screen:
    """Shows frames until someone presses q; `with` begins and restores the terminal.

    Args:
        console: where.

    Attributes:
        left: someone pressed q, or a signal came.
        ended_by: that signal; None if there was none.
    """

    def __init__(self, console: Console | None = None) -> None:
        self._console = console or Console()
        self._live = Live(console=self._console, screen=True, auto_refresh=False)
        self._drawn: Group = picture(None, self._console.width, self._console.height)
        self.left: asyncio.Event = asyncio.Event()
        self.ended_by: int | None = None

    @contextlib.contextmanager
    def shown(self) -> Iterator[None]:
        """Take the terminal, and give it back as it was."""
        with self._signals(), self._keys():
            self._live.start()
            try:
                yield
            finally:
                with contextlib.suppress(OSError):  # it hung up
                    self._live.stop()

    @contextlib.contextmanager
    def _signals(self) -> Iterator[None]:
        loop = asyncio.get_running_loop()
        caught = [number for number in _ENDING if signal.getsignal(number) is not signal.SIG_IGN]
        for number in caught:
            loop.add_signal_handler(number, self._end, number)
        try:
            yield
        finally:
            for number in caught:
                loop.remove_signal_handler(number)

    @contextlib.contextmanager
    def _keys(self) -> Iterator[None]:
        if not sys.stdin.isatty():
            yield
            return
        stdin, loop = sys.stdin.fileno(), asyncio.get_running_loop()
        before = termios.tcgetattr(stdin)

        def stop() -> None:
            """As Ctrl-Z does: the shell gets the terminal as it was; when it continues us, we take it again."""
            loop.remove_signal_handler(signal.SIGTSTP)
            self._live.stop()
            termios.tcsetattr(stdin, termios.TCSADRAIN, before)
            os.killpg(os.getpgrp(), signal.SIGTSTP)
            loop.add_signal_handler(signal.SIGTSTP, stop)
            tty.setcbreak(stdin)
            self._live.start()
            self._live.update(self._drawn, refresh=True)

        tty.setcbreak(stdin)
        loop.add_reader(stdin, self._pressed, stdin)
        loop.add_signal_handler(signal.SIGTSTP, stop)
        try:
            yield
        finally:
            loop.remove_signal_handler(signal.SIGTSTP)
            loop.remove_reader(stdin)
            with contextlib.suppress(termios.error):  # it hung up
                termios.tcsetattr(stdin, termios.TCSADRAIN, before)

    def _pressed(self, stdin: int) -> None:
        try:
            keys = os.read(stdin, 16)
        except OSError:  # it hung up
            keys = b""
        if not keys or keys == _ESCAPE or keys[:1] in _LEAVING:
            self.left.set()

    def _end(self, number: int) -> None:
        self.ended_by = number
        self.left.set()

    def show(self, frame: Frame | None, trouble: str = "") -> None:
        """Show a frame; `trouble` says why there is no newer one."""
        self._drawn = picture(frame, self._console.width, self._console.height, trouble)
        self._live.update(self._drawn, refresh=True)


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
        table.add_row(*(Text(plain(cells[heading])) for heading in ("NAME", *columns)))
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
