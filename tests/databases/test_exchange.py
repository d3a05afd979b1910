"""The function or procedure of the database does what the server in memory does, on which the guessing is tested."""

from __future__ import annotations

import random

from aiolock.backends.transactional.guess import KEPT_US, LAG_US
from aiolock.backends.transactional.loaded import Row
from aiolock.backends.transactional.plan import FIRM, NONE, Known, Plan
from aiolock.clock import SystemClock
from aiolock.scripts.keys import Keys
from aiolock.scripts.lock import LockCalls
from tests.support.database import ServedSide
from tests.transactional.server import FakeEngine, FakeServer

from .database import Database

KEYS = [f"aiolock:lock:{{{name}}}{part}" for name in "abc" for part in ("", ":queue")]
CHANNELS = ["aiolock:manager:m", "aiolock:manager:n"]
HELD = "aiolock:lock:{b}"
"""A transaction has this lock, where `hold_in` is offered."""
RELEASE = LockCalls(Keys("aiolock"), "a", 3000).release("m:1", 30_000, 0, "clean", False)


def drawn(choose: random.Random, server: FakeServer, holds_in: bool) -> list[Plan]:
    """Some plans about different names, of which some are right; `holds_in`: some ask who has a lock."""
    plans = []
    for name in choose.sample("abc", choose.randint(1, 3)):
        plan = Plan([], [f"aiolock{name}", *choose.choice([[], [f"aiolock{name} too"]])])
        plan.attempts = choose.choice([0, 1, 2, FIRM])
        plan.calls = choose.choice([[], [], [(0, RELEASE)]])
        for key in KEYS:
            if f"{{{name}}}" in key:
                plan.keys[key] = choose.choice([server.rows.get(key, NONE).version] * 6 + [0, -1, 99, None, None])
                match choose.randint(0, 3):
                    case 0:
                        plan.writes[key] = None
                    case 1:
                        plan.writes[key] = Row("hash", '{"owner":"m:\\u0000ä"}', choose.choice([None, 2**60]))
                    case 2:
                        plan.writes[key] = Row("string", "\0 text", 2**60)
        lock = f"aiolock:lock:{{{name}}}"
        for channel in CHANNELS:
            if choose.random() < 0.3:
                plan.hears[channel] = choose.choice([channel in server.listening] * 3 + [True, False])
                plan.messages.append((channel, "hello"))
        if holds_in and choose.random() < 0.3:
            plan.hears[lock] = choose.choice([lock in server.listening] * 3 + [True, False])
        plans.append(plan)
    return plans


def content(side: ServedSide) -> dict[str, Row]:
    with side.opened() as store:
        return dict(store._rows)


async def test_both_do_the_same(database: Database) -> None:
    """Kept by exchange_1: each of its conditions."""
    side = database.side()
    choose, server = random.Random(7), FakeServer()
    server.listening = {CHANNELS[0], HELD} if database.holds_in else {CHANNELS[0]}
    side.listen(*server.listening)
    engines = [database.engines(database.url, pushes=False) for _ in range(2)]
    fakes = [FakeEngine(server, at, SystemClock()) for at in range(2)]
    for engine in engines:
        await engine.open(lambda *_: None)
    seen = set()
    for version in range(1, 250):
        plans = drawn(choose, server, database.holds_in)
        who = choose.randint(0, 1)
        off = choose.choice([0] * 9 + [-3_600_000_000, 3_600_000_000])
        if choose.random() < 0.3:  # turns end
            server.turns.clear()
            database.end_turns()
        used_us = side.now_us() + off
        real = await engines[who].exchange(plans, used_us, LAG_US, version, KEPT_US)
        server.now_us = real.now_us
        fake = await fakes[who].exchange(plans, used_us, LAG_US, version, KEPT_US)
        assert real.stale == fake.stale, (version, [plan.keys for plan in plans])
        assert content(side) == {key: known.row for key, known in server.rows.items()}
        turns = {(tag, engines[who]._number, *kept) for tag, (who, *kept) in server.turns.items()}
        assert set(database.turns()) == turns
        seen.add((len(plans), len(real.stale)))
    assert len(seen) == 9  # of one, two and three plans, all numbers of stale ones
    for engine in engines:
        await engine.aclose()
    side.close()


async def test_what_is_sent(database: Database) -> None:
    """Only what a plan sends that is carried out. Kept by exchange_1: `tell`."""
    side = database.side()
    side.listen(*CHANNELS)
    engine = database.engines(database.url, pushes=False)
    await engine.open(lambda *_: None)
    for number, version in enumerate((0, -1)):
        plan = Plan([], ["aiolock" + "a"])
        plan.keys = {KEYS[0]: version}
        plan.messages = [(channel, f"{number}") for channel in CHANNELS]
        await engine.exchange([plan], side.now_us(), LAG_US + 3_000_000, 1, KEPT_US)
    assert sorted(side.heard()) == sorted((channel, "0") for channel in CHANNELS)
    assert Known(0, None) == NONE
    await engine.aclose()
    side.close()
