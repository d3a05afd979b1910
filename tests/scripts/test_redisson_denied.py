"""What is left of Redisson's locks when the server denies a command inside a script of ours, or is full."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import pytest

from aiolock.scripts.base import Call
from aiolock.scripts.bid import Bid
from aiolock.scripts.outcomes import Failed, Granted, Released, Renewed
from aiolock.scripts.redisson import FairCalls, RLockCalls
from aiolock.scripts.redisson.rw import FULL, RWCalls
from aiolock.testing.server import RedisServer
from tests.support import redis_cli
from tests.support.redisson_wire import SCRIPTS
from tests.support.scripting import DENIAL, LuaSide
from tests.support.scripting import Refused as Failure

from .test_redisson_permits_denied import SITUATIONS as PERMITS

TTL, WAIT = 30_000, 3_000
LOCK, FENCED, FAIR = RLockCalls("orders"), RLockCalls("orders", fenced=True), FairCalls("orders", WAIT)
READ, WRITE, BOTH = (RWCalls("orders", weight) for weight in (1, FULL, FULL + 1))


def bid(owner: str) -> Bid:
    return Bid(owner, TTL, 0, "", WAIT)


class Situation(NamedTuple):
    """A request while `holder` holds and others wait, the commands of its script, and those that can fail unnoticed."""

    call: Call[Any]
    commands: str
    later: str = ""
    holder: str = "m:1"
    waiting: tuple[str, ...] = ()
    held: RLockCalls = FENCED


SITUATIONS = {
    "acquire": Situation(FENCED.acquire(bid("n:1")), "pttl hget exists incr hset pexpire", holder=""),
    "acquire again": Situation(FENCED.acquire(bid("m:1")), "pttl hget exists get pexpire"),
    "refused": Situation(LOCK.acquire(bid("n:1")), "pttl hget exists hgetall"),
    "nest": Situation(LOCK.nest("m:1", 0, TTL, 2), "hget pttl pexpire hset"),
    "renew": Situation(LOCK.renew_many([LOCK.renewal("m:1", 0, 2 * TTL)]), "pttl hget pexpire"),
    "lower": Situation(LOCK.release("m:1", TTL, 1, "clean", False), "hget pttl"),
    "release": Situation(LOCK.release("m:1", TTL, 0, "clean", True), "hget pttl del", "publish set"),
    "force": Situation(LOCK.force_release(), "del", "publish"),
    "info": Situation(FAIR.info("n:1"), "lrange get pttl hgetall"),
    "fair": Situation(FAIR.acquire(bid("n:1")), "exists lrange hget pttl time hset pexpire", holder=""),
    "fair, first": Situation(FAIR.acquire(bid("n:1")), "lrange zscore lrem zrem", holder="", waiting=("n:1", "o:1")),
    "fair, held": Situation(FAIR.acquire(bid("n:1")), "exists lrange zadd rpush hgetall"),
    "beat": Situation(FAIR.refresh_many([FAIR.refresh(bid("n:1"))]), "lrange pttl zadd", waiting=("n:1",)),
    "fair release": Situation(
        FAIR.release("m:1", TTL, 0, "clean", True), "hget pttl del time", "publish set", waiting=("n:1",)
    ),
    "read": Situation(READ.acquire(bid("n:1")), "pttl exists hget set hset pexpire", holder="", held=READ),
    "read, too": Situation(READ.acquire(bid("n:1")), "hget set pexpire", held=READ),
    "write": Situation(WRITE.acquire(bid("n:1")), "pttl exists hget hset pexpire", holder="", held=READ),
    "refused to write": Situation(WRITE.acquire(bid("n:1")), "hget hgetall", held=READ),
    "nest reads": Situation(READ.nest("m:1", 0, TTL, 2), "hget pttl pexpire set hset", held=READ),
    "renew a reader": Situation(READ.renew_many([READ.renewal("m:1", 0, 2 * TTL)]), "pttl hget pexpire", held=READ),
    "end a read": Situation(READ.release("m:1", TTL, 0, "clean", True), "hget pttl hdel", "publish set", held=READ),
    "end a write": Situation(BOTH.release("m:1", TTL, 0, "clean", True), "hget pttl del", "publish set", held=WRITE),
    "end all": Situation(READ.force_release(), "hgetall", "publish", held=READ),
    "fair force": Situation(FAIR.force_release(), "time lrange del", "publish", waiting=("n:1",)),
}


def test_every_script_is_here() -> None:
    situations = (*SITUATIONS.values(), *PERMITS.values())
    assert {situation.call.script for situation in situations} == set(SCRIPTS)


def prepare(side: LuaSide, situation: Situation) -> None:
    side.run(situation.held.acquire(bid("m:1")))
    for owner in situation.waiting:
        side.run(FAIR.acquire(bid(owner)))
    if not situation.holder:
        side.delete("orders")


def attempt(side: LuaSide, call: Call[object]) -> tuple[str, object]:
    """Return the error, if any, and the answer: of a batch, that of its only part."""
    try:
        answer = side.run(call)
    except Failure as failure:
        return str(failure), None
    (one,) = answer if isinstance(answer, list) else (answer,)
    return (one.error, None) if isinstance(one, Failed) else ("", one)


DENIED = [
    (name, command)
    for name, known in SITUATIONS.items()
    for command in dict.fromkeys(f"{known.commands} {known.later}".split())
]


@pytest.mark.parametrize(("name", "command"), DENIED)
def test_what_is_left(name: str, command: str, lua: LuaSide, denied: Callable[[str], LuaSide]) -> None:
    """Never a lock without an expiry, or one that its holder does not know of; and all others get in by the usual ways.

    Guards the order of commands, and each `redis.pcall`.
    """
    situation = SITUATIONS[name]
    prepare(lua, situation)
    before = lua.hash("orders")
    error, _ = attempt(denied(command), situation.call)
    if command in situation.later.split():
        assert not error
        assert not lua.exists("orders")
    else:
        assert DENIAL.search(error)
        released = name == "fair release" and command == "time"  # it is told late, by the next heartbeat
        assert lua.hash("orders") == before or released
    assert lua.pttl("orders") != -1
    for owner in ("m:1", "n:1", "o:1"):
        for calls in (FAIR, READ, WRITE):
            lua.run(calls.release(owner, TTL, 0, "dirty", False))
    assert isinstance(lua.run(FAIR.acquire(bid("y:1"))), Granted)


@pytest.mark.parametrize("calls", [LOCK, FAIR], ids=["lock", "fair"])
@pytest.mark.parametrize("tainted", [False, True])
def test_a_full_server_lets_no_one_in_and_all_out(calls: RLockCalls, tainted: bool, own_server: RedisServer) -> None:
    """Guards the order in release: DEL comes before SET."""
    link = redis_cli.client(own_server.url)
    side = LuaSide(link)
    for script in SCRIPTS:
        side.load(script)
    side.run(calls.acquire(bid("m:1")))
    redis_cli.fill(link)
    for other in (RLockCalls("other").acquire(bid("m:2")), FAIR.acquire(bid("m:2"))):
        with pytest.raises(Failure, match=r"OOM|maxmemory"):
            side.run(other)
    assert side.run(calls.renew_many([calls.renewal("m:1", 0, 2 * TTL)])) == [Renewed(2 * TTL)]
    assert side.run(calls.release("m:1", TTL, 0, "clean", tainted)) == Released(0)
    assert not side.exists("orders")
    assert not side.exists("other")
    side.close()
    link.close()
