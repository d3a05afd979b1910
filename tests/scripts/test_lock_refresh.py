"""What refresh promises: waiters stay alive, a free name goes to the first, and no one is put into a queue."""

from __future__ import annotations

import pytest

from aiolock.scripts.bid import Bid
from aiolock.scripts.outcomes import Failed, Gone, Granted, Queued, RefreshOutcome
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
from tests.support.lua import MANY_MANAGERS
from tests.support.scripting import LuaSide, Side

NAME = Lock()
OTHER = Lock("other")
HELD = NAME.acquire(Bid("m:1", TTL, HIGH, "me"))


def refresh(side: Side, owner: str, counted: bool = True) -> RefreshOutcome:
    (outcome,) = side.run(NAME.refresh_many([NAME.alive_of(owner, LIVENESS, counted)]))
    return outcome


class TestHeldByAnother:
    def test_it_lives_and_its_queue_lasts(self, side: Side) -> None:
        side.run(HELD)
        enter(side, NAME, "n:1", "o:1")
        forget(side, NAME, "o")
        for key in (NAME.queue, NAME.alive):
            side.shorten(key, 10_000)
        queued = refresh(side, "o:1", counted=False)
        assert isinstance(queued, Queued)
        assert (queued.rank, queued.fence, queued.holder) == (2, FENCE, "me")
        assert TTL - 10_000 < queued.pttl <= TTL
        assert signs(side, NAME)["o"].until > state(side, NAME).expires - TTL
        assert min(side.pttl(NAME.queue), side.pttl(NAME.alive)) > 50_000

    def test_no_one_is_put_into_the_queue(self, side: Side) -> None:
        side.run(HELD)
        assert refresh(side, "n:1") == Gone()
        enter(side, NAME, "o:1")
        assert refresh(side, "n:1") == Gone()
        assert waiters(side, NAME) == ["o:1"]
        assert side.hash(NAME.alive).keys() == {"o"}

    def test_managers_that_are_gone_are_forgotten_if_there_are_many(self, side: Side) -> None:
        """Guards the sweep: a queue that is never empty would remember all waiters it ever had."""
        side.run(HELD)
        enter(side, NAME, "n:1")
        gone = {f"gone{number}": "1+" if number % 2 else "1" for number in range(MANY_MANAGERS)}
        side.hset(NAME.alive, {**gone, "alive": "9999999999999"})
        refresh(side, "n:1")
        assert side.hash(NAME.alive).keys() == {"n", "alive"}

    def test_an_acquire_forgets_them_too(self, side: Side) -> None:
        """Guards `sweep` in join: under short waits no one refreshes."""
        side.run(HELD)
        enter(side, NAME, "n:1")
        side.hset(NAME.alive, {f"gone{number}": "1+" for number in range(MANY_MANAGERS)})
        assert isinstance(side.run(NAME.acquire(Bid("o:1", TTL, 0, "", LIVENESS))), Queued)
        assert side.hash(NAME.alive).keys() == {"n", "o"}

    def test_a_closing_manager_is_forgotten(self, side: Side) -> None:
        """Guards depart."""
        side.run(HELD)
        enter(side, NAME, "n:1", "o:1")
        for _ in range(2):
            assert side.run(NAME.departure("n"))
            assert side.hash(NAME.alive).keys() == {"o"}

    def test_of_many_a_script_forgets_some(self, lua: LuaSide) -> None:
        """Guards HSCAN: 100,000 at once would block the server for most of a second."""
        lua.run(HELD)
        enter(lua, NAME, "n:1")
        lua.hset(NAME.alive, {f"gone{number}": "1+" for number in range(5_000)})
        refresh(lua, "n:1")
        assert 4_000 < len(lua.hash(NAME.alive)) < 5_001
        for _ in range(5_000):
            refresh(lua, "n:1")
            if len(lua.hash(NAME.alive)) <= MANY_MANAGERS + 1:
                break
        assert "n" in lua.hash(NAME.alive)
        assert len(lua.hash(NAME.alive)) <= MANY_MANAGERS + 1


class TestItsOwn:
    @pytest.mark.parametrize("depth", [0, 1])
    def test_a_lost_message_is_made_good(self, depth: int, side: Side) -> None:
        side.run(HELD)
        change(side, NAME, depth=depth, abandoned="1")
        granted = refresh(side, "m:1")
        assert isinstance(granted, Granted)
        assert (granted.fence, granted.abandoned) == (FENCE, True)
        assert state(side, NAME).depth == depth

    def test_a_grant_that_was_not_confirmed_in_time_is_gone(self, side: Side) -> None:
        """Hazard 2: the client asks anew, and is told what was left undone."""
        side.run(HELD)
        change(side, NAME, depth=0, expires=1)
        assert refresh(side, "m:1") == Gone()
        assert side.run(NAME.acquire(Bid("m:2", TTL, 0, "", LIVENESS))) == Granted(FENCE + 1, TTL, abandoned=False)


class TestFree:
    def test_the_first_is_granted_for_as_long_as_it_counts_as_alive(self, side: Side) -> None:
        hears(side, NAME, "n")
        side.run(HELD)
        enter(side, NAME, "n:1", "o:1")
        expire(side, NAME)
        assert refresh(side, "n:1") == Granted(FENCE + 1, LIVENESS, abandoned=True)
        assert state(side, NAME).depth == 0
        assert side.heard() == []
        assert waiters(side, NAME) == ["o:1"]

    def test_another_that_asks_settles_it_for_the_first(self, side: Side) -> None:
        hears(side, NAME, "n")
        side.run(HELD)
        enter(side, NAME, "n:1", "o:1")
        expire(side, NAME)
        queued = refresh(side, "o:1")
        assert isinstance(queued, Queued)
        assert queued.rank == 1
        assert 0 < queued.pttl <= LIVENESS
        assert side.heard() == [(NAME.manager("n"), f"granted n:1 {FENCE + 1} 1 {NAME.state}")]

    def test_the_first_is_passed_over_if_it_does_not_hear(self, side: Side) -> None:
        side.run(HELD)
        enter(side, NAME, "n:1", "o:1")
        expire(side, NAME)
        assert isinstance(refresh(side, "o:1"), Granted)
        found = state(side, NAME)
        assert (found.owner, found.fence) == ("o:1", FENCE + 1)
        assert waiters(side, NAME) == ["n:1"]

    def test_a_process_that_was_thought_dead_keeps_its_place_until_its_turn(self, side: Side) -> None:
        hears(side, NAME, "o")
        side.run(HELD)
        enter(side, NAME, "n:1", "o:1")
        forget(side, NAME, "n")
        expire(side, NAME)
        assert isinstance(refresh(side, "n:1"), Granted)


def test_each_name_is_judged_by_itself(side: Side) -> None:
    """Guards pcall."""
    side.run(HELD)
    side.run(OTHER.acquire(Bid("m:2", TTL, HIGH, "")))
    side.set(OTHER.queue, "a string")
    enter(side, NAME, "n:1")
    parts = [OTHER.alive_of("n:2", LIVENESS), NAME.alive_of("n:1", LIVENESS), NAME.alive_of("n:3", LIVENESS)]
    failed, queued, gone = side.run(NAME.refresh_many(parts))
    assert isinstance(failed, Failed)
    assert "WRONGTYPE" in failed.error
    assert isinstance(queued, Queued)
    assert gone == Gone()
    lasting(side, NAME)
