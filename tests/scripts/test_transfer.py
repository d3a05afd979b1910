"""What the header of transfer.lua promises, line by line, of the Lua and of its twin."""

from __future__ import annotations

import pytest

from aiolock.errors import LossReason
from aiolock.scripts.keys import DIRTY_MS, GRACE_MS
from aiolock.scripts.outcomes import Finished, Granted, Missing
from tests.support.scripting import Lock, Side

TTL = 30_000
SLACK = 10_000
HIGH = 2**51
FENCE = HIGH + 1


@pytest.fixture
def held(side: Side, lock: Lock) -> Lock:
    """The lock, held by m:1 under `FENCE`."""
    side.run(lock.acquire("m:1", 2 * TTL, HIGH, "the first"))
    return lock


def test_moves_under_a_new_fence(side: Side, held: Lock) -> None:
    granted = side.run(held.transfer("m:1", FENCE, "m:2", TTL, 0, "the second", False))
    assert granted == Granted(FENCE + 1, TTL, abandoned=False)
    assert side.hash(held.key) == {"m:2": "1"}
    assert TTL - SLACK < side.pttl(held.key) <= TTL
    assert side.hash(held.state) == {
        "fence": str(FENCE + 1),
        "owner": "m:2",
        "clean": "0",
        "abandoned": "0",
        "metadata": "the second",
        "before": "0",  # of the acquire: only a quorum asks, which has no transfer
    }
    assert side.pttl(held.state) > DIRTY_MS - SLACK


def test_starts_at_depth_1(side: Side, held: Lock) -> None:
    """Guards `DEL KEYS[1]`: neither the old owner nor its depth stays."""
    side.run(held.acquire("m:1", TTL, 0, "", depth=3, fence=FENCE))
    side.run(held.transfer("m:1", FENCE, "m:2", TTL, 0, "", False))
    assert side.hash(held.key) == {"m:2": "1"}


def test_the_floor_counts(side: Side, held: Lock) -> None:
    granted = side.run(held.transfer("m:1", FENCE, "m:2", TTL, HIGH + 1000, "", False))
    assert isinstance(granted, Granted)
    assert granted.fence == HIGH + 1001


def test_a_copy_reads_its_own_grant(side: Side, held: Lock) -> None:
    """Guards the branch `state[2] == next`: the reply was lost, the request came twice (H2)."""
    call = held.transfer("m:1", FENCE, "m:2", TTL, 0, "", False)
    first, second = side.run(call), side.run(call)
    assert isinstance(first, Granted)
    assert isinstance(second, Granted)
    assert second._replace(pttl=first.pttl) == first
    assert side.hash(held.key) == {"m:2": "1"}


def test_a_late_copy_does_not_take_it_back(side: Side, held: Lock) -> None:
    call = held.transfer("m:1", FENCE, "m:2", TTL, 0, "", False)
    side.run(call)
    side.run(held.transfer("m:2", FENCE + 1, "m:3", TTL, 0, "", False))
    assert side.run(call) == Missing(LossReason.TAKEN_OVER)
    side.run(held.release("m:3", TTL, 0, "clean", False))
    assert side.run(call) == Missing(LossReason.DELETED)
    assert not side.exists(held.key)


def test_a_copy_after_the_next_lost_it_grants_nothing(side: Side, held: Lock) -> None:
    """Guards `HEXISTS KEYS[1], next`: the state still names it, the lock is gone."""
    call = held.transfer("m:1", FENCE, "m:2", TTL, 0, "", False)
    side.run(call)
    side.expire(held.key)
    assert side.run(call) == Missing(LossReason.DELETED)
    assert not side.exists(held.key)


def test_not_held(side: Side, lock: Lock) -> None:
    call = lock.transfer("m:1", FENCE, "m:2", TTL, 0, "", False)
    assert side.run(call) == Missing(LossReason.DELETED)
    side.run(lock.acquire("m:9", TTL, 0, ""))
    assert side.run(call) == Missing(LossReason.TAKEN_OVER)
    assert side.hash(lock.key) == {"m:9": "1"}


def test_another_fence(side: Side, held: Lock) -> None:
    """Guards `state[1] == fence`."""
    assert side.run(held.transfer("m:1", FENCE - 1, "m:2", TTL, 0, "", False)) == Missing(LossReason.TAKEN_OVER)
    assert side.hash(held.key) == {"m:1": "1"}


def test_says_that_somebody_polls(side: Side, held: Lock) -> None:
    """Guards `PTTL KEYS[5]`; and a copy says it, too."""
    side.run(held.acquire("m:3", TTL, 0, "", mark_ms=5000))
    call = held.transfer("m:1", FENCE, "m:2", TTL, 0, "", False)
    for _ in range(2):
        granted = side.run(call)
        assert isinstance(granted, Granted)
        assert 0 < granted.mark <= 5000
        assert granted.others == 0


def test_a_tombstone_of_the_next_refuses(side: Side, held: Lock) -> None:
    """Guards `EXISTS KEYS[4]`: whoever was to have it is gone; nothing moves."""
    side.run(held.release("m:2", TTL, 0, "undone", True))
    assert side.run(held.transfer("m:1", FENCE, "m:2", TTL, 0, "", True)) == Finished()
    assert side.hash(held.key) == {"m:1": "1"}


@pytest.mark.parametrize("held_by_it", [True, False])
def test_a_tainted_owner_leaves_a_tombstone(held_by_it: bool, side: Side, lock: Lock) -> None:
    """Guards the last line."""
    acquire = lock.acquire("m:1", TTL, HIGH, "")
    if held_by_it:
        side.run(acquire)
    side.run(lock.transfer("m:1", FENCE, "m:2", TTL, 0, "", True))
    assert TTL + GRACE_MS - SLACK < side.pttl(lock.dead("m:1")) <= TTL + GRACE_MS
    assert side.run(acquire) == Finished()


def test_tells_nobody_but_counts_who_listens(side: Side, held: Lock) -> None:
    """Guards `PUBSUB NUMSUB`: a hand-off in the process must not starve the others (H14)."""
    side.listen(held.channels[0])
    granted = side.run(held.transfer("m:1", FENCE, "m:2", TTL, 0, "", False))
    assert isinstance(granted, Granted)
    assert granted.others == 1
    assert side.heard() == []


def test_is_not_abandoned(side: Side, lock: Lock) -> None:
    side.run(lock.acquire("m:0", TTL, HIGH, ""))
    side.delete(lock.key)
    first = side.run(lock.acquire("m:1", TTL, HIGH, ""))
    assert isinstance(first, Granted)
    assert first.abandoned
    granted = side.run(lock.transfer("m:1", first.fence, "m:2", TTL, 0, "", False))
    assert isinstance(granted, Granted)
    assert not granted.abandoned
