"""What a holder weighs when it nests, and when it gives a part back; what a look fixes."""

from __future__ import annotations

import pytest

from aiolock.errors import LossReason
from aiolock.scripts.outcomes import Granted, Lost, Missing
from aiolock.scripts.queue import QueueCalls
from tests.support.queues import FAIR, FULL, RW, SEMAPHORE, Queue
from tests.support.scripting import Side

TTL = 30_000
WRITER, READER = Queue(RW, want=1), Queue(RW, want=0)
BOTH = WRITER.weighing(FULL + 1)
"""The weight of an owner that writes and reads."""


def used(side: Side, name: QueueCalls) -> int:
    return side.run(name.info()).used


def fence_of(side: Side, name: QueueCalls, owner: str = "a:1") -> int:
    granted = side.run(name.request(owner, TTL, 0, ""))
    assert isinstance(granted, Granted)
    return granted.fence


def test_a_writer_that_reads_weighs_more_than_all_until_it_stops_reading(side: Side) -> None:
    """A copy of each request changes nothing."""
    fence = fence_of(side, WRITER)
    for _ in range(2):
        assert isinstance(side.run(BOTH.request("a:1", TTL, 0, "", 2, fence)), Granted)
        assert used(side, WRITER) == FULL + 1
    for _ in range(2):
        side.run(WRITER.release("a:1", TTL, 1, "clean", False))
        assert used(side, WRITER) == FULL
    side.run(WRITER.release("a:1", TTL, 0, "clean", False))
    assert used(side, WRITER) == 0


def test_a_late_copy_does_not_turn_a_reader_into_a_writer(side: Side) -> None:
    """Guards `tonumber(held) >= name.capacity`."""
    fence = fence_of(side, WRITER)
    side.run(BOTH.request("a:1", TTL, 0, "", 2, fence))
    side.run(READER.release("a:1", TTL, 1, "clean", False))
    assert used(side, READER) == 1
    assert isinstance(side.run(BOTH.request("a:1", TTL, 0, "", 2, fence)), Granted)
    assert used(side, READER) == 1


@pytest.mark.parametrize("shape", [FAIR, SEMAPHORE], ids=["fair", "semaphore"])
def test_no_one_else_gets_more_by_nesting(side: Side, shape: object) -> None:
    name = Queue(shape)  # type: ignore[arg-type]
    fence = fence_of(side, name)
    side.run(name.request("a:1", TTL, 0, "", 2, fence))
    assert used(side, name) == 1


def test_no_one_gets_more_by_nesting_beside_another(side: Side) -> None:
    """Guards `name.owners == 1`; found by the differential test, where the number of permits was lowered."""
    one, two, three = (Queue(SEMAPHORE).weighing(weight) for weight in (1, 2, 3))
    fence = fence_of(side, two)
    fence_of(side, one, "a:2")
    side.run(one.set_capacity(2))
    side.run(three.request("a:1", TTL, 0, "", 2, fence))
    assert used(side, one) == 3


def test_what_is_gone_from_a_free_name_was_deleted(side: Side) -> None:
    """Also for one with more than everything. Guards `state.used > 0`."""
    assert side.run(BOTH.request("a:1", TTL, 0, "", 2, 7)) == Lost(LossReason.DELETED)
    assert side.run(BOTH.release("a:1", TTL, 1, "clean", False)) == Missing(LossReason.DELETED)
    assert side.run(BOTH.renew_many([BOTH.renewal("a:1", 7, TTL)])) == [Missing(LossReason.DELETED)]
    fence_of(side, READER, "b:1")
    assert side.run(BOTH.renew_many([BOTH.renewal("a:1", 7, TTL)])) == [Missing(LossReason.TAKEN_OVER)]


def test_a_part_comes_back_once(side: Side) -> None:
    """The request says how much stays: a copy, and one that comes late, take nothing more."""
    three, two, one = (Queue(SEMAPHORE).weighing(weight) for weight in (3, 2, 1))
    side.run(three.request("a:1", TTL, 0, ""))
    for name, left in ((two, 2), (two, 2), (one, 1), (two, 1)):
        side.run(name.release("a:1", TTL, 1, "clean", False))
        assert used(side, two) == left
    side.run(one.release("a:1", TTL, 0, "clean", False))
    assert used(side, two) == 0


def test_a_look_writes_nothing(side: Side) -> None:
    """The number is whoever's that looks, while nobody holds or waits. Kept by info.lua, which only reads."""
    ten, five = Queue(SEMAPHORE, capacity=10), Queue(SEMAPHORE, capacity=5)
    assert side.run(ten.info()).capacity == 10
    assert side.run(five.info()).capacity == 5
    assert not any(map(side.exists, ten.keys))
