"""What holds and places are worth once their name is on a server with another clock, or its key was given another time.

Kept by clock.lua, unless a test says otherwise.
"""

from __future__ import annotations

import time

import pytest

from aiolock.scripts.bid import Bid
from aiolock.scripts.guard import Verdict, permit
from aiolock.scripts.keys import DIRTY_MS
from aiolock.scripts.outcomes import Granted, Kept, Queued, Refused, Renewed
from tests.support.queues import (
    FULL,
    RW,
    SEMAPHORE,
    Queue,
    assert_sound,
    crash,
    elapse,
    ends,
    forget,
    holders,
    move,
    waiting,
)
from tests.support.scripting import GUARD, KEYS, LuaSide, Side

TTL = 30_000
NEAR = 5_000
HOUR = 3_600_000
HIGH = 2**51
PERMITS = Queue(SEMAPHORE, capacity=1, liveness_ms=2 * TTL)
READ, WRITE = Queue(RW), Queue(RW, want=1)
CLOCKS = pytest.mark.parametrize("ahead", [HOUR, 1000, -HOUR])


@pytest.fixture(autouse=True)
def held(side: Side) -> None:
    side.run(PERMITS.request("m:1", TTL, HIGH, "me"))


def test_it_is_refused_to_others(side: Side) -> None:
    move(side, PERMITS, HOUR)
    answer = side.run(PERMITS.request("n:1", TTL, 0, ""))
    assert isinstance(answer, Refused)
    assert TTL - NEAR < answer.pttl <= TTL
    seen = side.run(PERMITS.info())
    assert (seen.holders, seen.used) == (1, 1)


@CLOCKS
def test_its_holder_goes_on(side: Side, ahead: int) -> None:
    move(side, PERMITS, ahead)
    assert side.run(PERMITS.renew_many([PERMITS.renewal("m:1", HIGH + 1, TTL)])) == [Renewed(TTL)]
    answer = side.run(PERMITS.request("m:1", TTL, 0, "", depth=2, fence=HIGH + 1))
    assert isinstance(answer, Granted)
    assert TTL - NEAR < answer.pttl <= TTL
    kept = side.run(PERMITS.release("m:1", TTL, 1, "clean", False))
    assert isinstance(kept, Kept)
    assert TTL - NEAR < kept.pttl <= TTL
    assert_sound(side, PERMITS)


@CLOCKS
def test_it_ends_when_its_time_is_over(side: Side, ahead: int) -> None:
    move(side, PERMITS, ahead)
    elapse(side, PERMITS, TTL - NEAR)
    assert isinstance(side.run(PERMITS.request("n:1", TTL, 0, "")), Refused)
    elapse(side, PERMITS, NEAR)
    assert isinstance(side.run(PERMITS.request("n:1", TTL, 0, "")), Granted)


def test_under_a_clock_that_is_a_little_behind_it_ends_within_two_ttls(side: Side) -> None:
    """Nothing distinguishes that from a time given by hand."""
    move(side, PERMITS, -TTL // 2)
    elapse(side, PERMITS, TTL - NEAR)
    assert isinstance(side.run(PERMITS.request("n:1", TTL, 0, "")), Refused)
    elapse(side, PERMITS, TTL + NEAR)
    assert isinstance(side.run(PERMITS.request("n:1", TTL, 0, "")), Granted)


def test_a_waiter_lives_on(side: Side) -> None:
    """By its number, the next is behind it, and is not granted what it waits for."""
    side.run(PERMITS.request("n:1", TTL, 0, "", queue_number=0))
    move(side, PERMITS, HOUR)
    side.run(PERMITS.request("o:1", TTL, 0, "", queue_number=0))
    side.run(PERMITS.release("m:1", TTL, 0, "clean", False))
    assert set(holders(side, PERMITS)) == {"n:1"}
    assert waiting(side, PERMITS) == ["o:1"]
    assert_sound(side, PERMITS)


def test_a_dead_waiter_is_passed_over(side: Side) -> None:
    """New heartbeats count by the same clock as old ones."""
    side.run(PERMITS.request("n:1", TTL, 0, "", queue_number=0))
    move(side, PERMITS, HOUR)
    side.run(PERMITS.request("o:1", TTL, 0, "", queue_number=0))
    forget(side, PERMITS, "n:1")
    side.run(PERMITS.release("m:1", TTL, 0, "clean", False))
    assert set(holders(side, PERMITS)) == {"o:1"}


def test_who_comes_later_goes_by_the_same_clock(side: Side) -> None:
    """Who holds, and who waits."""
    pair = Queue(SEMAPHORE, "pair", capacity=2, liveness_ms=2 * TTL)
    side.run(pair.request("m:1", TTL, HIGH, ""))
    move(side, pair, HOUR)
    side.run(pair.request("n:1", TTL, 0, ""))
    queued = side.run(pair.request("o:1", TTL, 0, "", queue_number=0))
    assert isinstance(queued, Queued)
    assert TTL - NEAR < queued.pttl <= TTL
    elapse(side, pair, 2 * TTL)
    assert isinstance(side.run(pair.request("x:1", TTL, 0, "")), Granted)
    assert set(holders(side, pair)) == {"x:1"}


def test_it_may_move_back(side: Side) -> None:
    move(side, PERMITS, HOUR)
    assert isinstance(side.run(PERMITS.request("n:1", TTL, 0, "")), Refused)
    move(side, PERMITS, -HOUR)
    answer = side.run(PERMITS.request("n:1", TTL, 0, ""))
    assert isinstance(answer, Refused)
    assert TTL - NEAR < answer.pttl <= TTL


def test_what_is_free_goes_by_the_clock_of_its_server(side: Side) -> None:
    move(side, PERMITS, HOUR)
    side.run(PERMITS.release("m:1", TTL, 0, "clean", False))
    side.run(PERMITS.request("n:1", TTL, 0, ""))
    now = time.time_ns() // 1_000_000
    assert now + TTL - NEAR < ends(side, PERMITS)["n:1"] <= now + TTL
    assert DIRTY_MS - NEAR < side.pttl(PERMITS.hash) <= DIRTY_MS


@pytest.mark.parametrize("left", [NEAR, 10 * DIRTY_MS, None])
def test_a_time_given_by_hand_ends_nobody_and_keeps_nobody(side: Side, left: int | None) -> None:
    """EXPIRE, shorter or longer, and PERSIST. The next request that writes gives it the usual time."""
    give(side, left)
    answer = side.run(PERMITS.request("n:1", TTL, 0, ""))
    assert isinstance(answer, Refused)
    assert TTL - NEAR < answer.pttl <= TTL
    give(side, left)
    side.run(PERMITS.renew_many([PERMITS.renewal("m:1", HIGH + 1, TTL)]))
    assert DIRTY_MS - NEAR < side.pttl(PERMITS.hash) <= DIRTY_MS
    give(side, left)
    crash(side, PERMITS, "m:1")
    assert isinstance(side.run(PERMITS.request("n:1", TTL, 0, "")), Granted)
    assert DIRTY_MS - NEAR < side.pttl(PERMITS.hash) <= DIRTY_MS


def give(side: Side, left: int | None) -> None:
    """Change how long the hash lasts; None: for ever."""
    fields = side.hash(PERMITS.hash)
    side.delete(PERMITS.hash)
    side.hset(PERMITS.hash, fields)
    if left is not None:
        side.shorten(PERMITS.hash, left)


def test_keys_are_given_time_before_it_is_over(side: Side) -> None:
    """Guards `GRACE / 2` in close.lua: most renewals write no expiry."""
    for over, given in ((20_000, False), (20_000, True)):
        elapse(side, PERMITS, over)
        side.score(PERMITS.order, "m:1", time.time_ns() // 1_000_000 + TTL)  # it was renewed meanwhile
        side.run(PERMITS.renew_many([PERMITS.renewal("m:1", HIGH + 1, TTL)]))
        for key in PERMITS.keys:
            assert (side.pttl(key) > DIRTY_MS - NEAR) == given


def test_a_lost_order_is_written_by_the_same_clock(side: Side) -> None:
    """Guards `clock` in heal.lua."""
    move(side, PERMITS, HOUR)
    side.delete(PERMITS.order)
    answer = side.run(PERMITS.request("n:1", TTL, 0, ""))
    assert isinstance(answer, Refused)
    assert TTL - NEAR < answer.pttl <= TTL
    assert_sound(side, PERMITS)


def test_a_force_release_shuts_by_the_same_clock(side: Side) -> None:
    """Guards `clock` in force_release.lua."""
    for i in range(300):
        side.run(READ.request(f"m:{i}", TTL, HIGH, ""))
    move(side, READ, HOUR)
    side.run(READ.force_release())
    assert len(holders(side, READ)) == 50
    queued = side.run(READ.request("x:1", TTL, 0, "", queue_number=0))
    assert isinstance(queued, Queued)
    (again,) = side.run(READ.refresh_many([READ.refresh(Bid("x:1", TTL, 0, "", number=queued.queue_number))]))
    assert isinstance(again, Queued)
    elapse(side, READ, 1000)
    (again,) = side.run(READ.refresh_many([READ.refresh(Bid("x:1", TTL, 0, "", number=queued.queue_number))]))
    assert isinstance(again, Granted)


def test_who_holds_may_write(side: Side) -> None:
    """Kept by guard/holders.lua."""
    granted = side.run(WRITE.request("w:1", TTL, HIGH, ""))
    assert isinstance(granted, Granted)
    allowed = permit(KEYS, "rw", ["order:42"], "w:1", granted.fence, FULL)
    move(side, WRITE, HOUR)
    if isinstance(side, LuaSide):
        side = side.edited(lambda lua: f"{GUARD}local function body() end\n{lua}")
    assert side.run(allowed.call("order:42", 1)) is Verdict.DONE
    elapse(side, WRITE, TTL)
    assert side.run(allowed.call("order:42", 2)) is Verdict.NOT_HELD
