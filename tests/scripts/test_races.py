"""What the lock's scripts announce of a release where there is no queue, as a quorum's managers ask them to."""

from __future__ import annotations

import pytest

from aiolock.scripts.base import Ending
from aiolock.scripts.bid import Bid
from aiolock.scripts.lock import LockCalls
from aiolock.scripts.outcomes import Kept, Missing, Released
from tests.support.locks import KEYS, held
from tests.support.scripting import Side

TTL = 30_000
FENCE = 2**51 + 1
"""The fence of a grant that was requested with the floor below."""


@pytest.fixture
def calls() -> LockCalls:
    return LockCalls(KEYS, "order:42", 3_000, races=True)


@pytest.fixture
def free(side: Side, calls: LockCalls) -> str:
    """The channel that announces releases, while m:1 holds the name."""
    channel = calls.free_channel
    side.listen(channel)
    side.run(calls.acquire(Bid("m:1", TTL, FENCE - 1, "m 1")))
    return channel


@pytest.mark.parametrize("ending", ["clean", "undone", "dirty"])
def test_a_release_is_announced_once(side: Side, calls: LockCalls, free: str, ending: Ending) -> None:
    """Guards `PUBLISH` of ARGV[7]: a copy, which finds nothing to release, announces nothing."""
    assert side.run(calls.release("m:1", TTL, 0, ending, False)) == Released(FENCE, heard=True)
    assert isinstance(side.run(calls.release("m:1", TTL, 0, ending, True)), Missing)
    assert side.heard() == [(free, f"m:1 {FENCE}")]


def test_one_level_less_is_not(side: Side, calls: LockCalls, free: str) -> None:
    side.run(calls.nest("m:1", FENCE, TTL, 2))
    assert isinstance(side.run(calls.release("m:1", TTL, 1, "clean", False)), Kept)
    assert side.heard() == []


def test_what_was_not_held_is_not(side: Side, calls: LockCalls, free: str) -> None:
    assert isinstance(side.run(calls.release("m:2", TTL, 0, "undone", True)), Missing)
    assert side.heard() == []


def test_a_forced_release_is(side: Side, calls: LockCalls, free: str) -> None:
    """In no owner's name, so that everyone who hears of it asks. Guards `PUBLISH` of ARGV[3]."""
    assert not side.run(calls.force_release(FENCE + 1))
    assert side.heard() == []
    assert side.run(calls.force_release())
    assert not held(side)
    assert side.heard() == [(free, f"force {FENCE}")]
    assert not side.run(calls.force_release())
    assert side.heard() == []


def test_nothing_is_announced_otherwise(side: Side, free: str) -> None:
    """With a queue on the server, it tells the next in line."""
    calls = LockCalls(KEYS, "order:42", 3_000)
    assert calls.free_channel == ""
    side.run(calls.release("m:1", TTL, 0, "clean", False))
    side.run(calls.acquire(Bid("m:2", TTL, 0, "")))
    side.run(calls.force_release())
    assert side.heard() == []
