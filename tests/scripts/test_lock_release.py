"""What release promises: it grants to the next in the queue that lives and hears, and tells it, and no other."""

from __future__ import annotations

import pytest

from aiolock.errors import LossReason
from aiolock.scripts.base import Ending
from aiolock.scripts.bid import Bid
from aiolock.scripts.keys import DIRTY_MS, GRACE_MS
from aiolock.scripts.outcomes import Granted, Kept, Missing, Released
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
    signs,
    state,
    waiters,
)
from tests.support.lua import MOST_ENTRIES
from tests.support.scripting import Side

NAME = Lock()
HELD = NAME.acquire(Bid("m:1", TTL, HIGH, "me"))
RELEASE = NAME.release("m:1", TTL, 0, "clean", False)


class TestWithoutWaiters:
    @pytest.mark.parametrize("tainted", [False, True])
    def test_it_is_free(self, tainted: bool, side: Side) -> None:
        side.run(HELD)
        assert side.run(NAME.release("m:1", TTL, 0, "clean", tainted)) == Released(FENCE)
        found = state(side, NAME)
        assert (found.owner, found.fence, found.abandoned, found.process) == ("", FENCE, "0", "")
        assert TTL + GRACE_MS - 10_000 < side.pttl(NAME.state) <= TTL + GRACE_MS
        assert side.exists(NAME.dead("m:1")) == tainted
        assert side.run(NAME.acquire(Bid("m:2", TTL, 0, ""))) == Granted(FENCE + 1, TTL, abandoned=False)

    @pytest.mark.parametrize("found", ["0", "1"])
    @pytest.mark.parametrize("ending", ["clean", "undone", "dirty"])
    def test_what_the_next_is_told(self, ending: Ending, found: str, side: Side) -> None:
        side.run(HELD)
        change(side, NAME, abandoned=found)
        side.run(NAME.release("m:1", TTL, 0, ending, False))
        dirty = {"clean": "0", "undone": found, "dirty": "1"}[ending]
        assert state(side, NAME).abandoned == dirty
        assert (side.pttl(NAME.state) > DIRTY_MS - 10_000) == (dirty == "1")
        assert side.run(NAME.acquire(Bid("m:2", TTL, 0, ""))) == Granted(FENCE + 1, TTL, abandoned=dirty == "1")

    def test_a_channel_is_told_if_it_is_named(self, side: Side) -> None:
        side.listen("somewhere")
        side.run(HELD)
        side.run(NAME.release("m:1", TTL, 0, "clean", False, "somewhere"))
        side.run(NAME.release("m:1", TTL, 0, "clean", False, "somewhere"))
        assert side.heard() == [("somewhere", f"m:1 {FENCE}")]

    def test_its_time_may_be_over(self, side: Side) -> None:
        side.run(HELD)
        expire(side, NAME)
        assert side.run(RELEASE) == Released(FENCE)
        assert state(side, NAME).abandoned == "0"


class TestOneLevel:
    def test_the_depth_is_what_is_left(self, side: Side) -> None:
        side.run(HELD)
        side.run(NAME.nest("m:1", FENCE, TTL, 3))
        for left, depth in ((2, 2), (1, 1), (2, 1)):
            assert isinstance(side.run(NAME.release("m:1", TTL, left, "clean", False)), Kept)
            assert state(side, NAME).depth == depth

    def test_a_request_that_does_not_hold_stays_in_the_queue(self, side: Side) -> None:
        side.run(HELD)
        enter(side, NAME, "n:1")
        assert side.run(NAME.release("n:1", TTL, 1, "clean", True)) == Missing(LossReason.TAKEN_OVER)
        assert waiters(side, NAME) == ["n:1"]
        assert not side.exists(NAME.dead("n:1"))


class TestOneWhoDoesNotHold:
    def test_leaves_the_queue(self, side: Side) -> None:
        side.run(HELD)
        enter(side, NAME, "n:1", "n:2")
        assert side.run(NAME.release("n:1", TTL, 0, "undone", True)) == Missing(LossReason.TAKEN_OVER)
        assert waiters(side, NAME) == ["n:2"]
        assert side.exists(NAME.dead("n:1"))

    def test_is_told_why(self, side: Side) -> None:
        assert side.run(RELEASE) == Missing(LossReason.DELETED)
        side.run(HELD)
        side.run(RELEASE)
        assert side.run(RELEASE) == Missing(LossReason.DELETED)
        side.run(NAME.acquire(Bid("m:2", TTL, 0, "")))
        assert side.run(RELEASE) == Missing(LossReason.TAKEN_OVER)
        assert state(side, NAME).owner == "m:2"

    def test_an_undo_that_crosses_a_grant_gives_it_to_the_next(self, side: Side) -> None:
        """Hazard 8: leaving is one script, whatever became of the place."""
        hears(side, NAME, "n", "o")
        side.run(HELD)
        enter(side, NAME, "n:1", "o:1")
        side.run(RELEASE)
        assert side.run(NAME.release("n:1", TTL, 0, "undone", False)) == Released(FENCE + 1)
        assert [payload for _, payload in side.heard()] == [
            f"granted n:1 {FENCE + 1} 0 {NAME.state}",
            f"granted o:1 {FENCE + 2} 0 {NAME.state}",
        ]


class TestDeclined:
    """Of what the queue granted to an owner that has ended."""

    @pytest.fixture
    def granted(self, side: Side) -> Side:
        """To n:1, before o:1."""
        hears(side, NAME, "n", "o")
        side.run(HELD)
        enter(side, NAME, "n:1", "o:1")
        side.run(NAME.release("m:1", TTL, 0, "dirty", False))
        side.heard()
        return side

    def test_the_next_gets_it_and_is_told_the_same(self, granted: Side) -> None:
        assert granted.run(NAME.release("n:1", TTL, 0, "declined", False)) == Released(FENCE + 1)
        assert granted.heard() == [(NAME.manager("o"), f"granted o:1 {FENCE + 2} 1 {NAME.state}")]
        assert waiters(granted, NAME) == []

    def test_if_it_was_taken_it_stays(self, granted: Side) -> None:
        """A task has it, or a ticket."""
        granted.run(NAME.acquire(Bid("n:1", TTL, 0, "")))
        before = state(granted, NAME)
        assert granted.run(NAME.release("n:1", TTL, 0, "declined", True)) == Missing(LossReason.TAKEN_OVER)
        assert state(granted, NAME) == before
        assert waiters(granted, NAME) == ["o:1"]
        assert granted.heard() == []

    def test_one_that_waits_leaves_the_queue(self, granted: Side) -> None:
        assert granted.run(NAME.release("o:1", TTL, 0, "declined", False)) == Missing(LossReason.TAKEN_OVER)
        assert waiters(granted, NAME) == []
        assert state(granted, NAME).owner == "n:1"


class TestWithWaiters:
    def test_the_first_is_granted_and_told(self, side: Side) -> None:
        hears(side, NAME, "n", "o")
        side.run(HELD)
        enter(side, NAME, "n:1", "o:1")
        number = side.scores(NAME.queue)["n:1"]
        assert side.run(RELEASE) == Released(FENCE)
        found = state(side, NAME)
        assert (found.owner, found.fence, found.before, found.depth) == ("n:1", FENCE + 1, number, 0)
        assert found.process == "of n:1"
        assert side.heard() == [(NAME.manager("n"), f"granted n:1 {FENCE + 1} 0 {NAME.state}")]
        assert waiters(side, NAME) == ["o:1"]
        lasting(side, NAME)

    def test_the_grant_lasts_as_long_as_its_manager_counts_as_alive(self, side: Side) -> None:
        """Hazard 2: it does not start now."""
        hears(side, NAME, "n")
        side.run(HELD)
        enter(side, NAME, "n:1")
        side.run(RELEASE)
        assert state(side, NAME).expires == signs(side, NAME)["n"].until

    @pytest.mark.parametrize("ending", ["clean", "undone", "dirty"])
    def test_the_message_tells_what_was_abandoned(self, ending: Ending, side: Side) -> None:
        hears(side, NAME, "n")
        side.run(HELD)
        enter(side, NAME, "n:1")
        side.run(NAME.release("m:1", TTL, 0, ending, True))
        dirty = int(ending == "dirty")
        assert side.heard() == [(NAME.manager("n"), f"granted n:1 {FENCE + 1} {dirty} {NAME.state}")]
        assert state(side, NAME).abandoned == str(dirty)
        assert side.exists(NAME.dead("m:1"))

    def test_a_process_that_hears_but_was_silent_for_too_long_is_not_granted(self, side: Side) -> None:
        hears(side, NAME, "n", "o")
        side.run(HELD)
        enter(side, NAME, "n:1", "o:1")
        forget(side, NAME, "n")
        side.run(RELEASE)
        assert side.heard() == [(NAME.manager("o"), f"granted o:1 {FENCE + 1} 0 {NAME.state}")]
        assert waiters(side, NAME) == []

    def test_an_owner_that_could_not_leave_the_queue_is_not_granted_again(self, side: Side) -> None:
        hears(side, NAME, "m", "n")
        side.run(HELD)
        enter(side, NAME, "n:1")
        side.hset(NAME.alive, {"m": side.hash(NAME.alive)["n"]})
        side.score(NAME.queue, "m:1", 1)
        side.run(RELEASE)
        assert side.heard() == [(NAME.manager("n"), f"granted n:1 {FENCE + 1} 0 {NAME.state}")]
        assert waiters(side, NAME) == []

    def test_the_dead_leave_the_queue(self, side: Side) -> None:
        hears(side, NAME, "n", "o")
        side.run(HELD)
        enter(side, NAME, "n:1", "n:2", "o:1")
        forget(side, NAME, "n")
        side.score(NAME.queue, "unknown:1", 0)
        side.run(RELEASE)
        assert side.heard() == [(NAME.manager("o"), f"granted o:1 {FENCE + 1} 0 {NAME.state}")]
        assert waiters(side, NAME) == []

    def test_a_process_that_does_not_hear_is_passed_over_and_keeps_its_place(self, side: Side) -> None:
        hears(side, NAME, "o")
        side.run(HELD)
        enter(side, NAME, "n:1", "n:2", "o:1", "o:2")
        numbers = side.scores(NAME.queue)
        side.run(RELEASE)
        assert side.heard() == [(NAME.manager("o"), f"granted o:1 {FENCE + 1} 0 {NAME.state}")]
        assert side.scores(NAME.queue) == {owner: numbers[owner] for owner in ("n:1", "n:2", "o:2")}

    def test_a_polling_process_is_granted_although_no_one_hears(self, side: Side) -> None:
        """Guards `counted`: a message without a receiver proves nothing about a process that does not listen."""
        side.run(HELD)
        enter(side, NAME, "n:1", counted=False)
        side.run(RELEASE)
        assert state(side, NAME).owner == "n:1"
        assert waiters(side, NAME) == []

    @pytest.mark.parametrize("ending", ["clean", "dirty"])
    def test_if_no_one_hears_it_is_free(self, ending: Ending, side: Side) -> None:
        side.run(HELD)
        enter(side, NAME, "n:1")
        assert side.run(NAME.release("m:1", TTL, 0, ending, False)) == Released(FENCE)
        found = state(side, NAME)
        assert (found.owner, found.abandoned, found.expires, found.process) == ("", str(int(ending == "dirty")), 0, "")
        assert waiters(side, NAME) == ["n:1"]
        assert (side.pttl(NAME.state) <= TTL + GRACE_MS) == (ending == "clean")

    def test_a_process_that_ends_is_not_granted_again(self, side: Side) -> None:
        """Guards `name.ended`: it may be there because of a late copy, or because it could not be removed."""
        hears(side, NAME, "m", "n")
        side.run(HELD)
        enter(side, NAME, "n:1")
        side.score(NAME.queue, "m:1", 1)
        side.hset(NAME.alive, {"m": "9999999999999+"})
        side.run(RELEASE)
        assert state(side, NAME).owner == "n:1"
        assert waiters(side, NAME) == []

    def test_one_request_does_not_look_at_all_of_them(self, side: Side) -> None:
        """Guards the bound; the next request continues where it ended."""
        hears(side, NAME, "n")
        side.run(HELD)
        for number in range(MOST_ENTRIES):
            side.score(NAME.queue, f"dead:{number}", number)
        enter(side, NAME, "n:1")
        assert side.run(RELEASE) == Released(FENCE)
        assert waiters(side, NAME) == ["n:1"]
        assert state(side, NAME).owner == ""
        (granted,) = side.run(NAME.refresh_many([NAME.alive_of("n:1", LIVENESS)]))
        assert isinstance(granted, Granted)

    def test_two_managers_of_one_process_are_two(self, side: Side) -> None:
        hears(side, NAME, "n", "o")
        side.run(HELD)
        enter(side, NAME, "n:1", "o:1")
        side.run(RELEASE)
        side.run(NAME.release("n:1", TTL, 0, "clean", False))
        assert [channel for channel, _ in side.heard()] == [NAME.manager("n"), NAME.manager("o")]
