"""What the terminal shows: progress while the scenes play, then a table of results and of promises kept or broken."""

from __future__ import annotations

import sys
import time
from typing import NamedTuple


class Row(NamedTuple):
    """One line of the table; `kept` is None if the line shows no promise."""

    what: str
    seen: str
    kept: bool | None


class Report:
    """Collects the results scene by scene, and shows progress."""

    def __init__(self) -> None:
        self._scenes: list[tuple[str, list[Row]]] = []
        self._started = time.monotonic()
        self._tty = sys.stdout.isatty()
        self._share = -1

    def scene(self, title: str) -> None:
        """Begin a new scene."""
        self._scenes.append((f"{len(self._scenes) + 1}. {title}", []))
        self._line(f"\n{self._scenes[-1][0]}")

    def step(self, text: str) -> None:
        """Print what is happening now."""
        self._line(f"  {time.monotonic() - self._started:5.1f} s  {text}")

    def progress(self, done: int, total: int, text: str) -> None:
        """Show progress: one moving line on a terminal, otherwise a line for each quarter."""
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
        """Record a measurement that no promise depends on."""
        self._scenes[-1][1].append(Row(what, str(seen), None))

    def promised(self, what: str, seen: object, kept: bool) -> None:
        """Record a measurement that shows whether a promise was kept."""
        self._scenes[-1][1].append(Row(what, str(seen), kept))

    def broken(self) -> list[str]:
        """Return the promises that were broken."""
        return [f"{title}: {row.what}: {row.seen}" for title, rows in self._scenes for row in rows if row.kept is False]

    def table(self) -> str:
        """Return the table of results; ✓ marks a promise that was kept, ✗ one that was broken."""
        marks = {None: " ", True: "✓", False: "✗"}
        width = max((len(row.what) for _, rows in self._scenes for row in rows), default=0)
        lines = []
        for title, rows in self._scenes:
            lines += ["─" * 100, title]
            lines += [f"  {marks[row.kept]} {row.what:{width}}  {row.seen}" for row in rows]
        return "\n".join([*lines, "─" * 100])

    def _line(self, text: str, end: str = "\n") -> None:
        # Return to the start of the line and erase it: a progress bar may be there.
        print(f"\r\x1b[K{text}" if self._tty else text, end=end, flush=True)
