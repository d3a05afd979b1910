"""What is left when the server denies a command inside a script of the lock: at worst a task waits longer.

Redis does not roll a script back. So for each script, in each situation, each command that it executes is denied.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest
import redis

from aiolock.scripts.base import Call
from aiolock.scripts.bid import Bid
from aiolock.scripts.lock import SCRIPTS, confirm, renew
from aiolock.scripts.outcomes import (
    Asked,
    Failed,
    Finished,
    Granted,
    Kept,
    Missing,
    Passed,
    Queued,
    Refused,
    Released,
    Renewed,
    Standing,
)
from tests.support.lock_calls import (
    FENCE,
    HIGH,
    LIVENESS,
    TTL,
    Lock,
    State,
    enter,
    expire,
    forget,
    hears,
    lasting,
    state,
    waiters,
)
from tests.support.scripting import DENIAL, LuaSide
from tests.support.scripting import Refused as Failure

NAME = Lock()
OTHER = Lock("other")
HELD = NAME.acquire(Bid("m:1", TTL, HIGH, "me"))


class Situation(NamedTuple):
    """Who waits while `m:1` holds, or held; a request; its answer; the commands without which it is done too."""

    waiting: tuple[str, ...]
    expired: bool
    call: Call[Any]
    answer: type
    optional: frozenset[str] = frozenset({"publish"})


LATER = frozenset({"publish", "set"})
ASK = NAME.acquire(Bid("o:1", TTL, HIGH, "", LIVENESS))
SITUATIONS = {
    "acquire free": Situation((), True, ASK, Granted),
    "acquire held": Situation((), False, NAME.acquire(Bid("o:1", TTL, 0, "")), Refused),
    "acquire queued": Situation((), False, ASK, Queued),
    "acquire again": Situation((), False, NAME.acquire(Bid("m:1", TTL, 0, "", LIVENESS)), Granted),
    "acquire settled": Situation(("n:1",), True, ASK, Queued),
    "acquire past the dead": Situation(("dead:1",), True, ASK, Granted),
    "acquire buried": Situation((), False, NAME.acquire(Bid("buried:1", TTL, 0, "")), Finished),
    "release": Situation((), False, NAME.release("m:1", TTL, 0, "clean", False), Released),
    "release to others": Situation(("n:1",), False, NAME.release("m:1", TTL, 0, "clean", False), Released),
    "release to the deaf": Situation(("deaf:1",), False, NAME.release("m:1", TTL, 0, "dirty", True, "a"), Released),
    "release nested": Situation((), False, NAME.release("m:1", TTL, 1, "clean", False), Kept),
    "depart": Situation(("n:1",), False, NAME.departure("n"), bool),
    "leave": Situation(("n:1",), False, NAME.release("n:1", TTL, 0, "undone", True), Missing, LATER),
    "transfer": Situation(
        ("n:1",), False, NAME.transfer("m:1", FENCE, Bid("m:2", TTL, 0, "", 1, True), False, False), Granted
    ),
    "transfer over": Situation(
        ("n:1",), False, NAME.transfer("m:1", FENCE, Bid("m:2", TTL, 0, "", LIVENESS, True), True, False), Passed
    ),
    "transfer missing": Situation(
        (), False, NAME.transfer("z:1", FENCE, Bid("m:2", TTL, 0, "", LIVENESS, True), True, True), Missing, LATER
    ),
    "nest": Situation((), False, NAME.nest("m:1", FENCE, 2 * TTL, 2), Kept),
    "renew": Situation((), False, renew([NAME.renewal("m:1", FENCE, 2 * TTL)]), Renewed),
    "refresh": Situation(("n:1",), False, NAME.refresh_many([NAME.alive_of("n:1", LIVENESS)]), Queued),
    "refresh first": Situation(("n:1", "o:1"), True, NAME.refresh_many([NAME.alive_of("n:1", LIVENESS)]), Granted),
    "refresh second": Situation(("n:1", "o:1"), True, NAME.refresh_many([NAME.alive_of("o:1", LIVENESS)]), Queued),
    "force_release": Situation(("n:1",), False, NAME.force_release(), bool),
    "request_release": Situation((), False, NAME.request_release(), Asked, frozenset({"publish"})),
    "confirm": Situation((), False, confirm(HELD, FENCE, FENCE + 7), bool),
    "follows": Situation((), False, NAME.follows("m:1", FENCE, 0), bool),
    "info": Situation(("n:1",), False, NAME.info("n:1"), Standing),
}


def commands(call: Call[Any]) -> list[str]:
    return sorted({command.lower() for command in re.findall(r"redis\.p?call\('(\w+)'", call.script.lua)})


COMMANDS = sorted({command for situation in SITUATIONS.values() for command in commands(situation.call)})


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


def prepare(lua: LuaSide, situation: Situation) -> State:
    hears(lua, NAME, "m", "n", "o")
    lua.run(NAME.release("buried:1", TTL, 0, "undone", True))
    lua.run(HELD)
    enter(lua, NAME, *situation.waiting)
    forget(lua, NAME, *({"dead"} & {owner.partition(":")[0] for owner in situation.waiting}))
    if situation.expired:
        expire(lua, NAME)
    return state(lua, NAME)


def attempt(side: LuaSide, call: Call[Any]) -> tuple[str, Any]:
    """Return the error, if any, and the answer: of a batch, that of its only part."""
    try:
        result = side.run(call)
    except Failure as failure:
        return str(failure), None
    (one,) = result if isinstance(result, list) else (result,)
    return (one.error, None) if isinstance(one, Failed) else ("", one)


def test_every_script_is_among_them() -> None:
    assert {situation.call.script for situation in SITUATIONS.values()} == set(SCRIPTS)


def test_what_is_never_executed(executed: dict[str, set[str]]) -> None:
    """GET looks at what is no hash, HSCAN at more processes than are here. Broken by a situation that went missing."""
    assert set(COMMANDS) - set().union(*executed.values()) == {"get", "hscan"}


@pytest.mark.parametrize("command", COMMANDS)
def test_what_is_left(
    command: str, lua: LuaSide, denied: Callable[[str], LuaSide], executed: dict[str, set[str]]
) -> None:
    """Guards the order of commands, each `redis.pcall`, `name.ended`, and that no key is ever without an expiry."""
    limited = denied(command)
    for name, situation in SITUATIONS.items():
        if command in executed[name]:
            lua.flush()
            check_left(lua, limited, command, name, situation)


def check_left(lua: LuaSide, limited: LuaSide, command: str, name: str, situation: Situation) -> None:
    before = prepare(lua, situation)
    lua.heard()
    error, result = attempt(limited, situation.call)
    case = f"{name}: {error or result}"
    if error:
        assert DENIAL.search(error), case
        assert command not in situation.optional, case
    else:
        assert isinstance(result, situation.answer), case
    lasting(lua, NAME)
    left, told = state(lua, NAME), [payload for _, payload in lua.heard()]
    if left.owner != before.owner and left.owner.startswith(("n", "o")) and error:
        asks = left.owner in situation.call.args  # it does not know this; a copy of its request tells it
        assert asks or f"granted {left.owner} {left.fence} {left.abandoned} {NAME.state}" in told, case
    for payload in told:
        if payload.startswith("granted"):
            assert payload.split()[1:3] == [left.owner, str(left.fence)], f"{case}: the owner that is told enters"
    if before.live and error and situation.call.script.name not in ("release", "transfer", "force_release"):
        assert left.owner == "m:1", case
    # The next request finds everything in order.
    if left.live:
        assert lua.run(NAME.release(left.owner, TTL, 0, "clean", False)) == Released(left.fence), case
    assert left.owner not in waiters(lua, NAME), case
    forget(lua, NAME, *lua.hash(NAME.alive))
    if state(lua, NAME).live:
        expire(lua, NAME)
    assert isinstance(lua.run(NAME.acquire(Bid("y:1", TTL, 0, "", LIVENESS))), Granted), case
    assert waiters(lua, NAME) == [], case


def test_a_denied_message_counts_as_heard(lua: LuaSide, denied: Callable[[str], LuaSide]) -> None:
    """Hazard 12: nothing proves that it was not heard; a waiter asks by itself."""
    hears(lua, NAME, "n")
    lua.run(HELD)
    enter(lua, NAME, "n:1")
    assert denied("publish").run(NAME.release("m:1", TTL, 0, "clean", False)) == Released(FENCE)
    assert state(lua, NAME).owner == "n:1"


@pytest.mark.parametrize("command", ["hmget", "hset"])
def test_a_denied_renewal_is_no_verdict(command: str, lua: LuaSide, denied: Callable[[str], LuaSide]) -> None:
    """Guards pcall: the answer is the error, for each hold."""
    for name in (NAME, OTHER):
        lua.run(name.acquire(Bid("m:1", TTL, HIGH, "")))
    answers = denied(command).run(renew(name.renewal("m:1", FENCE, 2 * TTL) for name in (NAME, OTHER)))
    assert [isinstance(answer, Failed) and bool(DENIAL.search(answer.error)) for answer in answers] == [True, True]
