"""Both sides keep the promises in the headers of the queue family's other scripts: release, transfer, renew,
force_release, set_capacity and info.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from aiolock.errors import LossReason
from aiolock.scripts.base import Ending
from aiolock.scripts.bid import Bid
from aiolock.scripts.keys import GRACE_MS
from aiolock.scripts.outcomes import (
    Ended,
    Failed,
    Finished,
    Granted,
    Held,
    Impossible,
    Kept,
    Missing,
    Queued,
    Refused,
    Released,
    Renewed,
    Standing,
)
from tests.support.queues import (
    FAIR,
    FULL,
    RW,
    SEMAPHORE,
    Holder,
    Queue,
    assert_sound,
    crash,
    ends,
    enter,
    holders,
    standing,
    summary,
    waiting,
)
from tests.support.scripting import Side

TTL = 30_000
SLACK = 10_000
DAY = 24 * 3600 * 1000
HIGH = 2**51
FENCE = HIGH + 1


@pytest.fixture
def fair() -> Queue:
    return Queue(FAIR)


@pytest.fixture
def held(side: Side, fair: Queue) -> Queue:
    """A name that m:1 holds."""
    side.run(fair.request("m:1", TTL, HIGH, "me"))
    return fair


class TestRelease:
    def test_frees_and_leaves_only_a_state_that_soon_goes(self, side: Side, held: Queue) -> None:
        assert side.run(held.release("m:1", TTL, 0, "clean", False)) == Released(FENCE)
        assert [side.exists(key) for key in held.keys] == [True, False]
        assert_sound(side, held)
        assert TTL + GRACE_MS - SLACK < side.pttl(held.hash) <= TTL + GRACE_MS

    def test_of_one_of_many_leaves_the_others(self, side: Side) -> None:
        one, two = Queue(SEMAPHORE), Queue(SEMAPHORE, want=1)
        side.run(two.request("m:1", TTL, HIGH, ""))
        side.run(one.request("m:2", TTL, HIGH, ""))
        assert side.run(two.release("m:1", TTL, 0, "clean", False)) == Released(FENCE)
        assert set(holders(side, one)) == set(ends(side, one)) == {"m:2"}
        assert summary(side, one).used == 1
        assert side.pttl(one.hash) > DAY - SLACK

    def test_lowers_the_depth(self, side: Side, held: Queue) -> None:
        side.run(held.request("m:1", TTL, 0, "", depth=3, fence=FENCE))
        kept = side.run(held.release("m:1", TTL, 2, "clean", False))
        assert isinstance(kept, Kept)
        assert TTL - SLACK < kept.pttl <= TTL
        assert holders(side, held) == {"m:1": Holder(2, 1, "1", str(FENCE), "0", "me")}

    def test_a_late_copy_raises_no_depth(self, side: Side, held: Queue) -> None:
        """Guards `math.min(count, left)`."""
        assert isinstance(side.run(held.release("m:1", TTL, 2, "clean", False)), Kept)
        assert holders(side, held)["m:1"].depth == 1

    def test_of_the_write_lets_in_readers(self, side: Side) -> None:
        """A writer that reads on: it weighs less, and a reader that vanishes leaves nothing half-done."""
        read, write = Queue(RW), Queue(RW, want=1)
        side.run(write.request("m:1", TTL, HIGH, ""))
        side.run(read.request("m:1", TTL, 0, "", depth=2, fence=FENCE))
        enter(side, read, ["n:2"])
        assert isinstance(side.run(read.release("m:1", TTL, 1, "clean", False)), Kept)
        assert holders(side, read)["m:1"] == Holder(1, 1, "0", str(FENCE), "0")
        assert set(holders(side, read)) == {"m:1", "n:2"}
        assert summary(side, read).used == 2

    def test_gives_no_weight(self, side: Side) -> None:
        """Guards `math.min(weight, …)`: a late copy of a writer's nested release under a reader."""
        read, write = Queue(RW), Queue(RW, want=1)
        side.run(read.request("m:1", TTL, HIGH, ""))
        side.run(write.release("m:1", TTL, 1, "clean", False))
        assert holders(side, read)["m:1"] == Holder(1, 1, "0", str(FENCE), "0")

    @pytest.mark.parametrize("tainted", [False, True])
    def test_of_a_waiter_takes_it_out_of_the_line(self, tainted: bool, side: Side, held: Queue) -> None:
        enter(side, held, ["m:2", "m:3"])
        assert side.run(held.release("m:2", TTL, 0, "undone", tainted)) == Missing(LossReason.TAKEN_OVER)
        assert waiting(side, held) == list(standing(side, held).waiters) == ["m:3"]
        assert side.exists(held.dead("m:2")) == tainted

    def test_of_a_head_lets_in_the_ones_behind_it(self, side: Side) -> None:
        one, full = Queue(SEMAPHORE), Queue(SEMAPHORE, want=2)
        side.run(one.request("m:1", TTL, HIGH, ""))
        enter(side, full, ["m:2"])
        enter(side, one, ["m:3"])
        side.run(full.release("m:2", TTL, 0, "undone", False))
        assert set(holders(side, one)) == {"m:1", "m:3"}

    def test_of_what_the_queue_granted_to_an_owner_that_has_ended(self, side: Side, held: Queue) -> None:
        """It was declined: the next gets it, and is told the same."""
        enter(side, held, ["m:2", "m:3"])
        side.run(held.release("m:1", TTL, 0, "dirty", False))
        assert holders(side, held)["m:2"].depth == 0
        assert side.run(held.release("m:2", TTL, 0, "declined", False)) == Released(FENCE + 1)
        assert holders(side, held) == {"m:3": Holder(0, 1, "1", str(FENCE + 2), "1", "about m:3")}
        assert_sound(side, held)

    @pytest.mark.parametrize("renewed", [False, True])
    def test_of_what_its_owner_knows_of(self, renewed: bool, side: Side, held: Queue) -> None:
        """Nothing ends: a task has it, or a ticket."""
        enter(side, held, ["m:2", "m:3"])
        owner = "m:1"
        if renewed:
            side.run(held.release("m:1", TTL, 0, "clean", False))
            owner = "m:2"
            side.run(held.renew_many([held.renewal(owner, FENCE + 1, TTL)]))
        assert side.run(held.release(owner, TTL, 0, "declined", True)) == Missing(LossReason.TAKEN_OVER)
        assert holders(side, held) == {
            owner: Holder(1, 1, "1", str(FENCE + renewed), "0", "about m:2" if renewed else "me")
        }
        assert_sound(side, held)

    def test_of_a_waiter_that_is_declined(self, side: Side, held: Queue) -> None:
        enter(side, held, ["m:2", "m:3"])
        assert side.run(held.release("m:2", TTL, 0, "declined", False)) == Missing(LossReason.TAKEN_OVER)
        assert waiting(side, held) == ["m:3"]

    def test_of_nothing(self, side: Side, fair: Queue) -> None:
        assert side.run(fair.release("m:1", TTL, 0, "clean", False)) == Missing(LossReason.DELETED)
        assert not side.exists(fair.hash)

    def test_a_copy_harms_no_one(self, side: Side, held: Queue) -> None:
        call = held.release("m:1", TTL, 0, "clean", False)
        side.run(call)
        side.run(held.request("m:2", TTL, 0, ""))
        assert side.run(call) == Missing(LossReason.TAKEN_OVER)
        assert set(holders(side, held)) == {"m:2"}

    @pytest.mark.parametrize(
        ("ending", "found", "left"),
        [
            ("clean", False, False),
            ("clean", True, False),
            ("undone", False, False),
            ("undone", True, True),
            ("dirty", False, True),
            ("dirty", True, True),
        ],
    )
    def test_what_the_next_is_told(self, ending: Ending, found: bool, left: bool, side: Side, held: Queue) -> None:
        """Guards what `drop` is told (H3)."""
        if found:
            crash(side, held, "m:1")
        else:
            side.run(held.release("m:1", TTL, 0, "clean", False))
        side.run(held.request("m:2", TTL, 0, ""))
        side.run(held.release("m:2", TTL, 0, ending, False))
        assert (side.pttl(held.hash) > DAY - SLACK) == left
        granted = side.run(held.request("m:3", TTL, 0, ""))
        assert isinstance(granted, Granted)
        assert granted.abandoned == left

    def test_one_that_holds_on_has_no_tombstone(self, side: Side, held: Queue) -> None:
        """Guards `left == 0`."""
        side.run(held.request("m:1", TTL, 0, "", depth=2, fence=FENCE))
        side.run(held.release("m:1", TTL, 1, "clean", True))
        assert not side.exists(held.dead("m:1"))

    def test_a_tombstone_lasts(self, side: Side, held: Queue) -> None:
        side.run(held.release("m:1", TTL, 0, "clean", True))
        assert TTL + GRACE_MS - SLACK < side.pttl(held.dead("m:1")) <= TTL + GRACE_MS


class TestTransfer:
    def test_moves_the_hold(self, side: Side) -> None:
        two = Queue(SEMAPHORE, want=1)
        side.run(two.request("m:1", TTL, HIGH, ""))
        granted = side.run(two.resume("m:1", FENCE, Bid("m:2", 2 * TTL, 0, "the second"), False))
        assert granted == Granted(FENCE + 1, 2 * TTL, abandoned=False, capacity=3, weight=2)
        assert holders(side, two) == {"m:2": Holder(1, 2, "1", str(FENCE + 1), "0", "the second")}
        assert set(ends(side, two)) == {"m:2"}
        assert summary(side, two).used == 2
        assert summary(side, two).process == "the second"

    def test_of_a_reader_mints_nothing(self, side: Side) -> None:
        read = Queue(RW)
        side.run(read.request("m:1", TTL, HIGH, ""))
        assert side.run(read.resume("m:1", FENCE, Bid("m:2", TTL, HIGH + 9, ""), False)).fence == FENCE  # type: ignore[union-attr]

    def test_takes_the_next_out_of_the_line(self, side: Side, held: Queue) -> None:
        """Guards `leave(name, next)`: a holder does not wait."""
        enter(side, held, ["m:3", "m:2"])
        side.run(held.resume("m:1", FENCE, Bid("m:2", TTL, 0, ""), False))
        assert set(holders(side, held)) == {"m:2"}
        assert waiting(side, held) == ["m:3"]

    def test_a_copy_reads_its_own_grant(self, side: Side, held: Queue) -> None:
        call = held.resume("m:1", FENCE, Bid("m:2", TTL, 0, ""), False)
        first, second = side.run(call), side.run(call)
        assert isinstance(first, Granted)
        assert isinstance(second, Granted)
        assert replace(second, pttl=first.pttl) == first

    def test_to_itself_keeps_what_it_has(self, side: Side, held: Queue) -> None:
        """Guards `owner ~= next`."""
        assert side.run(held.resume("m:1", FENCE, Bid("m:1", TTL, 0, ""), False)).fence == FENCE  # type: ignore[union-attr]
        assert holders(side, held) == {"m:1": Holder(1, 1, "1", str(FENCE), "0", "me")}

    def test_a_late_copy_moves_nothing(self, side: Side, held: Queue) -> None:
        call = held.resume("m:1", FENCE, Bid("m:2", TTL, 0, ""), False)
        side.run(call)
        side.run(held.release("m:2", TTL, 0, "clean", False))
        assert side.run(call) == Missing(LossReason.DELETED)
        side.run(held.request("m:3", TTL, 0, ""))
        assert side.run(call) == Missing(LossReason.TAKEN_OVER)

    def test_to_one_that_holds_already_ends_the_owner(self, side: Side) -> None:
        """Guards `drop` before that branch: its permit was granted while this request was on its way."""
        permits = Queue(SEMAPHORE, capacity=2)
        for owner in ("m:1", "m:2"):
            side.run(permits.request(owner, TTL, HIGH, ""))
        enter(side, permits, ["m:3"])
        granted = side.run(permits.resume("m:1", FENCE, Bid("m:2", TTL, 0, ""), False))
        assert isinstance(granted, Granted)
        assert granted.fence == FENCE + 1
        assert set(holders(side, permits)) == {"m:2", "m:3"}

    def test_another_fence(self, side: Side, held: Queue) -> None:
        assert side.run(held.resume("m:1", FENCE - 1, Bid("m:2", TTL, 0, ""), True)) == Missing(LossReason.TAKEN_OVER)
        assert set(holders(side, held)) == {"m:1"}
        assert side.exists(held.dead("m:1"))

    def test_a_tombstone_of_the_next_refuses(self, side: Side, held: Queue) -> None:
        side.run(held.release("m:2", TTL, 0, "undone", True))
        assert side.run(held.resume("m:1", FENCE, Bid("m:2", TTL, 0, ""), True)) == Finished()
        assert set(holders(side, held)) == {"m:1"}

    def test_of_a_hold_whose_time_is_over(self, side: Side, held: Queue) -> None:
        """Guards `settle` in transfer."""
        crash(side, held, "m:1")
        assert isinstance(side.run(held.resume("m:1", FENCE, Bid("m:2", TTL, 0, ""), False)), Missing)
        assert holders(side, held) == {}


class TestRenew:
    def test_extends_and_never_shortens(self, side: Side, held: Queue) -> None:
        for ttl in (2 * TTL, TTL):
            (renewed,) = side.run(held.renew_many([held.renewal("m:1", FENCE, ttl)]))
            assert isinstance(renewed, Renewed)
            assert 2 * TTL - SLACK < renewed.pttl <= 2 * TTL

    def test_keeps_the_keys_for_as_long(self, side: Side, held: Queue) -> None:
        side.run(held.renew_many([held.renewal("m:1", FENCE, 3 * DAY)]))
        assert min(side.pttl(key) for key in held.keys) > 3 * DAY

    def test_judges_each_by_itself(self, side: Side, held: Queue) -> None:
        free, spoilt, other = Queue(FAIR, "free"), Queue(FAIR, "spoilt"), Queue(FAIR, "other")
        side.set(spoilt.hash, "a string")
        side.run(other.request("m:2", TTL, HIGH, ""))
        names = (free, spoilt, other, held)
        failed = side.run(held.renew_many([name.renewal("m:1", FENCE, TTL) for name in names]))
        assert isinstance(failed[1], Failed)
        assert failed[0] == Missing(LossReason.DELETED)
        assert failed[2] == Missing(LossReason.TAKEN_OVER)
        assert isinstance(failed[3], Renewed)

    def test_another_fence_is_taken_over(self, side: Side, held: Queue) -> None:
        assert side.run(held.renew_many([held.renewal("m:1", FENCE - 1, TTL)])) == [Missing(LossReason.TAKEN_OVER)]

    def test_of_a_hold_whose_time_is_over(self, side: Side, held: Queue) -> None:
        crash(side, held, "m:1")
        assert side.run(held.renew_many([held.renewal("m:1", FENCE, TTL)])) == [Missing(LossReason.DELETED)]
        assert summary(side, held).abandoned == "1"

    def test_a_longer_one_is_remembered(self, side: Side, held: Queue) -> None:
        """Guards `longest` in `extend`: it decides how long the keys of many holders last, and writes an order that was
        lost.
        """
        side.run(held.renew_many([held.renewal("m:1", FENCE, 3 * TTL)]))
        assert summary(side, held).longest == 3 * TTL


class TestForceRelease:
    def test_ends_all_tells_each_and_leaves_the_name_dirty(self, side: Side) -> None:
        permits = Queue(SEMAPHORE)
        side.run(permits.request("m:1", TTL, HIGH, ""))
        side.run(permits.request("n:2", TTL, HIGH, ""))
        side.listen(permits.manager("m"), permits.manager("n"))
        assert side.run(permits.force_release()) == Ended(2, 0)
        told = [(permits.manager("m"), f"revoked m:1 {FENCE}"), (permits.manager("n"), f"revoked n:2 {FENCE + 1}")]
        assert side.heard() == told
        assert_sound(side, permits)
        assert holders(side, permits) == {}
        granted = side.run(permits.request("m:3", TTL, HIGH, ""))
        assert isinstance(granted, Granted)
        assert granted.abandoned

    def test_of_a_free_name(self, side: Side, fair: Queue) -> None:
        assert side.run(fair.force_release()) == Ended(0, 0)
        assert not side.exists(fair.hash)

    def test_does_not_count_holders_that_vanished(self, side: Side, held: Queue) -> None:
        """Guards `prune` in force_release."""
        crash(side, held, "m:1")
        assert side.run(held.force_release()) == Ended(0, 0)


class TestSetCapacity:
    def test_wins_over_what_a_manager_says(self, side: Side, fair: Queue) -> None:
        permits = Queue(SEMAPHORE)
        assert side.run(permits.set_capacity(1)) == 1
        assert side.run(permits.set_capacity(2)) == 1
        assert side.run(permits.request("m:1", TTL, 0, "")).capacity == 2  # type: ignore[union-attr]
        assert side.run(Queue(SEMAPHORE, want=2).request("m:2", TTL, 0, "")) == Impossible(2)

    def test_more_lets_in_waiters(self, side: Side) -> None:
        permits = Queue(SEMAPHORE, capacity=1)
        side.run(permits.request("m:1", TTL, HIGH, ""))
        enter(side, permits, ["m:2", "m:3", "m:4"])
        assert side.run(permits.set_capacity(3)) == 1
        assert set(holders(side, permits)) == {"m:1", "m:2", "m:3"}

    def test_less_takes_nothing_away(self, side: Side) -> None:
        permits = Queue(SEMAPHORE)
        for owner in ("m:1", "m:2", "m:3"):
            side.run(permits.request(owner, TTL, HIGH, ""))
        assert side.run(permits.set_capacity(1)) == 3
        assert len(holders(side, permits)) == 3
        for owner in ("m:1", "m:2"):
            side.run(permits.release(owner, TTL, 0, "clean", False))
            assert isinstance(side.run(permits.request("m:4", TTL, 0, "")), Refused)

    def test_less_tells_those_that_wait_for_more(self, side: Side) -> None:
        """Wherever they stand in the queue. Guards the loop in set_capacity."""
        permits = Queue(SEMAPHORE, want=1)
        side.run(permits.request("m:1", TTL, HIGH, ""))
        enter(side, permits, ["m:2"])
        enter(side, Queue(SEMAPHORE, want=2), ["m:3"])
        side.listen(permits.manager("m"))
        assert side.run(permits.set_capacity(2)) == 3
        assert side.heard() == [(permits.manager("m"), "refresh m:3")]

    def test_is_kept_for_a_day_after_the_last_use(self, side: Side) -> None:
        """Guards `resized` in release: otherwise it is forgotten with the clean state."""
        permits = Queue(SEMAPHORE)
        side.run(permits.set_capacity(1))
        assert DAY - SLACK < side.pttl(permits.hash) <= DAY
        side.run(permits.request("m:1", TTL, HIGH, ""))
        side.run(permits.release("m:1", TTL, 0, "clean", False))
        assert side.pttl(permits.hash) > DAY - SLACK


class TestInfo:
    def test_of_a_free_name(self, side: Side) -> None:
        assert side.run(Queue(SEMAPHORE).info("m:1")) == Standing(0, 0, 3, 0, 0, None, None)
        assert not side.exists(Queue(SEMAPHORE).hash)

    def test_lists_holders_and_waiters(self, side: Side) -> None:
        one, two = Queue(SEMAPHORE), Queue(SEMAPHORE, want=1)
        side.run(two.request("m:1", 2 * TTL, HIGH, "the first"))
        side.run(one.request("m:2", TTL, HIGH, "the second"))
        enter(side, one, ["m:3", "m:4"])
        seen = side.run(one.info("m:4"))
        assert seen.held is not None
        assert 2 * TTL - SLACK < seen.held.pttl <= 2 * TTL
        held = Held("m:1", 1, 0, FENCE, "the first")
        assert seen._replace(held=seen.held._replace(pttl=0)) == Standing(2, 3, 3, FENCE + 1, 2, 2, held)
        assert side.run(one.info("m:1")).rank is None

    def test_leaves_out_expired_ones_and_changes_nothing(self, side: Side) -> None:
        one, two = Queue(SEMAPHORE), Queue(SEMAPHORE, want=1)
        side.run(two.request("m:1", 2 * TTL, HIGH, ""))
        side.run(one.request("m:2", TTL, HIGH, ""))
        crash(side, one, "m:1")
        before = side.snapshot(one.keys)
        seen = side.run(one.info())
        assert (seen.holders, seen.used) == (1, 1)
        assert seen.held is not None
        assert seen.held.owner == "m:2"
        assert [content for content, _ in side.snapshot(one.keys)] == [content for content, _ in before]

    def test_of_a_writer(self, side: Side) -> None:
        write = Queue(RW, want=1)
        side.run(write.request("m:1", TTL, HIGH, ""))
        assert side.run(write.info())[:3] == (1, FULL, FULL)


def test_one_that_comes_back_after_a_lost_grant_is_first(side: Side, held: Queue) -> None:
    """A grant whose message was lost and whose provisional ttl is over: its owner comes back with its queue number."""
    first = side.run(held.request("m:2", TTL, 0, "", queue_number=0))
    enter(side, held, ["m:3"])
    side.run(held.release("m:1", TTL, 0, "clean", False))
    crash(side, held, "m:2")
    side.run(held.request("m:4", TTL, 0, "", queue_number=0))
    assert set(holders(side, held)) == {"m:3"}
    assert isinstance(first, Queued)
    again = side.run(held.request("m:2", TTL, 0, "", queue_number=first.queue_number))
    assert isinstance(again, Queued)
    assert again.rank == 1
