"""The pages say what the code logs: the line of each event, and every logger."""

from __future__ import annotations

import logging
import re
from dataclasses import fields

from aiolock.event_log import COLLECTED, KEYS, LINES, values_of
from aiolock.events import Abandoned
from tests.unit.test_event_log import EVENTS

from .blocks import ROOT
from .log_calls import log_calls

OF_EVENTS = (ROOT / "docs/reference/events.md").read_text(encoding="utf-8")
OF_LOGGERS = (ROOT / "docs/how-to/troubleshooting.md").read_text(encoding="utf-8")


def rows(page: str, columns: int) -> set[tuple[str, ...]]:
    """The rows of the page's tables of this width, without backquotes."""
    found = (line[2:-2].split(" | ") for line in page.splitlines() if line.startswith("| "))
    return {tuple(re.sub(r"^(`+ ?)(.*?)( ?`+)$", r"\2", cell) for cell in row) for row in found if len(row) == columns}


def test_the_events() -> None:
    """Broken by a change to a line about an event that the page does not show."""
    lines = [*LINES.items(), (Abandoned, COLLECTED)]
    expected = {(kind.__name__, line.log.name, logging.getLevelName(line.level), line.message) for kind, line in lines}
    assert {row for row in rows(OF_EVENTS, 4) if row[1].startswith("aiolock.")} == expected


def test_the_attributes() -> None:
    """The page says that they are the fields of the event, and which have another name or are another value."""
    for event, *_ in EVENTS:
        names = [field.name for field in fields(event)]
        values = values_of(event)
        assert [*values] == [KEYS.get(name, name) for name in names]
        others = {name for name in names if values[KEYS.get(name, name)] != getattr(event, name)}
        assert others <= {"owner", "reason", "holder", "error"}
    assert all(f"`{word}`" in OF_EVENTS for pair in KEYS.items() for word in pair)


def test_the_loggers() -> None:
    """Broken by a logger that the page does not explain, or that is gone. Its lines are those of test_messages.py."""
    shown = {name for row in rows(OF_LOGGERS, 2) for name in re.findall(r"aiolock\.[a-z]+", row[0])}
    assert shown == {call.logger for call in log_calls()} | {line.log.name for line in LINES.values()}
