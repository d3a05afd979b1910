"""The live picture of `top`, in a terminal of any size."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import shutil
import signal
import sys
import termios
import tty
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import cycle

from .frame import Frame, Row
from .text import fitted, holder_of, in_words, plain, width

_KEYS = re.compile(r"\x1b(?:\[[\d;]*|O)[A-Za-z~]|.", re.DOTALL)
"""A key as a terminal sends it: those without a sign of their own begin with Escape."""
_UP, _DOWN = ("\x1b[A", "\x1bOA", "k"), ("\x1b[B", "\x1bOB", "j")
_PAGE_UP, _PAGE_DOWN = ("\x1b[5~",), ("\x1b[6~", " ")
_HOME, _END = ("\x1b[H", "\x1b[1~", "g"), ("\x1b[F", "\x1b[4~", "G")
_LEAVE, _ESCAPE, _ENTER, _BACK = ("q", "Q", "\x03"), "\x1b", ("\r", "\n"), ("\x7f", "\b")
_TAKEN, _GIVEN_BACK = "\x1b[?1049h\x1b[?25l", "\x1b[?25h\x1b[?1049l"
_BOLD, _RED, _REVERSE, _DIM, _NORMAL = "\x1b[1m", "\x1b[1;31m", "\x1b[7m", "\x1b[2m", "\x1b[0m"
_ENDING = (signal.SIGTERM, signal.SIGHUP)

SORTS: dict[str, Callable[[Row], object]] = {
    "waiting": lambda row: (-row.view.waiting, -row.hand_offs),
    "oldest": lambda row: -(row.view.oldest_wait or 0.0),
    "per s": lambda row: -row.hand_offs,
    "for": lambda row: -(row.view.held_for or 0.0),
    "ttl": lambda row: float("inf") if row.view.ttl is None else row.view.ttl,
    "holder": lambda row: holder_of(row.view),
    "name": lambda row: row.view.name,
}
"""How rows can be sorted."""
PRIORITY = ("WAITING", "HOLDER", "STATE", "OLDEST", "FOR", "PER S", "TTL")
"""Which columns a narrow terminal shows next to the name: the first."""
COLUMNS = ("NAME", "STATE", "HOLDER", "FOR", "TTL", "WAITING", "OLDEST", "PER S")


@dataclass(slots=True)
class Look:
    """How someone wants to see a frame.

    Attributes:
        sort: one of `SORTS`.
        only: shows only names and holders with this text.
        top: how many rows are above the first that is shown.
    """

    sort: str = "waiting"
    only: str = ""
    top: int = 0

    def rows(self, frame: Frame | None) -> list[Row]:
        """All that may be shown, in order."""
        rows = [row for row in (frame.rows if frame else ()) if self.only in f"{row.view.name}\n{holder_of(row.view)}"]
        return sorted(rows, key=lambda row: (SORTS[self.sort](row), row.view.name, row.view.kind))


class Screen:
    """Shows frames until someone presses q; `with` begins and restores the terminal.

    Attributes:
        left: someone pressed q, or a signal came.
        ended_by: that signal; None if there was none.
    """

    def __init__(self) -> None:
        self.left: asyncio.Event = asyncio.Event()
        self.ended_by: int | None = None
        self._frame: Frame | None = None
        self._trouble = ""
        self._look = Look()
        self._sorts = cycle([*list(SORTS)[1:], self._look.sort])
        self._typing = False

    @contextlib.contextmanager
    def shown(self) -> Iterator[None]:
        """Take the terminal, and give it back as it was."""
        with self._signals(), self._keys():
            self._write(_TAKEN)
            self._draw()
            try:
                yield
            finally:
                self._write(_GIVEN_BACK)

    @contextlib.contextmanager
    def _signals(self) -> Iterator[None]:
        loop = asyncio.get_running_loop()
        caught = [number for number in _ENDING if signal.getsignal(number) is not signal.SIG_IGN]
        for number in caught:
            loop.add_signal_handler(number, self._end, number)
        loop.add_signal_handler(signal.SIGWINCH, self._draw)
        try:
            yield
        finally:
            for number in (*caught, signal.SIGWINCH):
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
            self._write(_GIVEN_BACK)
            termios.tcsetattr(stdin, termios.TCSADRAIN, before)
            os.killpg(os.getpgrp(), signal.SIGTSTP)
            loop.add_signal_handler(signal.SIGTSTP, stop)
            _by_key(stdin)
            self._write(_TAKEN)
            self._draw()

        _by_key(stdin)
        loop.add_reader(stdin, self._read, stdin)
        loop.add_signal_handler(signal.SIGTSTP, stop)
        try:
            yield
        finally:
            loop.remove_signal_handler(signal.SIGTSTP)
            loop.remove_reader(stdin)
            with contextlib.suppress(termios.error):  # it hung up
                termios.tcsetattr(stdin, termios.TCSADRAIN, before)

    def _read(self, stdin: int) -> None:
        try:
            keys = os.read(stdin, 1024).decode(errors="ignore")
        except OSError:  # it hung up
            keys = _LEAVE[0]
        for key in _KEYS.findall(keys) or _LEAVE[:1]:
            self._pressed(key)
        self._draw()

    def _pressed(self, key: str) -> None:
        look, page = self._look, max(1, shutil.get_terminal_size().lines - 3)
        if key == _ESCAPE and (self._typing or look.only):
            self._typing, look.only = False, ""
        elif self._typing:
            if key in _ENTER:
                self._typing = False
            elif key in _BACK:
                look.only = look.only[:-1]
            elif key.isprintable():
                look.only += key
        elif key in _LEAVE or key == _ESCAPE:
            self.left.set()
        elif key == "s":
            look.sort, look.top = next(self._sorts), 0
        elif key == "/":
            self._typing, look.top = True, 0
        else:
            steps = {_UP: -1, _DOWN: 1, _PAGE_UP: -page, _PAGE_DOWN: page, _HOME: -look.top, _END: 10**9}
            look.top += sum(step for keys, step in steps.items() if key in keys)

    def _end(self, number: int) -> None:
        self.ended_by = number
        self.left.set()

    def show(self, frame: Frame) -> None:
        """Show a frame."""
        self._frame, self._trouble = frame, ""
        self._draw()

    def trouble(self, text: str) -> None:
        """Say why there is no newer frame."""
        self._trouble = text
        self._draw()

    def _draw(self) -> None:
        size = shutil.get_terminal_size()
        head, *rows, foot = picture(self._frame, self._look, size.columns, size.lines, self._trouble, self._typing)
        styles = [_RED if self._trouble else _BOLD, *([_REVERSE] if rows else []), *([""] * (len(rows) - 1)), _DIM]
        lines = [f"\x1b[2K{style}{line}{_NORMAL}" for style, line in zip(styles, (head, *rows, foot), strict=True)]
        self._write("\x1b[H" + "\r\n".join(lines) + "\x1b[J")

    def _write(self, text: str) -> None:
        with contextlib.suppress(OSError):  # it hung up
            sys.stdout.buffer.write(text.encode(sys.stdout.encoding, "replace"))
            sys.stdout.buffer.flush()


def _by_key(terminal: int) -> None:
    """Read each key at once. A key that sends a signal drops no output: it could be what gives the terminal back."""
    tty.setcbreak(terminal)
    mode = termios.tcgetattr(terminal)
    mode[3] |= termios.NOFLSH
    termios.tcsetattr(terminal, termios.TCSADRAIN, mode)


def picture(
    frame: Frame | None, look: Look, columns: int, lines: int, trouble: str = "", typing: bool = False
) -> list[str]:
    """Draw a frame.

    Args:
        frame: None if there is none yet.
        look: what of it; scrolled back if there is nothing so far down.
        columns: how wide it gets.
        lines: how high at most; from 2.
        trouble: shown in place of the summary.
        typing: the text of the look is being typed.

    Returns:
        The lines: a summary, headings, rows, and what keys do.
    """
    rows, room = look.rows(frame), max(0, lines - 3)
    look.top = max(0, min(look.top, len(rows) - room))
    shown = [_cells(row) for row in rows[look.top : look.top + room]]
    widths = _widths(shown, columns)
    table = [
        " ".join(fitted(cells[name], most, name in COLUMNS[3:]) for name, most in widths.items()) for cells in shown
    ]
    heading = " ".join(fitted(name, most, name in COLUMNS[3:]) for name, most in widths.items())
    where = f"{look.top + 1}-{look.top + len(shown)} of {len(rows)}" if 0 < len(shown) < len(rows) else f"{len(rows)}"
    only = f"/{look.only}{'_' if typing else ''}" if look.only or typing else "/: filter"
    foot = f"q: leave  {where}  s: by {look.sort}  {only}"
    head = trouble or (_summary(frame) if frame else "looking …")
    return [fitted(line, columns) for line in (head, *([heading] if lines > 2 else []), *table, foot)]


def _widths(rows: list[dict[str, str]], columns: int) -> dict[str, int]:
    """Which columns are shown, and how wide."""
    needs = {name: max([width(name), *(width(plain(cells[name])) for cells in rows)]) for name in COLUMNS}
    least = {**needs, "NAME": min(needs["NAME"], max(8, columns // 5))}
    processes = [cells["HOLDER"].partition(" ")[0] + " …" for cells in rows]  # who it is, without all that it says
    holder = max([width("HOLDER"), *(width(plain(process)) for process in processes)])
    least["HOLDER"] = min(needs["HOLDER"], holder, columns // 2 + 2)
    taken, left = {"NAME": least["NAME"]}, columns - least["NAME"]
    for name in PRIORITY:
        if left > least[name]:
            taken[name] = least[name]
            left -= least[name] + 1
    for name in ("NAME", "HOLDER"):
        more = max(0, min(left, needs[name] - taken.get(name, needs[name])))
        if name in taken:
            taken[name] += more
            left -= more
    return {name: taken[name] for name in COLUMNS if name in taken}


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
        "FOR": "" if view.held_for is None else in_words(view.held_for),
        "TTL": "" if view.ttl is None else in_words(view.ttl),
        "WAITING": str(view.waiting) if view.waiting else "",
        "OLDEST": "" if view.oldest_wait is None else in_words(view.oldest_wait),
        "PER S": f"{row.hand_offs:.1f}" if row.hand_offs else "",
    }
