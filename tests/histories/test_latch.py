"""The model of the latch: histories by hand, and drawn ones of which every order is tried."""

from __future__ import annotations

from itertools import combinations, permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.generated import examples

from .attempt import Attempt
from .journal import Event
from .models import latch
from .story import ask, fault, found, history, miss, stalled

COUNTS = [ask(1, "count", 1, 2, 1), ask(2, "count", 3, 4, 0)]


@pytest.mark.parametrize(
    "told",
    [
        COUNTS,
        [ask(1, "count", 1, 3, 0), ask(2, "count", 2, 4, 1)],
        [*COUNTS, ask(1, "wait", 1, 3.5, None), ask(1, "look", 2.5, 2.6, 1)],
        [ask(1, "count", 1, None, None), ask(2, "count", 5, 6, 0)],
        [ask(1, "count", 1, None, None), ask(2, "count", 5, 6, 1), ask(2, "wait", 6, 9, None)],
        [ask(1, "count", 1, 2, 1, by="x"), ask(2, "count", 3, 4, 1, by="x")],
        [*COUNTS, ask(1, "count", 5, 6, 0), ask(1, "look", 7, 8, 0)],
        [*COUNTS, ask(1, "look", 7, 8, 2), fault(6, 7, loses=True)],
        [ask(1, "count", 1, 6, 0, by="x"), ask(2, "count", 2, 3, 0, by="y")],
    ],
    ids=[
        *("two", "side by side", "one waits", "an unknown one counts", "or counts later", "the same twice"),
        *("one too many", "the server was emptied", "written again, and answered then"),
    ],
)
def test_good_ones(told: list[list[Event]]) -> None:
    assert "latch" not in found(*told)


@pytest.mark.parametrize(
    "told",
    [
        [COUNTS[0], ask(2, "count", 3, 4, 1)],
        [ask(1, "count", 1, 2, 0), ask(2, "count", 3, 4, 1)],
        [COUNTS[0], ask(2, "wait", 3, 4, None)],
        [*COUNTS, ask(1, "look", 5, 6, 1)],
        [ask(1, "count", 1, 2, 1, by="x"), ask(2, "count", 3, 4, 0, by="x")],
        [*COUNTS, miss(1, "wait", "l", 5, 9, "WaitTimeout")],
        [*COUNTS, miss(1, "wait", "l", 5, 9, "WaitTimeout"), stalled(2, 6, 7)],
    ],
    ids=[
        *("a count is lost", "it goes up", "it opens too early", "it closes", "one counts twice", "waited in vain"),
        "another stood still",
    ],
)
def test_bad_ones(told: list[list[Event]]) -> None:
    assert "latch" in found(*told)


def test_the_shortest_beginning_is_shown() -> None:
    find = found(*COUNTS, ask(1, "look", 5, 6, 1), ask(1, "look", 7, 8, 0))["latch"]
    assert max(event["at"] for event in find.events) == 6.0


def every_order(attempts: list[Attempt], total: int) -> bool:
    """Try all: the counts, which of those without an answer may be missing, and the answers."""
    counts = [("count", attempt) for attempt in attempts if attempt.kind == "count"]
    answers = [("answer", attempt) for attempt in attempts if attempt.how == "done"]
    unknown = [count for count in counts if ("answer", count[1]) not in answers]
    known = [count for count in counts if count not in unknown]
    return any(
        _explains(order, total)
        for size in range(len(unknown) + 1)
        for some in combinations(unknown, size)
        for order in permutations([*known, *some, *answers])
    )


def _explains(order: tuple[tuple[str, Attempt], ...], total: int) -> bool:
    left, seen, counted = total, set[object](), list[Attempt]()
    for place, (what, attempt) in enumerate(order):
        if any(other.ended < attempt.began for _, other in order[place + 1 :]):
            return False
        if what == "count":
            counted.append(attempt)
            left -= left > 0 and (attempt.by or id(attempt)) not in seen
            seen.add(attempt.by or id(attempt))
        else:
            right = left == (0 if attempt.kind == "wait" else attempt.counted)
            if not right or (attempt.kind == "count" and attempt not in counted):
                return False
    return True


asked = st.tuples(
    st.sampled_from(["count", "count", "look", "wait"]), st.integers(0, 6), st.integers(1, 4), st.integers(0, 2),
    st.booleans(), st.sampled_from([None, None, "x"]),
)  # fmt: skip


@examples(100)
@given(st.lists(asked, min_size=1, max_size=3))
def test_every_order(drawn: list[tuple[str, int, int, int, bool, str | None]]) -> None:
    told = [
        ask(1, kind, since, since + long if answered else None, None if kind == "wait" or not answered else left, by=by)
        for kind, since, long, left, answered, by in drawn
    ]
    attempts = history(*told).attempts
    assert latch.possible(attempts) == every_order(attempts, 2)
