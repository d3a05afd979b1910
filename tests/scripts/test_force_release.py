"""What the header of force_release.lua promises, line by line, of the Lua and of its twin."""

from __future__ import annotations

import pytest

from aiolock.scripts.outcomes import Granted, Missing
from tests.support.scripting import Lock, Side
from tests.support.scripting import Refused as Failure

TTL = 30_000
HIGH = 2**51
FENCE = HIGH + 1


@pytest.mark.parametrize("fence", [0, FENCE])
def test_frees_and_tells_the_holder_and_who_waits(fence: int, side: Side, lock: Lock) -> None:
    side.run(lock.acquire("m:1", TTL, HIGH, ""))
    side.listen(lock.channels[0], lock.manager("m"))
    assert side.run(lock.force_release(fence)) is True
    assert not side.exists(lock.key)
    assert side.heard() == [(lock.manager("m"), f"revoked m:1 {FENCE}"), (lock.channels[0], f"force {FENCE}")]


def test_another_fence_is_left_alone(side: Side, lock: Lock) -> None:
    """Guards the comparison with ARGV[1]: who was looked at has gone, and another holds (H9)."""
    side.listen(lock.channels[0], lock.manager("m"))
    side.run(lock.acquire("m:1", TTL, HIGH, ""))
    assert side.run(lock.force_release(FENCE - 1)) is False
    assert side.hash(lock.key) == {"m:1": "1"}
    assert side.heard() == []


def test_a_free_lock(side: Side, lock: Lock) -> None:
    side.listen(lock.channels[0])
    assert side.run(lock.force_release()) is False
    assert side.heard() == []


def test_leaves_it_dirty(side: Side, lock: Lock) -> None:
    side.run(lock.acquire("m:1", TTL, 0, ""))
    side.run(lock.force_release())
    assert isinstance(side.run(lock.release("m:1", TTL, 0, "clean", False)), Missing)
    granted = side.run(lock.acquire("m:2", TTL, 0, ""))
    assert isinstance(granted, Granted)
    assert granted.abandoned


def test_frees_a_lock_without_state(side: Side, lock: Lock) -> None:
    side.hset(lock.key, {"m:1": "1"})
    side.listen(lock.manager("m"))
    assert side.run(lock.force_release()) is True
    assert side.heard() == [(lock.manager("m"), "revoked m:1 0")]


def test_a_key_of_another_type_is_an_error(side: Side, lock: Lock) -> None:
    side.set(lock.key, "a string")
    with pytest.raises(Failure, match="WRONGTYPE"):
        side.run(lock.force_release())
    assert side.exists(lock.key)
