"""What the multi lock's requests cost the server in commands, including those of the script."""

from __future__ import annotations

from typing import Any

from aiolock.scripts.base import Call
from aiolock.scripts.bid import Bid
from aiolock.scripts.multi import SCRIPTS, renew
from tests.support.multi import LIVENESS, Multi, Name, granted
from tests.support.scripting import KEYS, LuaSide

TTL = 30_000
NAMES = [Name(name) for name in "abcde"]
ALL = Multi(*NAMES)
N = len(NAMES)


def commands(lua: LuaSide, call: Call[Any]) -> int:
    """Return how many commands the server counts."""
    lua.link.config_resetstat()
    lua.run(call)
    stats: Any = lua.link.info("commandstats")
    return sum(facts["calls"] for command, facts in stats.items() if not command.startswith("cmdstat_config"))


def test_free_names(lua: LuaSide) -> None:
    """Kept by acquire_free.lua; release.lua reads each name, looks at its queue, and writes it."""
    for script in SCRIPTS:
        lua.load(script)
    assert commands(lua, ALL.acquire(Bid("m:+1", TTL, 0, ""))) == 3 + 3 * N
    fence = granted(lua.run(ALL.acquire(Bid("m:+1", TTL, 0, "")))).fence
    assert commands(lua, renew([ALL.renewal("m:+1", fence, TTL)])) == 2 + 3 * N
    assert commands(lua, ALL.info()) == 2 + N
    assert commands(lua, ALL.release("m:+1", TTL, 0, "clean", False)) == 2 + 4 * N


def test_waiting(lua: LuaSide) -> None:
    """Contention costs more for each contended name, never for each waiter."""
    lua.listen(KEYS.manager("m"))
    counts = []
    for waiters in (0, 20):
        lua.flush()
        for script in SCRIPTS:
            lua.load(script)
        for i in range(2):
            lua.run(NAMES[i].acquire(Bid(f"n:{i}", TTL, 0, "")))
        for i in range(waiters):
            lua.run(NAMES[1].acquire(Bid(f"o:{i}", TTL, 0, "", LIVENESS)))
        ask = ALL.acquire(Bid("m:+1", TTL, 0, "", LIVENESS))
        queued = commands(lua, ask)
        lua.run(NAMES[0].release("n:0", TTL, 0, "clean", False))
        counts.append((queued, commands(lua, ask)))
    assert counts[0] == counts[1]
