"""Fences and the resource that checks them: histories by hand, and drawn ones that are also judged pair by pair."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.generated import examples

from .journal import Event
from .models import fencing
from .story import fault, found, history, killed, stalled, stay

MODEL = "fenced mutex"
TOTAL = {"event": "total", "pid": 0, "at": 9.0, "name": "a", "count": 2}
TWICE = [stay(1, "lock", "a", 1, 2, 5, writes=[(1.5, True)]), stay(2, "lock", "a", 3, 4, 6, writes=[(3.5, True)])]
STALE = stay(1, "lock", "a", 1, 4, 5, writes=[(3.5, False)], how="lost")
NEXT = stay(2, "lock", "a", 2, 3, 6, writes=[(2.5, True)])

AGAIN = [stay(1, "lock", "a", 1, 2, 5), stay(2, "lock", "a", 3, 4, 5)]


def total(count: int) -> Event:
    return {**TOTAL, "count": count}


@pytest.mark.parametrize(
    "told",
    [
        TWICE,
        [*TWICE, total(2)],
        [*TWICE, stay(3, "lock", "a", 5, None, 7), killed(3, 6), total(3)],
        [*TWICE, stay(3, "lock", "a", 5, 6, 7, writes=[(5.5, None)]), total(2)],
        [STALE, NEXT, stalled(1, 1.5, 3.6)],
        [STALE, NEXT, fault(1.5, 3.0, excuses=1.0)],
        [stay(1, "lock", "a", 1, 1.8, 5, writes=[(2.6, False)], how="lost"), NEXT],
        [stay(1, "read", "a", 1, 3, 5), stay(2, "read", "a", 2, 3, 5)],
        [stay(1, "lock", "a", 1, 2, 6), stay(2, "lock", "a", 3, 3.1, 5, asked=0.5, lost=True, how="lost")],
        [*AGAIN, fault(0.1, 0.2, what="step_clock", loses=True), fault(2.2, 2.5, what="flush", loses=True)],
        [stay(1, "write", "a", 1, 2, 6), stay(2, "read", "a", 3, 4, 5), fault(1.5, 1.6, what="failover", loses=True)],
    ],
    ids=[
        *("two", "with their count", "one was killed before it heard", "a write that may have counted"),
        *("a stale one is refused", "in a window", "it wrote on", "readers share one", "it knows that it is late"),
        *("its clock was set back before it lost all", "the last writer was lost"),
    ],
)
def test_good_ones(told: list[Any]) -> None:
    assert MODEL not in found(*told)


@pytest.mark.parametrize(
    ("told", "words"),
    [
        ([stay(1, "lock", "a", 1, 2, 5), stay(2, "lock", "a", 3, 4, 5)], "the fence of"),
        ([stay(1, "lock", "a", 1, 2, 6), stay(2, "lock", "a", 3, 4, 5)], "no higher fence"),
        ([stay(1, "lock", "a", 1, 2, 6), stay(2, "lock", "a", 3, 4, 5, asked=0.5)], "a lower fence"),
        ([stay(1, "write", "a", 1, 2, 6), stay(2, "read", "a", 3, 4, 5)], "no higher fence"),
        ([stay(1, "read", "a", 1, 2, 6), stay(2, "write", "a", 3, 4, 6)], "no higher fence"),
        ([stay(1, "permits", "a", 1, 4, 6), stay(2, "permits", "a", 2, 3, 6)], "the fence of"),
        ([stay(1, "multi", "ab", 1, 2, 6), stay(2, "lock", "b", 3, 4, 5)], "no higher fence"),
        ([stay(1, "lock", "a", 1, 4, 5, writes=[(3.5, True)], how="lost"), NEXT, stalled(1, 1.5, 3.6)], "wrote to"),
        ([STALE, NEXT], "nothing excuses"),
        ([STALE, NEXT, stalled(1, 1.5, 3.2)], "nothing excuses"),
        ([stay(1, "lock", "a", 1, 2, 5, writes=[(1.5, False)])], "nothing excuses"),
        ([*AGAIN, fault(2.2, 2.5, what="flush", loses=True)], "the fence of"),
        ([*AGAIN, fault(0.1, 0.2, what="step_clock", loses=True)], "the fence of"),
        ([*AGAIN, fault(2.2, 2.5, what="flush", loses=True), fault(2.6, 2.7, what="step_clock")], "the fence of"),
        ([*TWICE, total(1)], "counts 1"),
        ([*TWICE, total(3)], "counts 3"),
    ],
    ids=[
        *("one comes twice", "it falls", "it falls, in turn", "a reader's falls", "a writer has a reader's"),
        *("of a semaphore", "of a multi lock", "a stale write is accepted", "refused, and nobody stood still"),
        *("refused too long after", "refused for nothing"),
        *("it lost all", "its clock was set back", "its clock was set back only then"),
        *("one was forgotten", "one too many"),
    ],
)
def test_bad_ones(told: list[Any], words: str) -> None:
    assert words in found(*told)[MODEL].words


holds = st.tuples(st.integers(0, 8), st.integers(0, 4), st.integers(1, 4), st.integers(1, 9), st.booleans())


@examples(100)
@given(st.lists(holds, max_size=6, unique_by=lambda hold: hold[3]))
def test_every_pair(drawn: list[tuple[int, int, int, int, bool]]) -> None:
    """What is looked up in an order is found in any."""
    told = [
        stay(number, "lock", "a", asked + wait, asked + wait + long, fence, asked=asked, lost=lost)
        for number, (asked, wait, long, fence, lost) in enumerate(drawn)
    ]
    bad = any(
        fence < other and (asked > since + before or (not lost and asked + wait > since + before + long))
        for asked, wait, _, fence, lost in drawn
        for since, before, long, other, _ in drawn
    )
    assert (fencing.check(history(*told)) is not None) == bad
