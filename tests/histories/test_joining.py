"""Calls that join: histories by hand."""

from __future__ import annotations

from typing import Any

from .journal import Event
from .story import act, fault, found, killed, plan, stay

MODEL = "joined call"
LIMITS = plan(ttl=3.0, liveness=1.0, request_timeout=1.0)


def runs(pid: int, since: float, until: float | None, raised: bool = False, **more: Any) -> list[Event]:
    """A call that runs itself: operation 7 of its process."""
    told = stay(pid, "join", "j", since, until, op=7, **more)
    if until is None:
        return told
    return [*told[:-1], {**told[-2], "event": "told", "run": f"{pid}:7", "raised": raised}, told[-1]]


def joins(pid: int, run: str, since: float, until: float, raised: bool = False) -> list[Event]:
    began, ended = act(pid, "join", "j", since, until)
    return [began, {**ended, "event": "told", "run": run, "raised": raised}, ended]


def test_one_that_had_not_ended() -> None:
    assert not found(runs(1, 1, 3), joins(2, "1:7", 2, 3.2), joins(1, "1:7", 2.9, 3.1))
    assert not found(runs(1, 1, 3, raised=True), joins(2, "1:7", 2, 3.2, raised=True))
    find = found(runs(1, 1, 3), joins(2, "1:7", 3.1, 3.2))[MODEL]
    assert "had ended before" in find.words
    assert {event["pid"] for event in find.events} == {1, 2}


def test_what_it_was_told() -> None:
    assert "of a run that there was not" in found(joins(2, "1:7", 2, 3.2))[MODEL].words
    assert "returned what the other raised" in found(runs(1, 1, 3), joins(2, "1:7", 2, 3.2, raised=True))[MODEL].words
    own = runs(2, 4.5, 5)
    own[-2] = {**own[-2], "run": "1:7"}
    assert "ran, and was told of" in found(runs(1, 1, 4), own)[MODEL].words


def test_two_runs() -> None:
    """They are inside the lock: no fence makes that right."""
    assert "mutex" in found(runs(1, 1, 3), runs(2, 2, 4))


def test_an_end_that_the_server_hears_late() -> None:
    """After a fault, or a death, but not for ever."""
    soon, late = joins(2, "1:7", 4, 5), joins(2, "1:7", 9, 10)
    assert not found(LIMITS, runs(1, 1, 3), soon, fault(2.5, 3.5))
    assert MODEL in found(LIMITS, runs(1, 1, 3), soon, fault(5.5, 6.5))
    assert MODEL in found(LIMITS, runs(1, 1, 3), late, fault(2.5, 3.5))
    assert not found(LIMITS, runs(1, 1, None), soon, killed(1, 3.0))
    assert MODEL in found(LIMITS, runs(1, 1, None), late, killed(1, 3.0))
