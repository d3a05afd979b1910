"""Both sides keep the promises in the header of the queue family's acquire.lua."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest

from aiolock.errors import LossReason
from aiolock.scripts.base import DONT_QUEUE
from aiolock.scripts.bid import Bid
from aiolock.scripts.outcomes import Failed, Finished, Granted, Impossible, Lost, Queued, Refused
from tests.support.queues import (
    FAIR,
    FIRST,
    FULL,
    RW,
    SEMAPHORE,
    SHAPES,
    Holder,
    Queue,
    Shape,
    assert_sound,
    change,
    crash,
    ends,
    enter,
    forget,
    holders,
    queue_numbers,
    standing,
    summary,
    waiting,
)
from tests.support.scripting import Refused as Failure
from tests.support.scripting import Side

TTL = 30_000
SLACK = 10_000
DAY = 24 * 3600 * 1000
HIGH = 2**51
"""A floor above any server's time: what is minted is the floor plus one."""


@pytest.fixture
def fair() -> Queue:
    return Queue(FAIR)


@pytest.mark.parametrize("queue_number", [0, DONT_QUEUE])
def test_grants_a_free_name(queue_number: int, side: Side, fair: Queue) -> None:
    granted = side.run(fair.request("m:1", TTL, HIGH, "me", queue_number=queue_number))
    assert granted == Granted(HIGH + 1, TTL, abandoned=False, capacity=1)
    assert holders(side, fair) == {"m:1": Holder(1, 1, "1", str(HIGH + 1), "0", "me")}
    assert abs(ends(side, fair)["m:1"] - TTL - time.time() * 1000) < SLACK
    found = summary(side, fair)
    assert abs(found.serial - time.time() * 1e6) < 60e6
    assert (found.fence, found.abandoned, found.capacity, found.process) == (HIGH + 1, "0", 1, "me")
    assert waiting(side, fair) == []


@pytest.mark.parametrize(("ttl", "kept"), [(TTL, DAY), (3 * DAY, 3 * DAY)])
def test_keys_outlive_the_holder_and_go_within_a_day(ttl: int, kept: int, side: Side, fair: Queue) -> None:
    """Guards `keep`: a vanished holder must be noticed, and a million names must leave nothing behind for long."""
    side.run(fair.request("m:1", ttl, HIGH, ""))
    for key in fair.keys:
        assert kept - SLACK < side.pttl(key) < kept + 2 * 60_000


def test_a_short_holder_does_not_shorten_a_long_ones_keys(side: Side) -> None:
    """Guards PTTL in `keep`."""
    permits = Queue(SEMAPHORE)
    side.run(permits.request("m:1", 3 * DAY, HIGH, ""))
    side.run(permits.request("m:2", TTL, HIGH, ""))
    for key in permits.keys:
        assert side.pttl(key) > 3 * DAY - SLACK


def test_queues_behind_a_holder(side: Side, fair: Queue) -> None:
    side.run(fair.request("m:1", TTL, HIGH, "the first"))
    queued = [side.run(fair.request(owner, TTL, 0, "", queue_number=0)) for owner in ("m:2", "m:3")]
    found = queue_numbers(side, fair)
    serial = summary(side, fair).serial
    assert all(isinstance(one, Queued) and TTL - SLACK < one.pttl <= TTL for one in queued)
    assert queued[1]._replace(pttl=0) == Queued(serial, found["m:3"], 2, HIGH + 1, "the first", 0)
    assert queued[0]._replace(serial=0, pttl=0) == Queued(0, found["m:2"], 1, HIGH + 1, "the first", 0)
    assert waiting(side, fair) == ["m:2", "m:3"]
    assert found["m:2"] < found["m:3"] == serial
    for key in fair.keys:
        assert DAY - SLACK < side.pttl(key) <= DAY


def test_says_when_the_first_holder_expires(side: Side) -> None:
    """The first waiter asks at that time. Guards `first - NOW`."""
    semaphore = Queue(SEMAPHORE)
    for owner, ttl in (("m:1", 3 * TTL), ("m:2", TTL), ("m:3", 2 * TTL)):
        side.run(semaphore.request(owner, ttl, HIGH, ""))
    queued = side.run(semaphore.request("m:4", 9 * TTL, 0, "", queue_number=0))
    assert isinstance(queued, Queued)
    assert TTL - SLACK < queued.pttl <= TTL


def test_refuses_a_request_that_does_not_queue(side: Side, fair: Queue) -> None:
    side.run(fair.request("m:1", TTL, HIGH, "the first"))
    refused = side.run(fair.request("m:2", TTL, 0, ""))
    assert isinstance(refused, Refused)
    assert refused._replace(pttl=0) == Refused(0, HIGH + 1, "the first")
    assert TTL - SLACK < refused.pttl <= TTL
    assert waiting(side, fair) == []


def test_does_not_overtake_waiters(side: Side) -> None:
    """Guards `state.waiters == 0`: a small request that would fit stays behind a large one."""
    small, large = Queue(SEMAPHORE), Queue(SEMAPHORE, want=2)
    side.run(small.request("m:1", TTL, HIGH, ""))
    enter(side, large, ["m:2"])
    refused = side.run(small.request("m:3", TTL, 0, ""))
    assert isinstance(refused, Refused)
    queued = side.run(small.request("m:3", TTL, 0, "", queue_number=0))
    assert isinstance(queued, Queued)
    assert queued.rank == 2
    assert set(holders(side, small)) == {"m:1"}


def test_readers_share_and_a_writer_is_alone(side: Side) -> None:
    read, write = Queue(RW), Queue(RW, want=1)
    for owner in ("m:1", "m:2"):
        assert isinstance(side.run(read.request(owner, TTL, 0, "")), Granted)
    assert isinstance(side.run(write.request("m:3", TTL, 0, "")), Refused)
    for owner in ("m:1", "m:2"):
        side.run(read.release(owner, TTL, 0, "clean", False))
    assert isinstance(side.run(write.request("m:3", TTL, 0, "")), Granted)
    assert isinstance(side.run(read.request("m:4", TTL, 0, "")), Refused)
    assert isinstance(side.run(write.request("m:5", TTL, 0, "")), Refused)


def test_permits_are_counted(side: Side) -> None:
    one, two = Queue(SEMAPHORE), Queue(SEMAPHORE, want=1)
    assert isinstance(side.run(two.request("m:1", TTL, 0, "")), Granted)
    assert isinstance(side.run(two.request("m:2", TTL, 0, "")), Refused)
    assert isinstance(side.run(one.request("m:2", TTL, 0, "")), Granted)
    assert isinstance(side.run(one.request("m:3", TTL, 0, "")), Refused)
    assert summary(side, one).used == 3


def test_more_than_the_capacity_is_impossible(side: Side) -> None:
    assert side.run(Queue(SEMAPHORE, want=2, capacity=2).request("m:1", TTL, 0, "", queue_number=0)) == Impossible(2)
    assert not side.exists(Queue(SEMAPHORE).order)


def test_the_stored_capacity_wins(side: Side) -> None:
    side.run(Queue(SEMAPHORE, capacity=1).request("m:1", TTL, 0, ""))
    assert isinstance(side.run(Queue(SEMAPHORE, capacity=9).request("m:2", TTL, 0, "")), Refused)


class TestFence:
    def test_a_reader_has_that_of_the_last_writer(self, side: Side) -> None:
        """Guards `mints`: what a reader saw is as new as the last write."""
        read, write = Queue(RW), Queue(RW, want=1)
        side.run(write.request("m:1", TTL, HIGH, ""))
        side.run(write.release("m:1", TTL, 0, "clean", False))
        for owner in ("m:2", "m:3"):
            assert side.run(read.request(owner, TTL, HIGH + 100, "")).fence == HIGH + 1  # type: ignore[union-attr]
        assert holders(side, read)["m:2"].mints == "0"

    def test_the_first_reader_mints_one(self, side: Side) -> None:
        assert side.run(Queue(RW).request("m:1", TTL, HIGH, "")).fence == HIGH + 1  # type: ignore[union-attr]

    def test_grows_with_the_floor_and_without(self, side: Side) -> None:
        permits = Queue(SEMAPHORE)
        fences = [
            side.run(permits.request(f"m:{i}", TTL, floor, "")).fence for i, floor in enumerate([HIGH, 0, HIGH + 9])
        ]  # type: ignore[union-attr]
        assert fences == [HIGH + 1, HIGH + 2, HIGH + 10]

    def test_is_the_servers_time(self, side: Side, fair: Queue) -> None:
        assert abs(side.run(fair.request("m:1", TTL, 0, "")).fence - time.time() * 1e6) < 60e6  # type: ignore[union-attr]


class TestAgain:
    """A request comes twice, or late."""

    @pytest.mark.parametrize("abandoned", [False, True])
    def test_a_copy_reads_its_own_grant(self, abandoned: bool, side: Side, fair: Queue) -> None:
        if abandoned:
            side.run(fair.request("m:0", TTL, HIGH, ""))
            crash(side, fair, "m:0")
        call = fair.request("m:1", TTL, HIGH, "", queue_number=0)
        first, second = side.run(call), side.run(call)
        assert isinstance(first, Granted)
        assert isinstance(second, Granted)
        assert replace(second, pttl=first.pttl) == first
        assert first.abandoned == abandoned

    def test_a_copy_reads_its_own_number_and_keeps_its_place(self, side: Side, fair: Queue) -> None:
        """Guards `known`: a refresh is not a new entry."""
        side.run(fair.request("m:1", TTL, HIGH, ""))
        call = fair.request("m:2", TTL, 0, "", queue_number=0)
        first = side.run(call)
        enter(side, fair, ["m:3"])
        second = side.run(call)
        assert isinstance(first, Queued)
        assert isinstance(second, Queued)
        assert (second.queue_number, second.rank) == (first.queue_number, 1)
        assert second.serial > first.serial

    def test_a_refresh_is_a_sign_of_life(self, side: Side, fair: Queue) -> None:
        side.run(fair.request("m:1", TTL, HIGH, ""))
        enter(side, fair, ["m:2"])
        forget(side, fair, "m:2")
        enter(side, fair, ["m:2"])
        assert abs(standing(side, fair).waiters["m:2"].until - time.time() * 1000) < SLACK

    def test_one_that_was_forgotten_comes_back_to_its_old_place(self, side: Side, fair: Queue) -> None:
        """Guards the queue number in ARGV (H6)."""
        side.run(fair.request("m:1", TTL, HIGH, ""))
        first = side.run(fair.request("m:2", TTL, 0, "", queue_number=0))
        enter(side, fair, ["m:3"])
        side.run(fair.release("m:2", TTL, 0, "undone", False))
        assert waiting(side, fair) == ["m:3"]
        assert isinstance(first, Queued)
        again = side.run(fair.request("m:2", TTL, 0, "", queue_number=first.queue_number))
        assert isinstance(again, Queued)
        assert (again.queue_number, again.rank) == (first.queue_number, 1)
        assert waiting(side, fair) == ["m:2", "m:3"]

    def test_one_that_comes_back_to_the_front_is_served_at_once(self, side: Side) -> None:
        """Guards the second look after `join`: no other request may settle for a while."""
        read, write = Queue(RW), Queue(RW, want=1)
        side.run(read.request("m:1", TTL, HIGH, ""))
        enter(side, write, ["m:2"])
        granted = side.run(read.request("m:3", TTL, 0, "", queue_number=FIRST))
        assert isinstance(granted, Granted)
        assert TTL - SLACK < granted.pttl <= TTL
        assert waiting(side, read) == ["m:2"]

    def test_one_whose_own_grant_is_over_is_served_if_it_fits(self, side: Side) -> None:
        """Guards `prune` in arrive: it is first in line with its old number, and no other may ask."""
        read, write = Queue(RW), Queue(RW, want=1)
        side.run(write.request("m:1", TTL, HIGH, ""))
        queue_numbers = [
            side.run(read.request(owner, TTL, 0, "", queue_number=0)).queue_number for owner in ("m:2", "m:3")
        ]  # type: ignore[union-attr]
        enter(side, write, ["m:4"])
        side.run(write.release("m:1", TTL, 0, "clean", False))
        side.run(read.request("m:2", TTL, 0, "", queue_number=queue_numbers[0]))
        crash(side, read, "m:3")
        assert isinstance(side.run(read.request("m:3", TTL, 0, "", queue_number=queue_numbers[1])), Granted)
        assert_sound(side, read)

    def test_one_whose_own_grant_is_over_is_not_overtaken(self, side: Side, fair: Queue) -> None:
        """The same for two that ask in one request."""
        side.run(fair.request("m:1", TTL, HIGH, ""))
        queued = [side.run(fair.request(owner, TTL, 0, "", queue_number=0)) for owner in ("m:2", "m:3")]
        side.run(fair.release("m:1", TTL, 0, "clean", False))
        crash(side, fair, "m:2")
        parts = [
            fair.refresh(Bid(owner, TTL, 0, "", number=one.queue_number))  # type: ignore[union-attr]
            for owner, one in zip(("m:3", "m:2"), queued[::-1], strict=True)
        ]
        assert [type(answer) for answer in side.run(fair.refresh_many(parts))] == [Queued, Granted]
        assert_sound(side, fair)

    def test_one_that_was_granted_since_is_not_queued_again(self, side: Side, fair: Queue) -> None:
        """Guards `read(name, owner)` before its number: the message of the grant and this request crossed."""
        side.run(fair.request("m:1", TTL, HIGH, ""))
        queued = side.run(fair.request("m:2", TTL, 0, "", queue_number=0))
        side.run(fair.release("m:1", TTL, 0, "clean", False))
        assert isinstance(queued, Queued)
        assert isinstance(side.run(fair.request("m:2", TTL, 0, "", queue_number=queued.queue_number)), Granted)
        assert set(holders(side, fair)) == {"m:2"}
        assert waiting(side, fair) == []

    def test_the_next_does_not_tie_with_a_ticket_that_is_newer_than_the_state(self, side: Side, fair: Queue) -> None:
        """Guards `serial` in join: the state was lost, and the clock set back. Among equal numbers, names decide."""
        side.run(fair.request("m:1", TTL, HIGH, ""))
        change(side, fair, serial=HIGH + 1)
        side.run(fair.request("z:1", TTL, 0, "", queue_number=HIGH + 2))
        enter(side, fair, ["a:1"])
        assert queue_numbers(side, fair) == {"z:1": HIGH + 2, "a:1": HIGH + 3}
        side.run(fair.release("m:1", TTL, 0, "clean", False))
        assert set(holders(side, fair)) == {"z:1"}

    def test_tickets_survive_a_round_number(self, side: Side, fair: Queue) -> None:
        """Guards `tonumber(…ZSCORE…)`: servers write 1.8e+15."""
        side.run(fair.request("m:1", TTL, HIGH, ""))
        queued = side.run(fair.request("m:2", TTL, 0, "", queue_number=1_800_000_000_000_000))
        assert isinstance(queued, Queued)
        assert queued.queue_number == 1_800_000_000_000_000
        enter(side, fair, ["m:2"])
        assert queue_numbers(side, fair) == {"m:2": 1_800_000_000_000_000}

    def test_a_tombstone_refuses(self, side: Side, fair: Queue) -> None:
        side.run(fair.release("m:1", TTL, 0, "undone", True))
        assert side.run(fair.request("m:1", TTL, 0, "", queue_number=0)) == Finished()
        assert side.run(fair.refresh_many([fair.refresh(Bid("m:1", TTL, 0, ""))])) == [Finished()]
        assert not side.exists(fair.hash)
        assert not side.exists(fair.order)

    @pytest.mark.parametrize("batch", [False, True])
    def test_a_refused_request_still_ends_expired_holders(self, batch: bool, side: Side, fair: Queue) -> None:
        """Guards `close` after a request that is refused: what it found is written, what it repaired expires."""
        side.run(fair.request("m:1", TTL, 0, ""))
        side.run(fair.release("m:2", TTL, 0, "undone", True))
        side.delete(fair.order)
        part = fair.refresh(Bid("m:2", TTL, 0, ""))
        late = fair.refresh_many([part] * (1 + batch))
        assert side.run(late) == [Finished()] * (1 + batch)
        assert 0 < side.pttl(fair.order) <= DAY
        crash(side, fair, "m:1")
        side.run(late)
        assert holders(side, fair) == {}
        assert not side.exists(fair.order)


class TestNested:
    @pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape.kind)
    def test_raises_the_depth_and_nothing_else(self, shape: Shape, side: Side) -> None:
        name = Queue(shape)
        side.run(name.request("m:1", TTL, HIGH, "me"))
        granted = side.run(name.request("m:1", TTL, 0, "", depth=3, fence=HIGH + 1))
        assert isinstance(granted, Granted)
        assert granted.fence == HIGH + 1
        assert holders(side, name) == {"m:1": Holder(3, 1, str(int(name.kind != "rw")), str(HIGH + 1), "0", "me")}
        assert summary(side, name).used == 1
        assert summary(side, name).process == "me"

    def test_a_late_copy_lowers_nothing(self, side: Side, fair: Queue) -> None:
        first = fair.request("m:1", TTL, HIGH, "")
        side.run(first)
        side.run(fair.request("m:1", 2 * TTL, 0, "", depth=2, fence=HIGH + 1))
        granted = side.run(first)
        assert isinstance(granted, Granted)
        assert TTL < granted.pttl <= 2 * TTL
        assert holders(side, fair)["m:1"].depth == 2

    @pytest.mark.parametrize(("other", "reason"), [(False, LossReason.DELETED), (True, LossReason.TAKEN_OVER)])
    def test_only_depth_1_creates(self, other: bool, reason: LossReason, side: Side, fair: Queue) -> None:
        if other:
            side.run(fair.request("m:2", TTL, HIGH, ""))
        assert side.run(fair.request("m:1", TTL, 0, "", depth=2, fence=7, queue_number=0)) == Lost(reason)
        assert "m:1" not in holders(side, fair)
        assert waiting(side, fair) == []

    def test_another_fence_is_taken_over(self, side: Side, fair: Queue) -> None:
        side.run(fair.request("m:1", TTL, HIGH, ""))
        assert side.run(fair.request("m:1", TTL, 0, "", depth=2, fence=HIGH)) == Lost(LossReason.TAKEN_OVER)
        assert holders(side, fair)["m:1"].depth == 1


class TestBatch:
    def test_answers_each(self, side: Side, fair: Queue) -> None:
        other = Queue(RW, "other", want=1)
        side.run(fair.request("m:1", TTL, HIGH, ""))
        answers = side.run(
            fair.refresh_many(
                [
                    fair.refresh(Bid("m:2", TTL, 0, "")),
                    other.refresh(Bid("m:3", TTL, HIGH, "")),
                    fair.refresh(Bid("m:4", TTL, 0, "", number=FIRST)),
                ]
            )
        )
        assert [type(answer) for answer in answers] == [Queued, Granted, Queued]
        assert answers[1] == Granted(HIGH + 1, TTL, abandoned=False, capacity=FULL)
        assert waiting(side, fair) == ["m:4", "m:2"]

    @pytest.mark.parametrize("which", range(2))
    def test_one_bad_key_spoils_no_other(self, which: int, side: Side, fair: Queue) -> None:
        """Guards `pcall` (C5). A name with a key of another type has no holder."""
        other = Queue(FAIR, "other")
        side.set(fair.keys[which], "a string")
        failed, granted = side.run(fair.refresh_many([q.refresh(Bid("m:2", TTL, 0, "")) for q in (fair, other)]))
        assert isinstance(failed, Failed)
        assert failed.error.startswith("WRONGTYPE")
        assert isinstance(granted, Granted)
        assert which == 0 or not side.exists(fair.hash)

    def test_an_error_alone_is_raised(self, side: Side, fair: Queue) -> None:
        side.set(fair.hash, "a string")
        with pytest.raises(Failure, match="WRONGTYPE"):
            side.run(fair.request("m:1", TTL, 0, ""))


def test_what_nobody_holds_or_waits_for_has_the_capacity_of_who_comes(side: Side) -> None:
    """Guards `fit`: also if the last holder expired, and the last waiter died."""
    few, many = Queue(SEMAPHORE, want=2), Queue(SEMAPHORE, want=2, capacity=8)
    side.run(few.request("m:1", TTL, 0, ""))
    enter(side, few, ["n:2"])
    assert side.run(many.info()).capacity == 3
    crash(side, few, "m:1")
    forget(side, few, "n:2")
    granted = side.run(many.request("o:1", TTL, 0, ""))
    assert isinstance(granted, Granted)
    assert granted.capacity == 8
    side.run(many.release("o:1", TTL, 0, "clean", False))
    assert [side.run(name.info()).capacity for name in (few, many)] == [3, 8]
    side.run(few.set_capacity(5))
    assert [side.run(name.info()).capacity for name in (few, many)] == [5, 5]
