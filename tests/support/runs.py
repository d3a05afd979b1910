"""Runs of the suite in other environments, and the tables of their results in the documentation."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
COUNT = re.compile(r"(\d+) (passed|failed|errors?|skipped)")
SKIPPED = re.compile(r"^SKIPPED \[(\d+)\] [^:]+(?::\d+)?: (.*)$", re.M)


class Outcome(NamedTuple):
    """What a run of pytest said.

    Attributes:
        green: every test passed or was skipped.
        text: the counts, for a table.
        skipped: how many tests gave each reason.
    """

    green: bool
    text: str
    skipped: Mapping[str, int]


def run(python: str | Path, tests: Sequence[str], environment: Mapping[str, str] | None = None) -> Outcome:
    """Run tests; print what pytest said unless all passed."""
    old = ["-W", "ignore::SyntaxWarning"]  # Python 3.14 finds fault with the code of the oldest packages
    words = [str(python), "-m", "pytest", "-n", "auto", "--dist", "worksteal", "-q", *old, *tests]
    done = subprocess.run(words, stdout=subprocess.PIPE, text=True, check=False, cwd=ROOT, env=environment)
    last = done.stdout.rstrip().rpartition("\n")[2]
    counts = {word: number for number, word in COUNT.findall(last)}
    green = done.returncode == 0 and "passed" in counts
    if not green:
        print(done.stdout)
    skipped: dict[str, int] = {}
    for number, reason in SKIPPED.findall(done.stdout):
        skipped[reason] = skipped.get(reason, 0) + int(number)
    text = ", ".join(f"{number} {word}" for word, number in counts.items() if word != "skipped")
    return Outcome(green, text if green else f"**{text or 'did not end'}**", skipped)


def write(page: Path, name: str, table: str) -> None:
    """Replace the table between the comments `name` and `end` of a page."""
    _replace(page, name, lambda _: table)


def write_row(page: Path, name: str, row: str, columns: int) -> None:
    """Put a row into such a table, in place of the one that begins with the same columns; the other rows stay."""

    def put(table: str) -> str:
        same = row.split("|")[: columns + 1]
        lines = table.splitlines(keepends=True)
        kept = [row if line.split("|")[: columns + 1] == same else line for line in lines]
        return "".join(kept if row in kept else [*kept, row])

    _replace(page, name, put)


def _replace(page: Path, name: str, change: Callable[[str], str]) -> None:
    place = re.compile(rf"(?<=<!-- {name} -->\n).*?(?=<!-- end -->)", re.S)
    text, found = place.subn(lambda match: change(match[0]), page.read_text(encoding="utf-8"))
    assert found == 1, f"{page} has no place for the table {name!r}"
    page.write_text(text, encoding="utf-8")
