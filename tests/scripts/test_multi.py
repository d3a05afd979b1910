"""The multi lock's scripts on the keys of the plain lock: both sides keep the promises of the headers."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from aiolock.errors import LossReason
from aiolock.scripts.base import Call
from aiolock.scripts.bid import Bid
from aiolock.scripts.keys import DIRTY_MS, GRACE_MS
from aiolock.scripts.multi import joined, renew
from aiolock.scripts.outcomes import (
    Failed,
    Finished,
    Gone,
    Granted,
    Kept,
    Lost,
    Missing,
    Passed,
    Queued,
    Refused,
    Released,
    Renewed,
)
from tests.support.lock_calls import State, put, state
from tests.support.multi import (
    LIVENESS,
    Multi,
    Name,
    crash,
    granted,
    holders,
    refreshes,
    waiting,
)
from tests.support.scripting import KEYS, Side
from tests.support.scripting import Refused as Failure

TTL = 30_000
HIGH = 2**51
A, B, C = Name("a"), Name("b"), Name("c")
AB, BC, ABC = Multi(A, B), Multi(B, C), Multi(A, B, C)
TAKE = AB.acquire(Bid("m:+1", TTL, HIGH, "me"))
FREE = AB.release("m:+1", TTL, 0, "clean", False)


def hold(side: Side, name: Name, owner: str = "n:1") -> int:
    return granted(side.run(name.acquire(Bid(owner, TTL, 0, "they")))).fence


def ask(side: Side, multi: Multi, owner: str, number: int = 0) -> Any:
    return side.run(multi.acquire(Bid(owner, TTL, HIGH, "me", LIVENESS, number=number)))


def queued(outcome: object) -> Queued:
    assert isinstance(outcome, Queued), outcome
    return outcome


def leave(side: Side, name: Name, owner: str = "n:1") -> None:
    assert isinstance(side.run(name.release(owner, TTL, 0, "clean", False)), Released)


def reserve(side: Side, multi: Multi, owner: str, name: Name, held: str = "n:1") -> int:
    """Queue the owner for a held name, and grant it; return its number."""
    side.listen(KEYS.manager(owner.partition(":")[0]))
    number = queued(ask(side, multi, owner)).queue_number
    assert waiting(side, name) == [owner]
    leave(side, name, held)
    assert state(side, name)[:4] == (owner, state(side, name).fence, number, 0)
    return number


# Free names.


def test_all_are_granted_under_one_fence_above_every_earlier_one(side: Side) -> None:
    """Kept by acquire_free.lua: `least`."""
    plain = granted(side.run(B.acquire(Bid("m:1", TTL, HIGH + 2**40, ""))))
    leave(side, B, "m:1")
    assert side.run(TAKE) == Granted(plain.fence + 1, TTL, False)
    assert [state(side, name).fence for name in (A, B)] == [plain.fence + 1] * 2
    for name in (A, B):
        assert state(side, name)._replace(fence=0, before=0, expires=0) == State("m:+1", 0, 0, 1, "0", 0, "me")
        assert DIRTY_MS + TTL - 5000 < side.pttl(name.state) <= DIRTY_MS + TTL
    assert [state(side, name).before for name in (A, B)] == [0, plain.fence]


def test_a_copy_reads_its_own_grant(side: Side) -> None:
    first = granted(side.run(TAKE))
    for number in (0, 5):
        copy = granted(ask(side, AB, "m:+1", number))
        assert copy == first
    assert side.run(AB.acquire(Bid("m:+1", 9 * TTL, 0, ""))) == replace(first, pttl=9 * TTL)
    assert granted(side.run(AB.acquire(Bid("m:+1", TTL, 0, "")))).pttl > 8 * TTL


def test_an_expired_holder_is_followed_and_abandoned_if_any_was(side: Side) -> None:
    hold(side, B)
    crash(side, B)
    assert granted(side.run(TAKE)).abandoned
    assert [state(side, name).abandoned for name in (A, B)] == ["0", "1"]


def test_an_expired_grant_that_was_never_confirmed_abandoned_nothing(side: Side) -> None:
    """Kept by acquire_free.lua: `depth ~= '0'`."""
    hold(side, A)
    reserve(side, AB, "n:+1", A)
    crash(side, A)
    assert not granted(side.run(TAKE)).abandoned


def test_it_excludes_the_plain_lock_and_overlapping_sets(side: Side) -> None:
    side.run(TAKE)
    for call in (
        A.acquire(Bid("n:1", TTL, 0, "")),
        B.acquire(Bid("n:1", TTL, 0, "")),
        BC.acquire(Bid("n:+2", TTL, 0, "")),
    ):
        refused = side.run(call)
        assert isinstance(refused, Refused)
        assert refused.holder == "me"
    assert not side.exists(C.state)


# Held names.


@pytest.mark.parametrize("taken", [A, B])
def test_a_request_that_does_not_wait_is_refused_and_changes_nothing(taken: Name, side: Side) -> None:
    fence = hold(side, taken)
    refused = side.run(TAKE)
    assert isinstance(refused, Refused)
    assert refused._replace(pttl=0) == Refused(0, fence, "they", part=taken.name)
    assert TTL - 5000 < refused.pttl <= TTL
    free = B if taken is A else A
    assert not any(side.exists(key) for key in (*free.keys, taken.queue, taken.alive))


def test_it_queues_for_the_name_that_is_held_longest(side: Side) -> None:
    """An owner that holds nothing delays no one. Kept by take.lua: `sooner`."""
    hold(side, B)
    hold(side, A, "n:2")
    outcome = queued(ask(side, AB, "m:+1"))
    assert (outcome.part, outcome.rank, outcome.holder) == ("b", 1, "they")
    assert outcome.fence == state(side, B).fence
    assert TTL - 5000 < outcome.pttl <= TTL
    assert side.scores(B.queue) == {"m:+1": outcome.queue_number}
    assert not side.exists(A.queue)
    assert 60_000 < side.pttl(B.queue) <= 20 * LIVENESS
    assert 60_000 < side.pttl(B.alive) <= 20 * LIVENESS


def test_it_keeps_its_place(side: Side) -> None:
    """Kept by take.lua: `one.stands`."""
    hold(side, B)
    first = queued(ask(side, AB, "m:+1"))
    side.run(A.acquire(Bid("n:2", TTL, 0, "")))
    put(side, A, state(side, A)._replace(fence=1))
    again = queued(ask(side, AB, "m:+1"))
    assert (again.part, again.queue_number) == ("b", first.queue_number)
    assert not side.exists(A.queue)


def test_it_comes_back_to_where_it_stood(side: Side) -> None:
    """Kept by acquire.lua: `number`."""
    hold(side, B)
    number = queued(ask(side, AB, "m:+1")).queue_number
    side.run(AB.release("m:+1", TTL, 0, "undone", False))
    assert waiting(side, B) == []
    side.run(B.acquire(Bid("o:1", TTL, 0, "", LIVENESS)))
    assert queued(ask(side, AB, "m:+1", number)).rank == 1
    assert waiting(side, B) == ["m:+1", "o:1"]
    crash(side, B)
    assert granted(ask(side, AB, "m:+1", number)).abandoned
    assert waiting(side, B) == ["o:1"]


def test_its_number_also_counts_in_queues_that_it_has_left(side: Side) -> None:
    """Kept by read.lua: `join`."""
    hold(side, B)
    number = queued(ask(side, AB, "m:+1")).queue_number
    side.run(AB.release("m:+1", TTL, 0, "undone", False))
    side.listen(KEYS.manager("o"))
    side.run(B.acquire(Bid("o:1", TTL, 0, "", LIVENESS)))
    crash(side, B)
    assert granted(ask(side, AB, "m:+1", number)).abandoned
    assert waiting(side, B) == ["o:1"]


def test_a_free_name_goes_to_its_waiters(side: Side) -> None:
    hold(side, B)
    side.listen(KEYS.manager("o"))
    side.run(B.acquire(Bid("o:1", TTL, 0, "", LIVENESS)))
    crash(side, B)
    outcome = queued(ask(side, AB, "m:+1"))
    assert (state(side, B).owner, state(side, B).abandoned, outcome.part, outcome.rank) == ("o:1", "1", "b", 1)
    assert [channel for channel, _ in side.heard()] == [KEYS.manager("o")]


def test_a_free_name_does_not_go_to_the_dead(side: Side) -> None:
    hold(side, B)
    side.run(B.acquire(Bid("o:1", TTL, 0, "", LIVENESS)))
    side.hset(B.alive, {"o": "1+"})
    crash(side, B)
    assert granted(side.run(TAKE)).abandoned
    assert waiting(side, B) == []


# What it reserves.


def test_a_release_reserves_the_name_for_it(side: Side) -> None:
    """Its manager is told; the number in the queue is known from the reservation. Kept by settle.lua: WITHSCORES."""
    hold(side, A)
    reserve(side, AB, "m:+1", A)
    fence = state(side, A).fence
    assert side.heard() == [(KEYS.manager("m"), f"granted m:+1 {fence} 0 {A.state}")]
    assert waiting(side, A) == []
    assert granted(ask(side, AB, "m:+1")).fence > fence
    assert [state(side, name)[3:5] for name in (A, B)] == [(1, "0")] * 2


def test_with_some_names_it_reserves_what_is_free_and_queues_for_all_others(side: Side) -> None:
    """Kept by acquire.lua: `some`."""
    for i, name in enumerate((A, B)):
        hold(side, name, f"n:{i}")
    number = reserve(side, ABC, "m:+1", A, "n:0")
    put(side, A, state(side, A)._replace(expires=state(side, A).expires - 5000))
    outcome = queued(ask(side, ABC, "m:+1"))
    assert (outcome.part, outcome.queue_number, outcome.rank) == ("b", number, 1)
    assert side.scores(B.queue) == {"m:+1": number}
    assert holders(side, [A, B, C]) == ["m:+1", "n:1", "m:+1"]
    assert [state(side, name)[2:4] for name in (A, C)] == [(number, 0)] * 2
    assert abs(state(side, A).expires - state(side, C).expires) < 50
    leave(side, B, "n:1")
    assert holders(side, [A, B, C]) == ["m:+1"] * 3
    fence = granted(ask(side, ABC, "m:+1", number)).fence
    assert {state(side, name)._replace(before=0, expires=0) for name in (A, B, C)} == {
        State("m:+1", fence, 0, 1, "0", 0, "me")
    }
    assert not any(side.exists(name.queue) for name in (A, B, C))


def test_an_older_one_takes_what_a_younger_one_reserved(side: Side) -> None:
    """And the younger one gets its old place back. Kept by read.lua: `younger`, and take.lua: ZADD."""
    hold(side, A)
    older = queued(ask(side, AB, "m:+1")).queue_number
    hold(side, B, "n:2")
    younger = reserve(side, BC, "o:+1", B, "n:2")
    assert younger > older
    assert queued(ask(side, AB, "m:+1")).part == "a"  # it has nothing, so it takes nothing
    assert state(side, B).owner == "o:+1"
    side.listen(KEYS.manager("m"))
    leave(side, A)
    assert isinstance(ask(side, AB, "m:+1"), Granted)
    assert side.scores(B.queue) == {"o:+1": younger}
    assert 60_000 < side.pttl(B.queue) <= 20 * LIVENESS
    assert queued(ask(side, BC, "o:+1")).queue_number == younger


@pytest.mark.parametrize(("one", "other"), [("m:+1", "o:+1"), ("o:+1", "m:+1")])
def test_of_two_with_one_number_one_gives_way(side: Side, one: str, other: str) -> None:
    """On a clock with coarse steps two may come in one. Kept by read.lua: `name.owner > owner`."""
    side.listen(KEYS.manager("m"), KEYS.manager("o"))
    for owner, name, multi in ((one, A, AB), (other, B, BC)):
        hold(side, name, "n:2")
        queued(ask(side, multi, owner, HIGH))
        leave(side, name, "n:2")
    assert holders(side, [A, B]) == [one, other]
    granted = [owner for owner in (one, other) if isinstance(ask(side, AB, owner, HIGH), Granted)]
    assert granted == ["m:+1"]


def test_its_number_is_known_in_its_queues(side: Side) -> None:
    """Kept by read.lua: `or name.stands`."""
    hold(side, A)
    ask(side, AB, "m:+1")
    hold(side, B, "n:2")
    reserve(side, BC, "o:+1", B, "n:2")
    crash(side, A)
    assert isinstance(ask(side, AB, "m:+1"), Granted)
    assert waiting(side, B) == ["o:+1"]


def test_a_younger_one_does_not_take_what_an_older_one_reserved(side: Side) -> None:
    hold(side, C, "n:2")
    hold(side, A)
    reserve(side, AB, "m:+1", A)
    younger = Multi(A, C)
    number = reserve(side, younger, "o:+1", C, "n:2")
    assert queued(ask(side, younger, "o:+1", number)).part == "a"
    assert holders(side, [A, C]) == ["m:+1", "o:+1"]


def test_no_one_takes_what_was_granted_for_good(side: Side) -> None:
    hold(side, A)
    number = queued(ask(side, AB, "m:+1")).queue_number
    granted(side.run(BC.acquire(Bid("o:+1", TTL, 0, "they"))))
    side.listen(KEYS.manager("m"))
    leave(side, A)
    assert queued(ask(side, AB, "m:+1", number)).part == "b"
    assert holders(side, [A, B]) == ["m:+1", "o:+1"]


def test_nor_what_was_granted_to_a_plain_lock(side: Side) -> None:
    """A plain lock enters before its confirmation is seen. Kept by read.lua: `':+'`."""
    hold(side, A)
    number = queued(ask(side, AB, "m:+1")).queue_number
    hold(side, B, "n:2")
    side.listen(KEYS.manager("o"), KEYS.manager("m"))
    side.run(B.acquire(Bid("o:1", TTL, 0, "", LIVENESS)))
    leave(side, B, "n:2")
    leave(side, A)
    assert state(side, B)[:1] + state(side, B)[3:4] == ("o:1", 0)
    assert queued(ask(side, AB, "m:+1", number)).part == "b"


def test_a_reservation_whose_process_is_gone_ends_and_abandons_nothing(side: Side) -> None:
    hold(side, A)
    reserve(side, AB, "m:+1", A)
    side.run(A.acquire(Bid("o:1", TTL, 0, "", LIVENESS)))
    crash(side, A)
    (outcome,) = side.run(refreshes([(A, "o:1", LIVENESS)]))
    assert granted(outcome).abandoned is False


def test_it_refreshes_as_a_plain_lock(side: Side) -> None:
    """Kept by refresh.lua: `number`."""
    hold(side, A)
    number = queued(ask(side, AB, "m:+1")).queue_number
    refresh = refreshes([(A, "m:+1", LIVENESS)])
    (outcome,) = side.run(refresh)
    assert queued(outcome).rank == 1
    crash(side, A)
    (outcome,) = side.run(refresh)
    assert granted(outcome).abandoned
    assert state(side, A)[2:4] == (number, 0)
    side.run(AB.release("m:+1", TTL, 0, "clean", False))
    assert state(side, A).abandoned == "1"  # it never entered
    assert side.run(refresh) == [Gone()]


def test_a_turn_ends_while_a_multi_lock_is_first(side: Side) -> None:
    """It may keep other names waiting. Kept by transfer_local.lua: `:[f+]`."""
    fence = hold(side, A)
    side.listen(KEYS.manager("m"))
    assert isinstance(ask(side, AB, "m:+1"), Queued)
    passed = side.run(A.transfer("n:1", fence, Bid("n:2", TTL, 0, "", LIVENESS, True), False, False))
    assert isinstance(passed, Passed)
    assert state(side, A).owner == "m:+1"
    assert waiting(side, A) == ["n:2"]


def test_what_was_given_back_goes_to_the_next(side: Side) -> None:
    """And the owner waits for one name. Kept by finish.lua: `'back'`."""
    for i, name in enumerate((A, B, C)):
        hold(side, name, f"n:{i}")
    reserve(side, ABC, "m:+1", A, "n:0")
    ask(side, ABC, "m:+1")
    side.listen(KEYS.manager("o"))
    side.run(A.acquire(Bid("o:1", TTL, 0, "", LIVENESS)))
    side.run(ABC.give_back("m:+1", TTL, "c"))
    assert holders(side, [A, B, C]) == ["o:1", "n:1", "n:2"]
    assert [waiting(side, name) for name in (A, B, C)] == [[], [], ["m:+1"]]


def test_a_late_give_back_takes_nothing_that_was_granted_for_good(side: Side) -> None:
    side.run(TAKE)
    side.run(AB.give_back("m:+1", TTL, "a"))
    assert holders(side, [A, B]) == ["m:+1"] * 2


def test_an_owner_that_lost_a_part_gets_nothing_more(side: Side) -> None:
    """A late copy must not take a name again that was freed since, below the fences granted on it meanwhile.

    Kept by acquire.lua: `whole > 0`.
    """
    side.run(TAKE)
    crash(side, B)
    assert side.run(TAKE) == Lost(LossReason.DELETED)
    hold(side, B)
    assert ask(side, AB, "m:+1") == Lost(LossReason.TAKEN_OVER)
    assert holders(side, [A, B]) == ["m:+1", "n:1"]
    assert not side.exists(B.queue)


# Ends.


@pytest.mark.parametrize("ending", ["clean", "undone", "dirty"])
def test_each_part_ends_as_a_plain_lock(ending: Any, side: Side) -> None:
    hold(side, A)
    crash(side, A)
    fence = granted(side.run(TAKE)).fence
    assert side.run(AB.release("m:+1", TTL, 0, ending, False)) == Released(fence)
    dirty = {"clean": ["0", "0"], "undone": ["1", "0"], "dirty": ["1", "1"]}[ending]
    assert [state(side, name).abandoned for name in (A, B)] == dirty
    assert (side.pttl(B.state) <= TTL + GRACE_MS) == (ending != "dirty")
    assert side.run(FREE) == Missing(LossReason.DELETED)  # a copy


def test_a_release_grants_each_name_to_its_waiter(side: Side) -> None:
    side.run(TAKE)
    side.listen(KEYS.manager("o"), KEYS.manager("p"))
    side.run(A.acquire(Bid("o:1", TTL, 0, "", LIVENESS)))
    side.run(B.acquire(Bid("p:1", TTL, 0, "", LIVENESS)))
    assert isinstance(side.run(FREE), Released)
    assert holders(side, [A, B]) == ["o:1", "p:1"]
    assert len(side.heard()) == 2


def test_a_waiter_leaves_every_queue_and_reservation(side: Side) -> None:
    for i, name in enumerate((A, B)):
        hold(side, name, f"n:{i}")
    reserve(side, ABC, "m:+1", A, "n:0")
    ask(side, ABC, "m:+1")
    assert side.run(ABC.release("m:+1", TTL, 0, "undone", True)) == Missing(LossReason.TAKEN_OVER)
    assert holders(side, [A, B, C]) == ["", "n:1", ""]
    assert not side.exists(B.queue)
    assert side.run(ABC.acquire(Bid("m:+1", TTL, 0, "me", LIVENESS))) == Finished()
    assert 0 < side.pttl(A.dead("m:+1")) <= TTL + GRACE_MS


@pytest.mark.parametrize("lost", [A, B])
def test_a_release_frees_the_rest(lost: Name, side: Side) -> None:
    side.run(TAKE)
    crash(side, lost)
    hold(side, lost)
    assert side.run(FREE) == Missing(LossReason.TAKEN_OVER)
    assert holders(side, [A, B]) == (["n:1", ""] if lost is A else ["", "n:1"])


@pytest.mark.parametrize("spoiled", [A, B])
def test_a_part_that_cannot_be_read_does_not_stop_the_others(spoiled: Name, side: Side) -> None:
    """Such as a hold of an earlier version. Kept by release.lua: `pcall`."""
    side.run(TAKE)
    side.delete(spoiled.state)
    side.hset(spoiled.state, {"n:1": "1"})
    for call in (FREE, TAKE, AB.acquire(Bid("o:+1", TTL, 0, "", LIVENESS)), AB.info()):
        with pytest.raises(Failure, match="WRONGTYPE"):
            side.run(call)  # type: ignore[arg-type]
    assert state(side, B if spoiled is A else A).owner == ""
    assert side.hash(spoiled.state) == {"n:1": "1"}


# While it holds.


def test_depth_counts_in_every_part(side: Side) -> None:
    fence = granted(side.run(TAKE)).fence
    deeper = AB.nest("m:+1", fence, 2 * TTL, 2)
    assert side.run(deeper) == Kept(2 * TTL)
    assert [state(side, name).depth for name in (A, B)] == [2, 2]
    side.run(AB.nest("m:+1", fence, TTL, 1))  # a copy of an earlier one
    assert [state(side, name).depth for name in (A, B)] == [2, 2]
    kept = side.run(AB.release("m:+1", TTL, 1, "clean", False))
    assert isinstance(kept, Kept)
    assert 2 * TTL - 5000 < kept.pttl <= 2 * TTL
    assert [state(side, name).depth for name in (A, B)] == [1, 1]
    crash(side, B)
    hold(side, B)
    assert side.run(deeper) == Missing(LossReason.TAKEN_OVER)
    assert state(side, A).depth == 1
    side.run(FREE)
    assert side.run(deeper) == Missing(LossReason.TAKEN_OVER)
    leave(side, B)
    assert side.run(deeper) == Missing(LossReason.DELETED)


def test_renewals_are_judged_by_hold(side: Side) -> None:
    """A hold is lost with one part, but its neighbours in the request are not."""
    fence = granted(side.run(TAKE)).fence
    other = Multi(C)
    second = granted(side.run(other.acquire(Bid("m:+2", TTL, HIGH, "")))).fence
    batch = [AB.renewal("m:+1", fence, 2 * TTL), other.renewal("m:+2", second, 2 * TTL)]
    assert side.run(renew(batch)) == [Renewed(2 * TTL)] * 2
    crash(side, A)
    assert side.run(renew(batch)) == [Renewed(2 * TTL)] * 2  # no one took it
    side.delete(A.state)
    assert side.run(renew(batch)) == [Missing(LossReason.DELETED), Renewed(2 * TTL)]
    hold(side, A)
    side.delete(B.state)
    assert side.run(renew(batch[:1])) == [Missing(LossReason.TAKEN_OVER)]
    assert side.run(renew([other.renewal("m:+2", second - 1, TTL)])) == [Missing(LossReason.TAKEN_OVER)]


def test_a_renewal_raises_the_fence(side: Side) -> None:
    """To that of the same owner's names in other places; never back. Kept by renew.lua: `name.fence = fence`."""
    fence = granted(side.run(TAKE)).fence
    for raised, expected in ((fence + 7, fence + 7), (fence, 0)):
        (outcome,) = side.run(renew([AB.renewal("m:+1", raised, TTL)]))
        assert outcome == (Renewed(TTL) if expected else Missing(LossReason.TAKEN_OVER))
        assert [state(side, name).fence for name in (A, B)] == [fence + 7] * 2
    assert side.run(AB.nest("m:+1", fence + 7, TTL, 2)) == Kept(TTL)
    side.run(AB.release("m:+1", TTL, 0, "clean", False))
    assert granted(side.run(Name("a").acquire(Bid("m:1", TTL, 0, "")))).fence > fence + 7


def test_a_renewal_answers_the_shortest_and_never_shortens(side: Side) -> None:
    fence = granted(side.run(TAKE)).fence
    side.run(renew([Multi(B).renewal("m:+1", fence, 4 * TTL)]))
    (looked_at,) = side.run(renew([AB.renewal("m:+1", fence, 0)]))
    assert isinstance(looked_at, Renewed)
    assert TTL - 5000 < looked_at.pttl <= TTL
    assert side.run(renew([AB.renewal("m:+1", fence, 2 * TTL)])) == [Renewed(2 * TTL)]
    assert state(side, B).expires > state(side, A).expires + TTL


def test_a_spoiled_part_is_no_verdict_and_the_others_are_renewed(side: Side) -> None:
    fence = granted(side.run(TAKE)).fence
    before = state(side, B).expires
    side.delete(A.state)
    side.hset(A.state, {"n:1": "1"})
    (answer,) = side.run(renew([AB.renewal("m:+1", fence, 2 * TTL)]))
    assert isinstance(answer, Failed)
    assert "WRONGTYPE" in answer.error
    assert state(side, B).expires > before
    side.delete(B.state)  # which is one
    assert side.run(renew([AB.renewal("m:+1", fence, 2 * TTL)])) == [Missing(LossReason.DELETED)]


def test_info_is_of_each_name(side: Side) -> None:
    fence = hold(side, B)
    free, held = side.run(AB.info())
    assert free is None
    assert held is not None
    assert (held.owner, held.depth, held.fence, held.holder) == ("n:1", 1, fence, "they")
    assert not side.exists(A.state)


def test_no_two_sets_have_the_same_name() -> None:
    sets = [("a", "b"), ("a + b",), ("a +", "+ b"), ("a ", "b"), ("a", " b"), ("a+", "b"), ("a", "+b"), ("a++b",)]
    assert len({joined(names) for names in sets}) == len(sets)


def test_calls_name_the_lock() -> None:
    call: Call[Any] = AB.give_back("m:+1", TTL, "b")
    assert (call.name, len(call.keys)) == ("a + b", 4)
