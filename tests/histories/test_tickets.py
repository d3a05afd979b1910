"""Tickets: histories by hand."""

from __future__ import annotations

from .story import fault, found, miss, stay

GIVEN = stay(1, "lock", "a", 1, 2, 5, detached={"ticket": "t", "lasts": 10.0})
TAKEN = stay(2, "resume", "a", 5, 6, 8, ticket="t")
REFUSED = miss(3, "resume", "a", 7, 7.5, "NotOwned", ticket="t")


def test_one_is_used_once() -> None:
    assert not found(GIVEN, TAKEN, REFUSED)
    twice = stay(3, "resume", "a", 7, 8, 9, ticket="t")
    assert "used one ticket" in found(GIVEN, TAKEN, twice)["ticket"].words


def test_nobody_comes_in_between() -> None:
    between = stay(3, "lock", "a", 3, 4, 6, asked=2.5)
    assert "between" in found(GIVEN, between, TAKEN)["ticket"].words


def test_the_fence_rises() -> None:
    assert "no higher fence" in found(GIVEN, stay(2, "resume", "a", 5, 6, 5, ticket="t"))["ticket"].words


def test_a_good_one_is_taken() -> None:
    assert "a good ticket" in found(GIVEN, REFUSED)["ticket"].words
    assert not found(GIVEN, REFUSED, fault(3, 4))
    assert not found(GIVEN, miss(3, "resume", "a", 13, 14, "NotOwned", ticket="t"))
