"""One script lets in, ends or looks at a bounded number of owners, and the rest follows at once."""

from __future__ import annotations

import pytest

from aiolock.scripts.base import DONT_QUEUE
from aiolock.scripts.bid import Bid
from aiolock.scripts.outcomes import Ended, Granted, Queued, Refused
from tests.support.lua import ROOM
from tests.support.queues import (
    RW,
    SEMAPHORE,
    Queue,
    assert_sound,
    change,
    crash,
    forget,
    holders,
    queue_numbers,
    standing,
    summary,
    waiting,
)
from tests.support.scripting import Side

TTL = 30_000
HIGH = 2**51
MANY = 2 * ROOM + 50
READ, WRITE = Queue(RW), Queue(RW, want=1)


@pytest.fixture
def crowd(side: Side) -> list[str]:
    """Many readers that wait behind a writer."""
    side.run(WRITE.request("m:1", TTL, HIGH, ""))
    crowd = [f"n{number}:1" for number in range(MANY)]
    side.run(READ.refresh_many([READ.refresh(Bid(owner, TTL, 0, "")) for owner in crowd]))
    assert waiting(side, READ) == crowd
    return crowd


def refresh(side: Side, owner: str, name: Queue = READ) -> object:
    (answer,) = side.run(
        name.refresh_many([name.refresh(Bid(owner, TTL, 0, "", number=queue_numbers(side, name).get(owner, HIGH)))])
    )
    return answer


def test_a_release_lets_in_some_and_tells_the_next_to_look(side: Side, crowd: list[str]) -> None:
    """Guards `room`, and `refresh` in settle: each one that is told continues the work, so no one waits for a
    refresh.
    """
    managers = {READ.manager(f"n{number}"): f"n{number}:1" for number in range(MANY)}
    side.listen(*managers)
    side.run(WRITE.release("m:1", TTL, 0, "clean", False))
    assert len(holders(side, READ)) == ROOM
    for answered, inside in enumerate((2 * ROOM, MANY)):
        told = [(managers[channel], text) for channel, text in side.heard()]
        assert told[-1] == (waiting(side, READ)[0], f"refresh {waiting(side, READ)[0]}")
        assert len(told) == ROOM + 1 - answered
        assert isinstance(refresh(side, told[-1][0]), Granted)
        assert len(holders(side, READ)) == inside
    assert all(text.startswith("admitted") for _, text in side.heard())
    assert_sound(side, READ)


def test_a_request_is_told_to_ask_again_at_once(side: Side, crowd: list[str]) -> None:
    """Guards `cut` in `pause`: those that were let in, and the one told to look, may all be dead."""
    side.run(WRITE.release("m:1", TTL, 0, "clean", False))
    last, answers = crowd[-1], []
    while not answers or isinstance(answers[-1], Queued):
        answers.append(refresh(side, last))
        assert len(answers) < 5
    assert [answer.pttl for answer in answers[:-1]] == [0] * (len(answers) - 1)  # type: ignore[attr-defined]
    assert isinstance(answers[-1], Granted)
    assert_sound(side, READ)


def test_one_of_several_that_ask_together_is_enough(side: Side, crowd: list[str]) -> None:
    """Guards `name.cut = false`."""
    side.run(WRITE.release("m:1", TTL, 0, "clean", False))
    parts = [READ.refresh(Bid(owner, TTL, 0, "", number=queue_numbers(side, READ)[owner])) for owner in crowd[-3:]]
    answers = side.run(READ.refresh_many(parts))
    assert [isinstance(answer, Queued) and answer.pttl == 0 for answer in answers] == [True, False, False]


def test_many_that_died_waiting_are_passed_at_once(side: Side, crowd: list[str]) -> None:
    last = crowd[-1]
    forget(side, READ, *crowd[:-1])
    side.run(WRITE.release("m:1", TTL, 0, "clean", False))
    answers = [refresh(side, last) for _ in range(2)]
    assert isinstance(answers[-1], Granted)
    assert set(holders(side, READ)) == {last}
    assert_sound(side, READ)


def test_many_that_died_inside_are_ended_in_parts(side: Side, crowd: list[str]) -> None:
    """Guards `LIMIT` in prune."""
    side.run(WRITE.release("m:1", TTL, 0, "clean", False))
    while waiting(side, READ):
        refresh(side, crowd[-1])
    crash(side, READ, *crowd)
    answers: list[object] = [side.run(WRITE.request("w:1", TTL, 0, "", queue_number=0))]
    assert len(holders(side, READ)) == MANY - ROOM
    while isinstance(answers[-1], Queued):
        assert answers[-1].pttl == 0
        assert len(answers) < 5
        answers.append(refresh(side, "w:1", WRITE))
    assert isinstance(answers[-1], Granted)
    assert set(holders(side, READ)) == {"w:1"}
    assert_sound(side, READ)


def test_info_counts_many_that_expired(side: Side, crowd: list[str]) -> None:
    side.run(WRITE.release("m:1", TTL, 0, "clean", False))
    while waiting(side, READ):
        refresh(side, crowd[-1])
    crash(side, READ, *crowd[1:])
    seen = side.run(READ.info())
    assert (seen.holders, seen.used) == (1, 1)


class TestForceRelease:
    def test_ends_many_in_parts_and_lets_no_one_in_between(self, side: Side, crowd: list[str]) -> None:
        """Guards `shut`: an owner that came in between would be ended with the rest."""
        side.run(WRITE.release("m:1", TTL, 0, "clean", False))
        while waiting(side, READ):
            refresh(side, crowd[-1])
        assert isinstance(side.run(WRITE.request("w:1", TTL, 0, "", queue_number=0)), Queued)
        assert side.run(READ.force_release()) == Ended(ROOM, MANY - ROOM)
        assert isinstance(side.run(READ.request("x:1", TTL, 0, "", queue_number=DONT_QUEUE)), Refused)
        assert isinstance(refresh(side, "w:1", WRITE), Queued)
        assert side.run(READ.force_release()) == Ended(ROOM, MANY - 2 * ROOM)
        assert side.run(READ.force_release()) == Ended(MANY - 2 * ROOM, 0)
        assert set(holders(side, READ)) == {"w:1"}
        assert_sound(side, READ)

    def test_one_that_is_not_finished_shuts_the_name_for_a_moment(self, side: Side, crowd: list[str]) -> None:
        side.run(WRITE.release("m:1", TTL, 0, "clean", False))
        while waiting(side, READ):
            refresh(side, crowd[-1])
        side.run(READ.force_release())
        change(side, READ, shut=summary(side, READ).shut - 1000)
        assert isinstance(side.run(READ.request("x:1", TTL, 0, "")), Granted)


class TestEviction:
    """A server at its memory limit may evict either key: its contents are lost, and no one is stuck."""

    def test_a_lost_order_is_written_again(self, side: Side) -> None:
        """Guards `heal`: a dead holder's share comes back after its ttl, and waiters stay in line."""
        permits = Queue(SEMAPHORE)
        for owner in ("m:1", "m:2", "m:3"):
            side.run(permits.request(owner, TTL, HIGH, ""))
        for owner in ("n:2", "n:1"):
            side.run(permits.request(owner, TTL, HIGH, "", queue_number=0))
        before = queue_numbers(side, permits)
        side.delete(permits.order)
        side.run(permits.release("x:1", TTL, 0, "undone", False))
        assert queue_numbers(side, permits) == before
        assert_sound(side, permits)
        crash(side, permits, "m:1", "m:2")
        assert isinstance(side.run(permits.request("n:1", TTL, 0, "", queue_number=before["n:1"])), Granted)
        assert set(holders(side, permits)) == {"m:3", "n:2", "n:1"}
        assert_sound(side, permits)

    def test_later_writes_do_not_hide_what_is_lost(self, side: Side) -> None:
        """Guards ZCOUNT beside ZCARD in `open`: places without a record fill up the order."""
        permits = Queue(SEMAPHORE, capacity=1)
        side.run(permits.request("m:1", TTL, HIGH, ""))
        side.run(permits.request("n:1", TTL, HIGH, "", queue_number=0))
        side.delete(permits.order)
        side.score(permits.order, "ghost:1", 1)
        side.score(permits.order, "ghost:2", 2)
        side.run(permits.request("x:1", TTL, 0, ""))
        assert_sound(side, permits)
        assert waiting(side, permits) == ["n:1"]

    def test_with_the_hash_all_is_lost(self, side: Side) -> None:
        permits = Queue(SEMAPHORE)
        for owner in ("m:1", "m:2", "m:3", "n:1"):
            side.run(permits.request(owner, TTL, HIGH, "", queue_number=0))
        side.delete(permits.hash)
        granted = side.run(Queue(SEMAPHORE, want=2).request("x:1", TTL, HIGH + 9, "", queue_number=0))
        assert isinstance(granted, Granted)
        assert set(standing(side, permits).holders) == {"x:1"}
        side.run(permits.release("x:1", TTL, 0, "clean", False))
        assert isinstance(side.run(permits.request("n:1", TTL, 0, "", queue_number=HIGH)), Granted)
        assert_sound(side, permits)


def test_an_impossible_floor_is_not_believed(side: Side) -> None:
    """Otherwise one forged message would use up all fences of every name."""
    permits = Queue(SEMAPHORE)
    fences = [
        side.run(permits.request(f"m:{i}", TTL, floor, "")).fence for i, floor in enumerate((HIGH, 2**53, 10**20))
    ]  # type: ignore[union-attr]
    assert fences == [HIGH + 1, HIGH + 2, HIGH + 3]


def test_a_refusal_beside_many_expired_holders_names_no_past_time(side: Side, crowd: list[str]) -> None:
    """Guards the least `pttl` of a refusal: below 0 it would mean a key without an expiry."""
    side.run(WRITE.release("m:1", TTL, 0, "clean", False))
    for owner in crowd[: 2 * ROOM]:
        refresh(side, owner)
    crash(side, READ, *holders(side, READ))
    forget(side, READ, *waiting(side, READ))
    answer = side.run(WRITE.request("m:2", TTL, HIGH, "", queue_number=DONT_QUEUE))
    assert isinstance(answer, Refused)
    assert answer.pttl == 0
