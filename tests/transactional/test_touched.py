"""Who competes with whom: only what a decision has read must be as it was, and nothing holds up the holder."""

from __future__ import annotations

from typing import Any

import pytest

from aiolock.backends.transactional.loaded import Loaded, Row
from aiolock.scripts.base import Call
from aiolock.scripts.bid import Bid
from aiolock.scripts.keys import Keys
from aiolock.scripts.lock import LockCalls
from aiolock.testing.clock import VirtualClock

from .server import FakeEngine, FakeServer
from .test_guess import decided, release

KEYS = Keys("aiolock")
LOCK = KEYS.of("lock", "a").lock


def wait(owner: str) -> Call[Any]:
    return LockCalls(KEYS, "a", 3000).acquire(Bid(owner, 30_000, 0, "here", 3000))


@pytest.mark.parametrize("first", ["granted", "queued"])
async def test_who_is_granted_a_name_and_who_queues_for_it_again(first: str) -> None:
    """Whoever has passed a name on mostly wants it again at once, and would be faster than whom it has told. Kept by
    Plan.decide: `touched`.
    """
    server, clock = FakeServer(), VirtualClock()
    one, two = FakeEngine(server, 1, clock), FakeEngine(server, 2, clock)
    server.listening = {"aiolock:manager:m", "aiolock:manager:n"}
    await decided(one, wait("m:1"))
    await decided(two, wait("n:1"))
    await decided(one, release("a", "m:1"))
    ((_, message),) = server.sent
    two.heard(message)
    stale = one.stale, two.stale
    if first == "queued":
        await decided(one, wait("m:2"))
    (granted,) = await decided(two, wait("n:1"))
    assert str(granted).startswith("b'granted")
    if first == "granted":
        await decided(one, wait("m:2"))
    assert (one.stale, two.stale) == (stale[0] + (first == "granted"), stale[1])


async def test_who_is_granted_a_name_waits_for_no_turn() -> None:
    """All others wait for it: those who came too late, too. Kept by Plan.urgent."""
    server, clock = FakeServer(), VirtualClock()
    one, two = FakeEngine(server, 1, clock), FakeEngine(server, 2, clock)
    server.listening = {"aiolock:manager:n"}
    await decided(one, wait("m:1"))
    await decided(two, wait("n:1"))
    await decided(one, release("a", "m:1"))
    ((_, message),) = server.sent
    two.heard(message)
    (plan,) = two.asked[-1]
    turns = {plan.tags[0]: (1, server.now_us + 50_000, 0, False)}
    server.turns |= turns
    stale = two.stale
    (granted,) = await decided(two, wait("n:1"))
    assert str(granted).startswith("b'granted")
    assert two.stale == stale
    assert server.turns == turns


def test_what_nobody_has_touched_is_not_written() -> None:
    """Nothing has compared it; and another may have written it in other words. Kept by Loaded.changes."""
    rows = {"a": Row("hash", '{ "x": "1" }', None), "b": Row("hash", '{ "x": "1" }', None), "c": Row("hash", "{}", 5)}
    store = Loaded(1, rows, lambda _: 0)
    assert store.changes() == {}
    assert store.hget("a", "x") == "1"
    assert store.changes() == {"a": Row("hash", '{"x":"1"}', None)}
    store.set("d", "text", 1)
    assert store.touched == {"a", "d"}
    assert store.changes().keys() == {"a", "d"}
    store.flush()
    assert store.changes() == dict.fromkeys("abc")
