"""What commands print: aligned columns for people, JSON for programs."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

import click

from ..scripts.view import NameView
from .duration import in_words
from .plain import plain, width

F = TypeVar("F", bound=Callable[..., object])

json_option: Callable[[F], F] = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
WIDEST = 60
"""How wide a column gets: what is longer in it only moves the rest of its own line."""
HEADINGS = ("KIND", "NAME", "STATE", "HOLDER", "HELD", "TTL", "WAITING", "OLDEST")


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
    """Who was let in last, for people."""
    return " ".join(filter(None, (view.process, view.metadata))) or "-"


def row_of(view: NameView) -> tuple[str, ...]:
    """One line of a list, under `HEADINGS`."""
    held = f"{view.used}/{view.capacity}" if view.kind in ("semaphore", "latch") else str(view.used)
    return (
        view.kind,
        view.name,
        view.state,
        holder_of(view),
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
