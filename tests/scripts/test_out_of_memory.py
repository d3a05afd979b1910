"""A server at its memory limit refuses new locks with nothing held, and still renews and releases."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
import redis

from aiolock.scripts import lock as lock_family
from aiolock.scripts import queue as queue_family
from aiolock.scripts.lock import renew
from aiolock.scripts.outcomes import Ended, Granted, Kept, Released, Renewed
from aiolock.testing.server import RedisServer
from tests.support import redis_cli
from tests.support.queues import FAIR, Queue, enter, holders, summary, waiting
from tests.support.scripting import Lock, LuaSide
from tests.support.scripting import Refused as Failure

TTL = 30_000
HIGH = 2**51
FENCE = HIGH + 1
OOM = "OOM|maxmemory"


@pytest.fixture
def full(own_server: RedisServer) -> Iterator[tuple[LuaSide, Callable[[], None]]]:
    """A side, and what fills its server up to the limit."""
    with redis_cli.client(own_server.url) as link:
        side = LuaSide(link)
        for script in (*lock_family.SCRIPTS, *queue_family.SCRIPTS):
            side.load(script)

        def fill() -> None:
            link.config_set("maxmemory-policy", "noeviction")
            link.config_set("maxmemory", 1)
            with pytest.raises(redis.exceptions.OutOfMemoryError):
                link.set("more", 1)

        yield side, fill
        side.close()


Full = tuple[LuaSide, Callable[[], None]]


def test_acquire_is_refused_and_nothing_is_held(full: Full, lock: Lock) -> None:
    """Guards that the state is written first: the refusal strikes before the lock exists (H11)."""
    side, fill = full
    fill()
    with pytest.raises(Failure, match=OOM):
        side.run(lock.acquire("m:1", TTL, 0, ""))
    assert not side.exists(lock.key)
    assert not side.exists(lock.state)


def test_nested_acquire_is_refused_and_the_hold_stays(full: Full, lock: Lock) -> None:
    side, fill = full
    side.run(lock.acquire("m:1", TTL, HIGH, ""))
    fill()
    with pytest.raises(Failure, match=OOM):
        side.run(lock.acquire("m:1", TTL, 0, "", depth=2, fence=FENCE))
    assert side.hash(lock.key) == {"m:1": "1"}


@pytest.mark.parametrize("tainted", [False, True])
def test_release_works(tainted: bool, full: Full, lock: Lock) -> None:
    """Guards that HDEL comes first: after a write that frees, the limit no longer strikes (H11)."""
    side, fill = full
    side.run(lock.acquire("m:1", TTL, HIGH, ""))
    fill()
    assert side.run(lock.release("m:1", TTL, 0, "clean", tainted)) == Released(FENCE)
    assert not side.exists(lock.key)
    assert side.hash(lock.state)["clean"] == "1"
    assert side.exists(lock.dead("m:1")) == tainted


def test_nested_release_works(full: Full, lock: Lock) -> None:
    """Guards `PEXPIRE` before `HSET` in release."""
    side, fill = full
    side.run(lock.acquire("m:1", TTL, HIGH, ""))
    side.run(lock.acquire("m:1", TTL, 0, "", depth=2, fence=FENCE))
    fill()
    assert isinstance(side.run(lock.release("m:1", TTL, 1, "clean", False)), Kept)
    assert side.hash(lock.key) == {"m:1": "1"}


def test_renew_works(full: Full, lock: Lock) -> None:
    side, fill = full
    side.run(lock.acquire("m:1", TTL, HIGH, ""))
    fill()
    assert side.run(renew([lock.renewal("m:1", FENCE, 2 * TTL)])) == [Renewed(2 * TTL)]


def test_transfer_works(full: Full, lock: Lock) -> None:
    """Guards that DEL comes first in transfer."""
    side, fill = full
    side.run(lock.acquire("m:1", TTL, HIGH, ""))
    fill()
    assert isinstance(side.run(lock.transfer("m:1", FENCE, "m:2", TTL, 0, "", True)), Granted)
    assert side.hash(lock.key) == {"m:2": "1"}


def test_force_release_and_info_work(full: Full, lock: Lock) -> None:
    side, fill = full
    side.run(lock.acquire("m:1", TTL, HIGH, ""))
    fill()
    held = side.run(lock.info())
    assert held is not None
    assert held.fence == FENCE
    assert side.run(lock.force_release()) is True
    assert not side.exists(lock.key)


class TestQueueFamily:
    def test_nobody_enters_and_nothing_is_left(self, full: Full) -> None:
        """Guards that the state is written first."""
        side, fill = full
        fair = Queue(FAIR)
        fill()
        with pytest.raises(Failure, match=OOM):
            side.run(fair.acquire("m:1", TTL, 0, "", queue_number=0))
        assert not any(side.exists(key) for key in fair.keys)

    def test_a_hold_is_renewed_lowered_and_released_to_who_waits(self, full: Full) -> None:
        """Guards PEXPIRE before ZADD in `extend`, before HSET in release, and DEL first in `drop`."""
        side, fill = full
        fair = Queue(FAIR)
        side.run(fair.acquire("m:1", TTL, HIGH, ""))
        side.run(fair.acquire("m:1", TTL, 0, "", depth=2, fence=FENCE))
        enter(side, fair, ["m:2"])
        fill()
        with pytest.raises(Failure, match=OOM):
            side.run(fair.acquire("m:3", TTL, 0, "", queue_number=0))
        assert side.run(fair.batch([fair.renewal("m:1", FENCE, 2 * TTL)])) == [Renewed(2 * TTL)]
        assert isinstance(side.run(fair.release("m:1", TTL, 1, "clean", False)), Kept)
        assert holders(side, fair)["m:1"].depth == 1
        assert side.run(fair.release("m:1", TTL, 0, "clean", True)) == Released(FENCE)
        assert set(holders(side, fair)) == {"m:2"}
        assert waiting(side, fair) == []
        assert side.exists(fair.dead("m:1"))

    def test_a_hand_off_force_release_and_info_work(self, full: Full) -> None:
        side, fill = full
        fair = Queue(FAIR)
        side.run(fair.acquire("m:1", TTL, HIGH, ""))
        fill()
        assert isinstance(side.run(fair.transfer("m:1", FENCE, "m:2", TTL, 0, "", True)), Granted)
        assert side.run(fair.info()).holders == 1
        assert side.run(fair.force_release()) == Ended(1, 0)
        assert holders(side, fair) == {}
        assert summary(side, fair).dirty == "1"
