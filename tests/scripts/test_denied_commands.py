"""What is left when the server denies a command inside a script: what the script's header says, and never more.

Redis does not roll a script back. So for each script, in each situation, each command that it issues is denied in turn.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest

from aiolock.scripts.base import Call
from aiolock.scripts.lock import SCRIPTS, confirm, renew
from aiolock.scripts.outcomes import Failed, Finished, Granted, Held, Kept, Missing, Refused, Released, Renewed
from tests.support.scripting import DENIAL, Lock, LuaSide
from tests.support.scripting import Refused as Failure

TTL = 30_000
HIGH = 2**51
FENCE = HIGH + 1
LOCK = Lock()
OTHER = Lock("other")


class Situation(NamedTuple):
    """A request, what came before it, what it answers, and the commands without which it is done nevertheless."""

    script: str
    before: list[Call[Any]]
    call: Call[Any]
    answer: type
    optional: frozenset[str] = frozenset()


HELD = LOCK.acquire("m:1", TTL, HIGH, "me")
NESTED = LOCK.acquire("m:1", 2 * TTL, 0, "", depth=2, fence=FENCE)
SITUATIONS = {
    "acquire free": Situation("acquire", [], HELD, Granted),
    "acquire held": Situation("acquire", [HELD], LOCK.acquire("m:2", TTL, 0, ""), Refused),
    "acquire held, polling": Situation(
        "acquire", [HELD], LOCK.acquire("m:2", TTL, 0, "", mark_ms=TTL), Refused, frozenset({"set"})
    ),
    "acquire nested": Situation("acquire", [HELD], NESTED, Granted),
    "acquire again": Situation("acquire", [HELD], LOCK.acquire("m:1", 2 * TTL, 0, ""), Granted),
    "acquire buried": Situation("acquire", [LOCK.release("m:1", TTL, 0, "undone", True)], HELD, Finished),
    "release": Situation(
        "release",
        [HELD],
        LOCK.release("m:1", TTL, 0, "clean", True),
        Released,
        frozenset({"hset", "pexpire", "publish", "set"}),
    ),
    "release undone": Situation(
        "release",
        [HELD],
        LOCK.release("m:1", TTL, 0, "undone", False),
        Released,
        frozenset({"hget", "hset", "pexpire", "publish"}),
    ),
    "release nested": Situation("release", [HELD, NESTED], LOCK.release("m:1", TTL, 1, "clean", False), Kept),
    "release missing": Situation(
        "release", [], LOCK.release("m:1", TTL, 0, "clean", True), Missing, frozenset({"set"})
    ),
    "transfer": Situation(
        "transfer",
        [HELD],
        LOCK.transfer("m:1", FENCE, "m:2", TTL, 0, "", True),
        Granted,
        frozenset({"pubsub", "set"}),
    ),
    "transfer missing": Situation(
        "transfer", [], LOCK.transfer("m:1", FENCE, "m:2", TTL, 0, "", True), Missing, frozenset({"pubsub", "set"})
    ),
    "renew": Situation("renew", [HELD], renew([LOCK.renewal("m:1", FENCE, 2 * TTL)]), list, frozenset({"hset"})),
    "confirm": Situation("confirm", [HELD], confirm(HELD, FENCE, FENCE + 7), bool),
    "force_release": Situation("force_release", [HELD], LOCK.force_release(), bool, frozenset({"publish"})),
    "info": Situation("info", [HELD], LOCK.info(), Held),
}


def inner_commands(name: str) -> list[str]:
    (lua,) = [script.lua for script in SCRIPTS if script.name == name]
    return sorted({command.lower() for command in re.findall(r"redis\.p?call\('(\w+)'", lua)})


CASES = [(situation, command) for situation, facts in SITUATIONS.items() for command in inner_commands(facts.script)]


class Left(NamedTuple):
    """All that there is on the server."""

    keys: set[bytes]
    lock: dict[str, str]
    state: dict[str, str]


def look(lua: LuaSide) -> Left:
    return Left(set(lua.link.keys("*")), lua.hash(LOCK.key), lua.hash(LOCK.state))


@pytest.mark.parametrize(("situation", "command"), CASES)
def test_what_is_left(situation: str, command: str, lua: LuaSide, denied: Callable[[str], LuaSide]) -> None:
    """Guards the order of commands in each script, and each `redis.pcall`."""
    script, before, call, answer, optional = SITUATIONS[situation]
    for each in before:
        lua.run(each)
    found = look(lua)
    try:
        result = denied(command).run(call)
    except Failure as failure:
        check_failed(situation, command, str(failure), found, look(lua))
    else:
        assert isinstance(result, answer)
        if command in optional and script != "renew":
            assert lua.exists(LOCK.key) == (answer is Refused or (script == "transfer" and answer is Granted))
    if lua.exists(LOCK.key):
        assert 0 < lua.pttl(LOCK.key) <= 2 * TTL


def check_failed(situation: str, command: str, error: str, found: Left, left: Left) -> None:
    script, _, _, _, optional = SITUATIONS[situation]
    assert DENIAL.search(error)
    assert command not in optional
    if script == "transfer":
        # After DEL the lock is free at worst: nobody has it, and whoever asks next gets it.
        assert left.lock in ({}, found.lock)
        assert command in {"hset", "pexpire"} or left == found
    elif situation == "acquire nested" and command == "pexpire":
        # The depth was raised: the release that undoes it carries the count to go back to.
        assert left == found._replace(lock={"m:1": "2"})
    elif situation == "acquire free" and command == "pexpire":
        assert left.lock == {}
        assert left.state["owner"] == "m:1"
    else:
        assert left == found


@pytest.mark.parametrize("command", ["hget", "pttl", "pexpire"])
def test_a_denied_renewal_is_no_verdict(command: str, lua: LuaSide, denied: Callable[[str], LuaSide]) -> None:
    """Guards the pcall: the answer is the error, for each key."""
    locks = [LOCK, OTHER]
    for lock in locks:
        lua.run(lock.acquire("m:1", TTL, HIGH, ""))
    answers = denied(command).run(renew(lock.renewal("m:1", FENCE, 2 * TTL) for lock in locks))
    assert all(isinstance(answer, Failed) and DENIAL.search(answer.error) for answer in answers)
    assert len(answers) == 2


def test_a_denial_that_concerns_one_key_spoils_no_other(lua: LuaSide, denied: Callable[[str], LuaSide]) -> None:
    """Guards the pcall: EXISTS is asked about a missing key only."""
    lua.run(LOCK.acquire("m:1", TTL, HIGH, ""))
    batch = renew(lock.renewal("m:1", FENCE, 2 * TTL) for lock in (OTHER, LOCK))
    failed, renewed = denied("exists").run(batch)
    assert isinstance(failed, Failed)
    assert DENIAL.search(failed.error)
    assert renewed == Renewed(2 * TTL)


@pytest.mark.parametrize("command", ["hset", "pexpire"])
def test_a_lost_state_that_cannot_be_written_is_no_loss(
    command: str, lua: LuaSide, denied: Callable[[str], LuaSide]
) -> None:
    """Guards the pcalls behind the renewal: the lock is held whether or not its state is."""
    lua.run(HELD)
    lua.delete(LOCK.state)
    (renewed,) = denied(command).run(renew([LOCK.renewal("m:1", FENCE, TTL // 2)]))
    assert isinstance(renewed, Renewed)


def test_a_denied_publish_still_releases(lua: LuaSide, denied: Callable[[str], LuaSide]) -> None:
    """Guards `redis.pcall('PUBLISH')`."""
    lua.run(HELD)
    assert denied("publish").run(LOCK.release("m:1", TTL, 0, "clean", False)) == Released(FENCE)
    granted = lua.run(LOCK.acquire("m:2", TTL, HIGH, ""))
    assert isinstance(granted, Granted)
    assert not granted.abandoned


def test_a_denied_numsub_counts_as_somebody(lua: LuaSide, denied: Callable[[str], LuaSide]) -> None:
    """Guards `seen.err and 1`: in doubt, others wait."""
    lua.run(HELD)
    granted = denied("pubsub").run(LOCK.transfer("m:1", FENCE, "m:2", TTL, 0, "", False))
    assert isinstance(granted, Granted)
    assert granted.others == 1
