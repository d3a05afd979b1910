"""What transfer promises: a turn continues within the process, or ends and goes to the next in the queue, in one
request.
"""

from __future__ import annotations

import pytest

from aiolock.errors import LossReason
from aiolock.scripts.base import Call
from aiolock.scripts.bid import Bid
from aiolock.scripts.outcomes import Finished, Granted, Missing, Passed, TransferOutcome
from tests.support.lock_calls import (
    FENCE,
    HIGH,
    LIVENESS,
    TTL,
    Lock,
    change,
    enter,
    forget,
    hears,
    lasting,
    state,
    waiters,
)
from tests.support.scripting import Side

NAME = Lock()
HELD = NAME.acquire(Bid("m:1", TTL, HIGH, "me"))


def transfer(
    over: bool, successor: str = "m:2", owner: str = "m:1", fence: int = FENCE, tainted: bool = False
) -> Call[TransferOutcome]:
    return NAME.transfer(owner, fence, Bid(successor, TTL, 0, "next", LIVENESS, True), over, tainted)


class TestWithin:
    @pytest.mark.parametrize("tainted", [False, True])
    @pytest.mark.parametrize(("over", "waits"), [(False, False), (False, True), (True, False)])
    def test_the_next_holds(self, over: bool, waits: bool, tainted: bool, side: Side) -> None:
        side.run(HELD)
        side.run(NAME.nest("m:1", FENCE, TTL, 3))
        if waits:
            enter(side, NAME, "n:1")
        assert side.run(transfer(over, tainted=tainted)) == Granted(FENCE + 1, TTL, abandoned=False)
        found = state(side, NAME)
        assert (found.owner, found.fence, found.before, found.depth) == ("m:2", FENCE + 1, FENCE, 1)
        assert found.process == "next"
        assert side.exists(NAME.dead("m:1")) == tainted
        assert waiters(side, NAME) == ["n:1"] * waits

    @pytest.mark.parametrize("alive", [False, True])
    def test_a_turn_does_not_end_if_no_other_can_be_granted(self, alive: bool, side: Side) -> None:
        side.run(HELD)
        enter(side, NAME, "n:1")
        if not alive:
            forget(side, NAME, "n")
        assert side.run(transfer(over=True)) == Granted(FENCE + 1, TTL, abandoned=False)
        assert state(side, NAME).before == FENCE
        assert waiters(side, NAME) == ["n:1"] * alive

    @pytest.mark.parametrize("tainted", [False, True])
    @pytest.mark.parametrize("told", ["0", "1"])
    def test_a_grant_that_was_never_confirmed_began_nothing(self, told: str, tainted: bool, side: Side) -> None:
        side.run(HELD)
        change(side, NAME, depth=0, abandoned=told)
        assert side.run(transfer(over=False, tainted=tainted)) == Granted(FENCE + 1, TTL, abandoned=told == "1")

    def test_a_detached_hold_moves_whoever_waits(self, side: Side) -> None:
        hears(side, NAME, "n")
        side.run(HELD)
        enter(side, NAME, "n:f1")
        resumed = side.run(NAME.resume("m:1", FENCE, Bid("o:1", TTL, 0, "next"), False))
        assert resumed == Granted(FENCE + 1, TTL, abandoned=False)
        assert side.heard() == []
        assert waiters(side, NAME) == ["n:f1"]

    def test_a_finished_successor_gets_nothing(self, side: Side) -> None:
        side.run(HELD)
        side.run(NAME.release("m:2", TTL, 0, "undone", True))
        assert side.run(transfer(over=False)) == Finished()
        assert state(side, NAME).owner == "m:1"


class TestPassing:
    def test_the_first_is_told_and_the_own_process_queues_at_the_end(self, side: Side) -> None:
        hears(side, NAME, "n", "o")
        side.run(HELD)
        enter(side, NAME, "n:1", "o:1")
        passed = side.run(transfer(over=True, tainted=True))
        assert isinstance(passed, Passed)
        assert 0 < passed.pttl <= LIVENESS
        assert side.heard() == [(NAME.manager("n"), f"granted n:1 {FENCE + 1} 0 {NAME.state}")]
        assert waiters(side, NAME) == ["o:1", "m:2"]
        assert side.hash(NAME.alive).keys() == {"m", "n", "o"}
        assert side.exists(NAME.dead("m:1"))
        lasting(side, NAME)

    def test_an_owner_that_could_not_leave_the_queue_is_not_granted_again(self, side: Side) -> None:
        hears(side, NAME, "m", "n")
        side.run(HELD)
        enter(side, NAME, "n:1")
        side.hset(NAME.alive, {"m": side.hash(NAME.alive)["n"]})
        side.score(NAME.queue, "m:1", 1)
        assert isinstance(side.run(transfer(over=True)), Passed)
        assert side.heard() == [(NAME.manager("n"), f"granted n:1 {FENCE + 1} 0 {NAME.state}")]
        assert waiters(side, NAME) == ["m:2"]

    def test_a_turn_ends_at_the_first_with_the_fair_rule(self, side: Side) -> None:
        """Hazard 13."""
        hears(side, NAME, "n")
        side.run(HELD)
        enter(side, NAME, "n:f1")
        assert isinstance(side.run(transfer(over=False)), Passed)
        assert waiters(side, NAME) == ["m:2"]

    def test_a_fair_task_is_taken_from_the_queue(self, side: Side) -> None:
        hears(side, NAME, "n")
        side.run(HELD)
        enter(side, NAME, "m:f2", "n:1")
        assert side.run(transfer(True, "m:f2")) == Granted(FENCE + 1, TTL, abandoned=False)
        assert waiters(side, NAME) == ["n:1"]
        assert side.heard() == []
        assert isinstance(side.run(transfer(True, "m:f3", "m:f2", FENCE + 1)), Passed)
        assert waiters(side, NAME) == ["m:f3"]

    def test_a_fair_task_that_goes_before_others_leaves_the_queue_too(self, side: Side) -> None:
        """Guards the ZREM of a fair next that is not the first."""
        side.run(HELD)
        enter(side, NAME, "n:1", "m:f2")
        assert isinstance(side.run(transfer(False, "m:f2")), Granted)
        assert waiters(side, NAME) == ["n:1"]

    def test_a_fair_task_keeps_its_place(self, side: Side) -> None:
        """Guards NX in join."""
        hears(side, NAME, "n")
        side.run(HELD)
        enter(side, NAME, "n:1", "m:f2", "o:1")
        assert isinstance(side.run(transfer(True, "m:f2")), Passed)
        assert waiters(side, NAME) == ["m:f2", "o:1"]


class TestACopy:
    """Hazard 4."""

    def test_reads_the_grant(self, side: Side) -> None:
        side.run(HELD)
        side.run(transfer(over=False))
        copy = side.run(transfer(over=False))
        assert isinstance(copy, Granted)
        assert copy.fence == FENCE + 1
        assert state(side, NAME).fence == FENCE + 1

    def test_takes_what_the_queue_has_granted_meanwhile(self, side: Side) -> None:
        """So "granted" always means a hold, for the ttl. Kept by own.lua."""
        hears(side, NAME, "m", "n")
        side.run(HELD)
        enter(side, NAME, "n:1")
        side.run(transfer(over=True))
        side.run(NAME.release("n:1", TTL, 0, "clean", False))
        assert (state(side, NAME).owner, state(side, NAME).depth) == ("m:2", 0)
        assert side.run(transfer(over=True)) == Granted(state(side, NAME).fence, TTL, abandoned=False)
        after = state(side, NAME)
        assert (after.owner, after.depth, after.process) == ("m:2", 1, "next")

    def test_finds_the_place_and_says_nothing_of_life(self, side: Side) -> None:
        hears(side, NAME, "n")
        side.run(HELD)
        enter(side, NAME, "n:1", "n:2")
        side.run(transfer(over=True))
        forget(side, NAME, "m")
        numbers = side.scores(NAME.queue)
        assert isinstance(side.run(transfer(over=True)), Passed)
        assert side.scores(NAME.queue) == numbers
        assert side.hash(NAME.alive)["m"] == "1+"

    def test_it_does_not_queue_a_process_that_has_left(self, side: Side) -> None:
        hears(side, NAME, "n")
        side.run(HELD)
        enter(side, NAME, "n:1")
        side.run(transfer(over=True))
        side.run(NAME.release("m:2", TTL, 0, "undone", False))
        assert side.run(transfer(over=True)) == Missing(LossReason.TAKEN_OVER)
        assert waiters(side, NAME) == []

    @pytest.mark.parametrize("over", [False, True])
    def test_nothing_is_taken_from_another(self, over: bool, side: Side) -> None:
        assert side.run(transfer(over)) == Missing(LossReason.DELETED)
        side.run(HELD)
        assert side.run(transfer(over, fence=FENCE - 1)) == Missing(LossReason.TAKEN_OVER)
        assert side.run(transfer(over, owner="m:9", tainted=True)) == Missing(LossReason.TAKEN_OVER)
        assert state(side, NAME).owner == "m:1"
        assert side.exists(NAME.dead("m:9"))
