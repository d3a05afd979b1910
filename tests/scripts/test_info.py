"""What the header of info.lua promises, of the Lua and of its twin."""

from __future__ import annotations

from aiolock.scripts.outcomes import Held
from tests.support.scripting import Lock, Side

TTL = 30_000
SLACK = 10_000
HIGH = 2**51


def test_of_a_free_lock(side: Side, lock: Lock) -> None:
    assert side.run(lock.info()) is None
    side.run(lock.acquire("m:1", TTL, HIGH, "me"))
    side.run(lock.release("m:1", TTL, 0, "clean", False))
    assert side.run(lock.info()) is None


def test_of_a_held_lock(side: Side, lock: Lock) -> None:
    side.run(lock.acquire("m:1", TTL, HIGH, "me, née ☃"))
    side.run(lock.acquire("m:1", TTL, 0, "", depth=2, fence=HIGH + 1))
    held = side.run(lock.info())
    assert held is not None
    assert held._replace(pttl=0) == Held("m:1", 2, 0, HIGH + 1, "me, née ☃")
    assert TTL - SLACK < held.pttl <= TTL


def test_of_a_lock_without_state(side: Side, lock: Lock) -> None:
    side.hset(lock.key, {"m:1": "1"})
    assert side.run(lock.info()) == Held("m:1", 1, -1, 0, "")


def test_reads_only(side: Side, lock: Lock) -> None:
    side.run(lock.info())
    assert not side.exists(lock.key)
    assert not side.exists(lock.state)
