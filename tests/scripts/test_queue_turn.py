"""Who comes next, whichever script finds out that it is their turn: turn.lua and queue.lua."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from aiolock.scripts.bid import Bid
from aiolock.scripts.outcomes import Granted, Queued
from tests.support.queues import (
    FAIR,
    FIRST,
    RW,
    SEMAPHORE,
    Queue,
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
from tests.support.scripting import Side

TTL = 30_000
PROVISIONAL = 3_000
"""The liveness of a waiter is how long a grant lasts if no one could hear of it."""
SLACK = 10_000
HIGH = 2**51


@pytest.fixture
def fair() -> Queue:
    return Queue(FAIR)


SETTLING: dict[str, Callable[[Side, Queue], object]] = {
    "a release": lambda side, fair: side.run(fair.release("m:1", TTL, 0, "clean", False)),
    "a renewal": lambda side, fair: (
        crash(side, fair, "m:1"),
        side.run(fair.renew_many([fair.renewal("m:1", 7, TTL)])),
    ),
    "an attempt": lambda side, fair: (crash(side, fair, "m:1"), side.run(fair.request("m:9", TTL, 0, ""))),
    "a refresh": lambda side, fair: (crash(side, fair, "m:1"), enter(side, fair, ["n:3"])),
    "force_release": lambda side, fair: side.run(fair.force_release()),
    "a hand-off": lambda side, fair: (
        crash(side, fair, "m:1"),
        side.run(fair.resume("m:1", HIGH + 1, Bid("m:9", TTL, 0, ""), False)),
    ),
    "set_capacity": lambda side, fair: (crash(side, fair, "m:1"), side.run(fair.set_capacity(1))),
}


@pytest.mark.parametrize("what", SETTLING)
def test_the_first_in_line_is_granted_and_told(what: str, side: Side, fair: Queue) -> None:
    """Guards `settle` in each script: a crash of the holder, or a lost message, must not stall the line (H6)."""
    side.run(fair.request("m:1", TTL, HIGH, ""))
    enter(side, fair, ["n:2", "n:3"], floor=HIGH + 10)
    side.listen(fair.manager("n"))
    SETTLING[what](side, fair)
    held = holders(side, fair)
    assert set(held) == {"n:2"}
    assert held["n:2"].fence == str(HIGH + 11)
    assert waiting(side, fair) == ["n:3"]
    assert set(standing(side, fair).waiters) == {"n:3"}
    assert summary(side, fair).process == "about n:2"
    abandoned = int(what != "a release")
    told = f"admitted n:2 {summary(side, fair).serial} {HIGH + 11} {PROVISIONAL} {abandoned} 1 {fair.hash}"
    assert side.heard() == [(fair.manager("n"), told)]


@pytest.mark.parametrize("hears", [True, False])
def test_a_grant_lasts_as_long_as_its_owner_counts_as_alive(side: Side, fair: Queue, hears: bool) -> None:
    """Guards `alive - NOW`: its process may be frozen, also if its connection still takes the message. The manager's
    next request extends it.
    """
    side.run(fair.request("m:1", TTL, HIGH, ""))
    side.listen(fair.manager("n" if hears else "m"))
    enter(side, fair, ["n:2"])
    side.run(fair.release("m:1", TTL, 0, "clean", False))
    info = side.run(fair.info())
    assert info.held is not None
    assert 0 < info.held.pttl <= PROVISIONAL
    granted = side.run(fair.request("n:2", TTL, 0, "", queue_number=0))
    assert isinstance(granted, Granted)
    assert TTL - SLACK < granted.pttl <= TTL


def test_a_shorter_ttl_is_not_exceeded(side: Side, fair: Queue) -> None:
    side.run(fair.request("m:1", TTL, HIGH, ""))
    enter(side, fair, ["n:2"], ttl=500)
    side.run(fair.release("m:1", TTL, 0, "clean", False))
    info = side.run(fair.info())
    assert info.held is not None
    assert 0 < info.held.pttl <= 500


def test_a_grant_is_newer_than_the_ticket_and_every_earlier_answer(side: Side, fair: Queue) -> None:
    """Guards `serial`: it tells a manager a new grant from an old one."""
    side.run(fair.request("m:1", TTL, HIGH, ""))
    queued = side.run(fair.request("n:2", TTL, 0, "", queue_number=0))
    side.listen(fair.manager("n"))
    side.run(fair.release("m:1", TTL, 0, "clean", False))
    ((_, told),) = side.heard()
    assert isinstance(queued, Queued)
    assert int(told.split(" ")[2]) > queued.serial >= queued.queue_number


def test_serials_and_tickets_grow_if_the_clock_stands_still(side: Side, fair: Queue) -> None:
    """Guards `state.serial + 1`, for a grant and for a queue number: the server's clock was set back."""
    side.run(fair.request("m:1", TTL, HIGH, ""))
    change(side, fair, serial=HIGH + 1)
    enter(side, fair, ["m:2", "m:3"])
    assert queue_numbers(side, fair) == {"m:2": HIGH + 2, "m:3": HIGH + 3}
    side.run(fair.release("m:1", TTL, 0, "clean", False))
    assert summary(side, fair).serial == HIGH + 4


def test_an_owner_whose_turn_it_is_gets_an_answer_not_a_message(side: Side, fair: Queue) -> None:
    """Guards `head ~= me`."""
    side.run(fair.request("m:1", TTL, HIGH, ""))
    enter(side, fair, ["n:2"])
    crash(side, fair, "m:1")
    side.listen(fair.manager("n"))
    granted = side.run(fair.request("n:2", TTL, 0, "", queue_number=0))
    assert isinstance(granted, Granted)
    assert granted.abandoned
    assert TTL - SLACK < granted.pttl <= TTL
    assert side.heard() == []


def test_the_dead_are_passed_over(side: Side, fair: Queue) -> None:
    """Guards `alive`: a waiter that vanished must not delay the others (redisson#1104)."""
    side.run(fair.request("m:1", TTL, HIGH, ""))
    enter(side, fair, ["n:2", "n:3", "n:4", "n:5"])
    forget(side, fair, "n:2", "n:3")
    side.run(fair.release("m:1", TTL, 0, "clean", False))
    assert set(holders(side, fair)) == {"n:4"}
    assert waiting(side, fair) == ["n:5"]
    assert set(standing(side, fair).waiters) == {"n:5"}


def test_dead_waiters_at_the_head_leave_while_the_name_is_held(side: Side, fair: Queue) -> None:
    side.run(fair.request("m:1", TTL, HIGH, ""))
    enter(side, fair, ["n:2", "n:3"])
    forget(side, fair, "n:2")
    queued = side.run(fair.request("n:3", TTL, 0, "", queue_number=0))
    assert isinstance(queued, Queued)
    assert queued.rank == 1


def test_a_place_without_a_record_is_void(side: Side, fair: Queue) -> None:
    """Guards `leave` in settle."""
    side.run(fair.request("m:1", TTL, HIGH, ""))
    side.score(fair.order, "n:2", FIRST)
    enter(side, fair, ["n:3"])
    side.run(fair.release("m:1", TTL, 0, "clean", False))
    assert set(holders(side, fair)) == {"n:3"}
    assert waiting(side, fair) == []


def test_as_many_as_fit_are_granted_in_order(side: Side) -> None:
    one, two = Queue(SEMAPHORE), Queue(SEMAPHORE, want=1)
    full = Queue(SEMAPHORE, want=2)
    side.run(full.request("m:1", TTL, HIGH, ""))
    enter(side, one, ["n:2"])
    enter(side, two, ["n:3"])
    enter(side, one, ["n:4"])
    side.listen(one.manager("n"))
    side.run(full.release("m:1", TTL, 0, "clean", False))
    assert [told.split(" ")[1] for _, told in side.heard()] == ["n:2", "n:3"]
    assert waiting(side, one) == ["n:4"]
    assert summary(side, one).used == 3


def test_the_small_wait_behind_a_large_head(side: Side) -> None:
    """Guards `return` in settle: otherwise many small ones starve a large one."""
    one, full = Queue(SEMAPHORE), Queue(SEMAPHORE, want=2)
    for owner in ("m:1", "m:2"):
        side.run(one.request(owner, TTL, HIGH, ""))
    enter(side, full, ["n:3"])
    enter(side, one, ["n:4"])
    side.run(one.release("m:1", TTL, 0, "clean", False))
    assert set(holders(side, one)) == {"m:2"}
    assert waiting(side, one) == ["n:3", "n:4"]
    side.run(one.release("m:2", TTL, 0, "clean", False))
    assert set(holders(side, one)) == {"n:3"}


def test_readers_behind_a_writer_wait_and_then_enter_together(side: Side) -> None:
    read, write = Queue(RW), Queue(RW, want=1)
    side.run(read.request("m:1", TTL, HIGH, ""))
    enter(side, write, ["n:2"])
    enter(side, read, ["n:3", "n:4"])
    enter(side, write, ["n:5"])
    side.run(read.release("m:1", TTL, 0, "clean", False))
    assert set(holders(side, read)) == {"n:2"}
    side.run(write.release("n:2", TTL, 0, "clean", False))
    assert set(holders(side, read)) == {"n:3", "n:4"}
    assert waiting(side, read) == ["n:5"]


def test_a_writer_that_vanished_from_the_line_frees_the_readers(side: Side) -> None:
    """A waiting writer's claim has a lease (H16)."""
    read, write = Queue(RW), Queue(RW, want=1)
    side.run(read.request("m:1", TTL, HIGH, ""))
    enter(side, write, ["n:2"])
    enter(side, read, ["n:3"])
    forget(side, write, "n:2")
    side.run(read.renew_many([read.renewal("m:1", HIGH + 1, TTL)]))
    assert set(holders(side, read)) == {"m:1", "n:3"}


def test_a_head_that_can_never_fit_is_dropped(side: Side) -> None:
    """Guards `weight <= capacity` in settle."""
    one, full = Queue(SEMAPHORE), Queue(SEMAPHORE, want=2)
    side.run(one.request("m:1", TTL, HIGH, ""))
    enter(side, full, ["n:2"])
    enter(side, one, ["n:3"])
    side.run(one.set_capacity(2))
    assert set(holders(side, one)) == {"m:1", "n:3"}
    assert waiting(side, one) == []


class TestAbandoned:
    """If a holder that minted a fence vanishes, the next one that mints a fence is told."""

    def test_of_a_holder_that_vanished(self, side: Side, fair: Queue) -> None:
        side.run(fair.request("m:1", TTL, HIGH, ""))
        crash(side, fair, "m:1")
        granted = side.run(fair.request("m:2", TTL, HIGH, ""))
        assert isinstance(granted, Granted)
        assert granted.abandoned
        side.run(fair.release("m:2", TTL, 0, "clean", False))
        granted = side.run(fair.request("m:3", TTL, HIGH, ""))
        assert isinstance(granted, Granted)
        assert not granted.abandoned

    def test_of_a_reader_means_nothing(self, side: Side) -> None:
        read, write = Queue(RW), Queue(RW, want=1)
        side.run(read.request("m:1", TTL, HIGH, ""))
        crash(side, read, "m:1")
        granted = side.run(write.request("m:2", TTL, HIGH, ""))
        assert isinstance(granted, Granted)
        assert not granted.abandoned

    def test_of_a_writer_is_told_to_readers_until_the_next_writer(self, side: Side) -> None:
        """Guards `if mints == '1' then name.dirty = '0'`: a reader repairs nothing."""
        read, write = Queue(RW), Queue(RW, want=1)
        side.run(write.request("m:1", TTL, HIGH, ""))
        crash(side, write, "m:1")
        for owner in ("m:2", "m:3"):
            granted = side.run(read.request(owner, TTL, 0, ""))
            assert isinstance(granted, Granted)
            assert granted.abandoned
            side.run(read.release(owner, TTL, 0, "clean", False))
        granted = side.run(write.request("m:4", TTL, 0, ""))
        assert isinstance(granted, Granted)
        assert granted.abandoned

    def test_one_of_several_that_vanished(self, side: Side) -> None:
        permits = Queue(SEMAPHORE)
        for owner in ("m:1", "m:2", "m:3"):
            side.run(permits.request(owner, TTL, HIGH, ""))
        crash(side, permits, "m:2")
        granted = side.run(permits.request("m:4", TTL, HIGH, ""))
        assert isinstance(granted, Granted)
        assert granted.abandoned
        assert set(holders(side, permits)) == {"m:1", "m:3", "m:4"}
        assert summary(side, permits).used == 3
        assert set(ends(side, permits)) == {"m:1", "m:3", "m:4"}

    def test_several_that_vanished_leave_the_others(self, side: Side) -> None:
        read = Queue(RW)
        for owner in ("m:1", "m:2", "m:3"):
            side.run(read.request(owner, TTL, HIGH, ""))
        crash(side, read, "m:1", "m:3")
        side.run(read.renew_many([read.renewal("m:2", HIGH + 1, TTL)]))
        assert set(holders(side, read)) == {"m:2"}
        enter(side, Queue(RW, want=1), ["m:4"])
        assert waiting(side, read) == ["m:4"]
