"""A server at its memory limit refuses new locks with nothing held, and still renews and releases."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from aiolock.scripts import queue as queue_family
from aiolock.scripts.bid import Bid
from aiolock.scripts.outcomes import Ended, Granted, Kept, Released, Renewed
from aiolock.testing.server import RedisServer
from tests.support import redis_cli
from tests.support.queues import FAIR, Queue, enter, holders, summary, waiting
from tests.support.scripting import LuaSide
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
        for script in queue_family.SCRIPTS:
            side.load(script)
        yield side, lambda: redis_cli.fill(link)
        side.close()


Full = tuple[LuaSide, Callable[[], None]]


def test_no_one_enters_and_nothing_is_left(full: Full) -> None:
    """Guards that the state is written first."""
    side, fill = full
    fair = Queue(FAIR)
    fill()
    with pytest.raises(Failure, match=OOM):
        side.run(fair.request("m:1", TTL, 0, "", queue_number=0))
    assert not any(side.exists(key) for key in fair.keys)


def test_a_hold_is_renewed_lowered_and_released_to_waiters(full: Full) -> None:
    """Guards PEXPIRE before ZADD in `extend`, before HSET in release, and DEL first in `drop`."""
    side, fill = full
    fair = Queue(FAIR)
    side.run(fair.request("m:1", TTL, HIGH, ""))
    side.run(fair.request("m:1", TTL, 0, "", depth=2, fence=FENCE))
    enter(side, fair, ["m:2"])
    fill()
    with pytest.raises(Failure, match=OOM):
        side.run(fair.request("m:3", TTL, 0, "", queue_number=0))
    assert side.run(fair.renew_many([fair.renewal("m:1", FENCE, 2 * TTL)])) == [Renewed(2 * TTL)]
    assert isinstance(side.run(fair.release("m:1", TTL, 1, "clean", False)), Kept)
    assert holders(side, fair)["m:1"].depth == 1
    assert side.run(fair.release("m:1", TTL, 0, "clean", True)) == Released(FENCE)
    assert set(holders(side, fair)) == {"m:2"}
    assert waiting(side, fair) == []
    assert side.exists(fair.dead("m:1"))


def test_a_hand_off_force_release_and_info_work(full: Full) -> None:
    side, fill = full
    fair = Queue(FAIR)
    side.run(fair.request("m:1", TTL, HIGH, ""))
    fill()
    assert isinstance(side.run(fair.resume("m:1", FENCE, Bid("m:2", TTL, 0, ""), True)), Granted)
    assert side.run(fair.info()).holders == 1
    assert side.run(fair.force_release()) == Ended(1, 0)
    assert holders(side, fair) == {}
    assert summary(side, fair).abandoned == "1"
