"""The multi lock's scripts: what their headers promise, on both sides."""

from __future__ import annotations

import pytest

from aiolock.errors import LossReason
from aiolock.scripts.keys import DIRTY_MS, GRACE_MS
from aiolock.scripts.multi import MultiCalls, joined, renew
from aiolock.scripts.outcomes import Failed, Finished, Granted, Kept, Lost, Missing, Refused, Released, Renewed
from tests.support.scripting import KEYS, Lock, Side
from tests.support.scripting import Refused as Failure

TTL = 30_000
HIGH = 2**51
FENCE = HIGH + 1
A, B, C = Lock("a"), Lock("b"), Lock("c")
AB, BC = MultiCalls(KEYS, ["a", "b"]), MultiCalls(KEYS, ["b", "c"])
TAKE = AB.acquire("m:+1", TTL, HIGH, "me")
FREE = AB.release("m:+1", TTL, 0, "clean", False)


def take(side: Side) -> int:
    granted = side.run(TAKE)
    assert isinstance(granted, Granted)
    return granted.fence


def owners(side: Side) -> list[dict[str, str]]:
    return [side.hash(lock.key) for lock in (A, B)]


def states(side: Side, field: str) -> list[str]:
    return [side.hash(lock.state)[field] for lock in (A, B)]


def test_all_are_granted_under_one_fence_above_every_earlier_one(side: Side) -> None:
    """Kept by read.lua: `highest`."""
    plain = side.run(B.acquire("m:1", TTL, HIGH + 40, ""))
    assert isinstance(plain, Granted)
    side.run(B.release("m:1", TTL, 0, "clean", False))
    assert side.run(TAKE) == Granted(plain.fence + 1, TTL, False)
    assert owners(side) == [{"m:+1": "1"}] * 2
    assert states(side, "fence") == [str(plain.fence + 1)] * 2
    for lock in (A, B):
        assert TTL - 5000 < side.pttl(lock.key) <= TTL
        assert DIRTY_MS - 5000 < side.pttl(lock.state) <= DIRTY_MS
    assert side.run(TAKE) == Granted(plain.fence + 1, TTL, False)


@pytest.mark.parametrize("taken", [A, B])
def test_none_is_granted_while_one_is_held(taken: Lock, side: Side) -> None:
    """Kept by acquire.lua: `if blocker`."""
    side.run(taken.acquire("m:1", TTL, HIGH, "they"))
    refused = side.run(AB.acquire("m:+1", TTL, 0, "me"))
    assert isinstance(refused, Refused)
    assert (refused.fence, refused.holder, refused.part) == (FENCE, "they", taken.name)
    assert TTL - 5000 < refused.pttl <= TTL
    free = B if taken is A else A
    assert not side.exists(free.key)
    assert not side.exists(free.state)


def test_a_refusal_tells_the_longest_wait_and_the_highest_fence(side: Side) -> None:
    side.run(A.acquire("m:1", TTL, HIGH + 9, "first"))
    side.run(B.acquire("m:2", 3 * TTL, HIGH, "second"))
    refused = side.run(TAKE)
    assert isinstance(refused, Refused)
    assert (refused.fence, refused.holder, refused.part) == (HIGH + 10, "first", "a")
    assert refused.pttl > 2 * TTL
    side.delete(A.key)
    side.hset(A.key, {"m:3": "1"})  # without expiry
    refused = side.run(TAKE)
    assert isinstance(refused, Refused)
    assert refused.pttl == -1


def test_it_excludes_the_plain_lock_and_overlapping_sets(side: Side) -> None:
    take(side)
    for call in (A.acquire("n:1", TTL, 0, ""), B.acquire("n:1", TTL, 0, ""), BC.acquire("n:+2", TTL, 0, "")):
        refused = side.run(call)
        assert isinstance(refused, Refused)
        assert refused.holder == "me"
    assert not side.exists(C.key)


def test_depth_counts_in_every_part(side: Side) -> None:
    fence = take(side)
    assert side.run(AB.acquire("m:+1", 2 * TTL, 0, "", depth=2, fence=fence)) == Granted(fence, 2 * TTL, False)
    assert owners(side) == [{"m:+1": "2"}] * 2
    assert isinstance(side.run(AB.release("m:+1", TTL, 1, "clean", False)), Kept)
    assert owners(side) == [{"m:+1": "1"}] * 2
    assert side.run(FREE) == Released(fence, 0)
    assert owners(side) == [{}, {}]


@pytest.mark.parametrize(("depth", "fence"), [(1, 0), (2, FENCE)])
def test_an_owner_that_lost_a_part_gets_nothing_more(depth: int, fence: int, side: Side) -> None:
    """A late copy must not take a name again that was freed since, below the fences granted on it meanwhile.

    Kept by acquire.lua: `seen.mine > 0`.
    """
    take(side)
    side.delete(B.key)
    again = AB.acquire("m:+1", TTL, HIGH, "me", depth=depth, fence=fence)
    assert side.run(again) == Lost(LossReason.DELETED)
    assert not side.exists(B.key)
    side.run(B.acquire("n:1", TTL, 0, ""))
    assert side.run(again) == Lost(LossReason.TAKEN_OVER)
    assert owners(side) == [{"m:+1": "1"}, {"n:1": "1"}]


def test_nested_without_a_hold_is_lost(side: Side) -> None:
    assert side.run(AB.acquire("m:+1", TTL, 0, "", depth=2, fence=5)) == Lost(LossReason.DELETED)
    assert not side.exists(A.key)


def test_a_lost_state_is_written_again_with_the_fence_of_the_others(side: Side) -> None:
    fence = take(side)
    side.delete(A.state)
    assert side.run(TAKE) == Granted(fence, TTL, False)
    assert states(side, "fence") == [str(fence)] * 2


@pytest.mark.parametrize("ending", ["clean", "undone", "dirty"])
def test_each_part_ends_as_a_plain_lock(ending: str, side: Side) -> None:
    """A part that was found dirty stays so when nobody entered. Kept by acquire.lua: `left` is a part's own."""
    side.run(A.acquire("m:1", TTL, HIGH, ""))
    side.delete(A.key)
    granted = side.run(TAKE)
    assert isinstance(granted, Granted)
    assert granted.abandoned
    assert isinstance(side.run(AB.release("m:+1", TTL, 0, ending, False)), Released)  # type: ignore[arg-type]
    clean = {"clean": ["1", "1"], "undone": ["0", "1"], "dirty": ["0", "0"]}[ending]
    assert states(side, "clean") == clean
    assert (side.pttl(B.state) <= TTL + GRACE_MS) == (ending != "dirty")


def test_a_release_tells_every_channel_and_counts_who_listens(side: Side) -> None:
    side.listen(A.channels[0])
    fence = take(side)
    assert side.run(FREE) == Released(fence, 1)
    assert side.heard() == [(A.channels[0], f"m:+1 {fence}")]
    assert side.run(FREE) == Released(fence, 0)  # a copy
    assert side.heard() == []


@pytest.mark.parametrize("lost", [A, B])
def test_a_release_frees_what_is_left(lost: Lock, side: Side) -> None:
    take(side)
    side.delete(lost.key)
    side.run(lost.acquire("n:1", TTL, HIGH, ""))
    assert side.run(FREE) == Missing(LossReason.TAKEN_OVER)
    assert side.run(FREE) == Missing(LossReason.TAKEN_OVER)
    assert owners(side) == ([{"n:1": "1"}, {}] if lost is A else [{}, {"n:1": "1"}])


@pytest.mark.parametrize("spoiled", [A, B])
def test_a_part_that_cannot_be_read_keeps_no_other_from_being_freed(spoiled: Lock, side: Side) -> None:
    """Kept by release.lua: `pcall(part, …)`."""
    take(side)
    side.set(spoiled.key, "a string")
    with pytest.raises(Failure, match="WRONGTYPE"):
        side.run(FREE)
    assert not side.exists((B if spoiled is A else A).key)
    side.delete(spoiled.key)
    side.set(spoiled.state, "a string")
    with pytest.raises(Failure, match="WRONGTYPE"):
        side.run(TAKE)
    assert not side.exists(A.key)
    assert not side.exists(B.key)


def test_a_tainted_owner_is_buried(side: Side) -> None:
    take(side)
    assert isinstance(side.run(AB.release("m:+1", TTL, 0, "undone", True)), Released)
    assert side.run(TAKE) == Finished()
    assert 0 < side.pttl(A.dead("m:+1")) <= TTL + GRACE_MS


def test_renewals_are_judged_by_hold(side: Side) -> None:
    """A hold is lost with one part, and its neighbours in the request are not."""
    fence = take(side)
    other = MultiCalls(KEYS, ["c"])
    side.run(other.acquire("m:+2", TTL, HIGH, ""))
    batch = [AB.renewal("m:+1", fence, 2 * TTL), other.renewal("m:+2", FENCE, 2 * TTL)]
    assert side.run(renew(batch)) == [Renewed(2 * TTL), Renewed(2 * TTL)]
    side.delete(A.key)
    assert side.run(renew(batch)) == [Missing(LossReason.DELETED), Renewed(2 * TTL)]
    side.run(A.acquire("n:1", TTL, 0, ""))
    side.delete(B.key)
    assert side.run(renew(batch[:1])) == [Missing(LossReason.TAKEN_OVER)]


def test_a_renewal_answers_the_shortest_and_never_shortens(side: Side) -> None:
    fence = take(side)
    side.run(renew([MultiCalls(KEYS, ["b"]).renewal("m:+1", fence, 4 * TTL)]))
    (looked_at,) = side.run(renew([AB.renewal("m:+1", fence, 0)]))
    assert isinstance(looked_at, Renewed)
    assert TTL - 5000 < looked_at.pttl <= TTL
    assert side.run(renew([AB.renewal("m:+1", fence, 2 * TTL)])) == [Renewed(2 * TTL)]
    assert side.pttl(B.key) > 3 * TTL


def test_a_spoiled_part_is_no_verdict_and_the_others_are_renewed(side: Side) -> None:
    fence = take(side)
    side.set(A.key, "a string")
    (answer,) = side.run(renew([AB.renewal("m:+1", fence, 2 * TTL)]))
    assert isinstance(answer, Failed)
    assert "WRONGTYPE" in answer.error
    assert side.pttl(B.key) > TTL
    side.delete(B.key)  # which is one
    assert side.run(renew([AB.renewal("m:+1", fence, 2 * TTL)])) == [Missing(LossReason.DELETED)]


def test_info_is_of_each_name(side: Side) -> None:
    side.run(B.acquire("m:1", TTL, HIGH, "me"))
    free, held = side.run(AB.info())
    assert free is None
    assert held is not None
    assert (held.owner, held.depth, held.fence, held.holder) == ("m:1", 1, FENCE, "me")


def test_no_two_sets_have_one_name() -> None:
    sets = [("a", "b"), ("a + b",), ("a +", "+ b"), ("a ", "b"), ("a", " b"), ("a+", "b"), ("a", "+b"), ("a++b",)]
    assert len({joined(names) for names in sets}) == len(sets)
