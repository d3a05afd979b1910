"""The pages say what the code logs: what a record of an event carries, and every logger."""

from __future__ import annotations

import re
from dataclasses import fields

from aiolock.event_log import KEYS, LINES, values_of
from tests.unit.test_event_log import EVENTS

from .blocks import ROOT
from .log_calls import log_calls

OF_EVENTS = (ROOT / "docs/reference/events.md").read_text(encoding="utf-8")
OF_LOGGERS = (ROOT / "docs/how-to/troubleshooting.md").read_text(encoding="utf-8")


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
    section = OF_LOGGERS.partition("\n## Logging\n")[2].partition("\n## ")[0]
    shown = {*re.findall(r"`(aiolock\.[a-z]+)`", section)}
    assert shown == {call.logger for call in log_calls()} | {line.log.name for line in LINES.values()}
