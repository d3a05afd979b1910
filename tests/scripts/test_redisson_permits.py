"""What our scripts make of Redisson's permits that expire: their ids, how many are free, and who is told."""

from __future__ import annotations

import pytest

from aiolock.errors import LossReason
from aiolock.scripts.base import Call
from aiolock.scripts.bid import Bid
from aiolock.scripts.outcomes import (
    Failed,
    Finished,
    Granted,
    Kept,
    Missing,
    Refused,
    Released,
    ReleaseOutcome,
    Renewed,
)
from aiolock.scripts.redisson.permits import NOBODY, PermitCalls
from tests.support.scripting import Side

TTL = 30_000
ONE, TWO = PermitCalls("api", 1), PermitCalls("api", 2)
IDS, CHANNEL = "{api}:timeout", "redisson_sc:{api}"
FOR_GOOD = 922337203685477
"""When a permit expires that Java acquired without a time."""


@pytest.fixture
def side(side: Side) -> Side:
    assert side.run(ONE.set_permits(3))
    side.listen(CHANNEL)
    return side


def acquired(side: Side, calls: PermitCalls = ONE, owner: str = "m:1", ttl: int = TTL) -> Granted:
    grant = side.run(calls.acquire(Bid(owner, ttl, 0, "")))
    assert isinstance(grant, Granted)
    return grant


def end(owner: str, calls: PermitCalls = ONE, left: int = 0, tainted: bool = False) -> Call[ReleaseOutcome]:
    return calls.release(owner, TTL, left, "clean", tainted)


def expire(side: Side, *ids: str) -> None:
    for one in ids:
        side.score(IDS, one, 1)


def test_its_state_is_redissons(side: Side) -> None:
    """An id for each permit; and what is free again is said. Guards `INCRBY`, `ZADD`, `ZREM` and `PUBLISH`."""
    assert acquired(side, TWO) == Granted(0, TTL, abandoned=False, capacity=3)
    assert [*side.scores(IDS)] == ["m:1#1", "m:1#2"]
    assert side.get("api") == "1"
    assert side.run(end("m:1", TWO)) == Released(0)
    assert not side.exists(IDS)
    assert side.get("api") == "3"
    assert side.heard() == [(CHANNEL, "3")]


def test_how_many_there_are_is_said_once(side: Side) -> None:
    """Guards `EXISTS` in permits_set."""
    acquired(side)
    assert not side.run(ONE.set_permits(9))
    assert side.run(ONE.count()) == (2, 1)
    assert side.heard() == []


def test_whoever_finds_too_few_takes_none(side: Side) -> None:
    """And learns when the next one expires. Guards `free < count`."""
    acquired(side, TWO)
    side.score(IDS, "java", FOR_GOOD)
    refused = side.run(TWO.acquire(Bid("m:2", TTL, 0, "")))
    assert isinstance(refused, Refused)
    assert 0 < refused.pttl <= TTL
    assert refused.holder == "m:1"
    assert (side.get("api"), len(side.scores(IDS))) == ("1", 3)


@pytest.mark.parametrize("known", [False, True])
def test_where_none_are_or_none_expires(side: Side, known: bool) -> None:
    side.delete("api", IDS)
    if known:
        side.run(ONE.set_permits(1))
        acquired(side)
        side.delete(IDS)
    assert side.run(ONE.acquire(Bid("m:2", TTL, 0, ""))) == Refused(-1, 0, NOBODY)


def test_what_has_expired_is_taken_anew(side: Side) -> None:
    """It counts as free, and those that wait are told. Guards what follows `over > 0`."""
    acquired(side, PermitCalls("api", 3))
    expire(side, "m:1#1", "m:1#2")
    assert side.run(ONE.count()) == (2, 1)
    assert acquired(side, owner="m:2") == Granted(0, TTL, abandoned=False, capacity=3)
    assert side.get("api") == "1"
    assert {*side.scores(IDS)} == {"m:1#3", "m:2#1"}
    assert side.heard() == [(CHANNEL, "2")]


def test_nobody_is_told_of_less_than_none(side: Side) -> None:
    """As after Java's setPermits() with fewer than are taken. Guards `free > 0`."""
    acquired(side)
    side.set("api", "-1")
    expire(side, "m:1#1")
    assert isinstance(side.run(ONE.acquire(Bid("m:2", TTL, 0, ""))), Refused)
    assert side.heard() == []


def test_a_copy_reads_its_own_grant(side: Side) -> None:
    """Guards `mine`: nothing is taken twice, and a ttl gets no longer."""
    acquired(side, TWO, ttl=TTL // 2)
    again = acquired(side, TWO)
    assert again.capacity == 3
    assert again.pttl <= TTL // 2
    assert (side.get("api"), len(side.scores(IDS))) == ("1", 2)


def test_a_tombstone_refuses_what_comes_late(side: Side) -> None:
    acquired(side)
    side.run(end("m:1", tainted=True))
    assert isinstance(side.run(ONE.acquire(Bid("m:1", TTL, 0, ""))), Finished)
    assert 0 < side.pttl("aiolock_dead:{api}:m:1") <= TTL + 60_000
    assert side.get("api") == "3"


def test_the_first_ids_are_kept(side: Side) -> None:
    """Whatever is repeated. Guards `ARGV[2] + 1`."""
    calls = PermitCalls("api", 3)
    acquired(side, calls)
    for weight, told in ((2, "1"), (1, "2")):
        for _ in range(2):
            kept = side.run(end("m:1", calls.weighing(weight), left=1))
            assert isinstance(kept, Kept)
            assert 0 < kept.pttl <= TTL
        assert len(side.scores(IDS)) == weight
        assert side.get("api") == told
    assert [*side.scores(IDS)] == ["m:1#1"]
    assert side.run(end("m:1", calls.weighing(1))) == Released(0)
    assert side.heard() == [(CHANNEL, "1"), (CHANNEL, "2"), (CHANNEL, "3")]


def test_what_is_gone_is_no_ones(side: Side) -> None:
    """And gives nothing back."""
    acquired(side, TWO)
    side.delete(IDS)
    gone = Missing(LossReason.DELETED)
    assert [side.run(end("m:1", TWO)), side.run(end("m:1", TWO.weighing(1), left=1))] == [gone, gone]
    assert side.run(TWO.renew_many([TWO.renewal("m:1", 0, TTL)])) == [gone]
    assert side.get("api") == "1"
    assert side.heard() == []


def test_renewals_extend_and_never_shorten(side: Side) -> None:
    acquired(side, TWO)
    for ttl, least, most in ((2 * TTL, 2 * TTL, 2 * TTL), (0, TTL, 2 * TTL), (TTL, TTL + 1, 2 * TTL)):
        (renewed,) = side.run(TWO.renew_many([TWO.renewal("m:1", 0, ttl)]))
        assert isinstance(renewed, Renewed)
        assert least <= renewed.pttl <= most
    first, second = side.scores(IDS).values()
    assert first == second


def test_each_is_judged_by_itself(side: Side) -> None:
    """Of several owners, and of several permits: if one is lost, the lease is."""
    acquired(side, TWO)
    acquired(side, owner="m:2")
    side.set("{other}:timeout", "a text")
    expire(side, "m:1#2")
    parts = [PermitCalls("other", 1).renewal("m:1", 0, TTL), TWO.renewal("m:1", 0, 2 * TTL), ONE.renewal("m:2", 0, TTL)]
    failed, lost, kept = side.run(ONE.renew_many(parts))
    assert isinstance(failed, Failed)
    assert lost == Missing(LossReason.DELETED)
    assert isinstance(kept, Renewed)
    assert side.scores(IDS)["m:1#1"] - side.scores(IDS)["m:2#1"] < TTL


def test_the_expiry_of_the_whole_is_that_of_its_ids(side: Side) -> None:
    """Java's expire() of the semaphore: what is taken does not outlive the number. Guards `PEXPIRE`."""
    side.shorten("api", TTL)
    acquired(side)
    assert 0 < side.pttl(IDS) <= TTL


def test_as_many_as_one_may_take(side: Side) -> None:
    many = PermitCalls("many", 1000)
    side.run(many.set_permits(1000))
    acquired(side, many)
    assert side.run(many.renew_many([many.renewal("m:1", 0, 2 * TTL)])) == [Renewed(2 * TTL)]
    assert side.run(end("m:1", many)) == Released(0)
    assert side.get("many") == "1000"
