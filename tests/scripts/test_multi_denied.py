"""What is left of many names when the server denies a command inside the multi lock's scripts.

Redis does not roll a script back. So in each situation each command is denied in turn.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest

from aiolock.scripts.base import Call
from aiolock.scripts.bid import Bid
from aiolock.scripts.multi import GIVE_BACK, SCRIPTS, renew
from aiolock.scripts.outcomes import Failed, Granted, Kept, Queued, Released
from tests.support.lock_calls import lasting, state
from tests.support.multi import LIVENESS, Multi, Name, crash, granted, waiting
from tests.support.scripting import DENIAL, KEYS, LuaSide
from tests.support.scripting import Refused as Failure

TTL = 30_000
HIGH = 2**51
A, B, C = NAMES = Name("a"), Name("b"), Name("c")
ABC, BC = Multi(A, B, C), Multi(B, C)
FENCE = HIGH + 1
HELD = ABC.acquire(Bid("m:+1", TTL, HIGH, "me"))
ASK = ABC.acquire(Bid("m:+1", TTL, HIGH, "me", LIVENESS))
NEXT = B.acquire(Bid("o:1", TTL, HIGH, "", LIVENESS))
PLAIN = [A.acquire(Bid("n:1", TTL, HIGH, "")), B.acquire(Bid("n:2", TTL, HIGH, ""))]
FREE_A, FREE_B = A.release("n:1", TTL, 0, "clean", False), B.release("n:2", TTL, 0, "clean", False)


class Situation(NamedTuple):
    """A request, what came before it, its answer, and the commands without which it is done nevertheless."""

    before: list[Call[Any]]
    call: Call[Any]
    answer: type
    optional: frozenset[str] = frozenset()


SITUATIONS = {
    "acquire free": Situation([], HELD, Granted),
    "acquire again": Situation([HELD], HELD, Granted),
    "acquire queued": Situation(PLAIN, ASK, Queued),
    "acquire some": Situation([*PLAIN, ASK, FREE_A], ASK, Queued),
    "acquire last": Situation([*PLAIN, ASK, FREE_A, ASK, FREE_B], ASK, Granted),
    "acquire from a younger": Situation(
        [*PLAIN, ASK, BC.acquire(Bid("o:+1", TTL, HIGH, "", LIVENESS)), FREE_B, FREE_A], ASK, Granted
    ),
    "release": Situation([HELD, NEXT], ABC.release("m:+1", TTL, 0, "clean", True), Released, frozenset({"publish"})),
    "release nested": Situation(
        [HELD, ABC.nest("m:+1", FENCE, TTL, 2)], ABC.release("m:+1", TTL, 1, "clean", False), Kept
    ),
    "give back": Situation([*PLAIN, ASK, FREE_A, ASK], ABC.give_back("m:+1", TTL, "b"), object),
    "nest": Situation([HELD], ABC.nest("m:+1", FENCE, TTL, 2), Kept),
    "renew": Situation([HELD], renew([ABC.renewal("m:+1", FENCE, 2 * TTL)]), list),
    "info": Situation([HELD], ABC.info(), list),
}
COMMANDS = sorted({word.lower() for script in SCRIPTS for word in re.findall(r"redis\.p?call\('(\w+)'", script.lua)})


def test_every_script_is_among_them() -> None:
    assert {situation.call.script for situation in SITUATIONS.values()} == {*SCRIPTS, GIVE_BACK}


@pytest.mark.parametrize("command", COMMANDS)
def test_what_is_left(command: str, lua: LuaSide, denied: Callable[[str], LuaSide]) -> None:
    """At worst a name is kept until its time is over, or an entry until it counts as dead."""
    limited = denied(command)
    for told, situation in SITUATIONS.items():
        lua.flush()
        for each in situation.before:
            lua.run(each)
        before = [state(lua, name) for name in NAMES]
        error, result = attempt(limited, situation.call)
        if error:
            assert DENIAL.search(error), told
            assert command not in situation.optional, told
            if command == "set":
                assert [state(lua, name) for name in NAMES] == before, told
        else:
            assert isinstance(result, situation.answer), told
        check_left(lua, told)


def attempt(side: LuaSide, call: Call[Any]) -> tuple[str, object]:
    """The error, if any, and the answer."""
    try:
        result = side.run(call)
    except Failure as failure:
        return str(failure), None
    return (result[0].error, None) if isinstance(result, list) and isinstance(result[0], Failed) else ("", result)


def check_left(lua: LuaSide, told: str) -> None:
    """Check that no key is without an expiry; the next requests repair what else it left."""
    for name in NAMES:
        lasting(lua, name)
    lua.run(ABC.release("m:+1", TTL, 0, "undone", False))
    for name in NAMES:
        if state(lua, name).expires:
            crash(lua, name)
        for manager in lua.hash(name.alive):
            lua.hset(name.alive, {manager: "1+"})
    assert isinstance(lua.run(ABC.acquire(Bid("z:+9", TTL, HIGH, ""))), Granted), told
    assert [waiting(lua, name) for name in NAMES] == [[]] * 3, told
    for name in NAMES:
        lua.run(name.acquire(Bid("y:1", TTL, 0, "", LIVENESS)))
        assert all(lua.pttl(key) > 0 for key in name.keys), told


def test_a_denied_write_grants_nothing(lua: LuaSide, denied: Callable[[str], LuaSide]) -> None:
    """Guards that a younger owner is queued again before, and the owner leaves the queue after."""
    for each in SITUATIONS["acquire last"].before:
        lua.run(each)
    found = [state(lua, name) for name in NAMES]
    with pytest.raises(Failure, match=DENIAL):
        denied("hset").run(ASK)
    assert [state(lua, name) for name in NAMES] == found
    assert granted(lua.run(ASK)).fence > found[0].fence


def test_a_key_that_is_denied_is_no_grant(lua: LuaSide, denied: Callable[[str], LuaSide]) -> None:
    """Guards that all names are read before one is written."""
    limited = denied("flushall")
    lua.link.execute_command("ACL", "SETUSER", "limited", "resetkeys", f"~{A.state}*", f"~{B.state}*")
    for call in (HELD, ASK):
        with pytest.raises(Failure):
            limited.run(call)
        assert [state(lua, name).owner for name in NAMES] == [""] * 3
    lua.listen(KEYS.manager("o"))
