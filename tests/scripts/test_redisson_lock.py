"""What our scripts make of Redisson's lock: its state and its messages, whatever is repeated or late."""

from __future__ import annotations

from aiolock.errors import LossReason
from aiolock.scripts.base import Call
from aiolock.scripts.bid import Bid
from aiolock.scripts.outcomes import (
    Failed,
    Finished,
    Granted,
    Held,
    Kept,
    Missing,
    Refused,
    Released,
    ReleaseOutcome,
    Renewed,
)
from aiolock.scripts.redisson import RLockCalls
from tests.support.scripting import Side

TTL = 30_000
LOCK, FENCED = RLockCalls("orders"), RLockCalls("orders", fenced=True)
CHANNEL, TOKEN = "redisson_lock__channel:{orders}", "redisson_lock_token:{orders}"
JAVA = "6b1c9a54-7c0e-4f3b-9c55-0d6f3b1f8a11:51"
"""An owner as Redisson writes it."""


def bid(owner: str, ttl: int = TTL) -> Bid:
    return Bid(owner, ttl, 0, "")


def end(owner: str, left: int = 0, tainted: bool = False) -> Call[ReleaseOutcome]:
    return LOCK.release(owner, TTL, left, "clean", tainted)


def acquired(side: Side, calls: RLockCalls = LOCK, owner: str = "m:1") -> Granted:
    grant = side.run(calls.acquire(bid(owner)))
    assert isinstance(grant, Granted)
    return grant


def test_its_state_is_redissons(side: Side) -> None:
    """And is gone after the release, which says "0". Guards `HSET`, `DEL` and `PUBLISH`."""
    side.listen(CHANNEL)
    assert acquired(side) == Granted(0, TTL, abandoned=False)
    assert side.hash("orders") == {"m:1": "1"}
    assert 0 < side.pttl("orders") <= TTL
    assert side.run(end("m:1")) == Released(0)
    assert not side.exists("orders")
    assert side.heard() == [(CHANNEL, "0")]


def test_a_stranger_keeps_it(side: Side) -> None:
    """Guards `pttl ~= -2 and not mine`."""
    side.hset("orders", {JAVA: "2"})
    refused = side.run(LOCK.acquire(bid("m:1")))
    assert refused == Refused(-1, 0, JAVA)
    side.shorten("orders", TTL)
    refused = side.run(LOCK.acquire(bid("m:1")))
    assert isinstance(refused, Refused)
    assert 0 < refused.pttl <= TTL
    assert side.hash("orders") == {JAVA: "2"}


def test_a_copy_reads_its_own_grant(side: Side) -> None:
    """Guards `mine`: nothing is counted, nor is a token taken, and a ttl gets no shorter."""
    assert acquired(side, FENCED).fence == 1
    side.run(LOCK.nest("m:1", 1, 2 * TTL, 2))
    again = acquired(side, FENCED)
    assert (again.fence, again.pttl > TTL) == (1, True)
    assert side.hash("orders") == {"m:1": "2"}


def test_tokens_rise_across_both_faces_of_a_lock(side: Side) -> None:
    fences = []
    for calls in (FENCED, LOCK, FENCED):
        fences.append(acquired(side, calls).fence)
        side.run(end("m:1"))
    assert fences == [1, 0, 2]
    assert side.get(TOKEN) == "2"
    assert side.pttl(TOKEN) == -1


def test_a_tombstone_refuses_what_comes_late(side: Side) -> None:
    """Guards `EXISTS` of the tombstone, and `SET` of it; it expires."""
    acquired(side)
    side.run(end("m:1", tainted=True))
    assert isinstance(side.run(LOCK.acquire(bid("m:1"))), Finished)
    dead = "aiolock_dead:{orders}:m:1"
    assert 0 < side.pttl(dead) <= TTL + 60_000
    assert isinstance(acquired(side, owner="m:2"), Granted)


def test_depth_is_set_not_counted(side: Side) -> None:
    """Guards both comparisons of depths: copies, late or not, change nothing."""
    acquired(side)
    for _ in range(2):
        assert isinstance(side.run(LOCK.nest("m:1", 0, TTL, 3)), Kept)
    side.run(LOCK.nest("m:1", 0, TTL, 2))
    assert side.hash("orders") == {"m:1": "3"}
    for _ in range(2):
        assert isinstance(side.run(end("m:1", left=1)), Kept)
    side.run(end("m:1", left=2))
    assert side.hash("orders") == {"m:1": "1"}


def test_what_is_gone_is_no_ones(side: Side) -> None:
    """Guards each `-2`: deleted, and taken over by another, who keeps it and is not announced."""
    gone = [side.run(LOCK.nest("m:1", 0, TTL, 2)), side.run(end("m:1")), side.run(LOCK.renew_many([renewal()]))[0]]
    assert gone == [Missing(LossReason.DELETED)] * 3
    acquired(side, owner="m:2")
    side.listen(CHANNEL)
    gone = [side.run(LOCK.nest("m:1", 0, TTL, 2)), side.run(end("m:1")), side.run(LOCK.renew_many([renewal()]))[0]]
    assert gone == [Missing(LossReason.TAKEN_OVER)] * 3
    assert side.hash("orders") == {"m:2": "1"}
    assert side.heard() == []


def renewal(ttl: int = TTL, name: str = "orders") -> tuple[tuple[str, ...], tuple[str | int, ...]]:
    return RLockCalls(name).renewal("m:1", 0, ttl)


def test_renewals_extend_only(side: Side) -> None:
    """Guards `tonumber(ttl) <= pttl`; each name is judged by itself."""
    acquired(side)
    side.set("text", "not a hash")
    extended, read, damaged = side.run(
        LOCK.renew_many([renewal(2 * TTL), renewal(0), renewal(name="text")])  # type: ignore[list-item]
    )
    assert extended == Renewed(2 * TTL)
    assert isinstance(read, Renewed)
    assert TTL < read.pttl <= 2 * TTL
    assert isinstance(damaged, Failed)


def test_an_end_by_force_is_announced(side: Side) -> None:
    """As Redisson does it: Java's waiters hear of it, and so do our holders."""
    side.hset("orders", {JAVA: "1"})
    side.listen(CHANNEL)
    assert side.run(LOCK.force_release()) is True
    assert side.run(LOCK.force_release()) is False
    assert side.heard() == [(CHANNEL, "0")]


def test_a_look(side: Side) -> None:
    assert side.run(LOCK.info()).held is None
    acquired(side, FENCED)
    held = side.run(LOCK.info()).held
    assert held is not None
    assert held._replace(pttl=0) == Held("m:1", 1, 0, 1, "m:1")


def test_a_name_with_a_hash_tag_keeps_its_own(side: Side) -> None:
    """As Redisson does. Guards RedissonKeys: its keys share the name's slot."""
    calls = RLockCalls("app:{orders}:x")
    assert calls.free_channel == "redisson_lock__channel:app:{orders}:x"
