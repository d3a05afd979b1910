"""What acquire promises: a free name is granted in the order of its queue, a held one queues or refuses."""

from __future__ import annotations

import time

import pytest

from aiolock.scripts.base import MAX_FENCE
from aiolock.scripts.bid import Bid
from aiolock.scripts.keys import DIRTY_MS, GRACE_MS
from aiolock.scripts.outcomes import Finished, Granted, Queued, Refused
from tests.support.lock_calls import (
    FENCE,
    HIGH,
    LIVENESS,
    TTL,
    Lock,
    change,
    enter,
    expire,
    forget,
    hears,
    lasting,
    state,
    waiters,
)
from tests.support.lua import MOST_ENTRIES
from tests.support.scripting import LONG_MS, Side
from tests.support.scripting import Refused as Failure

NAME = Lock()
HELD = NAME.acquire(Bid("m:1", TTL, HIGH, "me"))


class TestFree:
    def test_it_is_granted(self, side: Side) -> None:
        assert side.run(HELD) == Granted(FENCE, TTL, abandoned=False)
        found = state(side, NAME)
        assert (found.owner, found.fence, found.before, found.depth, found.process) == ("m:1", FENCE, 0, 1, "me")
        assert DIRTY_MS + TTL - 10_000 < side.pttl(NAME.state) <= DIRTY_MS + TTL

    def test_the_state_outlives_a_long_hold(self, side: Side) -> None:
        side.run(NAME.acquire(Bid("m:1", 2 * DIRTY_MS, 0, "")))
        assert side.pttl(NAME.state) > 2 * DIRTY_MS + GRACE_MS - 10_000

    @pytest.mark.parametrize("before", [(), ("gone:1",)])
    @pytest.mark.parametrize(("floor", "least"), [(0, 0), (HIGH, HIGH + 1), (MAX_FENCE, 0)])
    def test_the_fence_is_above_all_that_are_known_and_believable(
        self, floor: int, least: int, before: tuple[str, ...], side: Side
    ) -> None:
        for owner in before:  # not the usual case
            side.score(NAME.queue, owner, 1)
        granted = side.run(NAME.acquire(Bid("m:1", TTL, floor, "", LIVENESS, True)))
        side.delete(NAME.queue)
        assert isinstance(granted, Granted)
        assert least <= granted.fence <= max(least, HIGH)
        change(side, NAME, fence=FENCE + 7, expires=0)
        assert side.run(NAME.acquire(Bid("m:2", TTL, 0, ""))) == Granted(FENCE + 8, TTL, abandoned=True)

    def test_any_metadata_comes_back(self, side: Side) -> None:
        about = "host pid\nü☃ \0 {} 1 2 3"
        side.run(NAME.acquire(Bid("m:1", TTL, HIGH, about)))
        refused = side.run(NAME.acquire(Bid("m:2", TTL, 0, "")))
        assert isinstance(refused, Refused)
        assert refused.holder == about

    def test_text_that_is_no_state_is_an_error(self, side: Side) -> None:
        """Guards `error` in `read`: a foreign key is not a free lock."""
        side.set(NAME.state, "a string")
        with pytest.raises(Failure, match="WRONGTYPE"):
            side.run(HELD)
        assert side.get(NAME.state) == "a string"


class TestHeld:
    def test_a_request_that_does_not_queue_is_refused(self, side: Side) -> None:
        side.run(HELD)
        refused = side.run(NAME.acquire(Bid("m:2", TTL, 0, "")))
        assert isinstance(refused, Refused)
        assert (refused.fence, refused.holder) == (FENCE, "me")
        assert TTL - 10_000 < refused.pttl <= TTL
        assert not side.exists(NAME.queue)

    def test_a_request_that_queues_is_told_its_rank(self, side: Side) -> None:
        side.run(HELD)
        for rank, owner in enumerate(("n:1", "o:1", "n:f2"), 1):
            queued = side.run(NAME.acquire(Bid(owner, TTL, 0, "", LIVENESS)))
            assert isinstance(queued, Queued)
            assert (queued.rank, queued.fence, queued.holder) == (rank, FENCE, "me")
            assert TTL - 10_000 < queued.pttl <= TTL
        assert waiters(side, NAME) == ["n:1", "o:1", "n:f2"]
        lasting(side, NAME)

    def test_numbers_rise_whatever_the_clock_says(self, side: Side) -> None:
        """Guards `last + 1` in join."""
        side.run(HELD)
        side.score(NAME.queue, "n:1", HIGH)
        enter(side, NAME, "o:1", "a:1")
        assert side.scores(NAME.queue) == {"n:1": HIGH, "o:1": HIGH + 1, "a:1": HIGH + 2}

    def test_a_copy_changes_no_place(self, side: Side) -> None:
        """Guards NX: hazard 3."""
        side.run(HELD)
        enter(side, NAME, "n:1", "o:1")
        before = side.scores(NAME.queue)
        enter(side, NAME, "n:1")
        assert side.scores(NAME.queue) == before

    def test_a_copy_reads_its_own_grant(self, side: Side) -> None:
        """It extends, and never shortens; and whoever takes it over says who it is."""
        side.run(HELD)
        before = state(side, NAME)
        for ttl in (2 * TTL, TTL):
            copy = side.run(NAME.acquire(Bid("m:1", ttl, 2 * HIGH, "other", LIVENESS)))
            assert isinstance(copy, Granted)
            assert (copy.fence, copy.abandoned) == (FENCE, False)
            assert TTL < copy.pttl <= 2 * TTL
        after = state(side, NAME)
        assert (after.depth, after.before, after.process) == (1, before.before, "other")
        assert waiters(side, NAME) == []

    @pytest.mark.parametrize("queue", [False, True])
    @pytest.mark.parametrize("floor", [0, FENCE, FENCE + 5])
    def test_a_grant_from_the_queue_becomes_a_hold(self, floor: int, queue: bool, side: Side) -> None:
        """It lasts for its own ttl, however long it would have lasted; with a greater fence if one is known."""
        side.run(HELD)
        change(side, NAME, depth=0, abandoned="1", process="")
        if queue:
            enter(side, NAME, "n:1")
        answer = side.run(NAME.acquire(Bid("m:1", TTL // 10, floor, "other", LIVENESS)))
        assert answer == Granted(max(FENCE, floor + 1) if floor > FENCE else FENCE, TTL // 10, True)
        after = state(side, NAME)
        assert (after.owner, after.fence, after.depth) == ("m:1", answer.fence, 1)
        assert (after.abandoned, after.process) == ("1", "other")
        assert waiters(side, NAME) == ["n:1"] * queue

    def test_a_grant_from_the_queue_is_nothing_to_an_owner_that_has_ended(self, side: Side) -> None:
        """Guards acquire_own.lua and acquire.lua."""
        side.run(HELD)
        side.run(NAME.release("m:1", TTL, 0, "declined", tainted=True))
        change(side, NAME, depth=0)
        assert side.run(NAME.acquire(Bid("m:1", TTL, 0, "", LIVENESS))) == Finished()
        assert state(side, NAME).depth == 0

    def test_a_grant_whose_time_is_over_is_anothers(self, side: Side) -> None:
        hears(side, NAME, "n")
        side.run(HELD)
        change(side, NAME, depth=0)
        enter(side, NAME, "n:1")
        expire(side, NAME)
        assert isinstance(side.run(NAME.acquire(Bid("m:1", TTL, 0, "", LIVENESS))), Queued)
        assert state(side, NAME).owner == "n:1"

    def test_a_grant_from_the_queue_lasts_no_longer_than_its_owner_says(self, side: Side) -> None:
        """Whichever request makes it."""

        def granted_to(owner: str) -> int:
            after = state(side, NAME)
            assert (after.owner, after.depth) == (owner, 0)
            return after.expires - time.time() * 1000

        hears(side, NAME, "n", "o", "p")
        side.run(HELD)
        enter(side, NAME, "n:f1~300", "o:f1~400", "p:f1~500", "p:f2", "n:f2~200")
        side.run(NAME.release("m:1", TTL, 0, "clean", False))
        assert granted_to("n:f1~300") <= 300
        side.run(NAME.release("n:f1~300", TTL, 0, "undone", False))
        assert 300 < granted_to("o:f1~400") <= 400
        side.run(NAME.acquire(Bid("o:f1~400", TTL, 0, "")))
        fence = state(side, NAME).fence
        side.run(NAME.transfer("o:f1~400", fence, Bid("o:1", TTL, 0, "", LIVENESS, True), 1, False))
        assert 400 < granted_to("p:f1~500") <= 500
        side.run(NAME.release("p:f1~500", TTL, 0, "clean", False))
        assert 500 < granted_to("p:f2") <= LIVENESS
        expire(side, NAME)
        side.run(NAME.refresh_many([NAME.alive_of("n:f2~200", LIVENESS)]))
        assert 0 < granted_to("n:f2~200") <= 200

    def test_a_finished_owner_neither_gets_nor_queues(self, side: Side) -> None:
        side.run(NAME.release("m:1", TTL, 0, "undone", True))
        assert side.run(HELD) == Finished()
        enter(side, NAME, "n:1", "o:1")
        assert isinstance(side.run(NAME.acquire(Bid("m:1", TTL, 0, "", LIVENESS))), Finished)
        assert waiters(side, NAME) == ["o:1"]

    def test_a_recent_sign_of_life_is_not_repeated(self, side: Side) -> None:
        side.run(HELD)
        assert isinstance(side.run(NAME.acquire(Bid("n:1", TTL, 0, "", -LIVENESS))), Queued)
        assert not side.exists(NAME.alive)
        assert side.pttl(NAME.queue) > 50_000


class TestExpiry:
    """The keys of a queue live while it has waiters, although waiters with short waits never refresh."""

    def test_a_new_queue_lasts(self, side: Side) -> None:
        name = Lock(liveness_ms=10_000)
        side.run(HELD)
        enter(side, name, "n:1", liveness_ms=10_000)
        assert min(side.pttl(name.queue), side.pttl(name.alive)) > 190_000

    @pytest.mark.parametrize("passed", [False, True])
    def test_later_waiters_extend_it(self, passed: bool, side: Side) -> None:
        """Guards the comparison of numbers in join: a queue that is never empty would be forgotten after a minute."""
        side.run(HELD)
        enter(side, NAME, "n:1")
        number = side.scores(NAME.queue)["n:1"]
        side.shorten(NAME.queue, 20_000)
        side.shorten(NAME.alive, 20_000)
        if passed:
            side.score(NAME.queue, "n:1", number - 15_000_000)
        else:  # in the same quarter, and ahead of the waiters that follow
            side.score(NAME.queue, "n:1", number - number % 15_000_000 + 14_999_000)
        enter(side, NAME, "n:2")
        for key in (NAME.queue, NAME.alive):
            assert (side.pttl(key) > 20_000) == passed

    def test_a_longer_one_is_not_shortened(self, side: Side) -> None:
        """Guards `math.max` in keep."""
        side.run(HELD)
        enter(side, NAME, "n:1", liveness_ms=10_000)
        side.score(NAME.queue, "n:1", 1)
        enter(side, NAME, "n:2")
        assert min(side.pttl(NAME.queue), side.pttl(NAME.alive)) > 150_000

    def test_a_lost_hash_gets_one(self, side: Side) -> None:
        side.run(HELD)
        enter(side, NAME, "n:1")
        side.delete(NAME.alive)
        enter(side, NAME, "n:2")
        assert side.pttl(NAME.alive) > 0
        lasting(side, NAME)


class TestFreeWithAQueue:
    """No release could grant when the holder's time was over: hazard 10."""

    def test_the_first_in_the_queue_gets_it(self, side: Side) -> None:
        hears(side, NAME, "n")
        side.run(HELD)
        enter(side, NAME, "n:1")
        expire(side, NAME)
        queued = side.run(NAME.acquire(Bid("o:1", TTL, 0, "", LIVENESS)))
        assert isinstance(queued, Queued)
        assert queued.rank == 1
        assert 0 < queued.pttl <= LIVENESS
        assert side.heard() == [(NAME.manager("n"), f"granted n:1 {FENCE + 1} 1 {NAME.state}")]
        assert waiters(side, NAME) == ["o:1"]
        assert state(side, NAME).owner == "n:1"

    def test_a_request_that_does_not_queue_settles_it_for_others(self, side: Side) -> None:
        hears(side, NAME, "n")
        side.run(HELD)
        enter(side, NAME, "n:1")
        expire(side, NAME)
        refused = side.run(NAME.acquire(Bid("o:1", TTL, 0, "")))
        assert isinstance(refused, Refused)
        assert refused.fence == FENCE + 1
        assert state(side, NAME).owner == "n:1"

    @pytest.mark.parametrize("liveness", [0, LIVENESS, -1])
    def test_if_all_are_dead_it_is_granted(self, liveness: int, side: Side) -> None:
        hears(side, NAME, "n", "o")
        side.run(HELD)
        enter(side, NAME, "n:1", "n:2")
        forget(side, NAME, "n")
        expire(side, NAME)
        assert side.run(NAME.acquire(Bid("o:1", TTL, 0, "mine", liveness))) == Granted(FENCE + 1, TTL, abandoned=True)
        found = state(side, NAME)
        assert (found.owner, found.depth, found.process) == ("o:1", 1, "mine")
        assert waiters(side, NAME) == []
        assert side.heard() == []

    def test_one_that_did_not_have_to_wait_leaves_no_sign_of_life(self, side: Side) -> None:
        """Its process does not know that it was in the queue, so it would not leave it as it closes. Guards leave."""
        side.run(HELD)
        enter(side, NAME, "n:1")
        side.run(NAME.departure("n"))
        expire(side, NAME)
        assert isinstance(side.run(NAME.acquire(Bid("o:1", TTL, 0, "", LIVENESS))), Granted)
        assert not any(map(side.exists, (NAME.queue, NAME.alive)))

    def test_a_sign_of_life_stays_for_others_of_the_process(self, side: Side) -> None:
        """For those that it comes back before. Guards `stays` in leave."""
        side.run(HELD)
        enter(side, NAME, "n:1", "o:2")
        for manager in "no":
            side.run(NAME.departure(manager))
        expire(side, NAME)
        assert isinstance(side.run(NAME.acquire(Bid("o:1", TTL, 0, "", LIVENESS, True, number=7))), Granted)
        assert waiters(side, NAME)[-1:] == ["o:2"]
        assert side.hash(NAME.alive).keys() == {"o"}

    @pytest.mark.parametrize("liveness", [0, LIVENESS])
    def test_a_process_that_does_not_hear_is_passed_over_and_keeps_its_place(self, liveness: int, side: Side) -> None:
        """Hazard 1: it may be reconnecting."""
        side.run(HELD)
        enter(side, NAME, "n:1")
        number = side.scores(NAME.queue)
        expire(side, NAME)
        assert side.run(NAME.acquire(Bid("o:1", TTL, 0, "", liveness))) == Granted(FENCE + 1, TTL, abandoned=True)
        assert side.scores(NAME.queue) == number
        assert state(side, NAME).before == FENCE

    def test_if_too_many_do_not_hear_it_stays_free(self, side: Side) -> None:
        """None of those that were tried holds it: what is announced is heard at replicas and other nodes, too."""
        side.run(HELD)
        enter(side, NAME, "n:1", liveness_ms=LONG_MS)
        for number in range(MOST_ENTRIES):
            side.score(NAME.queue, f"n:{number + 2}", number)
        expire(side, NAME)
        refused = side.run(NAME.acquire(Bid("o:1", TTL, 0, "")))
        assert isinstance(refused, Refused)
        assert refused.pttl == 0
        assert not state(side, NAME).live

    def test_its_own_turn_needs_no_message(self, side: Side) -> None:
        hears(side, NAME, "n")
        side.run(HELD)
        enter(side, NAME, "n:1", "o:1")
        expire(side, NAME)
        copy = side.run(NAME.acquire(Bid("n:1", TTL, 0, "mine", LIVENESS)))
        assert copy == Granted(FENCE + 1, TTL, abandoned=True)
        assert side.heard() == []
        assert waiters(side, NAME) == ["o:1"]


class TestAbandoned:
    @pytest.mark.parametrize("queue", [False, True])
    @pytest.mark.parametrize("told", ["0", "1"])
    def test_a_grant_that_was_never_confirmed_began_nothing(self, told: str, queue: bool, side: Side) -> None:
        """Guards `depth` in what an expiry means: the next holder is told what that one was told."""
        side.run(HELD)
        change(side, NAME, depth=0, abandoned=told, expires=1)
        if queue:
            side.score(NAME.queue, "gone:1", 1)
        granted = side.run(NAME.acquire(Bid("m:2", TTL, 0, "", LIVENESS, True)))
        assert granted == Granted(FENCE + 1, TTL, abandoned=told == "1")

    def test_the_next_is_told_of_a_holder_that_vanished(self, side: Side) -> None:
        side.run(HELD)
        expire(side, NAME)
        assert side.run(NAME.acquire(Bid("m:2", TTL, 0, ""))) == Granted(FENCE + 1, TTL, abandoned=True)
        side.run(NAME.release("m:2", TTL, 0, "clean", False))
        assert side.run(NAME.acquire(Bid("m:3", TTL, 0, ""))) == Granted(FENCE + 2, TTL, abandoned=False)


@pytest.mark.parametrize("floor", [0, HIGH + 1000], ids=["acquire_own", "own"])
def test_a_place_in_the_queue_is_no_fence(floor: int, side: Side) -> None:
    """Breaks if the number stays in `before` once its process has asked: follows.lua would take it for a fence."""
    number = 1000
    side.run(NAME.acquire(Bid("m:1", TTL, HIGH, "")))
    assert isinstance(side.run(NAME.acquire(Bid("n:1", TTL, 0, "", LIVENESS, False, number))), Queued)
    side.run(NAME.release("m:1", TTL, 0, "clean", False))
    grant = side.run(NAME.acquire(Bid("n:1", TTL, floor, "")))
    assert isinstance(grant, Granted)
    assert not side.run(NAME.follows("n:1", grant.fence, number))
