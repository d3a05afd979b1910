"""A floor that no fence can be is not believed: one forged message would use up all fences of every name."""

from __future__ import annotations

import pytest

from aiolock.scripts.multi import MultiCalls
from aiolock.scripts.outcomes import Granted
from tests.support.scripting import KEYS, Lock, Side

TTL = 30_000
HIGH = 2**51


@pytest.mark.parametrize("floor", [2**53, 10**20])
@pytest.mark.parametrize("calls", [Lock(), MultiCalls(KEYS, ("a", "b"))], ids=["lock", "multi"])
def test_of_an_acquire(calls: Lock | MultiCalls, floor: int, side: Side) -> None:
    for owner, given, minted in (("m:1", HIGH, HIGH + 1), ("m:2", floor, HIGH + 2), ("m:3", HIGH + 9, HIGH + 10)):
        granted = side.run(calls.acquire(owner, TTL, given, ""))
        assert isinstance(granted, Granted)
        assert granted.fence == minted
        side.run(calls.release(owner, TTL, 0, "clean", False))


def test_of_a_transfer(lock: Lock, side: Side) -> None:
    side.run(lock.acquire("m:1", TTL, HIGH, ""))
    moved = side.run(lock.transfer("m:1", HIGH + 1, "m:2", TTL, 10**20, "", False))
    assert isinstance(moved, Granted)
    assert moved.fence == HIGH + 2
