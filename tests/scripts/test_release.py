"""What the header of release.lua promises, line by line, of the Lua and of its twin."""

from __future__ import annotations

import pytest

from aiolock.errors import LossReason
from aiolock.scripts.base import Call, Ending
from aiolock.scripts.keys import DIRTY_MS, GRACE_MS
from aiolock.scripts.lock.args import ReleaseArgs
from aiolock.scripts.outcomes import Finished, Granted, Kept, Missing, Released
from tests.support.scripting import Lock, Side
from tests.support.scripting import Refused as Failure

TTL = 30_000
SLACK = 10_000
HIGH = 2**51


def test_frees_and_tells_who_waits(side: Side, lock: Lock) -> None:
    side.listen(lock.channels[0])
    side.run(lock.acquire("m:1", TTL, HIGH, ""))
    assert side.run(lock.release("m:1", TTL, 0, "clean", False)) == Released(HIGH + 1)
    assert not side.exists(lock.key)
    assert side.heard() == [(lock.channels[0], f"m:1 {HIGH + 1}")]


def test_what_a_request_leaves_out_is_the_default(side: Side, lock: Lock) -> None:
    short = lock.release("m:1", TTL, 0, "clean", False)
    assert len(short.keys) + len(short.args) == 6
    for call in (short, Call(short.name, short.script, short.keys, ReleaseArgs.of(short))):
        side.run(lock.acquire("m:1", TTL, HIGH, ""))
        assert isinstance(side.run(call), Released)
        assert side.hash(lock.state)["clean"] == "1"
        assert not side.exists(lock.dead("m:1"))


def test_lowers_the_depth(side: Side, lock: Lock) -> None:
    side.listen(lock.channels[0])
    side.run(lock.acquire("m:1", TTL, HIGH, ""))
    side.run(lock.acquire("m:1", TTL, 0, "", depth=3, fence=HIGH + 1))
    kept = side.run(lock.release("m:1", TTL, 1, "clean", False))
    assert isinstance(kept, Kept)
    assert TTL - SLACK < kept.pttl <= TTL
    assert side.hash(lock.key) == {"m:1": "1"}
    assert side.pttl(lock.key) > TTL - SLACK
    assert side.heard() == []


def test_a_late_copy_does_not_raise_the_depth(side: Side, lock: Lock) -> None:
    """Guards `left < tonumber(count)`."""
    side.run(lock.acquire("m:1", TTL, HIGH, ""))
    assert isinstance(side.run(lock.release("m:1", TTL, 2, "clean", False)), Kept)
    assert side.hash(lock.key) == {"m:1": "1"}


def test_keeps_a_lock_without_expiry_without_expiry(side: Side, lock: Lock) -> None:
    """Guards `if pttl > 0`: PEXPIRE with -1 would delete the lock under its body."""
    side.hset(lock.key, {"m:1": "2"})
    assert side.run(lock.release("m:1", TTL, 1, "clean", False)) == Kept(-1)
    assert side.hash(lock.key) == {"m:1": "1"}


def test_a_clean_state_lives_for_the_ttl_and_a_minute(side: Side, lock: Lock) -> None:
    """Guards `PEXPIRE KEYS[2], ARGV[2]`."""
    side.run(lock.acquire("m:1", TTL, 0, ""))
    side.run(lock.release("m:1", TTL, 0, "clean", False))
    assert side.hash(lock.state)["clean"] == "1"
    assert TTL + GRACE_MS - SLACK < side.pttl(lock.state) <= TTL + GRACE_MS


@pytest.mark.parametrize(
    ("ending", "before", "after"),
    [
        ("clean", "clean", False),
        ("clean", "abandoned", False),
        ("undone", "clean", False),
        ("undone", "abandoned", True),
        ("dirty", "clean", True),
        ("dirty", "abandoned", True),
    ],
)
def test_endings(ending: Ending, before: str, after: bool, side: Side, lock: Lock) -> None:
    """Guards the condition on `ending`: an undo restores the cleanness it found (H3), a loss leaves dirt."""
    side.run(lock.acquire("m:0", TTL, 0, ""))
    if before == "clean":
        side.run(lock.release("m:0", TTL, 0, "clean", False))
    else:
        side.delete(lock.key)
    side.run(lock.acquire("m:1", TTL, 0, ""))
    side.run(lock.release("m:1", TTL, 0, ending, False))
    if after:
        assert side.pttl(lock.state) > DIRTY_MS - SLACK
    granted = side.run(lock.acquire("m:2", TTL, 0, ""))
    assert isinstance(granted, Granted)
    assert granted.abandoned == after


def test_a_copy_of_a_clean_release_answers_released(side: Side, lock: Lock) -> None:
    """Guards `HGET KEYS[2], 'clean'`: a lost reply must not look like a lost lock (H10)."""
    side.listen(lock.channels[0])
    side.run(lock.acquire("m:1", TTL, HIGH, ""))
    call = lock.release("m:1", TTL, 0, "clean", False)
    assert side.run(call) == side.run(call) == Released(HIGH + 1)
    assert len(side.heard()) == 1


@pytest.mark.parametrize("ending", ["undone", "dirty"])
def test_a_copy_of_another_ending(ending: Ending, side: Side, lock: Lock) -> None:
    side.run(lock.acquire("m:0", TTL, 0, ""))
    side.delete(lock.key)
    side.run(lock.acquire("m:1", TTL, 0, ""))
    call = lock.release("m:1", TTL, 0, ending, False)
    assert isinstance(side.run(call), Released)
    assert side.run(call) == Missing(LossReason.DELETED)


def test_a_copy_never_frees_the_next_holders_lock(side: Side, lock: Lock) -> None:
    side.run(lock.acquire("m:1", TTL, 0, ""))
    call = lock.release("m:1", TTL, 0, "clean", False)
    side.run(call)
    side.run(lock.acquire("m:2", TTL, 0, ""))
    assert side.run(call) == Missing(LossReason.TAKEN_OVER)
    assert side.hash(lock.key) == {"m:2": "1"}
    assert side.hash(lock.state)["clean"] == "0"


def test_a_copy_after_the_next_holders_clean_release_is_missing(side: Side, lock: Lock) -> None:
    """Guards `not last`: what is clean is not this owner's end."""
    for owner in ("m:1", "m:2"):
        side.run(lock.acquire(owner, TTL, 0, ""))
        side.run(lock.release(owner, TTL, 0, "clean", False))
    assert side.run(lock.release("m:1", TTL, 0, "clean", False)) == Missing(LossReason.DELETED)


@pytest.mark.parametrize("left", [0, 1])
def test_missing_says_why(left: int, side: Side, lock: Lock) -> None:
    call = lock.release("m:1", TTL, left, "clean", False)
    assert side.run(call) == Missing(LossReason.DELETED)
    side.run(lock.acquire("m:2", TTL, 0, ""))
    assert side.run(call) == Missing(LossReason.TAKEN_OVER)


def test_a_nested_release_of_an_ended_owner_is_missing(side: Side, lock: Lock) -> None:
    """Guards `left > 0` in the answer to copies."""
    side.run(lock.acquire("m:1", TTL, 0, ""))
    side.run(lock.release("m:1", TTL, 0, "clean", False))
    assert side.run(lock.release("m:1", TTL, 1, "clean", False)) == Missing(LossReason.DELETED)


@pytest.mark.parametrize("held", [True, False])
def test_a_tainted_owner_leaves_a_tombstone(held: bool, side: Side, lock: Lock) -> None:
    """Guards the last line, held or not: the request it overtook must not create the lock again (C4)."""
    acquire = lock.acquire("m:1", TTL, 0, "")
    if held:
        side.run(acquire)
    side.run(lock.release("m:1", TTL, 0, "undone", True))
    assert TTL + GRACE_MS - SLACK < side.pttl(lock.dead("m:1")) <= TTL + GRACE_MS
    assert side.run(acquire) == Finished()


def test_an_untainted_owner_leaves_none(side: Side, lock: Lock) -> None:
    side.run(lock.acquire("m:1", TTL, 0, ""))
    side.run(lock.release("m:1", TTL, 0, "clean", False))
    assert not side.exists(lock.dead("m:1"))


@pytest.mark.parametrize("held", [True, False])
def test_a_tainted_nested_release_leaves_none(held: bool, side: Side, lock: Lock) -> None:
    """Guards `left == 0` on the tombstone: the owner goes on, or learns by itself that it is gone."""
    if held:
        side.run(lock.acquire("m:1", TTL, HIGH, ""))
    side.run(lock.release("m:1", TTL, 1, "clean", True))
    assert not side.exists(lock.dead("m:1"))


def test_frees_a_lock_whose_state_was_lost(side: Side, lock: Lock) -> None:
    side.run(lock.acquire("m:1", TTL, 0, ""))
    side.delete(lock.state)
    side.listen(lock.channels[0])
    assert side.run(lock.release("m:1", TTL, 0, "clean", False)) == Released(0)
    assert side.heard() == [(lock.channels[0], "m:1 0")]
    assert not side.exists(lock.key)
    assert not side.exists(lock.state)


def test_leaves_another_owners_state_alone(side: Side, lock: Lock) -> None:
    """Guards `last`: only the last grant's owner may call it clean."""
    side.run(lock.acquire("m:1", TTL, 0, ""))
    side.hset(lock.state, {"owner": "m:2"})
    side.run(lock.release("m:1", TTL, 0, "clean", False))
    assert side.hash(lock.state)["clean"] == "0"


def test_a_lock_of_another_type_is_an_error(side: Side, lock: Lock) -> None:
    side.set(lock.key, "a string")
    with pytest.raises(Failure, match="WRONGTYPE"):
        side.run(lock.release("m:1", TTL, 0, "clean", False))
    assert side.exists(lock.key)
