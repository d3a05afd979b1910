"""The model of released names, on histories written by hand."""

from __future__ import annotations

from typing import Any

import pytest

from .models import release
from .story import act, fault, history, stay


def told(what: str, **more: Any) -> bool:
    """Whether it is a find that the second of two holders was told of an abandoned lock."""
    first, second = stay(2, "lock", "a", 1.0, 2.0, **more), stay(3, "lock", "a", 5.0, 6.0, asked=2.5, abandoned=True)
    return release.check(history(first, second, fault(1.5, 4.0, what=what, loses=True))) is not None


@pytest.mark.parametrize("what", ["failover", "failover_force", "failover_takeover"])
def test_released_before_an_ordered_failover(what: str) -> None:
    assert told(what)


def test_ended_by_force() -> None:
    """Also what stays taken after its release. Kept by `forced` in `_well`."""
    first = stay(2, "lock", "a", 1.0, 2.0, kept_until=9.0)
    second = stay(3, "lock", "a", 5.0, 6.0, asked=2.5, abandoned=True)
    assert release.check(history(first, second)) is not None
    assert release.check(history(first, second, act(4, "force", "a", 3.0, 3.1))) is None


def test_what_may_lose_a_release() -> None:
    assert not told("kill")
    assert not told("failover", how="lost", reason="DELETED")
    assert not told("failover", how="cancelled")


def test_another_of_several_names() -> None:
    first, second = stay(2, "lock", "a", 1.0, 2.0), stay(3, "multi", "ab", 5.0, 6.0, asked=2.5, abandoned=True)
    assert release.check(history(first, second)) is None


def test_one_that_was_not_abandoned() -> None:
    assert release.check(history(stay(2, "lock", "a", 1.0, 2.0), stay(3, "lock", "a", 5.0, 6.0))) is None
