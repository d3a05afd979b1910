"""What is left when the server denies a command inside a script of the queue family: at worst a task waits longer.

Redis does not roll a script back. So for each script, in each situation, each of its commands is denied in turn.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import suppress
from typing import Any, NamedTuple

import pytest
import redis

from aiolock.scripts.base import Call
from aiolock.scripts.bid import Bid
from aiolock.scripts.outcomes import Ended, Failed, Finished, Granted, Kept, Missing, Queued, Refused, Released, Renewed
from tests.support.queues import (
    FAIR,
    FIRST,
    RW,
    SEMAPHORE,
    Queue,
    assert_sound,
    crash,
    enter,
    forget,
    holders,
    standing,
)
from tests.support.scripting import DENIAL, LuaSide
from tests.support.scripting import Refused as Failure

TTL = 30_000
HIGH = 2**51
FENCE = HIGH + 1
NAME = Queue(FAIR)
PERMITS = Queue(SEMAPHORE)
"""A name with several holders."""


class Situation(NamedTuple):
    """Who holds, vanished and waits; a request; its answer; the commands without which it is done nevertheless."""

    held: tuple[str, ...]
    crashed: tuple[str, ...]
    waiting: tuple[str, ...]
    call: Call[Any]
    answer: type
    optional: frozenset[str] = frozenset()


RELEASE = NAME.release("m:1", TTL, 0, "clean", True)
AFTER_ALL = frozenset({"set", "publish", "hdel", "zrem", "del"})
TRANSFER = NAME.resume("m:1", FENCE, Bid("m:2", TTL, 0, ""), True)
SITUATIONS = {
    "acquire free": Situation((), (), (), NAME.request("m:1", TTL, HIGH, "", queue_number=0), Granted),
    "acquire held": Situation(("m:1",), (), (), NAME.request("m:2", TTL, 0, ""), Refused),
    "acquire queued": Situation(("m:1",), (), (), NAME.request("m:2", TTL, 0, "", queue_number=0), Queued),
    "acquire refreshed": Situation(("m:1",), (), ("m:2",), NAME.request("m:2", TTL, 0, "", queue_number=0), Queued),
    "acquire nested": Situation(("m:1",), (), (), NAME.request("m:1", TTL, 0, "", depth=2, fence=FENCE), Granted),
    "acquire after a crash": Situation(
        ("m:1",), ("m:1",), (), NAME.request("m:2", TTL, 0, "", queue_number=0), Granted
    ),
    "acquire for others": Situation(("m:1",), ("m:1",), ("m:2",), NAME.request("m:3", TTL, 0, ""), Refused),
    "acquire buried": Situation((), (), (), NAME.request("dead:1", TTL, 0, ""), Finished),
    "release": Situation(("m:1",), (), (), RELEASE, Released, AFTER_ALL),
    "release to others": Situation(("m:1",), (), ("n:2",), RELEASE, Released, AFTER_ALL),
    "release nested": Situation(("m:1",), (), (), NAME.release("m:1", TTL, 1, "clean", False), Kept),
    "release of a waiter": Situation(
        ("m:1",), (), ("n:2",), NAME.release("n:2", TTL, 0, "undone", True), Missing, AFTER_ALL
    ),
    "transfer": Situation(("m:1",), (), ("n:2",), TRANSFER, Granted, AFTER_ALL),
    "transfer missing": Situation((), (), (), TRANSFER, Missing, AFTER_ALL),
    "renew": Situation(("m:1",), (), ("n:2",), NAME.renew_many([NAME.renewal("m:1", FENCE, 2 * TTL)]), Renewed),
    "force_release": Situation(("m:1",), (), ("n:2",), NAME.force_release(), Ended, AFTER_ALL),
    "request_release": Situation(("m:1",), (), ("n:2",), NAME.request_release(), str, frozenset({"publish"})),
    "set_capacity": Situation(("m:1",), (), ("n:2", "n:3"), NAME.set_capacity(2), int, AFTER_ALL),
    "info": Situation(("m:1",), (), ("n:2",), NAME.info("n:2"), tuple),
}


def commands(call: Call[Any]) -> list[str]:
    return sorted({command.lower() for command in re.findall(r"redis\.p?call\('(\w+)'", call.script.lua)})


COMMANDS = sorted({command for situation in SITUATIONS.values() for command in commands(situation.call)})
NEXT: dict[str, Call[Any]] = {
    "an attempt": NAME.request("z:1", TTL, HIGH, ""),
    "a new waiter": NAME.request("z:1", TTL, HIGH, "", queue_number=0),
    "a refresh": NAME.refresh_many([NAME.refresh(Bid("n:2", TTL, 0, "", number=FIRST))]),
    "a renewal": NAME.renew_many([NAME.renewal("z:1", FENCE, TTL)]),
    "a release": NAME.release("z:1", TTL, 0, "clean", False),
    "force_release": NAME.force_release(),
}
"""Whichever request comes next repairs everything."""


@pytest.fixture(scope="module")
def executed(link: redis.Redis) -> dict[str, set[str]]:
    """The commands that each situation's script executes: only what is executed can be denied."""
    side = LuaSide(link)
    found = {}
    for name, situation in SITUATIONS.items():
        side.flush()
        prepare(side, situation)
        link.config_resetstat()
        side.run(situation.call)
        found[name] = {stat.removeprefix("cmdstat_").partition("|")[0] for stat in link.info("commandstats")}
    side.close()
    link.connection_pool.disconnect()  # other tests count who is connected to the shared server
    return found


def test_what_is_never_executed(executed: dict[str, set[str]]) -> None:
    """One command repairs what was evicted; here nothing was. Another looks at what is no hash. Broken by a situation
    that went missing.
    """
    assert set(COMMANDS) - set().union(*executed.values()) == {"get", "hgetall"}


@pytest.mark.parametrize("following", NEXT)
@pytest.mark.parametrize("command", COMMANDS)
def test_the_next_request_repairs_what_a_denied_command_left(
    command: str, following: str, lua: LuaSide, denied: Callable[[str], LuaSide], executed: dict[str, set[str]]
) -> None:
    """Guards the order of commands in `close`, each `redis.pcall` there, and `heal`."""
    limited = denied(command)
    for name, situation in SITUATIONS.items():
        if command not in executed[name]:
            continue
        lua.flush()
        prepare(lua, situation)
        before = holders(lua, NAME)
        error, result = attempt(limited, situation.call)
        told = f"{name}: {error or result}"
        if error:
            assert DENIAL.search(error), told
            assert command not in situation.optional, told
        else:
            assert isinstance(result, situation.answer), told
        found = standing(lua, NAME)
        if error and name.startswith("acquire"):
            assert found.holders.keys() <= before.keys() | set(situation.waiting), told
        assert found.summary.used == sum(held.weight for held in found.holders.values()), told
        assert all(owner in found.order for owner in (*found.holders, *found.waiters)), told
        lua.run(NEXT[following])
        assert_sound(lua, NAME)
        endless = [key for key in (NAME.hash, NAME.order) if lua.pttl(key) == -1]
        assert not endless, told
        crash(lua, NAME, *holders(lua, NAME))
        forget(lua, NAME, *standing(lua, NAME).waiters)
        assert isinstance(lua.run(NAME.request("y:1", TTL, HIGH, "", queue_number=0)), Granted), told
        assert_sound(lua, NAME)


def prepare(lua: LuaSide, situation: Situation) -> None:
    for owner in situation.held:
        lua.run(NAME.request(owner, TTL, HIGH, ""))
    enter(lua, NAME, situation.waiting)
    lua.run(NAME.release("dead:1", TTL, 0, "undone", True))
    crash(lua, NAME, *situation.crashed)


def attempt(side: LuaSide, call: Call[Any]) -> tuple[str, Any]:
    """Return the error, if any, and the answer: of a batch, that of its only part."""
    try:
        result = side.run(call)
    except Failure as failure:
        return str(failure), None
    (one,) = result if isinstance(result, list) else (result,)
    return (one.error, None) if isinstance(one, Failed) else ("", one)


def test_a_denied_part_spoils_no_other(lua: LuaSide, denied: Callable[[str], LuaSide]) -> None:
    """Guards `pcall` in batch.lua: ZSCORE runs only for a name with a hold."""
    other = Queue(FAIR, "other")
    lua.run(NAME.request("m:1", TTL, HIGH, ""))
    parts = [NAME.refresh(Bid("m:1", TTL, 0, "")), other.refresh(Bid("m:3", TTL, 0, ""))]
    failed, granted = denied("zscore").run(NAME.refresh_many(parts))
    assert isinstance(failed, Failed)
    assert DENIAL.search(failed.error)
    assert isinstance(granted, Granted)


@pytest.mark.parametrize("command", ["hdel", "hset", "zrem", "del", "pexpire"])
@pytest.mark.parametrize("name", [PERMITS, Queue(RW)], ids=lambda name: name.kind)
def test_what_could_not_be_given_back_is_free_after_its_ttl(
    name: Queue, command: str, lua: LuaSide, denied: Callable[[str], LuaSide]
) -> None:
    """Broken by a count that is written apart from what it counts: the name would be full for a day."""
    for owner in ("m:1", "m:2"):
        lua.run(name.request(owner, TTL, HIGH, ""))
    limited = denied(command)
    for owner in ("m:1", "m:2"):
        with suppress(Failure):
            limited.run(name.release(owner, TTL, 0, "clean", False))
    crash(lua, name, *holders(lua, name))
    all_of_it = Queue(RW, want=1) if name.kind == "rw" else Queue(SEMAPHORE, want=2)
    assert isinstance(lua.run(all_of_it.request("m:3", TTL, 0, "")), Granted)
    assert_sound(lua, name)
