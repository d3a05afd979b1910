"""What our scripts make of Redisson's fair lock: its queue, its deadlines, and whom they tell."""

from __future__ import annotations

import time

import pytest

from aiolock.errors import LossReason
from aiolock.scripts.base import Call
from aiolock.scripts.bid import Bid
from aiolock.scripts.outcomes import Failed, Finished, Gone, Granted, Missing, Queued, Refused, Released, ReleaseOutcome
from aiolock.scripts.redisson import FairCalls, RLockCalls
from tests.support.scripting import Side

TTL, WAIT, JAVA_WAIT = 30_000, 3_000, 300_000
FAIR = FairCalls("orders", WAIT)
QUEUE, DEADLINES, CHANNEL = FAIR._keys.line[1], FAIR._keys.line[2], FAIR.free_channel
JAVA = "6b1c9a54-7c0e-4f3b-9c55-0d6f3b1f8a11:51"
"""An owner as Redisson writes it; ours have no dashes."""


def ask(owner: str, waits: bool = True) -> Call[object]:
    return FAIR.acquire(Bid(owner, TTL, 0, "", WAIT if waits else 0))  # type: ignore[return-value]


def end(owner: str, left: int = 0, tainted: bool = False) -> Call[ReleaseOutcome]:
    return FAIR.release(owner, TTL, left, "clean", tainted)


def beat(side: Side, *owners: str) -> list[object]:
    return list(side.run(FAIR.refresh_many([FAIR.refresh(Bid(owner, TTL, 0, "", WAIT)) for owner in owners])))


def line_up(side: Side, *owners: str) -> None:
    for owner in owners:
        assert isinstance(side.run(ask(owner)), Granted | Queued)


def places(side: Side) -> list[str]:
    return side.items(QUEUE)


def left(side: Side, owner: str) -> float:
    """Milliseconds until its deadline."""
    return side.scores(DEADLINES)[owner] - time.time() * 1000


def come_from_java(side: Side, deadline_ms: float) -> None:
    """A thread in Java waits, until its deadline in so many ms."""
    side.push(QUEUE, JAVA)
    side.score(DEADLINES, JAVA, round(time.time() * 1000 + deadline_ms))


def test_first_come_first_served(side: Side) -> None:
    """Guards `rank == 1 or not places[1]`: a free lock is the first one's."""
    side.listen(CHANNEL, f"{CHANNEL}:b:1")
    line_up(side, "a:1", "b:1", "c:1")
    assert places(side) == ["b:1", "c:1"]
    assert side.run(end("a:1")) == Released(0)
    assert side.heard() == [(f"{CHANNEL}:b:1", "0")]
    assert isinstance(side.run(ask("c:1")), Queued)
    assert side.run(ask("d:1", waits=False)) == Refused(side_ms(side, "b:1"), 0, "b:1")
    assert isinstance(side.run(ask("b:1")), Granted)
    assert (places(side), [*side.scores(DEADLINES)]) == (["c:1"], ["c:1"])
    for owner in ("b:1", "c:1"):
        side.run(ask(owner))
        side.run(end(owner))
    assert not any(side.exists(key) for key in FAIR._keys.line)


def side_ms(side: Side, owner: str) -> object:
    return Near(left(side, owner))


class Near(float):
    """Equal to what differs by less than a test takes."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, int | float) and abs(float(self) - other) < 1_000

    __hash__ = float.__hash__


def test_it_is_the_lock_of_its_name(side: Side) -> None:
    side.run(RLockCalls("orders").acquire(Bid("a:1", TTL, 0, "")))
    queued = side.run(ask("b:1"))
    assert isinstance(queued, Queued)
    assert (queued.rank, queued.holder, queued.pttl) == (1, "a:1", Near(TTL))


def test_copies_change_nothing(side: Side) -> None:
    line_up(side, "a:1", "a:1", "b:1", "b:1")
    assert side.hash("orders") == {"a:1": "1"}
    assert places(side) == ["b:1"]
    for _ in range(2):
        side.run(end("b:1", tainted=True))
    assert places(side) == []
    assert isinstance(side.run(ask("b:1")), Finished)
    assert side.run(end("b:1")) == Missing(LossReason.TAKEN_OVER)


def test_deadlines_outlast_those_before(side: Side) -> None:
    """In Java each of them takes its time away when it goes. Guards `stay` in line.lua."""
    line_up(side, "a:1")
    come_from_java(side, JAVA_WAIT)
    line_up(side, "b:1", "c:1")
    assert left(side, "b:1") == Near(TTL + WAIT + JAVA_WAIT)
    assert left(side, "c:1") == Near(TTL + WAIT + JAVA_WAIT)
    side.run(end("b:1"))
    assert left(side, "c:1") == Near(TTL + WAIT + JAVA_WAIT)
    side.score(DEADLINES, "c:1", 5)
    queued, gone = beat(side, "c:1", "b:1")
    assert isinstance(queued, Queued)
    assert gone == Gone()
    assert left(side, "c:1") == Near(TTL + WAIT + JAVA_WAIT)
    side.delete(QUEUE, DEADLINES)
    line_up(side, "c:1")
    assert left(side, "c:1") == Near(TTL + WAIT)


def test_only_the_first_is_judged_by_its_deadline(side: Side) -> None:
    """Guards `places[1]` in line.lua: the next one has its turn."""
    side.listen(f"{CHANNEL}:c:1")
    line_up(side, "a:1", "b:1", "c:1", "d:1")
    side.score(DEADLINES, "d:1", 5)
    side.score(DEADLINES, "b:1", 5)
    side.run(end("a:1"))
    assert places(side) == ["c:1", "d:1"]
    assert side.heard() == [(f"{CHANNEL}:c:1", "0")]
    assert beat(side, "c:1", "b:1") == [Granted(0, 0, abandoned=False), Gone()]


def test_a_heartbeat_judges_each_name_by_itself(side: Side) -> None:
    line_up(side, "a:1", "b:1")
    side.set("text", "not a hash")
    side.push("redisson_lock_queue:{text}", "b:1")
    other = FairCalls("text", WAIT).refresh(Bid("b:1", TTL, 0, "", WAIT))
    damaged, queued = side.run(FAIR.refresh_many([other, FAIR.refresh(Bid("b:1", TTL, 0, "", WAIT))]))
    assert isinstance(damaged, Failed)
    assert isinstance(queued, Queued)


def test_an_end_by_force_tells_the_first(side: Side) -> None:
    """And holders of ours, on the lock's own channel."""
    side.listen(CHANNEL, f"{CHANNEL}:b:1")
    assert side.run(FAIR.force_release()) is False
    line_up(side, "a:1", "b:1")
    assert side.run(FAIR.force_release()) is True
    assert side.heard() == [(f"{CHANNEL}:b:1", "0"), (CHANNEL, "0")]
    assert not side.exists("orders")


def test_nested_levels_are_given_back_first(side: Side) -> None:
    line_up(side, "a:1", "b:1")
    side.run(FAIR.nest("a:1", 0, TTL, 2))
    for _ in range(2):
        side.run(end("a:1", left=1))
    assert side.hash("orders") == {"a:1": "1"}
    assert places(side) == ["b:1"]


def test_a_look(side: Side) -> None:
    line_up(side, "a:1", "b:1", "c:1")
    seen = side.run(FAIR.info("c:1"))
    assert (seen.waiters, seen.rank, seen.held and seen.held.owner) == (2, 2, "a:1")


@pytest.mark.parametrize("waits", [False, True])
def test_a_place_that_is_given_up_while_it_is_free(side: Side, waits: bool) -> None:
    """Whoever is first then is told. Guards `pttl == -2` in fair_release.lua."""
    side.listen(f"{CHANNEL}:c:1")
    line_up(side, "a:1", "b:1", "c:1")
    if not waits:
        side.run(RLockCalls("orders").release("a:1", TTL, 0, "clean", False))
    side.run(end("b:1"))
    assert side.heard() == ([] if waits else [(f"{CHANNEL}:c:1", "0")])
