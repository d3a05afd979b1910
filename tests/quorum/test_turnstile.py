"""Processes that want one name line up before they ask a quorum for it: a hint of order, on which nothing rests."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from functools import partial
from typing import Any

import pytest

from aiolock import BackendError, Lease, Lock, LockLost, LockManager, NotAcquired
from aiolock.backends.base import Wake
from aiolock.core.waiting.race import STUCK
from aiolock.scripts.base import Call
from aiolock.scripts.bid import Bid
from aiolock.scripts.keys import Keys
from aiolock.scripts.lock import LockCalls
from tests.support import locks as looks

from .world import NAME, Link, Trio, away, keys_of

TURN = Keys("aiolock:turn")
"""The names of turns."""
SOON = 1.5
"""Seconds: longer than the turn of one that does not answer any more."""
STEPS = 40
"""Turns of the loop until a waiter has lined up, and some more."""


@pytest.fixture
async def crowd(trio: Trio) -> AsyncIterator[list[LockManager]]:
    """Three processes."""
    async with AsyncExitStack() as stack:
        yield [await stack.enter_async_context(trio.manager(trio.links())) for _ in range(3)]


@pytest.fixture
async def contended(trio: Trio, here: Lock, there: Lock) -> Lease:
    """What one process holds, after it has heard that the other wants it; that one has given up since."""
    lease = await here.acquire()
    waiter = asyncio.create_task(there.acquire())
    await trio.clock.advance(0.2)
    waiter.cancel()
    await trio.clock.advance(0)
    return lease


def has_turn(trio: Trio) -> bool:
    return any(looks.held(store, NAME, TURN) for store in trio.stores)


async def passes_by(trio: Trio, task: asyncio.Future[Lease], seconds: float = SOON) -> Lease:
    """Let time pass until it is in."""
    for _ in range(round(seconds / 0.05)):
        if task.done():
            break
        await trio.clock.advance(0.05)
    return task.result()


@pytest.mark.parametrize("section", [0.01, 0.001])
async def test_each_process_gets_its_share(trio: Trio, crowd: list[LockManager], section: float) -> None:
    """Who leaves asks again at once, and would be in before all others. Kept by Race.ask, and by `heard`.

    If releases follow each other faster than those who race spread their attempts, no release puts one off: kept by
    Race._ask_soon, which lines up instead.
    """
    entered: Counter[int] = Counter()
    inside = 0

    async def work(number: int, lock: Lock) -> None:
        nonlocal inside
        while entered.total() < 60:
            async with lock:
                inside += 1
                assert inside == 1
                entered[number] += 1
                over: asyncio.Future[None] = asyncio.get_running_loop().create_future()
                trio.clock.call_at(trio.clock.now() + section, partial(over.set_result, None))
                await over
                inside -= 1

    tasks = [asyncio.create_task(work(number, locks.lock(NAME))) for number, locks in enumerate(crowd)]
    for _ in range(400):
        await trio.clock.advance(2 * section)
        if all(task.done() for task in tasks):
            break
    for task in tasks:
        task.result()
    assert min(entered.values()) >= 0.7 * max(entered.values())


async def test_alone_nobody_lines_up(trio: Trio, links: list[Link], here: Lock) -> None:
    """Kept by Turnstile.stands_before."""
    for _ in range(3):
        async with here:
            await trio.clock.advance(0)
    assert links[0].calls.count("acquire") == links[1].calls.count("acquire") == 3


async def test_who_got_in_lets_the_next_one_pass(trio: Trio, contended: Lease, there: Lock) -> None:
    """Kept by Race.held."""
    waiter = asyncio.create_task(there.acquire())
    await trio.clock.advance(0.2)
    assert has_turn(trio)
    await contended.release()
    lease = await passes_by(trio, waiter)
    await trio.clock.advance(0)
    assert not has_turn(trio)
    await lease.release()


@pytest.mark.parametrize("after", range(0, STEPS, 2))
async def test_who_gives_up_lets_the_next_one_pass(trio: Trio, contended: Lease, there: Lock, after: int) -> None:
    """Kept by Race.stop, Turn.end and NodeLane.take: what comes with its cancellation is given back."""
    waiter = asyncio.create_task(there.acquire())
    for _ in range(after):
        await asyncio.sleep(0)
    waiter.cancel()
    await trio.clock.advance(0.2)
    assert not has_turn(trio)
    assert waiter.cancelled()
    await contended.release()


async def test_a_dead_process_has_the_turn(trio: Trio, contended: Lease, there: Lock) -> None:
    """Nobody waits for longer than the turn lasts."""
    dead = LockCalls(TURN, NAME, 1_000).acquire(Bid("dead:1", 1_000, 0, "dead", 1_000))
    Link(trio.stores[0], trio.clock)._execute(dead)
    waiter = asyncio.create_task(there.acquire())
    await trio.clock.advance(0.2)
    await contended.release()
    await (await passes_by(trio, waiter)).release()


async def test_who_has_the_turn_reaches_no_majority(
    trio: Trio, contended: Lease, lines: list[Link], there: Lock
) -> None:
    """It lets the others pass. Kept by LocalQueue.failed."""
    async with trio.manager(trio.links()) as third:
        first = asyncio.create_task(there.acquire())
        await trio.clock.advance(0.2)
        assert has_turn(trio)
        waiter = asyncio.create_task(third.lock(NAME).acquire())
        await trio.clock.advance(0.2)
        with away(*lines[1:]):
            await contended.release()
            await (await passes_by(trio, waiter, STUCK / 2)).release()
        await (await passes_by(trio, first)).release()


async def test_who_has_the_turn_never_asks(trio: Trio, contended: Lease, there: Lock) -> None:
    """Another process asks all the same, in the end. Kept by Race.ask: `STUCK`, and by Race._ask_soon."""
    line = LockCalls(TURN, NAME, 60_000).acquire(Bid("stuck:1", 60_000, 0, "stuck", 60_000))
    Link(trio.stores[0], trio.clock)._execute(line)
    waiter = asyncio.create_task(there.acquire())
    await trio.clock.advance(2 * STUCK)
    await contended.release()
    lease = await passes_by(trio, waiter, 2 * STUCK)
    await lease.release()
    await (await passes_by(trio, asyncio.create_task(there.acquire()), 2 * STUCK)).release()


@pytest.mark.parametrize(("line", "seconds"), [(True, 2 * STUCK), (False, STUCK / 2)], ids=["in line", "no line"])
async def test_releases_do_not_put_it_off(
    line: bool, seconds: float, trio: Trio, contended: Lease, others: LockManager, there: Lock
) -> None:
    """Others come and go more often than it would ask by itself. Breaks if Race._ask_soon moves the time of an attempt
    back: the waiter never asks.
    """
    turnstile = others._runtime.backend.abilities.turnstile
    assert turnstile is not None
    if line:
        stuck = LockCalls(TURN, NAME, 60_000).acquire(Bid("stuck:1", 60_000, 0, "stuck", 60_000))
        Link(trio.stores[0], trio.clock)._execute(stuck)
    else:
        turnstile._lanes = ()  # as if none could be reached
    waiter = asyncio.create_task(there.acquire())
    await trio.clock.advance(2 * STUCK)  # it has asked, and now it listens
    assert not waiter.done()
    for store in trio.stores:
        looks.let_expire(store)
    for number in range(round(seconds / 0.002)):
        for store in trio.stores:
            store.publish(keys_of().free, f"x:{number} 7")
        await trio.clock.advance(0.002)
        if waiter.done():
            break
    await waiter.result().release()
    with pytest.raises(LockLost):
        await contended.release()


async def test_a_timeout_shorter_than_that(trio: Trio, contended: Lease, there: Lock) -> None:
    """It asks before it gives up. Kept by Race.ask."""
    line = LockCalls(TURN, NAME, 60_000).acquire(Bid("stuck:1", 60_000, 0, "stuck", 60_000))
    Link(trio.stores[0], trio.clock)._execute(line)
    waiter = asyncio.create_task(there.acquire(timeout=STUCK / 2))
    await contended.release()
    await (await passes_by(trio, waiter)).release()


@pytest.mark.parametrize("script", ["", "acquire"])
async def test_the_server_with_the_line_does_not_answer(
    trio: Trio, contended: Lease, lines: list[Link], there: Lock, script: str
) -> None:
    """Kept by NodeLane.take: `open`, and the time that its manager has for an answer."""
    lines[0].hang(script)
    waiter = asyncio.create_task(there.acquire())
    await trio.clock.advance(0.2)
    await contended.release()
    await (await passes_by(trio, waiter)).release()
    lines[0].thaw()
    await trio.clock.advance(0)


async def test_the_server_with_the_line_goes_away(trio: Trio, contended: Lease, lines: list[Link], there: Lock) -> None:
    """Who waits for its turn there does not wait for the server to come back. Kept by NodeLane.take: `open`."""
    async with trio.manager(trio.links()) as third:
        first = asyncio.create_task(third.lock(NAME).acquire())
        await trio.clock.advance(0.2)
        waiter = asyncio.create_task(there.acquire())
        await trio.clock.advance(0.2)
        assert len(looks.waiting(trio.stores[0], NAME, TURN)) == 1
        with away(lines[0]):
            await asyncio.sleep(0.3)  # looks are by the loop's own time
            await contended.release()
            await (await passes_by(trio, first)).release()
            await (await passes_by(trio, waiter)).release()


async def test_who_leaves_knows_that_others_wait(trio: Trio, contended: Lease, locks: LockManager, there: Lock) -> None:
    """Although it never waited itself. Kept by release.lua: `heard`."""
    await trio.clock.advance(SOON)
    turnstile = locks._runtime.backend.abilities.turnstile
    assert turnstile is not None
    assert not turnstile.stands_before(NAME)
    waiter = asyncio.create_task(there.acquire())
    await trio.clock.advance(0.2)
    await contended.release()
    assert turnstile.stands_before(NAME)
    await (await passes_by(trio, waiter)).release()


async def test_processes_use_different_lines(trio: Trio, contended: Lease, lines: list[Link], there: Lock) -> None:
    """One cannot reach the first server: it lines up elsewhere, and the quorum decides all the same."""
    with away(lines[0]):
        waiter = asyncio.create_task(there.acquire())
        await trio.clock.advance(0.2)
        assert not looks.held(trio.stores[0], NAME, TURN)
        assert not waiter.done()
        await contended.release()
        lease = await passes_by(trio, waiter)
        assert trio.holders()[1:] == [lease._hold.owner.partition(":")[0]] * 2
        await lease.release()


async def test_a_turn_that_is_lost_is_no_lock_that_is_lost(
    trio: Trio, contended: Lease, there: Lock, caplog: pytest.LogCaptureFixture
) -> None:
    """The loop stands still for longer than a turn lasts, and nothing of that is logged as if it were the lock.

    Kept by LockManager.quorum: `quiet`.
    """
    waiter = asyncio.create_task(there.acquire())
    await trio.clock.advance(0.2)
    assert has_turn(trio)
    trio.clock.jump(3)
    await trio.clock.advance(3)
    assert {record.name for record in caplog.records} <= {"aiolock.scheduler"}
    await contended.release()
    await (await passes_by(trio, waiter)).release()


async def test_many_names_and_a_server_that_is_deaf(trio: Trio, others: LockManager, lines: list[Link]) -> None:
    """All wait for it at the same time, not one after the other. Kept by NodeLane._opened."""
    turnstile = others._runtime.backend.abilities.turnstile
    assert turnstile is not None
    names = [f"order:{number}" for number in range(8)]
    for name in names:
        turnstile.note(name)
    lines[0].subscribe = lambda channel, wake: asyncio.get_running_loop().create_future()  # type: ignore[method-assign]
    waiters = [asyncio.create_task(others.lock(name).acquire()) for name in names]
    await trio.clock.advance(0.4)
    for waiter in waiters:
        await waiter.result().release()


async def test_a_server_that_refuses_the_line(
    trio: Trio, others: LockManager, lines: list[Link], caplog: pytest.LogCaptureFixture
) -> None:
    """As with an ACL without the keys of the turns: one line in the log, and then the next server has the line.

    Kept by NodeLane.take: `_refused`, and by LockManager.quorum: `quiet`.
    """
    turnstile = others._runtime.backend.abilities.turnstile
    assert turnstile is not None
    post, subscribe = lines[0].post, lines[0].subscribe
    refusal = BackendError("", "NOPERM", transient=False)

    def refuse(call: Call[Any]) -> None:
        if ":turn:" in call.keys[0]:
            asyncio.get_running_loop().call_soon(call.end, refusal)
        else:
            post(call)

    def deaf(channel: str, wake: Wake) -> asyncio.Future[None]:
        confirmed = subscribe(channel, wake)
        if ":turn:" in channel:
            confirmed = asyncio.get_running_loop().create_future()
            confirmed.set_exception(refusal)
        return confirmed

    lines[0].post, lines[0].subscribe = refuse, deaf  # type: ignore[method-assign]
    for _ in range(3):
        turnstile.note(NAME)
        waiter = asyncio.create_task(others.lock(NAME).acquire())
        await trio.clock.advance(0.1)
        await waiter.result().release()
    (record,) = caplog.records
    assert "keeps no turns" in record.getMessage()


def test_the_loop_of_the_line_was_closed_without_notice(trio: Trio) -> None:
    """On another one the process lines up where the others do. Kept by Turnstile.forget, and by NodeLane.forget."""
    pair = [trio.manager(trio.links()) for _ in range(2)]

    async def line_up() -> None:
        async with pair[0].lock(NAME):
            waiters = [asyncio.create_task(locks.lock(NAME).acquire()) for locks in pair]
            await trio.clock.advance(2 * STUCK)
            assert looks.held(trio.stores[0], NAME, TURN)
            for waiter in waiters:
                waiter.cancel()
            await asyncio.wait(waiters)

    async def leave_open() -> None:
        for locks in pair:
            await locks.open()
        await line_up()

    async def again() -> None:
        async with pair[0], pair[1]:
            await line_up()

    loop = asyncio.new_event_loop()
    loop.run_until_complete(leave_open())
    for task in asyncio.all_tasks(loop):
        task.cancel()
    loop.run_until_complete(asyncio.sleep(0))
    loop.close()
    trio.drop(0, 1, 2)
    asyncio.run(again())


async def test_a_manager_closes_in_the_line(trio: Trio, contended: Lease) -> None:
    """Kept by Turnstile.aclose."""
    async with trio.manager(trio.links()) as third:
        waiters = [asyncio.create_task(third.lock(NAME).acquire()) for _ in range(2)]
        await trio.clock.advance(0.2)
    for waiter in waiters:
        with pytest.raises(NotAcquired):
            await waiter
    assert not has_turn(trio)
    assert not [task for task in asyncio.all_tasks() if "turn at" in task.get_name()]
    await contended.release()
