"""The page about logging says what the code logs: every logger, level, message and attribute."""

from __future__ import annotations

import logging
import re

from aiolock.event_log import COLLECTED, KEYS, LINES, values_of
from aiolock.events import Abandoned
from tests.unit.test_event_log import EVENTS

from .blocks import ROOT
from .log_calls import log_calls

PAGE = (ROOT / "docs/reference/logging.md").read_text(encoding="utf-8")


def rows(columns: int) -> set[tuple[str, ...]]:
    """The rows of the page's tables of this width, without backquotes."""
    found = (line[2:-2].split(" | ") for line in PAGE.splitlines() if line.startswith("| "))
    return {tuple(re.sub(r"^(`+ ?)(.*?)( ?`+)$", r"\2", cell) for cell in row) for row in found if len(row) == columns}


def test_the_events() -> None:
    """Broken by a change to a line about an event that the page does not show."""
    says = {type(event): ", ".join(f"`{key}`" for key in values_of(event)) for event, *_ in EVENTS}
    lines = [*LINES.items(), (Abandoned, COLLECTED)]
    expected = {
        (kind.__name__, line.log.name, logging.getLevelName(line.level), line.message, says[kind].strip("`"))
        for kind, line in lines
    }
    shown = {(*row[:4], row[4].strip("`")) for row in rows(5) if row[0] in {kind.__name__ for kind in LINES}}
    assert shown == expected


def test_every_attribute_is_explained() -> None:
    explained = {name for row in rows(2) for name in re.findall(r"\w+", row[0].replace("`", ""))}
    assert {key for event, *_ in EVENTS for key in values_of(event)} | {*KEYS.values()} <= explained


def test_all_other_lines() -> None:
    """Broken by a call of a logger that the page does not show, or that is gone."""
    shown = {row for row in rows(3) if row[0].startswith("aiolock.")}
    together = {(line.log.name, logging.getLevelName(line.level), line.more) for line in LINES.values() if line.more}
    assert shown == together | {(call.logger, call.levels, call.message) for call in log_calls()}


def test_the_loggers() -> None:
    shown = {name for row in rows(2) for name in re.findall(r"aiolock\.\w+", row[0])}
    assert shown == {call.logger for call in log_calls()} | {line.log.name for line in LINES.values()}
