"""What our scripts make of Redisson's read-write lock: its fields, its timeouts, and whom they tell."""

from __future__ import annotations

import pytest

from aiolock.errors import LossReason
from aiolock.scripts.bid import Bid
from aiolock.scripts.outcomes import Finished, Granted, Kept, Missing, Refused, Released, Renewed
from aiolock.scripts.redisson import RLockCalls
from aiolock.scripts.redisson.rw import FULL, RWCalls
from tests.support.scripting import Side

TTL = 30_000
READ, WRITE, BOTH = (RWCalls("book", weight) for weight in (1, FULL, FULL + 1))
CHANNEL = "redisson_rwlock:{book}"
JAVA = "6b1c9a54-7c0e-4f3b-9c55-0d6f3b1f8a11:51"


def bid(owner: str) -> Bid:
    return Bid(owner, TTL, 0, "")


def take(side: Side, calls: RWCalls, *owners: str) -> None:
    for owner in owners:
        assert side.run(calls.acquire(bid(owner))) == Granted(0, TTL, abandoned=False)


def timeout_of(owner: str, level: int = 1) -> str:
    return f"{{book}}:{owner}:rwlock_timeout:{level}"


def test_readers_share_and_the_last_one_tells(side: Side) -> None:
    side.listen(CHANNEL)
    take(side, READ, "m:1", "n:1", "m:1")
    assert side.hash("book") == {"mode": "read", "m:1": "1", "n:1": "1"}
    assert 0 < side.pttl(timeout_of("m:1")) <= TTL
    refused = side.run(WRITE.acquire(bid("o:1")))
    assert isinstance(refused, Refused)
    assert refused.holder == "m:1"
    assert side.run(READ.release("m:1", TTL, 0, "clean", False)) == Released(0)
    assert side.heard() == []
    assert not side.exists(timeout_of("m:1"))
    assert side.run(READ.release("n:1", TTL, 0, "clean", False)) == Released(0)
    assert side.heard() == [(CHANNEL, "0")]
    assert not any(side.exists(key) for key in ("book", timeout_of("n:1")))


def test_a_reader_in_java_keeps_it_by_any_of_its_timeouts(side: Side) -> None:
    """Guards the loop over levels. One whose timeouts are over keeps nothing."""
    take(side, READ, "m:1")
    side.hset("book", {JAVA: "2"})
    side.set(timeout_of(JAVA, 2), "1")
    side.run(READ.release("m:1", TTL, 0, "clean", False))
    assert side.hash("book") == {"mode": "read", JAVA: "2"}
    take(side, READ, "m:2")
    side.delete(timeout_of(JAVA, 2))
    side.run(READ.release("m:2", TTL, 0, "clean", False))
    assert not side.exists("book")


@pytest.mark.parametrize("calls", [READ, WRITE])
def test_the_writer_is_alone(side: Side, calls: RWCalls) -> None:
    side.listen(CHANNEL)
    take(side, WRITE, "m:1", "m:1")
    assert side.hash("book") == {"mode": "write", "m:1:write": "1"}
    refused = side.run(calls.acquire(bid("n:1")))
    assert isinstance(refused, Refused)
    assert refused.holder == "m:1:write"
    assert side.run(WRITE.release("m:1", TTL, 0, "clean", True)) == Released(0)
    assert side.heard() == [(CHANNEL, "1")]
    assert isinstance(side.run(calls.acquire(bid("m:1"))), Finished)


def test_a_writer_goes_on_reading(side: Side) -> None:
    """And tells readers that wait, as Redisson does not. Guards `HDEL` of the writer's field."""
    side.listen(CHANNEL)
    take(side, WRITE, "m:1")
    side.run(BOTH.nest("m:1", 0, TTL, 2))
    assert side.hash("book") == {"mode": "write", "m:1:write": "2"}
    for _ in range(2):
        assert isinstance(side.run(READ.release("m:1", TTL, 1, "clean", False)), Kept)
    assert side.hash("book") == {"mode": "read", "m:1": "1"}
    assert side.heard() == [(CHANNEL, "1")]
    take(side, READ, "n:1")
    assert side.run(READ.renew_many([READ.renewal("m:1", 0, 2 * TTL)])) == [Renewed(2 * TTL)]
    assert side.pttl(timeout_of("m:1")) > TTL
    assert side.pttl("book") > TTL


def test_levels_of_a_reader(side: Side) -> None:
    take(side, READ, "m:1")
    side.run(READ.nest("m:1", 0, 2 * TTL, 3))
    assert side.hash("book")["m:1"] == "3"
    assert side.pttl(timeout_of("m:1")) > TTL
    for left in (1, 2):
        side.run(READ.release("m:1", TTL, left, "clean", False))
    assert side.hash("book")["m:1"] == "1"


def test_what_is_gone(side: Side) -> None:
    for calls in (READ, WRITE):
        assert side.run(calls.release("m:1", TTL, 0, "clean", False)) == Missing(LossReason.DELETED)
        assert side.run(calls.nest("m:1", 0, TTL, 2)) == Missing(LossReason.DELETED)
    take(side, READ, "n:1")
    gone = [Missing(LossReason.TAKEN_OVER)]
    for calls in (READ, WRITE):
        assert [side.run(calls.release("m:1", TTL, 0, "clean", False))] == gone
        assert side.run(calls.renew_many([calls.renewal("m:1", 0, TTL)])) == gone
    side.delete(timeout_of("n:1"))  # its time is over: another reader's release may let a writer in
    assert side.run(READ.renew_many([READ.renewal("n:1", 0, TTL)])) == gone


def test_a_lock_of_the_same_name_is_in_the_way(side: Side) -> None:
    side.run(RLockCalls("book").acquire(bid("m:1")))
    for calls in (READ, WRITE):
        assert isinstance(side.run(calls.acquire(bid("n:1"))), Refused)


def test_an_end_by_force(side: Side) -> None:
    side.listen(CHANNEL)
    assert side.run(READ.force_release()) is False
    take(side, READ, "m:1", "n:1")
    assert side.run(WRITE.force_release()) is True
    assert side.heard() == [(CHANNEL, "1")]
    assert not any(side.exists(key) for key in ("book", timeout_of("m:1"), timeout_of("n:1")))


def test_a_look(side: Side) -> None:
    take(side, READ, "m:1", "n:1")
    seen = side.run(READ.info())
    assert (seen.holders, seen.used) == (2, 2)
    side.run(READ.force_release())
    take(side, WRITE, "m:1")
    seen = side.run(READ.info())
    assert (seen.holders, seen.used, seen.held and seen.held.owner) == (1, FULL, "m:1")
