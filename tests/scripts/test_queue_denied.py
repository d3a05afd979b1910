"""What is left when the server denies a command inside a script of the queue family: at worst somebody waits longer.

Redis does not roll a script back. So for each script, in each situation, each command that it issues is denied in turn.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest

from aiolock.scripts.base import Call
from aiolock.scripts.outcomes import Failed, Finished, Granted, Kept, Missing, Queued, Refused, Released, Renewed
from tests.support.queues import FAIR, SEMAPHORE, Queue, crash, enter, forget, holders, line
from tests.support.scripting import DENIAL, LuaSide
from tests.support.scripting import Refused as Failure

TTL = 30_000
HIGH = 2**51
FENCE = HIGH + 1
NAME = Queue(FAIR)
PERMITS = Queue(SEMAPHORE)


class Situation(NamedTuple):
    """Who holds, vanished and waits; a request; what it answers; the commands without which it is done nevertheless."""

    held: tuple[str, ...]
    crashed: tuple[str, ...]
    waiting: tuple[str, ...]
    call: Call[Any]
    answer: type
    optional: frozenset[str] = frozenset()


RELEASE = NAME.release("m:1", TTL, 0, "clean", True)
TRANSFER = NAME.transfer("m:1", FENCE, "m:2", TTL, 0, "", True)
SITUATIONS = {
    "acquire free": Situation((), (), (), NAME.acquire("m:1", TTL, HIGH, "", ticket=0), Granted),
    "acquire held": Situation(("m:1",), (), (), NAME.acquire("m:2", TTL, 0, ""), Refused),
    "acquire queued": Situation(("m:1",), (), (), NAME.acquire("m:2", TTL, 0, "", ticket=0), Queued),
    "acquire refreshed": Situation(("m:1",), (), ("m:2",), NAME.acquire("m:2", TTL, 0, "", ticket=0), Queued),
    "acquire nested": Situation(("m:1",), (), (), NAME.acquire("m:1", TTL, 0, "", depth=2, fence=FENCE), Granted),
    "acquire after a crash": Situation(("m:1",), ("m:1",), (), NAME.acquire("m:2", TTL, 0, "", ticket=0), Granted),
    "acquire for others": Situation(("m:1",), ("m:1",), ("m:2",), NAME.acquire("m:3", TTL, 0, ""), Refused),
    "acquire buried": Situation((), (), (), NAME.acquire("dead:1", TTL, 0, ""), Finished),
    "release": Situation(("m:1",), (), (), RELEASE, Released, frozenset({"pexpire", "set", "publish", "hset"})),
    "release to others": Situation(("m:1",), (), ("n:2",), RELEASE, Released, frozenset({"set", "publish"})),
    "release nested": Situation(("m:1",), (), (), NAME.release("m:1", TTL, 1, "clean", False), Kept),
    "release of a waiter": Situation(
        ("m:1",), (), ("n:2",), NAME.release("n:2", TTL, 0, "undone", True), Missing, frozenset({"set"})
    ),
    "transfer": Situation(("m:1",), (), ("n:2",), TRANSFER, Granted, frozenset({"set"})),
    "transfer missing": Situation((), (), (), TRANSFER, Missing, frozenset({"set"})),
    "renew": Situation(("m:1",), (), ("n:2",), NAME.batch([NAME.renewal("m:1", FENCE, 2 * TTL)]), Renewed),
    "force_release": Situation(("m:1",), (), ("n:2",), NAME.force_release(), int, frozenset({"publish"})),
    "set_capacity": Situation(("m:1",), (), ("n:2", "n:3"), NAME.set_capacity(2), int, frozenset({"publish"})),
    "info": Situation(("m:1",), (), ("n:2",), NAME.info("n:2"), tuple),
}


def commands(call: Call[Any]) -> list[str]:
    return sorted({command.lower() for command in re.findall(r"redis\.p?call\('(\w+)'", call.script.lua)})


COMMANDS = sorted({command for situation in SITUATIONS.values() for command in commands(situation.call)})


@pytest.mark.parametrize("command", COMMANDS)
def test_nobody_holds_for_ever_and_the_name_is_not_stuck(
    command: str, lua: LuaSide, denied: Callable[[str], LuaSide]
) -> None:
    """Guards the order of commands in each script, and each `redis.pcall`."""
    limited = denied(command)
    for name, situation in SITUATIONS.items():
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
        left = holders(lua, NAME)
        if error and name.startswith("acquire"):
            assert left.keys() <= before.keys() | set(situation.waiting), told
        assert left.keys() <= lua.scores(NAME.expiry).keys(), told
        assert not left.keys() & set(line(lua, NAME)), told
        assert int(lua.hash(NAME.holders).get("used", "0")) == sum(held.weight for held in left.values()), told
        crash(lua, NAME, *left)
        forget(lua, NAME, *lua.hash(NAME.waiting))
        assert isinstance(lua.run(NAME.acquire("z:1", TTL, HIGH, "", ticket=0)), Granted), told


def prepare(lua: LuaSide, situation: Situation) -> None:
    for owner in situation.held:
        lua.run(NAME.acquire(owner, TTL, HIGH, ""))
    enter(lua, NAME, situation.waiting)
    lua.run(NAME.release("dead:1", TTL, 0, "undone", True))
    crash(lua, NAME, *situation.crashed)


def attempt(side: LuaSide, call: Call[Any]) -> tuple[str, Any]:
    """The error, if any, and the answer: of a batch, of the only one in it."""
    try:
        result = side.run(call)
    except Failure as failure:
        return str(failure), None
    (one,) = result if isinstance(result, list) else (result,)
    return (one.error, None) if isinstance(one, Failed) else ("", one)


def test_a_denied_part_spoils_no_other(lua: LuaSide, denied: Callable[[str], LuaSide]) -> None:
    """Guards `pcall` in each.lua: HDEL is asked about a name with other holders only."""
    other = Queue(FAIR, "other")
    for owner in ("m:1", "m:2"):
        lua.run(PERMITS.acquire(owner, TTL, HIGH, ""))
    crash(lua, PERMITS, "m:1")
    parts = [PERMITS.refresh("m:3", TTL, 0, "", 0), other.refresh("m:3", TTL, 0, "", 0)]
    failed, granted = denied("hdel").run(NAME.enter(parts))
    assert isinstance(failed, Failed)
    assert DENIAL.search(failed.error)
    assert isinstance(granted, Granted)


@pytest.mark.parametrize("command", ["hdel", "hset"])
def test_a_permit_that_cannot_be_given_back_is_not_given_twice(
    command: str, lua: LuaSide, denied: Callable[[str], LuaSide]
) -> None:
    """Guards HDEL before HSET in `drop`: at worst the name stays fuller than it is."""
    for owner in ("m:1", "m:2"):
        lua.run(PERMITS.acquire(owner, TTL, HIGH, ""))
    with pytest.raises(Failure, match=DENIAL):
        denied(command).run(PERMITS.release("m:1", TTL, 0, "clean", False))
    left = sum(holder.weight for holder in holders(lua, PERMITS).values())
    assert left <= int(lua.hash(PERMITS.holders)["used"]) == 2
