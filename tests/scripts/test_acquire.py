"""What the header of acquire.lua promises, line by line, of the Lua and of its twin."""

from __future__ import annotations

import time
from itertools import pairwise

import pytest

from aiolock.errors import LossReason
from aiolock.scripts.base import Call
from aiolock.scripts.keys import DIRTY_MS, GRACE_MS
from aiolock.scripts.lock import ACQUIRE
from aiolock.scripts.lock.args import AcquireArgs
from aiolock.scripts.outcomes import Finished, Granted, Lost, Refused
from tests.support.scripting import Lock, LuaSide, Side
from tests.support.scripting import Refused as Failure

TTL = 30_000
SLACK = 10_000
HIGH = 2**51
"""A floor above any server's time: what is minted is the floor and one."""


def test_grants_a_free_lock(side: Side, lock: Lock) -> None:
    granted = side.run(lock.acquire("m:1", TTL, HIGH, "me"))
    assert granted == Granted(HIGH + 1, TTL, abandoned=False)
    assert side.hash(lock.key) == {"m:1": "1"}
    assert TTL - SLACK < side.pttl(lock.key) <= TTL
    assert side.hash(lock.state) == {
        "fence": str(HIGH + 1),
        "owner": "m:1",
        "clean": "0",
        "abandoned": "0",
        "metadata": "me",
        "before": "0",
    }


def test_a_dirty_state_lives_for_a_day(side: Side, lock: Lock) -> None:
    """Guards `PEXPIRE KEYS[2]`: a million names must leave nothing behind for longer."""
    side.run(lock.acquire("m:1", TTL, 0, ""))
    assert DIRTY_MS - SLACK < side.pttl(lock.state) <= DIRTY_MS


def test_the_state_outlives_a_long_lock(side: Side, lock: Lock) -> None:
    """Guards `ttl + 60000`; as text, which some servers write 1e+08 where they are given the number."""
    ttl = 10**8 - GRACE_MS
    side.run(lock.acquire("m:1", ttl, 0, ""))
    assert ttl + GRACE_MS - SLACK < side.pttl(lock.state) <= ttl + GRACE_MS


def test_what_a_request_leaves_out_is_the_default(side: Side, lock: Lock) -> None:
    short = lock.acquire("m:1", TTL, HIGH, "me")
    assert len(short.keys) + len(short.args) == 7
    long = Call(short.name, short.script, short.keys, AcquireArgs.of(short))
    granted = side.run(long)
    assert granted == Granted(HIGH + 1, TTL, abandoned=False)
    assert side.run(short)._replace(pttl=TTL) == granted  # type: ignore[union-attr]


def test_refuses_and_says_who_has_it(side: Side, lock: Lock) -> None:
    """Guards `if not count and depth == 1`: or two hold."""
    side.run(lock.acquire("m:1", TTL, HIGH, "the first"))
    refused = side.run(lock.acquire("m:2", TTL, 0, "the second"))
    assert isinstance(refused, Refused)
    assert refused._replace(pttl=0) == Refused(0, HIGH + 1, "the first")
    assert TTL - SLACK < refused.pttl <= TTL
    assert side.hash(lock.key) == {"m:1": "1"}


def test_refuses_where_the_lock_never_expires(side: Side, lock: Lock) -> None:
    side.hset(lock.key, {"somebody": "1"})
    assert side.run(lock.acquire("m:1", TTL, 0, "")) == Refused(-1, 0, "")


@pytest.mark.parametrize("depth", [2, 5])
def test_only_depth_1_creates(depth: int, side: Side, lock: Lock) -> None:
    """Guards `if depth > 1`: a nested acquisition must not resurrect a lost lock (C2)."""
    assert side.run(lock.acquire("m:1", TTL, 0, "", depth=depth, fence=7)) == Lost(LossReason.DELETED)
    assert not side.exists(lock.key)
    assert not side.exists(lock.state)


def test_nested_in_a_lock_that_another_holds(side: Side, lock: Lock) -> None:
    side.run(lock.acquire("m:2", TTL, HIGH, ""))
    assert side.run(lock.acquire("m:1", TTL, 0, "", depth=2, fence=7)) == Lost(LossReason.TAKEN_OVER)
    assert side.hash(lock.key) == {"m:2": "1"}


def test_nested_raises_the_depth(side: Side, lock: Lock) -> None:
    side.run(lock.acquire("m:1", TTL, HIGH, "me"))
    assert side.run(lock.acquire("m:1", TTL, 0, "", depth=2, fence=HIGH + 1)).fence == HIGH + 1  # type: ignore[union-attr]
    assert side.hash(lock.key) == {"m:1": "2"}
    assert side.hash(lock.state)["metadata"] == "me"


def test_a_late_copy_does_not_lower_the_depth(side: Side, lock: Lock) -> None:
    """Guards `depth > tonumber(count or 0)`."""
    first = lock.acquire("m:1", TTL, HIGH, "")
    side.run(first)
    side.run(lock.acquire("m:1", TTL, 0, "", depth=3, fence=HIGH + 1))
    assert isinstance(side.run(first), Granted)
    assert side.hash(lock.key) == {"m:1": "3"}


def test_nested_with_another_fence_is_taken_over(side: Side, lock: Lock) -> None:
    """Guards `state[1] ~= fence`: the same owner holds again, but it is not the grant the body stands on."""
    side.run(lock.acquire("m:1", TTL, HIGH, ""))
    assert side.run(lock.acquire("m:1", TTL, 0, "", depth=2, fence=HIGH)) == Lost(LossReason.TAKEN_OVER)
    assert side.hash(lock.key) == {"m:1": "1"}


def test_a_state_of_another_owner_is_taken_over(side: Side, lock: Lock) -> None:
    side.run(lock.acquire("m:1", TTL, HIGH, ""))
    side.hset(lock.state, {"owner": "m:2"})
    assert side.run(lock.acquire("m:1", TTL, 0, "")) == Lost(LossReason.TAKEN_OVER)


def test_nothing_shortens(side: Side, lock: Lock) -> None:
    """Guards `if ttl > pttl`: also of a nested acquisition with a shorter ttl."""
    side.run(lock.acquire("m:1", TTL, HIGH, ""))
    granted = side.run(lock.acquire("m:1", 1_000, 0, "", depth=2, fence=HIGH + 1))
    assert isinstance(granted, Granted)
    assert TTL - SLACK < granted.pttl <= TTL
    assert TTL - SLACK < side.pttl(lock.key) <= TTL


def test_a_longer_ttl_extends(side: Side, lock: Lock) -> None:
    side.run(lock.acquire("m:1", TTL, HIGH, ""))
    granted = side.run(lock.acquire("m:1", 4 * TTL, 0, "", depth=2, fence=HIGH + 1))
    assert isinstance(granted, Granted)
    assert granted.pttl == 4 * TTL
    assert side.pttl(lock.key) > 4 * TTL - SLACK


@pytest.mark.parametrize("abandoned", [False, True])
def test_a_copy_reads_its_own_grant(abandoned: bool, side: Side, lock: Lock) -> None:
    """Guards `if not count or not state[1]`: the copy must not see its own dirty mark (H3)."""
    if abandoned:
        side.run(lock.acquire("m:0", TTL, HIGH, ""))
        side.delete(lock.key)
    call = lock.acquire("m:1", TTL, HIGH, "")
    first, second = side.run(call), side.run(call)
    assert isinstance(first, Granted)
    assert isinstance(second, Granted)
    assert second._replace(pttl=first.pttl) == first
    assert first.abandoned == abandoned


def test_abandoned_after_an_expiry(side: Side, lock: Lock) -> None:
    side.run(lock.acquire("m:0", TTL, 0, ""))
    side.expire(lock.key)
    granted = side.run(lock.acquire("m:1", TTL, 0, ""))
    assert isinstance(granted, Granted)
    assert granted.abandoned


def test_not_abandoned_after_a_clean_release(side: Side, lock: Lock) -> None:
    side.run(lock.acquire("m:0", TTL, 0, ""))
    side.run(lock.release("m:0", TTL, 0, "clean", False))
    granted = side.run(lock.acquire("m:1", TTL, 0, ""))
    assert isinstance(granted, Granted)
    assert not granted.abandoned


def test_who_polls_leaves_a_mark_if_refused(side: Side, lock: Lock) -> None:
    """Guards `SET KEYS[4]`: nobody else can know that somebody waits."""
    side.run(lock.acquire("m:1", TTL, 0, "", mark_ms=500))
    assert not side.exists(lock.polled)
    side.run(lock.acquire("m:2", TTL, 0, ""))
    assert not side.exists(lock.polled)
    side.run(lock.acquire("m:2", TTL, 0, "", mark_ms=5000))
    assert 0 < side.pttl(lock.polled) <= 5000


@pytest.mark.parametrize("depth", [1, 2])
def test_a_tombstone_refuses(depth: int, side: Side, lock: Lock) -> None:
    """Guards `EXISTS KEYS[3]`: a request that comes after its owner's end must not create (C4)."""
    side.run(lock.release("m:1", TTL, 0, "undone", True))
    assert side.run(lock.acquire("m:1", TTL, 0, "", depth=depth, fence=depth - 1)) == Finished()
    assert not side.exists(lock.key)
    assert isinstance(side.run(lock.acquire("m:2", TTL, 0, "")), Granted)


def test_a_lost_state_is_written_again_with_the_fence_of_the_hold(side: Side, lock: Lock) -> None:
    side.run(lock.acquire("m:1", TTL, HIGH, ""))
    side.delete(lock.state)
    granted = side.run(lock.acquire("m:1", TTL, 0, "", depth=2, fence=HIGH + 1))
    assert isinstance(granted, Granted)
    assert granted.fence == HIGH + 1
    assert not granted.abandoned
    assert side.hash(lock.state)["fence"] == str(HIGH + 1)


@pytest.mark.parametrize("which", ["key", "state"])
def test_a_key_of_another_type_is_an_error_and_nothing_is_held(which: str, side: Side, lock: Lock) -> None:
    key = lock.key if which == "key" else lock.state
    other = lock.state if which == "key" else lock.key
    side.set(key, "a string")
    with pytest.raises(Failure, match="WRONGTYPE"):
        side.run(lock.acquire("m:1", TTL, 0, ""))
    assert not side.exists(other)


class TestFence:
    def test_is_the_servers_time(self, side: Side, lock: Lock) -> None:
        granted = side.run(lock.acquire("m:1", TTL, 0, ""))
        assert isinstance(granted, Granted)
        assert abs(granted.fence - time.time() * 1e6) < 60e6
        assert side.hash(lock.state)["fence"] == str(granted.fence)

    def test_grows_within_a_microsecond(self, lua: LuaSide, lock: Lock) -> None:
        """Guards `string.format('%s%06d', …)`: tostring keeps 14 digits, a hundred microseconds (H7)."""
        acquire, release = lock.acquire("m:1", TTL, 0, ""), lock.release("m:1", TTL, 0, "clean", False)
        lua.run(acquire)
        lua.run(release)
        batch = lua.link.pipeline(transaction=False)
        for _ in range(100):
            for call in (acquire, release):
                batch.evalsha(lua.load(call.script), len(call.keys), *call.keys, *call.args)
        fences = [ACQUIRE.decode(reply).fence for reply in batch.execute()[::2]]  # type: ignore[union-attr]
        steps = [after - before for before, after in pairwise(fences)]
        assert min(steps) > 0
        assert min(steps) < 100
        assert len(str(fences[-1])) == 16

    def test_keeps_the_zeros_of_a_microsecond(self, lua: LuaSide, lock: Lock) -> None:
        """Guards `%06d`: in the first tenth of a second the microseconds have less than six digits."""
        acquire, release = lock.acquire("m:1", TTL, 0, ""), lock.release("m:1", TTL, 0, "clean", False)
        until = time.monotonic() + 10
        fence = 0
        while not 0 < fence % 10**6 < 10**5:
            assert time.monotonic() < until
            fence = lua.run(acquire).fence  # type: ignore[union-attr]
            lua.run(release)
            assert abs(fence - time.time() * 1e6) < 60e6

    def test_a_round_one_is_written_in_full(self, side: Side, lock: Lock) -> None:
        """Guards `%.0f`: Lua and some servers write 3e+15."""
        granted = side.run(lock.acquire("m:1", TTL, 3 * 10**15 - 1, ""))
        assert granted == Granted(3 * 10**15, TTL, abandoned=False)
        assert side.hash(lock.state)["fence"] == "3000000000000000"

    def test_grows_where_the_clock_stands_still(self, side: Side, lock: Lock) -> None:
        """Guards `state[1]` in `least`: the stored fence is ahead of the clock, and of the floor."""
        side.run(lock.acquire("m:1", TTL, HIGH, ""))
        side.run(lock.release("m:1", TTL, 0, "clean", False))
        assert side.run(lock.acquire("m:2", TTL, 0, "")).fence == HIGH + 2  # type: ignore[union-attr]

    def test_survives_a_flush_through_the_floor(self, side: Side, lock: Lock) -> None:
        """Guards `ARGV[3]` in `least`."""
        before = side.run(lock.acquire("m:1", TTL, HIGH, "")).fence  # type: ignore[union-attr]
        side.flush()
        after = side.run(lock.acquire("m:2", TTL, before, "")).fence  # type: ignore[union-attr]
        assert after == before + 1

    def test_does_not_need_the_floor_to_survive_an_expiry(self, side: Side, lock: Lock) -> None:
        before = side.run(lock.acquire("m:1", TTL, 0, "")).fence  # type: ignore[union-attr]
        side.expire(lock.key)
        side.delete(lock.state)
        assert side.run(lock.acquire("m:2", TTL, 0, "")).fence > before  # type: ignore[union-attr]
