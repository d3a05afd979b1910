"""What is left of many names when the server denies a command, or one key, inside the multi lock's scripts."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest

from aiolock.scripts.base import Call
from aiolock.scripts.multi import SCRIPTS, MultiCalls, renew
from aiolock.scripts.outcomes import Failed, Granted, Kept, Released
from tests.support.scripting import DENIAL, KEYS, Lock, LuaSide
from tests.support.scripting import Refused as Failure

from .test_denied_commands import HIGH, TTL

A, B = Lock("a"), Lock("b")
AB = MultiCalls(KEYS, ["a", "b"])
HELD = AB.acquire("m:+1", TTL, HIGH, "me")
FENCE = HIGH + 1
NESTED = AB.acquire("m:+1", 2 * TTL, 0, "", depth=2, fence=FENCE)


class Situation(NamedTuple):
    """A request, what came before it, what it answers, and the commands without which it is done nevertheless."""

    script: str
    before: list[Call[Any]]
    call: Call[Any]
    answer: type
    optional: frozenset[str] = frozenset()


SITUATIONS = {
    "acquire": Situation("acquire", [], HELD, Granted),
    "acquire nested": Situation("acquire", [HELD], NESTED, Granted),
    "release": Situation(
        "release",
        [HELD],
        AB.release("m:+1", TTL, 0, "clean", True),
        Released,
        frozenset({"hset", "pexpire", "publish", "set"}),
    ),
    "release nested": Situation("release", [HELD, NESTED], AB.release("m:+1", TTL, 1, "clean", False), Kept),
    "renew": Situation("renew", [HELD], renew([AB.renewal("m:+1", FENCE, 2 * TTL)]), list, frozenset({"hset"})),
    "info": Situation("info", [HELD], AB.info(), list),
}


def inner_commands(name: str) -> list[str]:
    (lua,) = [script.lua for script in SCRIPTS if script.name == name]
    return sorted({command.lower() for command in re.findall(r"redis\.p?call\('(\w+)'", lua)})


CASES = [(situation, command) for situation, facts in SITUATIONS.items() for command in inner_commands(facts.script)]


@pytest.mark.parametrize(("situation", "command"), CASES)
def test_what_is_left(situation: str, command: str, lua: LuaSide, denied: Callable[[str], LuaSide]) -> None:
    """Guards the order of commands in each script, and each `redis.pcall`."""
    _, before, call, answer, optional = SITUATIONS[situation]
    for each in before:
        lua.run(each)
    found = [lua.hash(lock.key) for lock in (A, B)]
    try:
        result = denied(command).run(call)
    except Failure as failure:
        check_failed(situation, command, str(failure), found, [lua.hash(lock.key) for lock in (A, B)])
    else:
        assert isinstance(result, answer)
        if situation == "release" and command in optional:
            assert not lua.exists(A.key)
            assert not lua.exists(B.key)
        if situation == "renew" and command in {"pttl", "hget", "hmget", "pexpire"}:
            (verdict,) = result
            assert isinstance(verdict, Failed)
            assert DENIAL.search(verdict.error)
    for lock in (A, B):
        if lua.exists(lock.key):
            assert 0 < lua.pttl(lock.key) <= 2 * TTL


def check_failed(
    situation: str, command: str, error: str, found: list[dict[str, str]], left: list[dict[str, str]]
) -> None:
    assert DENIAL.search(error)
    assert command not in SITUATIONS[situation].optional
    if situation == "acquire nested" and command == "pexpire":
        # The depth of the first was raised: the release that undoes it carries the count to go back to.
        assert left == [{"m:+1": "2"}, found[1]]
    else:
        assert left == found
