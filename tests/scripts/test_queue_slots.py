"""Which permits owners get, while a semaphore becomes smaller."""

from __future__ import annotations

import pytest

from aiolock.scripts.bid import slots_of, wanting_slots
from aiolock.scripts.outcomes import Granted, Impossible, Queued
from tests.support.queues import SEMAPHORE, Queue, assert_sound, holders
from tests.support.scripting import Side

TTL = 30_000
SAYS = wanting_slots("web-3:4711\nnightly #1")
ONE, TWO = Queue(SEMAPHORE), Queue(SEMAPHORE, want=1)


def slots(side: Side, name: Queue, owner: str, number: int = 0) -> tuple[int, ...]:
    granted = side.run(name.request(owner, TTL, 0, SAYS, queue_number=number))
    assert isinstance(granted, Granted), granted
    return granted.slots


def admitted(side: Side, name: Queue) -> Queued:
    """Three are held, and the owner n:1 waits; then the queue lets it in, and it has not asked."""
    assert [slots(side, ONE, f"m:{at}") for at in range(3)] == [(0,), (1,), (2,)]
    place = side.run(name.request("n:1", TTL, 0, SAYS, queue_number=0))
    assert isinstance(place, Queued)
    for owner in ("m:2", "m:1")[: name.weight]:
        side.run(ONE.release(owner, TTL, 0, "clean", False))
    assert holders(side, name)["n:1"].depth == 0
    return place


def test_one_that_was_let_in_before_there_were_fewer_waits_on(side: Side) -> None:
    """It gets no number that is not less than the permits, keeps its place, and is let in again. Kept by unseat."""
    place = admitted(side, ONE)
    side.run(ONE.set_capacity(2))
    for _ in range(2):  # a copy changes nothing
        again = side.run(ONE.request("n:1", TTL, 0, SAYS, queue_number=place.queue_number))
        assert isinstance(again, Queued)
        assert (again.queue_number, again.rank) == (place.queue_number, 1)
        assert_sound(side, ONE)
    assert isinstance(side.run(ONE.request("n:2", TTL, 0, SAYS, queue_number=0)), Queued)
    side.run(ONE.release("m:0", TTL, 0, "clean", False))
    assert slots(side, ONE, "n:1", place.queue_number) == (0,)
    assert sorted(slots_of(one.process) for one in holders(side, ONE).values()) == [(0,), (1,)]


@pytest.mark.parametrize("capacity", [1, 2])
def test_one_that_was_let_in_keeps_what_fits(side: Side, capacity: int) -> None:
    """It is inside, though there are fewer permits now, as its number is low. Kept by unseat: `list[#list]`."""
    place = admitted(side, ONE)
    side.run(ONE.release("m:0", TTL, 0, "clean", False))
    side.run(ONE.set_capacity(capacity))
    assert slots(side, ONE, "n:1", place.queue_number) == (0,)
    assert_sound(side, ONE)


def test_one_that_wants_more_than_there_are_lets_others_in(side: Side) -> None:
    """Kept by arrive in ask.lua: it waits again before others are let in."""
    place = admitted(side, TWO)
    side.run(ONE.set_capacity(1))
    other = side.run(ONE.request("n:2", TTL, 0, SAYS, queue_number=0))
    assert isinstance(other, Queued)
    side.run(ONE.release("m:0", TTL, 0, "clean", False))
    assert isinstance(side.run(TWO.request("n:1", TTL, 0, SAYS, queue_number=place.queue_number)), Impossible)
    assert slots(side, ONE, "n:2", other.queue_number) == (0,)
    assert_sound(side, ONE)


def test_it_does_not_make_a_name_abandoned(side: Side) -> None:
    """Kept by unseat: it leaves the mark as it was found."""
    place = admitted(side, ONE)
    side.run(ONE.set_capacity(2))
    side.run(ONE.request("n:1", TTL, 0, SAYS, queue_number=place.queue_number))
    for owner in ("m:0", "m:1"):
        side.run(ONE.release(owner, TTL, 0, "clean", False))
    again = side.run(ONE.request("n:1", TTL, 0, SAYS, queue_number=place.queue_number))
    assert isinstance(again, Granted)
    assert not again.abandoned
