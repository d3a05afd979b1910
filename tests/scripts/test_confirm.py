"""What the header of confirm.lua promises, of the Lua and of its twin."""

from __future__ import annotations

import pytest

from aiolock.scripts.base import Call
from aiolock.scripts.lock import confirm
from aiolock.scripts.outcomes import Missing, Renewed
from tests.support.scripting import Lock, Side

TTL = 30_000
HIGH = 2**51
MINTED = HIGH + 1


def request(lock: Lock, agreed: int, minted: int = MINTED, owner: str = "m:1") -> Call[bool]:
    return confirm(lock.acquire(owner, TTL, 0, ""), minted, agreed)


@pytest.mark.parametrize("agreed", [MINTED + 5, MINTED, MINTED - 5])
def test_the_agreed_fence_takes_the_place_of_the_minted_one(side: Side, lock: Lock, agreed: int) -> None:
    side.run(lock.acquire("m:1", TTL, HIGH, "me"))
    for _ in range(2):  # a copy answers the same
        assert side.run(request(lock, agreed)) is True
        assert side.hash(lock.state)["fence"] == str(agreed)
    (renewed,) = side.run(lock.batch([lock.renewal("m:1", agreed, TTL)]))
    assert isinstance(renewed, Renewed)
    (renewed,) = side.run(lock.batch([lock.renewal("m:1", MINTED + 1, TTL)]))
    assert isinstance(renewed, Missing)


def test_the_next_grant_is_above_it(side: Side, lock: Lock) -> None:
    """H8: what a write-back is for. Guards `HSET KEYS[2] fence agreed`."""
    side.run(lock.acquire("m:1", TTL, HIGH, ""))
    side.run(request(lock, MINTED + 100))
    side.run(lock.release("m:1", TTL, 0, "clean", False))
    assert side.run(lock.acquire("m:2", TTL, 0, "")).fence == MINTED + 101  # type: ignore[union-attr]


def test_it_raises_no_fence_of_another(side: Side, lock: Lock) -> None:
    """A copy that comes late. Guards `state[2] ~= owner`."""
    side.run(lock.acquire("m:1", TTL, HIGH, ""))
    side.run(lock.release("m:1", TTL, 0, "clean", False))
    assert side.run(request(lock, MINTED + 100)) is False
    side.run(lock.acquire("m:2", TTL, 0, ""))
    found = side.hash(lock.state)
    assert side.run(request(lock, MINTED + 100)) is False
    assert side.hash(lock.state) == found


def test_it_never_goes_below_what_an_earlier_holder_had(side: Side, lock: Lock) -> None:
    """A slow node: its acquire ran after its owner had lost the lock to m:2, and m:2 was here. Guards `state[3]`."""
    side.run(lock.acquire("m:2", TTL, HIGH + 50, ""))
    side.run(lock.release("m:2", TTL, 0, "clean", False))
    side.run(lock.acquire("m:1", TTL, 0, ""))
    minted = HIGH + 52
    assert side.run(request(lock, HIGH + 50, minted)) is False
    assert side.hash(lock.state)["fence"] == str(minted)
    assert side.run(request(lock, HIGH + 51, minted)) is True
    assert side.hash(lock.state)["fence"] == str(HIGH + 51)


def test_it_lowers_nothing_that_was_minted_since(side: Side, lock: Lock) -> None:
    """The owner is there again, under a later fence. Guards `state[1] == minted`."""
    side.run(lock.acquire("m:1", TTL, HIGH, ""))
    side.run(lock.release("m:1", TTL, 0, "clean", False))
    side.run(lock.acquire("m:1", TTL, HIGH + 50, ""))
    assert side.run(request(lock, MINTED - 5)) is False
    assert side.hash(lock.state)["fence"] == str(HIGH + 51)


def test_a_lost_state_is_not_confirmed(side: Side, lock: Lock) -> None:
    side.run(lock.acquire("m:1", TTL, HIGH, ""))
    side.delete(lock.state)
    assert side.run(request(lock, MINTED + 1)) is False
    assert not side.exists(lock.state)
