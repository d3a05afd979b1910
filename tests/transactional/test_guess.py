"""Guess, compare, correct: how often a server is asked, and what becomes of what came too late."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Sequence
from typing import Any

import pytest

from aiolock import BackendError
from aiolock.backends.transactional.engine import Unavailable
from aiolock.backends.transactional.guess import FEW, KEPT_US, LAG_US, LONGEST_US, NAMES, TOGETHER, TRIES
from aiolock.backends.transactional.plan import FIRM, NONE, Plan, Stale, plans_of, tag_of
from aiolock.backends.transactional.server_time import OLD, ServerTime
from aiolock.scripts.base import Call
from aiolock.scripts.bid import Bid
from aiolock.scripts.keys import Keys
from aiolock.scripts.lock import LockCalls, renew
from aiolock.testing.clock import VirtualClock

from .server import FakeEngine, FakeServer

KEYS = Keys("aiolock")


@pytest.fixture
def server() -> FakeServer:
    return FakeServer()


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


@pytest.fixture
def one(server: FakeServer, clock: VirtualClock) -> FakeEngine:
    return FakeEngine(server, 1, clock)


@pytest.fixture
def two(server: FakeServer, clock: VirtualClock) -> FakeEngine:
    return FakeEngine(server, 2, clock)


def acquire(name: str, owner: str) -> Call[Any]:
    return LockCalls(KEYS, name, 3000).acquire(Bid(owner, 30_000, 0, "here"))


def release(name: str, owner: str) -> Call[Any]:
    return LockCalls(KEYS, name, 3000).release(owner, 30_000, 0, "clean", False)


async def decided(engine: FakeEngine, *calls: Call[Any]) -> Sequence[Any]:
    """What becomes of them; raises what the engine says instead."""
    done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    became: dict[Call[Any], Any] = {}

    def some(answered: Sequence[Call[Any]], outcomes: Sequence[Any] | Unavailable) -> None:
        if isinstance(outcomes, Unavailable):
            done.set_exception(outcomes)
        else:
            became.update(zip(answered, outcomes, strict=True))
            if len(became) == len(calls):
                done.set_result(None)

    for call in calls:
        call.sent_at = engine._clock.now()
    engine.transact(calls, some)
    await done
    return [became[call] for call in calls]


async def test_what_only_we_have_changed_takes_one_exchange(one: FakeEngine) -> None:
    """The first asks for the time, too."""
    for _ in range(3):
        (granted,) = await decided(one, acquire("a", "m:1"))
        assert granted.startswith(b"granted") or "granted" in str(granted)
        await decided(one, release("a", "m:1"))
        assert one.stale == 1
    assert one.exchanges == 1 + 6


async def test_what_another_has_changed_takes_two(one: FakeEngine, two: FakeEngine) -> None:
    await decided(one, acquire("a", "m:1"))
    (refused,) = await decided(two, acquire("a", "n:1"))
    assert "refused" in str(refused)
    await decided(one, release("a", "m:1"))
    (granted,) = await decided(two, acquire("a", "n:1"))
    assert "granted" in str(granted)
    assert (two.exchanges, two.stale) == (4, 2)


async def test_calls_of_one_batch_see_each_other(one: FakeEngine) -> None:
    outcomes = await decided(
        one, acquire("a", "m:1"), acquire("b", "m:2"), release("a", "m:1"), acquire("a", "m:3"), acquire("b", "m:4")
    )
    assert [str(one).partition(" ")[0].strip("b'") for one in outcomes if "granted" in str(one)] == ["granted"] * 3
    assert "refused" in str(outcomes[4])


def test_names_that_belong_together() -> None:
    """A call about two names brings their plans together, in the order of the calls. Kept by plans_of."""
    calls = [acquire("a", "m:1"), acquire("b", "m:2"), acquire("c", "m:3")]
    both = Call("a", calls[0].script, (*calls[0].keys, *calls[1].keys), ())
    plans = plans_of(enumerate([*calls, both]))
    assert sorted([number for number, _ in plan.calls] for plan in plans) == [[0, 1, 3], [2]]
    assert tag_of("aiolock:lock:{a}:queue") == tag_of("aiolock:rw:{a}") != tag_of("other:lock:{a}")


@pytest.mark.parametrize("step_us", [-3_600_000_000, -1, LAG_US + 1, 3_600_000_000])
async def test_the_time_is_not_what_was_thought(one: FakeEngine, server: FakeServer, step_us: int) -> None:
    """It asks anew. Kept by FakeServer as by exchange_1: `used`."""
    await decided(one, acquire("a", "m:1"))
    await decided(one, release("a", "m:1"))
    server.now_us += step_us
    before = one.stale
    await decided(one, acquire("a", "m:1"))
    assert one.stale == before + 1


async def test_a_decision_that_is_carried_out_late(one: FakeEngine, clock: VirtualClock) -> None:
    """Its lease counts from before it was sent: so it ends no later than there. Kept by GuessingEngine: `sent_at`."""
    await decided(one, acquire("a", "m:1"))
    await decided(one, release("a", "m:1"))
    one.lag_us = 300_000
    call = acquire("a", "m:1")
    await decided(one, call)
    assert call.sent_at == pytest.approx(clock.now() - 0.3)


async def test_whether_anyone_listens(one: FakeEngine, server: FakeServer) -> None:
    """It is guessed that someone does, and corrected; and back, if one listens by then. Kept by Plan.correct."""
    (plan,) = plans_of([(0, acquire("a", "m:1"))])
    assert plan._listeners("m") == 1
    assert plan.hears == {"m": True}
    plan.correct(frozenset({"m"}))
    plan.hears = {}
    assert plan._listeners("m") == 0
    plan.correct(frozenset({"m"}))
    plan.hears = {}
    assert plan._listeners("m") == 1


async def test_a_message_brings_rows(one: FakeEngine, two: FakeEngine) -> None:
    """So the guess of whoever gets it is right. Kept by GuessingEngine.message, and heard."""
    await decided(one, acquire("a", "m:1"))
    await decided(two, acquire("b", "n:1"))  # knows the time
    (plan,) = one.asked[-1]
    version = one.server.rows[KEYS.of("lock", "a").lock].version
    assert two.heard(one.message(plan, version, "c", "hello", 7900)) == ("c", "hello")
    stale = two.stale
    await decided(two, acquire("a", "n:2"))
    assert two.stale == stale
    assert two.heard(one.message(plan, version, "c", "hello", 100)) == ("c", "hello")


@pytest.mark.parametrize(
    "text",
    ["", "{}", "[]", "[1]", '["c", "p", 1]', '["c", "p", [1]]', '["c", "p", [["k"]]]', "x", "[" * 7000]
    + [f'["c", "p", [["k", {version}, "hash", "", null]]]' for version in ("Infinity", "NaN", 2**63, -1, '"1"')],
)
async def test_a_message_of_somebody_else(one: FakeEngine, text: str) -> None:
    """Whoever may connect may send anything. Kept by GuessingEngine.heard."""
    with pytest.raises(ValueError, match=r".*"):
        one.heard(text)


async def test_many_names_take_several_exchanges(one: FakeEngine) -> None:
    """A later part of a batch has not come too late. Kept by Plan.attempts."""
    count = 2 * TOGETHER + 5
    outcomes = await decided(one, *(acquire(f"a{n}", f"m:{n}") for n in range(count)))
    assert len(outcomes) == count
    assert all("granted" in str(outcome) for outcome in outcomes)
    assert [len(plans) for plans in one.asked[1:]] == [TOGETHER, TOGETHER, 5]
    assert one.stale == TOGETHER  # the first part asked for the time


def gone(count: int, at: int) -> Call[Any]:
    """Asks for holds that are not there."""
    return renew([LockCalls(KEYS, f"r{at}:{n}", 3000).renewal("m:1", 1, 30_000) for n in range(count)])


async def test_renewals_take_several_exchanges(one: FakeEngine) -> None:
    """The server locks each name of an exchange. Kept by GuessingEngine._due: `_room`."""
    await decided(one, acquire("x", "m:0"))
    await decided(one, *(gone(NAMES - 100, at) for at in range(3)))
    assert [len(plans) for plans in one.asked[2:]] == [1, 1, 1]


async def test_a_server_without_room(one: FakeEngine, server: FakeServer) -> None:
    """The same names would not have room again: it is asked for fewer, and whoever asks for many asks for a part.
    Kept by GuessingEngine._run: `full`, and _refuse().
    """
    await decided(one, acquire("x", "m:0"))
    one.most = FEW
    outcomes = await decided(one, *(acquire(f"a{n}", f"m:{n}") for n in range(3 * FEW)))
    assert all("granted" in str(outcome) for outcome in outcomes)
    refused, answer = await decided(one, gone(FEW + 1, 1), gone(FEW, 2))
    assert isinstance(refused, BackendError)
    assert not refused.transient
    assert len(answer) == FEW
    asked = len(one.asked)
    one.most = FEW - 1
    with pytest.raises(Unavailable):
        await decided(one, gone(FEW, 3))
    assert len(one.asked) == asked + 1


async def test_a_name_is_kept_for_who_came_too_late(one: FakeEngine, two: FakeEngine, server: FakeServer) -> None:
    """Others wait for a moment, by the server's clock."""
    await decided(one, acquire("a", "m:1"))
    (plan,) = plans_of([(0, acquire("a", "m:1"))])
    plan.attempts = 1
    plan.decide(server.now_us, LAG_US, {})
    assert 0 in (await one.exchange([plan], server.now_us, LAG_US, 1, KEPT_US)).stale
    two.lag_us = 20_000
    await decided(two, acquire("a", "n:1"))
    assert two.stale >= 2


async def test_a_release_waits_for_no_turn(one: FakeEngine, server: FakeServer) -> None:
    """Others wait for it. Kept by FakeServer as by exchange_1: `urgent`."""
    await decided(one, acquire("a", "m:1"))
    (plan,) = plans_of([(0, release("a", "m:1"))])
    (tag,) = plan.tags
    server.turns[tag] = two_has = 2, server.now_us + 50_000, 0, False
    stale = one.stale
    await decided(one, release("a", "m:1"))
    assert one.stale == stale
    assert server.turns == {tag: two_has}


async def test_who_comes_while_a_name_is_kept_waits(one: FakeEngine, server: FakeServer) -> None:
    """As long as those before it may take. It is told nothing of the rows, as they will change. Kept by
    GuessingEngine._correct: `crowd`.
    """
    await decided(one, acquire("a", "m:1"), release("a", "m:1"))
    (plan,) = plans_of([(0, acquire("a", "m:2"))])
    known = dict(one._known)
    one._time.trip = 0.01
    before = asyncio.get_running_loop().time()
    one._correct(plan, Stale({}, crowd=7))
    assert 0.13 < plan.due - before < 0.3
    assert one._known == known
    one._correct(plan, Stale({}, crowd=10**6))
    assert plan.due - before < 1
    plan.due = 0.0
    one._correct(plan, Stale({}))
    assert plan.due == 0.0  # the name is kept for it


async def test_two_that_come_too_late_do_not_wait_for_each_other(one: FakeEngine, two: FakeEngine) -> None:
    """Who cannot have all of its names kept has none of them kept. Kept by FakeServer as by exchange_1: `barred`."""
    both, first = Plan([], ["aiolocka", "aiolockb"]), Plan([], ["aiolocka"])
    for plan in (both, first):
        plan.attempts = 1
        plan.keys = {"aiolock:lock:{a}": 99}
    await one.exchange([first], one.server.now_us, LAG_US, 1, KEPT_US)
    await two.exchange([both], one.server.now_us, LAG_US, 1, KEPT_US)
    assert one.server.turns.keys() == {*first.tags}


async def test_who_is_far_from_the_server_gets_its_turn(one: FakeEngine, two: FakeEngine, server: FakeServer) -> None:
    """Others hand the name to each other in each of its round trips, and wait for nobody. Kept by Plan.firm."""
    await decided(two, acquire("a", "n:1"))
    exchange, passed = one.exchange, 0

    async def far(*args: Any) -> Any:
        nonlocal passed
        server.now_us += 5000
        renewal = LockCalls(KEYS, "a", 3000).acquire(Bid("n:1", 30_000, 0, "here"))
        (plan,) = plans_of([(0, renewal)])
        plan.decide(server.now_us, LAG_US, server.rows)
        assert plan.urgent
        passed += not server.carry_out(two, 2, [plan], server.now_us, LAG_US, 1000 + one.exchanges, KEPT_US).stale
        return await exchange(*args)

    one.exchange = far  # type: ignore[method-assign]
    (refused,) = await decided(one, acquire("a", "m:1"))
    assert "refused" in str(refused)
    assert passed == FIRM + 1  # the last one made it firm


async def test_a_name_is_kept_for_some_round_trips(one: FakeEngine, server: FakeServer) -> None:
    """If the server is slow, a moment is over before the next attempt. Kept by GuessingEngine._ask: `keep_us`."""
    kept: list[int] = []
    exchange = one.exchange

    async def seen(plans: Sequence[Plan], used: int, lag: int, version: int, keep_us: int) -> Any:
        kept.append(keep_us)
        return await exchange(plans, used, lag, version, keep_us)

    one.exchange = seen  # type: ignore[method-assign]
    await decided(one, acquire("a", "m:1"))
    for trip in (0.001, 0.1, 5.0):
        one._time.trip = trip
        await decided(one, acquire("a", "m:1"))
    assert kept[-3:] == [KEPT_US, 400_000, LONGEST_US]


async def test_others_are_always_faster(one: FakeEngine, server: FakeServer) -> None:
    await decided(one, acquire("a", "m:1"))
    exchange = one.exchange

    async def late(*args: Any) -> Any:
        for key, known in server.rows.items():
            server.rows[key] = known._replace(version=known.version + 1)
        return await exchange(*args)

    one.exchange = late  # type: ignore[method-assign]
    (refused,) = await decided(one, release("a", "m:1"))
    assert isinstance(refused, BackendError)
    assert refused.transient
    assert f"{TRIES} times" in str(refused)


async def test_an_exchange_fails(one: FakeEngine) -> None:
    """What was carried out before has its answers. Kept by GuessingEngine._run."""
    await decided(one, acquire("x", "m:0"))
    one.fails = [None, Unavailable(BackendError("", "gone", transient=True))]
    told: list[tuple[int, Any]] = []
    over = asyncio.Event()

    def some(answered: Sequence[Call[Any]], outcomes: Sequence[Any] | Unavailable) -> None:
        told.append((len(answered), outcomes))
        if isinstance(outcomes, Unavailable):
            over.set()

    one.transact([acquire(f"a{n}", f"m:{n}") for n in range(TOGETHER + 3)], some)
    await over.wait()
    assert [answered for answered, _ in told] == [TOGETHER, 3]
    assert all("granted" in str(outcome) for outcome in told[0][1])
    assert not told[1][1].ran


async def test_a_contended_name_holds_up_no_other(one: FakeEngine, server: FakeServer) -> None:
    """Neither those of its moment, nor those that come later; but what concerns it waits for its turn. Kept by
    GuessingEngine._ask.
    """
    await decided(one, acquire("a", "m:1"), acquire("b", "m:2"))
    exchange, contended = one.exchange, True

    async def late(*args: Any) -> Any:
        if contended:
            key = KEYS.of("lock", "a").lock
            server.rows[key] = server.rows[key]._replace(version=server.rows[key].version + 1)
        return await exchange(*args)

    one.exchange = late  # type: ignore[method-assign]
    order: list[str] = []
    over = asyncio.Event()

    def some(answered: Sequence[Call[Any]], _: Any) -> None:
        nonlocal contended
        order.extend(call.name for call in answered)
        if answered and order == ["b"]:
            one.transact([acquire("a", "m:3"), acquire("c", "m:4")], some)
        contended = "c" not in order
        if "a" in order:
            over.set()

    one.transact([release("a", "m:1"), release("b", "m:2")], some)
    await asyncio.wait_for(over.wait(), 10)
    assert order == ["b", "c", "a", "a"]
    assert server.rows[KEYS.of("lock", "a").lock].row.value.count("m:3")  # type: ignore[union-attr]


async def test_another_server(one: FakeEngine, server: FakeServer) -> None:
    """What was known is forgotten. Kept by GuessingEngine.forget."""
    await decided(one, acquire("a", "m:1"))
    one.forget()
    before = one.stale
    await decided(one, release("a", "m:1"))
    assert one.stale == before + 1


async def test_what_is_remembered_has_a_bound(one: FakeEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("aiolock.backends.transactional.guess.REMEMBERED", 10)
    for n in range(20):
        await decided(one, acquire(f"a{n}", f"m:{n}"))
    assert len(one._known) == 10
    assert one._known[KEYS.of("lock", "a19").lock] != NONE


async def test_it_is_closed(one: FakeEngine) -> None:
    """Whoever waits is told. Kept by GuessingEngine.stop."""
    blocked = asyncio.Event()

    async def hang(*_: Any) -> Any:
        blocked.set()
        await asyncio.Event().wait()

    one.exchange = hang  # type: ignore[method-assign]
    waiting = asyncio.ensure_future(decided(one, acquire("a", "m:1")))
    await blocked.wait()
    await one.stop()
    with pytest.raises(Unavailable, match="closed"):
        await waiting


async def test_what_has_not_heard_that_it_is_cancelled(one: FakeEngine) -> None:
    """It ends all the same. Kept by the second cancellation in GuessingEngine.stop."""
    begun, ended = asyncio.Event(), asyncio.Event()

    async def work() -> None:
        with contextlib.suppress(asyncio.CancelledError):  # as asyncio.wait_for does, if an answer comes with it
            begun.set()
            await asyncio.Event().wait()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    one.start(work())
    await begun.wait()
    await one.stop()
    assert ended.is_set()


def test_the_servers_time(clock: VirtualClock) -> None:
    """Never ahead of it. Kept by ServerTime.read."""
    time = ServerTime(clock)
    assert time.read() == 0
    asked = clock.now()
    clock.jump(0.1)  # the server's clock showed 5 s somewhere in between
    time.learn(5_000_000, asked)
    assert time.trip == pytest.approx(0.1)
    clock.jump(2.0)
    assert 6_990_000 < time.read() < 7_000_000  # the server's is 7 to 7.1 s
    clock.jump(OLD)
    assert time.read() == 0
