"""How attempts end, and what a history counts: by hand."""

from __future__ import annotations

from typing import Any

import pytest

from .story import act, fault, found, history, killed, miss, plan, stalled, stay

QUICK = plan(request_timeout=1.0, ttl=2.0, patience=3.0)
HEALED = {"event": "healed", "pid": 0, "at": 20.0}
LOST = stay(1, "lock", "a", 11, 12, how="lost", reason="UNREACHABLE")
WAITS = stay(1, "lock", "a", 24, 25, asked=19)


@pytest.mark.parametrize(
    "told",
    [
        [miss(1, "lock", "a", 1, 3, "AcquireTimeout", timeout=2.0)],
        [miss(1, "resume", "a", 1, 3, "NotOwned")],
        [miss(1, "lock", "a", 1, 12, "AcquireTimeout", timeout=2.0), stalled(1, 2, 10)],
        [LOST, fault(10, 11)],
        [LOST, stalled(1, 11, 11.5)],
        [LOST, stalled(0, 11, 11.5)],
        [stay(1, "lock", "a", 11, 12, how="lost", reason="MAX_HOLD")],
        [stay(1, "lock", "a", 11, 12, how="lost", reason="TAKEN_OVER"), act(2, "force", "a", 11.9, 12.1)],
        [miss(1, "reserve", "r", 11, 11.5, "UNREACHABLE", how="lost", within=0.5)],
        [stay(1, "lock", "a", 11, None), killed(1, 12)],
        [WAITS, HEALED, fault(21, 22)],
        [WAITS, HEALED, stalled(2, 21, 23)],
    ],
)
def test_good_ones(told: list[Any]) -> None:
    assert not found(QUICK, *told)


@pytest.mark.parametrize(
    ("told", "words"),
    [
        ([miss(1, "lock", "a", 1, 2, "AcquireTimeout", timeout=2.0)], "too early"),
        ([miss(1, "lock", "a", 1, 12, "AcquireTimeout", timeout=2.0)], "for at most"),
        ([miss(1, "lock", "a", 1, 2, "KeyError")], "KeyError"),
        ([miss(1, "lock", "a", 1, 2, "NotOwned")], "NotOwned"),
        ([LOST], "nothing was wrong"),
        ([miss(1, "reserve", "r", 11, 11.5, "UNREACHABLE", how="lost", within=3.0)], "nothing was wrong"),
        ([LOST, fault(1, 2), stalled(2, 11, 12)], "nothing was wrong"),
        ([LOST, act(2, "force", "b", 11, 11.1)], "nothing was wrong"),
        ([LOST, act(2, "force", "a", 12.5, 12.6)], "nothing was wrong"),
        ([stay(1, "lock", "a", 11, None)], "never ended"),
        ([WAITS, HEALED], "after all was well"),
        ([{"event": "failed", "pid": 1, "at": 1.0, "text": "Traceback"}], "Traceback"),
    ],
)
def test_bad_ones(told: list[Any], words: str) -> None:
    assert words in found(QUICK, *told)["endings"].words


def test_recoveries() -> None:
    """Of the processes that were there."""
    told = history(HEALED, WAITS, stay(2, "lock", "b", 18, 19), stay(2, "lock", "b", 21, 22), killed(3, 15))
    assert told.recoveries() == [4.0]


def test_counts() -> None:
    told = history(LOST, fault(1, 2), stay(2, "lock", "a", 3, 4, writes=[(3.5, True), (3.6, False)]))
    assert told.counts() == {
        "operations": 2, "grants": 2, "writes": 1, "refused": 1, "faults": {"it": 1}, "lost": {"UNREACHABLE": 1},
    }  # fmt: skip
