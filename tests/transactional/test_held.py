"""A lock that a transaction has: what those decide who find it so."""

from __future__ import annotations

import pytest

from aiolock.backends.transactional.held import PAUSE_MS, grants, is_lock, lasts
from aiolock.backends.transactional.loaded import Row
from aiolock.errors import BackendError
from aiolock.scripts.keys import Keys
from aiolock.scripts.lock import LockCalls, renew
from aiolock.testing.clock import VirtualClock

from .server import FakeEngine, FakeServer
from .test_guess import acquire, decided, release

CALLS = LockCalls(Keys("aiolock"), "a", 3000)
STATE = "aiolock:lock:{a}"


@pytest.fixture
def server() -> FakeServer:
    return FakeServer()


@pytest.fixture
def one(server: FakeServer) -> FakeEngine:
    return FakeEngine(server, 1, VirtualClock())


async def test_a_grant_waits_for_its_end(one: FakeEngine, server: FakeServer) -> None:
    """Nobody else is in the way. Kept by Plan.decide: `held`."""
    await decided(one, acquire("a", "m:1"))
    await decided(one, release("a", "m:1"))
    before = server.rows[STATE]
    server.listening = {STATE}
    (answer,) = await decided(one, acquire("a", "m:2"))
    assert f"refused {PAUSE_MS} " in str(answer)
    assert server.rows[STATE] == before
    server.listening = set()
    (answer,) = await decided(one, acquire("a", "m:2"))
    assert "granted" in str(answer)


async def test_nothing_else_is_looked_at(one: FakeEngine, server: FakeServer) -> None:
    """A release frees the name, whoever waits. Kept by Plan.decide: `grants`."""
    await decided(one, acquire("a", "m:1"))
    stale = one.stale
    await decided(one, release("a", "m:1"))
    assert one.asked[-1][0].hears == {}
    assert one.stale == stale


async def test_a_lease_that_lives(one: FakeEngine, server: FakeServer) -> None:
    """No transaction can have it, so nobody is asked; if it may end before the server decides, one may have it. Kept by
    Plan.decide: `lag_us`.
    """
    await decided(one, acquire("a", "m:1"))
    (answer,) = await decided(one, renew((CALLS.renewal("m:1", fence(server), 30_000),)))
    assert answer == [30_000]
    assert one.asked[-1][0].hears == {}
    one._clock.jump(29.8)  # type: ignore[attr-defined]
    server.now_us += 29_800_000
    server.listening = {STATE}
    asked = one.exchange

    async def looking(*words: object) -> object:  # a transaction that only looks has it for a moment
        verdict = await asked(*words)  # type: ignore[arg-type]
        if len(one.asked) > 6:
            server.listening = set()
        return verdict

    one.exchange = looking  # type: ignore[method-assign, assignment]
    (answer,) = await decided(one, renew((CALLS.renewal("m:1", fence(server), 30_000),)))
    assert answer == [30_000]
    assert len(one.asked) > 6


async def test_by_force(one: FakeEngine, server: FakeServer) -> None:
    server.listening = {STATE}
    (answer,) = await decided(one, CALLS.force_release(0))
    assert isinstance(answer, BackendError)
    assert STATE not in server.rows


def fence(server: FakeServer) -> int:
    row = server.rows[STATE].row
    assert row is not None
    return int(row.value.partition('"fence":"')[2].partition('"')[0])


def test_what_can_be_held() -> None:
    assert is_lock(STATE)
    assert not any(map(is_lock, (f"{STATE}:queue", "aiolock:rw:{a}", "aiolock:lock", "a:lock:semaphore:{a}:state")))


def test_who_holds_it() -> None:
    """As lock/state.lua says it, also if the server's clock was set back; and a damaged state is not overlooked."""
    day = 86_400_000_000

    def state(value: str, expires: int | None = 10 * day) -> bool:
        return lasts(Row("hash", value, expires), 9 * day)

    free, ended, held = (
        '{"fence":"3"}',
        '{"owner":"m:1","expires":"777600000"}',
        '{"owner":"m:1","expires":"777600001"}',
    )
    assert [state(free), state(ended), state(held)] == [False, False, True]
    assert state(ended, 10 * day + 1)
    assert all(map(state, ('{"owner":"m:1","expires":"soon"}', '{"owner":"m:1"}', '["owner":')))
    assert not lasts(None, 0)
    assert not grants(None)
