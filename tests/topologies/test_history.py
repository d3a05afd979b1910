"""The checks of a history find what they must."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.crossproc.conftest import Crew

from .history import Event, History
from .load import BUSY, Load
from .verdict import LEAST, judge

SHORT, ENOUGH = 0.2, 0.3
"""Around the overlap of `second`."""


def event(what: str, attempt: int, at: float, **more: Any) -> Event:
    return {"event": what, "pid": attempt % 2, "name": "a", "attempt": attempt, "at": at, "lost": False, **more}


def hold(attempt: int, since: float, until: float, fence: int = 0) -> list[Event]:
    fence = fence or 10 * attempt + 10
    return [
        event("ask", attempt, since),
        event("enter", attempt, since, fence=fence),
        event("leave", attempt, until, fence=fence),
    ]


def second(fence: int = 15, attempt: int = 1000) -> list[Event]:
    """Is inside while the first one is, for 0.25 s."""
    return hold(attempt, 10.25, 10.75, fence)


@pytest.fixture
def load(tmp_path: Path) -> Load:
    return Load(Crew("", tmp_path), {"a": BUSY})


@pytest.fixture
def good() -> list[Event]:
    return [event for number in range(LEAST) for event in hold(number, 10.0 + number, 10.5 + number)]


def test_a_good_one(load: Load, good: list[Event]) -> None:
    judge(History(good), load, [0.0, 12.25], 0.0)


def test_a_short_overlap_may_be_allowed(load: Load, good: list[Event]) -> None:
    judge(History([*good, *second()]), load, [], ENOUGH)


def test_a_process_that_stands_still_overlaps_blamelessly(load: Load, good: list[Event]) -> None:
    stalled = {"event": "stalled", "pid": 0, "at": 10.6, "since": 10.2, "until": 10.6}
    judge(History([*good, *second(attempt=1001), stalled]), load, [], 0.0)


def never_ends(events: list[Event]) -> None:
    events.append(event("ask", 1000, 5.0))


def ends_late(events: list[Event]) -> None:
    events.append(event("ask", 1000, 5.0))
    events.append(event("missed", 1000, 45.0, error="BackendError"))


def waits_long(events: list[Event]) -> None:
    """Not too long for an attempt, but for one that waited when everything was well."""
    events.append(event("ask", 1000, 12.0))
    events.append(event("missed", 1000, 21.0, error="BackendError"))


def times_out_early(events: list[Event]) -> None:
    events.append(event("ask", 1000, 5.0))
    events.append(event("missed", 1000, 6.0, error="AcquireTimeout"))


@pytest.mark.parametrize(
    "spoil",
    [
        lambda events: events.__setitem__(slice(-3, None), hold(LEAST - 1, 100.0, 101.0, 15)),
        lambda events: events.__setitem__(slice(-3, None), hold(LEAST - 1, 100.0, 101.0, 10)),
        lambda events: events.extend(second()),
        lambda events: events.extend(hold(1000, 10.45, 10.75, 10)),
        lambda events: events.pop(),
        lambda events: events.__delitem__(slice(9)),
        never_ends,
        ends_late,
        waits_long,
        times_out_early,
    ],
    ids=[
        *("a fence falls", "a fence comes twice", "a long overlap", "an overlap with one fence", "one stays inside"),
        *("few holds", "one waits for ever", "one waits too long", "one waits long after all is well", "early timeout"),
    ],
)
def test_bad_ones(load: Load, good: list[Event], spoil: Callable[[list[Event]], object]) -> None:
    spoil(good)
    with pytest.raises(AssertionError):
        judge(History(good), load, [12.25], SHORT)
