"""Text for people and for programs: words of others made fit for a terminal, durations, aligned columns, JSON."""

from __future__ import annotations

import dataclasses
import json
import re
import signal
import unicodedata
from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

import click

from ..scripts.view import NameView

F = TypeVar("F", bound=Callable[..., object])

json_option: Callable[[F], F] = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
WIDEST = 60
"""How wide a column gets: what is longer in it only moves the rest of its own line."""
HEADINGS = ("KIND", "NAME", "STATE", "HOLDER", "FOR", "HELD", "TTL", "WAITING", "OLDEST")
_UNITS = {"ms": 0.001, "s": 1.0, "": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_DURATION = re.compile(r"(\d+(?:\.\d+)?) ?(ms|s|m|h|d|)")


def plain(text: str) -> str:
    """The text in one line, fit for a terminal; signs that cannot be printed are written as escapes.

    A name or metadata may contain anything, also what a terminal obeys.
    """
    if text.isprintable():
        return text
    return "".join(sign if sign.isprintable() else ascii(sign)[1:-1] for sign in text)


def width(text: str) -> int:
    """How many columns of a terminal a plain text takes."""
    if text.isascii():
        return len(text)
    return sum(
        0 if unicodedata.combining(sign) else 2 if unicodedata.east_asian_width(sign) in "WF" else 1 for sign in text
    )


def fitted(text: str, columns: int, right: bool = False) -> str:
    """The text in just as many columns, plain; what does not fit is cut off, and that is shown."""
    text = plain(text)
    if width(text) > columns:
        while text and width(text) > columns - 1:
            text = text[:-1]
        text = f"{text}…" if columns > 0 else ""
    space = " " * (columns - width(text))
    return space + text if right else text + space


class Duration(click.ParamType[float]):
    """A number with a unit, or seconds without one; the value is in seconds."""

    name = "duration"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """See `click.ParamType`."""
        if isinstance(value, float):
            return value
        found = _DURATION.fullmatch(str(value).strip())
        if found is None:
            self.fail(f"{value!r} is not a duration: write 500ms, 30s, 5m, 20h or 7d", param, ctx)
        return float(found[1]) * _UNITS[found[2]]


class SignalName(click.ParamType[int]):
    """A signal by its name, with or without SIG, or by its number; the value is the number."""

    name = "signal"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """See `click.ParamType`."""
        text = str(value).upper()
        name = text if text.startswith("SIG") else f"SIG{text}"
        try:
            return int(signal.Signals(int(text)) if text.isdecimal() else signal.Signals[name])
        except (KeyError, ValueError):
            self.fail(f"{value!r} is not a signal here: write TERM, INT or 15", param, ctx)


def in_words(seconds: float) -> str:
    """A duration for a column: 0.8s, 12.3s, 4m10s, 3h20m, 2d04h."""
    if seconds < 60:
        return f"{seconds:.1f}s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    if days:
        return f"{days}d{hours:02d}h"
    return f"{hours}h{minutes:02d}m" if hours else f"{minutes}m{rest:02d}s"


def print_json(value: object) -> None:
    """Print one value, as one line."""
    click.echo(json.dumps(value, ensure_ascii=False, separators=(", ", ": ")))


def facts_of(view: NameView, deep: bool = False) -> dict[str, object]:
    """What JSON says of a name; only with `deep` the lists of holders and waiters."""
    facts = dataclasses.asdict(view)
    if not deep:
        del facts["holders"], facts["queue"]
    return {key: _rounded(value) for key, value in facts.items()}


def _rounded(value: object) -> object:
    """Milliseconds are enough."""
    if isinstance(value, float):
        return round(value, 3)
    if isinstance(value, dict):
        return {key: _rounded(one) for key, one in value.items()}
    return [_rounded(one) for one in value] if isinstance(value, list | tuple) else value


def holder_of(view: NameView) -> str:
    """Who was granted it last, for people."""
    return " ".join(filter(None, (view.process, view.metadata))) or "-"


def row_of(view: NameView) -> tuple[str, ...]:
    """One line of a list, under `HEADINGS`."""
    held = f"{view.used}/{view.capacity}" if view.kind in ("semaphore", "latch") else str(view.used)
    return (
        view.kind,
        view.name,
        view.state,
        holder_of(view),
        "-" if view.held_for is None else in_words(view.held_for),
        held if view.kind not in ("condition", "once") else "-",
        "-" if view.ttl is None else in_words(view.ttl),
        str(view.waiting),
        "-" if view.oldest_wait is None else in_words(view.oldest_wait),
    )


def columns(rows: Iterable[Sequence[str]]) -> str:
    """Align them; nothing is cut off, so that a name can be copied."""
    shown = [[plain(cell) for cell in row] for row in rows]
    if not shown:
        return ""
    widest = [max(filter(WIDEST.__ge__, map(width, column)), default=0) for column in zip(*shown, strict=True)]
    return "\n".join(
        "  ".join(cell + " " * (most - width(cell)) for cell, most in zip(row, widest, strict=True)).rstrip()
        for row in shown
    )
