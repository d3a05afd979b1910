"""How many commands the server runs for the most frequent requests; EVALSHA is one of them."""

from __future__ import annotations

from typing import Any

import pytest

from aiolock.scripts.base import Call
from aiolock.scripts.bid import Bid
from aiolock.scripts.lock import renew
from aiolock.scripts.outcomes import Granted, Passed, Queued, Released
from tests.support.lock_calls import FENCE, HIGH, LIVENESS, TTL, Lock, change, enter, hears
from tests.support.scripting import LuaSide

NAME = Lock()
HELD = NAME.acquire(Bid("m:1", TTL, HIGH, "me"))
OVER = NAME.transfer("m:1", FENCE, Bid("m:2", TTL, 0, "", LIVENESS, True), True, False)
WITHIN = NAME.transfer("m:1", FENCE, Bid("m:2", TTL, 0, "", LIVENESS, True), False, False)
RELEASE = NAME.release("m:1", TTL, 0, "clean", False)
CASES = {
    "acquire, free": (7, HELD, Granted),
    "release, no waiters": (5, RELEASE, Released),
    "hand-off in the process": (7, WITHIN, Granted),
    "hand-off in the process, others wait": (7, WITHIN, Granted),
    "acquire, queues": (9, NAME.acquire(Bid("n:2", TTL, 0, "", LIVENESS)), Queued),
    "acquire, queues alone": (11, NAME.acquire(Bid("n:2", TTL, 0, "", LIVENESS)), Queued),
    "acquire, queues again": (8, NAME.acquire(Bid("n:2", TTL, 0, "", -LIVENESS)), Queued),
    "renew": (5, renew([NAME.renewal("m:1", FENCE, TTL)]), list),
    "transfer to another process": (14, OVER, Passed),
    "release to another process": (10, RELEASE, Released),
}


@pytest.mark.parametrize("case", CASES)
def test_commands(case: str, lua: LuaSide) -> None:
    most, call, answer = CASES[case]
    lua.load(call.script)
    hears(lua, NAME, "n")
    if case != "acquire, free":
        lua.run(HELD)
    if "others wait" in case or "another process" in case or case in ("acquire, queues", "acquire, queues again"):
        enter(lua, NAME, "n:1")
        # No clock reaches this number, so the next one's is beside it: in the same quarter of the time that the keys
        # last.
        lua.score(NAME.queue, "n:1", 15_000_000 * (HIGH // 15_000_000))
    if "another process" in case:
        lua.hset(NAME.alive, {"m": "1+"})
        enter(lua, NAME, "o:1")
    commands, outcome = count(lua, call)
    assert isinstance(outcome, answer)
    assert commands == most


def count(lua: LuaSide, call: Call[Any]) -> tuple[int, Any]:
    """Return how many commands the server ran for it."""
    lua.link.config_resetstat()
    outcome = lua.run(call)
    stats: dict[str, Any] = lua.link.info("commandstats")  # type: ignore[assignment]
    ran = {name: fact["calls"] for name, fact in stats.items() if "config" not in name and "info" not in name}
    return sum(ran.values()), outcome


def test_a_short_wait_costs_no_expiry(lua: LuaSide) -> None:
    """Guards the fast paths: a pair is 12 commands, if the name is new."""
    for call in (HELD, RELEASE):
        lua.load(call.script)
    assert sum(count(lua, call)[0] for call in (HELD, RELEASE)) == 12


def test_taking_what_the_queue_has_granted_costs_one_write(lua: LuaSide) -> None:
    """Guards acquire_own.lua."""
    lua.run(HELD)
    enter(lua, NAME, "n:1")
    change(lua, NAME, depth=0)
    call = NAME.acquire(Bid("m:1", TTL, 0, "me", LIVENESS))
    lua.load(call.script)
    assert count(lua, call) == (6, Granted(FENCE, TTL, False))
