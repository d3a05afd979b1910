"""What the terminal shows: progress while the scenes play, then a table of what was seen and which promises held."""

from __future__ import annotations

import sys
import time
from typing import NamedTuple


class Row(NamedTuple):
    """One line of the table; `kept` is None where nothing was promised."""

    what: str
    seen: str
    kept: bool | None


class Report:
    """Collects what was seen, scene by scene, and shows progress meanwhile."""

    def __init__(self) -> None:
        self._scenes: list[tuple[str, list[Row]]] = []
        self._started = time.monotonic()
        self._tty = sys.stdout.isatty()
        self._share = -1

    def scene(self, title: str) -> None:
        """A new scene begins."""
        self._scenes.append((f"{len(self._scenes) + 1}. {title}", []))
        self._line(f"\n{self._scenes[-1][0]}")

    def step(self, text: str) -> None:
        """Say what is going on."""
        self._line(f"  {time.monotonic() - self._started:5.1f} s  {text}")

    def progress(self, done: int, total: int, text: str) -> None:
        """Show how far something is: one moving line on a terminal, else a line a quarter."""
        share = done * (100 if self._tty else 4) // total
        if share == self._share:
            return
        self._share = share
        if self._tty:
            bar = "█" * (24 * done // total)
            self._line(f"           {bar:░<24} {done}/{total} {text}", end="" if done < total else "\n")
        else:
            self.step(f"{done}/{total} {text}")

    def saw(self, what: str, seen: object) -> None:
        """A measured fact, about which nothing was promised."""
        self._scenes[-1][1].append(Row(what, str(seen), None))

    def promised(self, what: str, seen: object, kept: bool) -> None:
        """A measured fact that shows whether a promise held."""
        self._scenes[-1][1].append(Row(what, str(seen), kept))

    def broken(self) -> list[str]:
        """The promises that did not hold."""
        return [f"{title}: {row.what}: {row.seen}" for title, rows in self._scenes for row in rows if row.kept is False]

    def table(self) -> str:
        """What happened, for reading; ✓ marks a promise kept, ✗ one broken."""
        marks = {None: " ", True: "✓", False: "✗"}
        width = max((len(row.what) for _, rows in self._scenes for row in rows), default=0)
        lines = []
        for title, rows in self._scenes:
            lines += ["─" * 100, title]
            lines += [f"  {marks[row.kept]} {row.what:{width}}  {row.seen}" for row in rows]
        return "\n".join([*lines, "─" * 100])

    def _line(self, text: str, end: str = "\n") -> None:
        # \r and "erase to the end of the line": over a progress bar that may stand there.
        print(f"\r\x1b[K{text}" if self._tty else text, end=end, flush=True)
