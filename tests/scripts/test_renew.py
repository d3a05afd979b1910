"""What the header of renew.lua promises, line by line, of the Lua and of its twin."""

from __future__ import annotations

import pytest

from aiolock.errors import LossReason
from aiolock.scripts.keys import DIRTY_MS
from aiolock.scripts.lock import renew
from aiolock.scripts.outcomes import Failed, Missing, Renewed
from tests.support.scripting import Lock, Side

TTL = 30_000
SLACK = 10_000
HIGH = 2**51
FENCE = HIGH + 1


@pytest.fixture
def held(side: Side, lock: Lock) -> Lock:
    """The lock, held by m:1 under `FENCE`."""
    side.run(lock.acquire("m:1", TTL, HIGH, "me"))
    return lock


def test_extends(side: Side, held: Lock) -> None:
    assert side.run(renew([held.renewal("m:1", FENCE, 3 * TTL)])) == [Renewed(3 * TTL)]
    assert side.pttl(held.key) > 3 * TTL - SLACK
    assert side.hash(held.key) == {"m:1": "1"}


def test_never_shortens(side: Side, held: Lock) -> None:
    """Guards `if ttl > pttl`: a late renewal of a hold whose ttl has grown."""
    (renewed,) = side.run(renew([held.renewal("m:1", FENCE, 1_000)]))
    assert isinstance(renewed, Renewed)
    assert TTL - SLACK < renewed.pttl <= TTL
    assert side.pttl(held.key) > TTL - SLACK


def test_a_look_at_a_key_without_expiry_does_not_delete_it(side: Side, held: Lock) -> None:
    """Guards `ttl > 0`: PEXPIRE to 0 deletes. A fixed lease is looked at so, and somebody may have said PERSIST."""
    side.delete(held.key)
    side.hset(held.key, {"m:1": "1"})
    assert side.run(renew([held.renewal("m:1", FENCE, 0)])) == [Renewed(-1)]
    assert side.hash(held.key) == {"m:1": "1"}


def test_keeps_the_state_alive(side: Side, held: Lock) -> None:
    """Guards `PEXPIRE state`: a lock held for days must not lose its fence."""
    side.expire(held.state)
    side.hset(held.state, {"fence": str(FENCE), "owner": "m:1", "clean": "0", "abandoned": "0", "metadata": "me"})
    assert side.pttl(held.state) == -1
    side.run(renew([held.renewal("m:1", FENCE, TTL)]))
    assert DIRTY_MS - SLACK < side.pttl(held.state) <= DIRTY_MS


def test_never_creates(side: Side, lock: Lock) -> None:
    """Guards the branch `not count`."""
    assert side.run(renew([lock.renewal("m:1", FENCE, TTL)])) == [Missing(LossReason.DELETED)]
    assert not side.exists(lock.key)
    assert not side.exists(lock.state)


def test_held_by_another(side: Side, lock: Lock) -> None:
    side.run(lock.acquire("m:2", TTL, HIGH, ""))
    assert side.run(renew([lock.renewal("m:1", FENCE, 3 * TTL)])) == [Missing(LossReason.TAKEN_OVER)]
    assert side.pttl(lock.key) <= TTL


def test_another_fence_is_taken_over(side: Side, held: Lock) -> None:
    """Guards `known ~= fence`: the same owner, but not the grant its body stands on."""
    assert side.run(renew([held.renewal("m:1", FENCE - 1, 3 * TTL)])) == [Missing(LossReason.TAKEN_OVER)]
    assert side.pttl(held.key) <= TTL


def test_writes_a_lost_state_again(side: Side, held: Lock) -> None:
    """Guards the HSET: the fence must survive that its hash was evicted under a live hold."""
    side.delete(held.state)
    assert isinstance(side.run(renew([held.renewal("m:1", FENCE, TTL)]))[0], Renewed)
    assert side.hash(held.state) == {"fence": str(FENCE), "owner": "m:1", "clean": "0", "abandoned": "0"}
    assert side.pttl(held.state) > DIRTY_MS - SLACK


@pytest.mark.parametrize("which", ["key", "state"])
@pytest.mark.parametrize("at", [0, 1, 2])
def test_one_bad_key_spoils_no_other(which: str, at: int, side: Side) -> None:
    """Guards the pcall: one key of another type must not cost every other lease (C5)."""
    locks = [Lock(f"n{i}") for i in range(3)]
    for lock in locks:
        side.run(lock.acquire("m:1", TTL, HIGH, ""))
    bad = locks[at].key if which == "key" else locks[at].state
    side.delete(bad)
    side.set(bad, "a string")
    answers = side.run(renew(lock.renewal("m:1", FENCE, 3 * TTL) for lock in locks))
    for i, (lock, answer) in enumerate(zip(locks, answers, strict=True)):
        if i == at:
            assert isinstance(answer, Failed)
            assert answer.error.startswith("WRONGTYPE")
        else:
            assert answer == Renewed(3 * TTL)
            assert side.pttl(lock.key) > 3 * TTL - SLACK


def test_judges_each_by_itself(side: Side) -> None:
    held, gone, taken = Lock("held"), Lock("gone"), Lock("taken")
    side.run(held.acquire("m:1", TTL, HIGH, ""))
    side.run(taken.acquire("m:2", TTL, HIGH, ""))
    answers = side.run(renew(lock.renewal("m:1", FENCE, 2 * TTL) for lock in (gone, held, taken)))
    assert answers == [Missing(LossReason.DELETED), Renewed(2 * TTL), Missing(LossReason.TAKEN_OVER)]


def test_a_copy_extends_again(side: Side, held: Lock) -> None:
    call = renew([held.renewal("m:1", FENCE, 2 * TTL)])
    first, second = side.run(call)[0], side.run(call)[0]
    assert isinstance(first, Renewed)
    assert isinstance(second, Renewed)
    assert side.hash(held.key) == {"m:1": "1"}


def test_none(side: Side) -> None:
    assert side.run(renew([])) == []
