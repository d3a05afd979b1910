"""What is left of Redisson's permits and latches when the server denies a command inside a script, or is full."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import pytest

from aiolock.scripts.base import Call
from aiolock.scripts.bid import Bid
from aiolock.scripts.outcomes import Failed, Released, Renewed
from aiolock.scripts.redisson.latch import RLatchCalls
from aiolock.scripts.redisson.permits import PermitCalls
from aiolock.testing.server import RedisServer
from tests.support import redis_cli
from tests.support.redisson_wire import SCRIPTS
from tests.support.scripting import DENIAL, LuaSide
from tests.support.scripting import Refused as Failure

TTL = 30_000
ONE, TWO = PermitCalls("api", 1), PermitCalls("api", 2)
IDS = "{api}:timeout"


class Situation(NamedTuple):
    """A request while m:1 has two of three permits, the commands of its script, and those that can fail unnoticed."""

    call: Call[Any]
    commands: str
    later: str = ""
    expired: bool = False


def bid(owner: str) -> Bid:
    return Bid(owner, TTL, 0, "")


SITUATIONS = {
    "acquire": Situation(ONE.acquire(bid("n:1")), "time exists zcount get pttl zcard zscore incrby zadd"),
    "acquire what expired": Situation(
        TWO.acquire(bid("n:1")), "zcount incrby zremrangebyscore", "publish", expired=True
    ),
    "refused": Situation(TWO.acquire(bid("n:1")), "get zrange"),
    "renew": Situation(TWO.renew_many([TWO.renewal("m:1", 0, 2 * TTL)]), "time zscore zrem zadd"),
    "lessen": Situation(TWO.weighing(1).release("m:1", TTL, 1, "clean", False), "time zrem", "publish"),
    "release": Situation(TWO.release("m:1", TTL, 0, "clean", True), "time zrem", "publish set"),
    "set": Situation(PermitCalls("new", 1).set_permits(1), "exists incrby", "publish"),
    "info": Situation(ONE.count(), "time zcount get zcard"),
    "latch": Situation(RLatchCalls("two").query(), "get"),
    "count": Situation(RLatchCalls("two").count_down(), "get incrby"),
    "last count": Situation(RLatchCalls("one").count_down(), "get del", "publish"),
}
DENIED = [
    (name, command)
    for name, known in SITUATIONS.items()
    for command in dict.fromkeys(f"{known.commands} {known.later}".split())
]


@pytest.mark.parametrize(("name", "command"), DENIED)
def test_what_is_left(name: str, command: str, lua: LuaSide, denied: Callable[[str], LuaSide]) -> None:
    """Never more permits than there are, and none is missing; and no count is lost.

    Guards the order of commands, each `redis.pcall`, and what takes `INCRBY` back.
    """
    situation = SITUATIONS[name]
    lua.run(ONE.set_permits(3))
    lua.run(TWO.acquire(bid("m:1")))
    lua.run(RLatchCalls("one").set_count(1))
    lua.run(RLatchCalls("two").set_count(2))
    if situation.expired:
        for one in lua.scores(IDS):
            lua.score(IDS, one, 1)
    error = ""
    try:
        answer = denied(command).run(situation.call)
        if isinstance(answer, list) and isinstance(answer[0], Failed):
            error = answer[0].error
    except Failure as failure:
        error = str(failure)
    assert bool(DENIAL.search(error)) == (command not in situation.later.split())
    opened = name == "last count" and command == "publish"
    assert (lua.get("one"), lua.get("two")) == (None if opened else "1", "2")
    assert int(lua.get("api") or 0) + len(lua.scores(IDS)) == 3
    for owner in ("m:1", "n:1"):
        lua.run(TWO.release(owner, TTL, 0, "dirty", False))
    assert lua.run(ONE.count()) == (3, 0)


def test_a_full_server_lets_no_one_in_and_all_out(own_server: RedisServer) -> None:
    """Guards the order in permits_release: ZREM comes before INCRBY; and ZREM in permits_renew."""
    link = redis_cli.client(own_server.url)
    side = LuaSide(link)
    for script in SCRIPTS:
        side.load(script)
    side.run(ONE.set_permits(3))
    side.run(TWO.acquire(bid("m:1")))
    redis_cli.fill(link)
    for call in (ONE.acquire(bid("n:1")), PermitCalls("other", 1).set_permits(1)):
        with pytest.raises(Failure, match=r"OOM|maxmemory"):
            side.run(call)
    assert side.run(TWO.renew_many([TWO.renewal("m:1", 0, 2 * TTL)])) == [Renewed(2 * TTL)]
    assert side.run(TWO.release("m:1", TTL, 0, "clean", True)) == Released(0)
    assert side.run(ONE.count()) == (3, 0)
    side.close()
    link.close()
