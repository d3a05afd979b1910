"""In which order those who wait come in: histories by hand, and drawn ones that are also judged pair by pair."""

from __future__ import annotations

from itertools import combinations

from hypothesis import given
from hypothesis import strategies as st

from tests.support.generated import examples

from .journal import Event
from .models import order
from .story import fault, found, history, plan, stalled, stay

EARLY = stay(1, "fair", "a", 12, 13, 9, asked=10, queued=10.1)
LATE = stay(2, "fair", "a", 11, 11.5, 8, asked=10.2)


def test_a_fair_lock() -> None:
    assert not found(EARLY, stay(2, "fair", "a", 14, 15, 10, asked=10.2))
    assert not found(EARLY, stay(2, "fair", "a", 11, 11.5, 8, asked=10.05))
    find = found(EARLY, LATE)["fair order"]
    assert [event["event"] for event in find.events[:3]] == ["began", "queued", "began"]


def test_what_excuses_an_overtaking() -> None:
    """It was not known to be in the queue; its process stood still; something was broken."""
    assert not found(stay(1, "fair", "a", 12, 13, 9, asked=10), LATE)
    assert not found(EARLY, LATE, stalled(1, 10.5, 11))
    assert not found(EARLY, LATE, fault(10.5, 11))
    assert not found(EARLY, LATE, fault(6.0, 8.0))
    assert found(EARLY, LATE, fault(1.0, 2.0))
    assert found(EARLY, LATE, stalled(2, 10.5, 11))


def crowd(younger: int) -> list[Event]:
    """Some come in one after the other while one waits."""
    told = stay(1, "lock", "a", 80, 81, 5000, asked=10, queued=10.1)
    for number in range(younger):
        told += stay(2, "lock", "a", 11 + number, 11.5 + number, 100 + number)
    return told


def test_a_cohort() -> None:
    """Two processes, two hand-offs: eight may come in before."""
    two = plan(processes=2, handoff_limit=2)
    assert not found(two, crowd(8))
    assert "9 younger ones" in found(two, crowd(9))["cohort order"].words
    assert not found(two, crowd(9), stalled(1, 20, 21))
    ahead = [stay(1, "lock", "a", 70 + number, 70.5 + number, 4000 + number, asked=9) for number in range(2)]
    assert not found(two, crowd(9), *ahead)


@examples(100)
@given(st.permutations(range(5)), st.lists(st.tuples(st.integers(10, 20), st.integers(0, 5)), min_size=5, max_size=5))
def test_every_pair(fences: list[int], asked: list[tuple[int, int]]) -> None:
    told = [
        stay(pid, "fair", "a", 30 + fence, 30.5 + fence, 1 + fence, asked=since, queued=since + wait)
        for pid, (fence, (since, wait)) in enumerate(zip(fences, asked, strict=True))
    ]
    several = [(fence, since, since + wait) for fence, (since, wait) in zip(fences, asked, strict=True)]
    bad = any(
        (one[0] < other[0] and one[1] > other[2]) or (other[0] < one[0] and other[1] > one[2])
        for one, other in combinations(several, 2)
    )
    assert (order.check(history(*told)) is not None) == bad
