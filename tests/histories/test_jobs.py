"""Reserved jobs: histories by hand."""

from __future__ import annotations

from typing import Any

import pytest

from .journal import Event
from .story import act, fault, found, killed, miss, stay

MODEL = "reserved job"


def reserves(pid: int, ticket: str, since: float, until: float, within: float = 10.0) -> list[Event]:
    began, ended = act(pid, "reserve", "r", since, until, within=within)
    return [began, {**ended, "event": "reserved", "ticket": ticket}, ended]


def refused(pid: int, since: float, until: float) -> list[Event]:
    return act(pid, "reserve", "r", since, until, within=10.0)


def job(pid: int, ticket: str, since: float, until: float | None, done: bool = True, **more: Any) -> list[Event]:
    """It asks at `since`, and runs from a tenth later on."""
    given = {"ticket": ticket, "within": 10.0, "asked": since, **more}
    told = stay(pid, "job", "r", since + 0.1, until, **given)
    if done and until is not None:
        told.insert(-2, {**told[-2], "event": "finished"})
    return told


def end(ticket: str, since: float, until: float) -> list[Event]:
    return act(3, "unreserve", "r", since, until, ticket=ticket)


def late(pid: int, ticket: str, since: float, until: float) -> list[Event]:
    return miss(pid, "job", "r", since, until, "NotOwned", ticket=ticket, within=10.0)


FIRST = reserves(1, "x", 1, 1.1)
SECOND = reserves(2, "y", 5, 5.1)


@pytest.mark.parametrize(
    "told",
    [
        [FIRST, job(2, "x", 2, 3), SECOND],
        [FIRST, job(2, "x", 2, 3, done=False), job(3, "x", 4, 4.5), SECOND],
        [FIRST, end("x", 3, 3.1), SECOND, late(2, "x", 6, 6.1)],
        [reserves(1, "x", 1, 1.1, within=3.0), SECOND, late(2, "x", 6, 6.1)],
        [reserves(1, "x", 1, 1.1, within=3.0), job(2, "x", 6, 7)],
        [FIRST, SECOND, fault(2, 3, loses=True)],
        [FIRST, refused(2, 5, 5.1)],
        [FIRST, job(2, "x", 2, 3), refused(2, 2.9, 3.05)],
        [FIRST, job(2, "x", 2, 3), refused(2, 4, 4.1), fault(2.5, 3.5)],
        [FIRST, job(2, "x", 2, None, done=False), killed(2, 2.5), refused(3, 11, 11.5)],
        [FIRST, job(2, "x", 9, 14), refused(3, 13, 13.1)],
        [FIRST, job(2, "x", 2, 3, done=False, how="cancelled"), SECOND],
        [FIRST, job(2, "x", 2, None, done=False), killed(2, 2.5), SECOND],
    ],
    ids=[
        *("one after the other", "over a retry", "it was revoked", "it had expired", "late, and nobody else came"),
        *("the server forgot", "it waits", "it ends just then", "its end came late", "its worker died"),
        *("it runs for longer", "it was cancelled", "its worker died, and the next came"),
    ],
)
def test_good_ones(told: list[list[Event]]) -> None:
    assert MODEL not in found(*told)


@pytest.mark.parametrize(
    ("told", "words"),
    [
        ([FIRST, SECOND], "together with"),
        ([FIRST, job(2, "x", 2, 3, done=False), SECOND], "together with"),
        ([FIRST, job(2, "x", 2, 7), SECOND], "together with"),
        ([FIRST, job(2, "x", 9, 16), reserves(2, "y", 13, 13.1)], "together with"),
        ([FIRST, SECOND, fault(2, 3)], "together with"),
        ([reserves(1, "x", 1, 1.1, 3.0), SECOND, job(3, "y", 5.2, 5.5), job(2, "x", 6, 7)], "ran, though"),
        ([FIRST, late(2, "x", 6, 6.1)], "was not run"),
        ([FIRST, job(3, "x", 2, 3, done=False), late(2, "x", 11.5, 11.6)], "was not run"),
        ([refused(2, 5, 5.1)], "though nobody had"),
        ([FIRST, job(2, "x", 2, 3), refused(2, 4, 4.1)], "though nobody had"),
        ([FIRST, end("x", 2, 3), refused(2, 4, 4.1)], "though nobody had"),
        ([reserves(1, "x", 1, 1.1, within=3.0), refused(2, 5, 5.1)], "though nobody had"),
    ],
    ids=[
        *("two at a time", "the retry lost it", "while it runs", "a late attempt", "a fault that loses nothing"),
        *("it ran late", "a good one was refused", "so was a retry", "refused from the beginning", "after a job's end"),
        *("after it was revoked", "after its time"),
    ],
)
def test_bad_ones(told: list[list[Event]], words: str) -> None:
    assert words in found(*told)[MODEL].words
