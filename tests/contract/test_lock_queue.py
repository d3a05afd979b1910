"""The lock between processes: its queue on the server, its turns, and how both survive accidents."""

# ruff: noqa: PT012 - what raises is the whole guarded block

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack

import pytest

from aiolock import AcquireTimeout, BackendError, Lock, LockLost, LockManager, LossReason
from aiolock.core.waiting.queue_entry import QueueEntry
from aiolock.core.waiting.wait import QUEUED
from tests.support.locks import let_expire, nothing_held
from tests.support.proxy import FaultProxy

from .places import KEYS, Place, RedisPlace, nobody_waits, renew_now, steal, until
from .strangers import LockStranger, queued

NAME = "order:42"
ENOUGH = 10.0
SOON = 5.0
"""Far longer than anything here needs, far shorter than what could help instead."""
QUEUE = KEYS.of("lock", NAME).of_lock[1]

Make = Callable[[LockManager, str], Lock]
plain, fair = LockManager.lock, LockManager.fair_lock
both = pytest.mark.parametrize("make", [plain, fair])


@pytest.fixture
async def calm(place: Place) -> AsyncIterator[list[LockManager]]:
    """Three managers whose waiters ask so rarely that only a message can help them soon."""
    async with AsyncExitStack() as stack:
        yield [await stack.enter_async_context(place.manager(ttl=60.0, liveness=30.0)) for _ in range(3)]


async def _enter(lock: Lock) -> int:
    async with lock as lease:
        return lease.fence


async def _tried(lock: Lock) -> int | None:
    async with lock.try_acquire() as lease:
        return None if lease is None else lease.fence


async def _reset(proxy: FaultProxy, place: RedisPlace) -> None:
    """Reset its connection; done when the client has subscribed again. The server may not have noticed the end yet."""

    def subscribed() -> int:
        return int(place.link.info("commandstats")["cmdstat_subscribe"]["calls"])

    before = subscribed()
    proxy.reset()
    await until(lambda: subscribed() > before)


async def _waits(place: Place, lock: Lock, entries: int) -> asyncio.Task[int]:
    """Return a task that waits in the server's queue, as the last of this many entries."""
    task = asyncio.create_task(_enter(lock))
    await until(lambda: len(place.waiting(NAME)) == entries)
    return task


def _heard(manager: LockManager) -> bool:
    """Whether it knows that it waits: a first request that an outage leaves without an answer fails."""
    entries = manager._runtime.queue_entries.values()
    return any(isinstance(entry, QueueEntry) and entry.state is QUEUED for entry in entries)


# A lock and a fair lock of one name.


@pytest.mark.parametrize(("outer", "inner"), [(plain, fair), (fair, plain)])
async def test_a_lock_and_a_fair_lock_exclude_each_other(
    locks: LockManager, others: LockManager, place: Place, outer: Make, inner: Make
) -> None:
    """One name is one lock, whichever way its tasks wait. Kept by lock_calls(): the same keys."""
    async with outer(locks, NAME) as lease:
        assert await inner(others, NAME).try_acquire() is None
        assert await asyncio.create_task(_tried(inner(locks, NAME))) is None
        waiter = await _waits(place, inner(others, NAME), 1)
        assert not waiter.done()
        info = await inner(others, NAME).info()
        assert info is not None
        assert info.fence == lease.fence
    async with asyncio.timeout(ENOUGH):
        assert await waiter > lease.fence


@pytest.mark.parametrize(("outer", "inner"), [(plain, fair), (fair, plain)])
async def test_a_lock_and_a_fair_lock_nest_in_each_other(
    locks: LockManager, others: LockManager, outer: Make, inner: Make
) -> None:
    """For the task that holds one of them. Kept by LockCalls.kind: a task's holds are found by kind and name."""
    async with outer(locks, NAME) as lease:
        nested = await inner(locks, NAME).acquire(timeout=SOON)
        assert (nested.fence, lease.depth) == (lease.fence, 2)
        assert await outer(others, NAME).try_acquire() is None
        await inner(locks, NAME).release()
        assert (nested.released, lease.released) == (True, False)
        assert await inner(others, NAME).try_acquire() is None
    assert not await outer(others, NAME).is_locked()


async def test_under_both_rules_no_two_are_inside_at_once(locks: LockManager, others: LockManager) -> None:
    """Invariants 1 and 2 under load: 2 managers × 3 tasks under each rule, which give up now and then."""
    inside = 0
    fences: list[int] = []

    async def work(lock: Lock, number: int) -> None:
        nonlocal inside
        for turn in range(8):
            try:
                async with lock.acquire(timeout=0.01 if (turn + number) % 5 == 0 else None) as lease:
                    inside += 1
                    assert inside == 1
                    fences.append(lease.fence)
                    await asyncio.sleep(0.001)
                    inside -= 1
            except (AcquireTimeout, BackendError):  # on a busy machine no server has answered in that time
                pass

    async with asyncio.timeout(20), asyncio.TaskGroup() as group:
        for number in range(12):
            group.create_task(work((plain, fair)[number % 2]((locks, others)[number // 2 % 2], NAME), number))
    assert len(fences) >= 12 * 6
    assert fences == sorted(set(fences))


# Turns.


async def test_a_turn_ends_when_the_first_in_line_waits_under_the_fair_rule(
    calm: list[LockManager], place: Place
) -> None:
    """Hazard 13: hand-offs do not delay the strict order. Kept by transfer_local.lua: `':[f+]'`."""
    one, two, _ = calm
    entered: list[str] = []

    async def enter(lock: Lock, who: str) -> None:
        async with lock:
            entered.append(who)
            await until(lambda: ended.is_set() or who != "first")

    ended = asyncio.Event()
    async with one.lock(NAME):
        behind = asyncio.create_task(enter(two.lock(NAME), "first"))
        await until(lambda: len(place.waiting(NAME)) == 1)
        tasks = [asyncio.create_task(enter(two.lock(NAME), f"plain {n}")) for n in range(4)]
        await asyncio.sleep(0)
    await until(lambda: entered)
    # The turn of `two` has begun, and serves its four. None of them overtakes a task that waits under the fair rule.
    tasks.append(asyncio.create_task(enter(one.fair_lock(NAME), "fair")))
    await until(lambda: len(place.waiting(NAME)) == 1)
    ended.set()
    async with asyncio.timeout(ENOUGH):
        await asyncio.gather(behind, *tasks)
    assert entered == ["first", "fair", "plain 0", "plain 1", "plain 2", "plain 3"]


async def test_a_turn_serves_those_who_waited_when_it_began(place: Place) -> None:
    """A later task waits for the next one. Kept by Turn.__init__: `waiting`."""
    async with place.manager(ttl=60.0, liveness=30.0) as one, place.manager(ttl=60.0, liveness=30.0) as two:
        entered: list[str] = []
        more: list[asyncio.Task[None]] = []

        async def enter(manager: LockManager, who: str) -> None:
            async with manager.lock(NAME):
                entered.append(who)
                if who.startswith("early"):  # a crowd that never ends
                    more.append(asyncio.create_task(enter(manager, "late")))
                    await asyncio.sleep(0)

        holder = await two.lock(NAME).acquire()
        tasks = [asyncio.create_task(enter(one, f"early {n}")) for n in range(3)]
        await until(lambda: len(place.waiting(NAME)) == 1)
        behind = asyncio.create_task(enter(two, "other"))  # of the holder's process
        await asyncio.sleep(0)
        await holder.release()
        async with asyncio.timeout(ENOUGH):
            await asyncio.gather(*tasks, behind)
            await asyncio.gather(*more)
    # If the machine stands still for 20 ms, the turn ends sooner; but no late task gets in before the other process.
    assert entered.index("other") <= 3
    assert entered.index("late") > entered.index("other")


async def test_no_process_starves(place: Place) -> None:
    """However large the crowds are, a process in the queue enters within `processes x (handoff_limit + 2)` sections.

    Kept by Turn.hand_on, and transfer.lua: `settle`.
    """
    processes, limit, crowds = 4, 3, (12, 6, 2, 1)
    bound = processes * (limit + 2)
    entered: list[int] = []
    since: dict[int, int] = {}  # how many sections there were when a process was first seen in the queue
    waits: list[tuple[int, int]] = []

    async def work(manager: LockManager, number: int) -> None:
        while len(entered) < 25 * bound:
            async with manager.lock(NAME):
                entered.append(number)
                if number in since:
                    waits.append((number, len(entered) - since.pop(number)))
                for owner in place.waiting(NAME):
                    since.setdefault(numbers[owner.partition(":")[0]], len(entered))
                await asyncio.sleep(0)

    async with AsyncExitStack() as stack:
        managers = [
            await stack.enter_async_context(place.manager(ttl=60.0, liveness=30.0, handoff_limit=limit))
            for _ in range(processes)
        ]
        numbers = {manager._runtime.binding.id: number for number, manager in enumerate(managers)}
        async with asyncio.timeout(60), asyncio.TaskGroup() as group:
            for number, (manager, crowd) in enumerate(zip(managers, crowds, strict=True)):
                for _ in range(crowd):
                    group.create_task(work(manager, number))
    assert {number for number, _ in waits} == set(range(processes))
    assert max(sections for _, sections in waits) <= bound


# Two managers.


async def test_two_managers_in_one_process(locks: LockManager, others: LockManager, place: Place) -> None:
    """To each other they are two processes: each has its own entry, and a task does not nest in the other's hold."""
    async with locks.lock(NAME) as lease:
        with pytest.raises(AcquireTimeout):
            await others.lock(NAME).acquire(timeout=0.2)
        await until(lambda: not place.waiting(NAME))
        waiters = [asyncio.create_task(_enter(manager.lock(NAME))) for manager in (others, locks, others, locks)]
        await until(lambda: len(place.waiting(NAME)) == 1)  # waiters of the holder's own process wait for a hand-off
        assert place.waiting(NAME)[0].startswith(others._runtime.binding.id)
    async with asyncio.timeout(ENOUGH):
        fences = await asyncio.gather(*waiters)
    assert min(fences) > lease.fence
    assert len(set(fences)) == 4
    await until(lambda: nothing_held(place.side))


# Waiters that are gone.


@both
@pytest.mark.not_polling("there are no messages, so none is unheard")
async def test_a_dead_first_in_line_costs_nothing(calm: list[LockManager], place: Place, make: Make) -> None:
    """Its message reaches no one, which proves that it is gone; it keeps its place, as it must if it reconnects.

    Hazard 1. Kept by settle.lua: `~= 0`.
    """
    one, two, three = (make(manager, NAME) for manager in calm)
    lease = await one.acquire()
    dead = LockStranger(place, NAME, liveness=30.0, counted=True)
    dead.queue()
    waiters = [await _waits(place, two, 2), await _waits(place, three, 3)]
    await lease.release()
    async with asyncio.timeout(SOON):
        fences = await asyncio.gather(*waiters)
    assert fences == sorted(fences)
    assert place.waiting(NAME) == [dead.owner]
    assert await _tried(one)


@pytest.mark.parametrize("make", [plain, fair, LockManager.multi_lock])
async def test_a_manager_that_did_not_have_to_wait_leaves_no_trace(place: Place, make: Make) -> None:
    """Only the dead were in the queue. Kept by join.lua: `leave`."""
    _, queue, alive = KEYS.of("lock", NAME).of_lock
    place.side.score(queue, "gone:1", 1)
    async with place.manager() as manager:
        await _enter(make(manager, NAME))
    assert not any(map(place.side.exists, (queue, alive)))


@both
async def test_a_frozen_first_in_line_costs_its_liveness_at_most(place: Place, make: Make) -> None:
    """Its message arrives but it does not act: the grant is not confirmed, and ends. It does not take a whole ttl.

    Hazard 2. Kept by settle.lua: `grant(name, entry, '0', tonumber(known), …)`.
    """
    async with place.manager(ttl=60.0, liveness=0.9) as one, place.manager(ttl=60.0, liveness=0.9) as two:
        lease = await make(one, NAME).acquire()
        frozen = LockStranger(place, NAME, liveness=1.0, counted=True)
        place.side.listen(KEYS.manager("thief"))
        frozen.queue(ttl=60.0)
        waiter = asyncio.create_task(make(two, NAME).acquire())
        await until(lambda: len(place.waiting(NAME)) == 2)
        await lease.release()
        assert frozen.holds
        assert place.state(NAME).pttl <= 1_000
        info = await make(two, NAME).info()
        assert info is None or info.holder == "a thief"  # None: its time is over already
        async with asyncio.timeout(SOON):
            last = await waiter
        assert last.fence > lease.fence
        assert not last.abandoned  # an unconfirmed grant began nothing
        await last.release()


@both
async def test_a_holder_that_expires_with_others_in_the_queue(place: Place, make: Make) -> None:
    """There is no release that grants: the first in line asks when the time is over, and all others follow in order.

    Hazard 10. Kept by Wait.queued: `free_at`, and refresh.lua: `settle`.
    """
    entered: list[tuple[int, bool]] = []

    async def enter(manager: LockManager, number: int) -> None:
        async with make(manager, NAME) as lease:
            entered.append((number, lease.abandoned))

    async with AsyncExitStack() as stack:
        managers = [await stack.enter_async_context(place.manager(ttl=60.0, liveness=30.0)) for _ in range(3)]
        steal(place, NAME, ttl_ms=700)
        tasks = []
        for number, manager in enumerate(managers):
            tasks.append(asyncio.create_task(enter(manager, number)))
            await until(lambda number=number: len(place.waiting(NAME)) > number or entered)
        async with asyncio.timeout(SOON):
            await asyncio.gather(*tasks)
    assert entered == [(0, True), (1, False), (2, False)]


async def test_a_newcomer_settles_a_queue_whose_holder_expired(calm: list[LockManager], place: Place) -> None:
    """It does not overtake the queue, whether it waits or not. Hazard 10. Kept by acquire.lua: `settle`."""
    one, two, three = (manager.lock(NAME) for manager in calm)
    steal(place, NAME, ttl_ms=60_000)
    waiter = await _waits(place, two, 1)
    let_expire(place.side, NAME)
    assert await one.try_acquire() is None or waiter.done()
    async with asyncio.timeout(SOON):
        assert await waiter < await _enter(three)


# Reconnects and restarts.


@pytest.mark.parametrize("place", ["redis"], indirect=True)
@both
async def test_an_entry_survives_a_reconnect_with_its_number(
    place: RedisPlace, calm: list[LockManager], make: Make
) -> None:
    """While it is away it is passed over, and then it comes next. Hazard 1. Kept by settle.lua: `at = at + 1`."""
    one, _, three = (make(manager, NAME) for manager in calm)
    host, port = place.url.removeprefix("redis://").split("/")[0].split(":")
    async with FaultProxy(host, int(port)) as proxy, LockManager(proxy.url, ttl=60.0, liveness=30.0) as two:
        lease = await one.acquire()
        away = await _waits(place, make(two, NAME), 1)
        await until(lambda: _heard(two))
        third = asyncio.create_task(three.acquire())
        await until(lambda: len(place.waiting(NAME)) == 2)
        numbers = place.side.scores(QUEUE)
        for _ in range(2):  # it comes back before its turn
            await _reset(proxy, place)
            assert place.side.scores(QUEUE) == numbers
        proxy.refuse()
        proxy.reset()
        await until(lambda: not place.subscribers(KEYS.manager(two._runtime.binding.id)))
        await lease.release()
        async with asyncio.timeout(SOON):
            behind = await third
        assert place.side.scores(QUEUE) == dict(list(numbers.items())[:1])
        proxy.heal()
        await until(lambda: place.subscribers(KEYS.manager(two._runtime.binding.id)))
        last = await _waits(place, one, 2)
        await behind.release()
        async with asyncio.timeout(SOON):
            assert behind.fence < await away < await last


@pytest.mark.parametrize("place", ["redis"], indirect=True)
@both
async def test_a_name_that_became_free_while_its_only_waiter_was_away(
    place: RedisPlace, calm: list[LockManager], make: Make
) -> None:
    """The grant was not heard, so the name is free for whoever asks first; the returning waiter asks at once.

    Kept by settle.lua, behind its loop: `vacate`, and Lifecycle._verify.
    """
    one, _, three = (make(manager, NAME) for manager in calm)
    host, port = place.url.removeprefix("redis://").split("/")[0].split(":")
    async with FaultProxy(host, int(port)) as proxy, LockManager(proxy.url, ttl=60.0, liveness=30.0) as two:
        lease = await one.acquire()
        away = await _waits(place, make(two, NAME), 1)
        await until(lambda: _heard(two))
        proxy.refuse()
        proxy.reset()
        await until(lambda: not place.subscribers(KEYS.manager(two._runtime.binding.id)))
        await lease.release()
        assert place.gone(NAME)
        async with three.try_acquire() as newcomer:
            assert newcomer is not None
            assert not newcomer.abandoned
        assert len(place.waiting(NAME)) == 1
        proxy.heal()
        async with asyncio.timeout(SOON):
            assert await away > newcomer.fence


@both
async def test_waiting_survives_a_server_that_restarts_empty(place: Place, make: Make) -> None:
    """The holder learns of its loss; waiters are queued anew at their next heartbeat. Kept by refresh.lua:
    `'gone'`.
    """
    async with AsyncExitStack() as stack:
        one, two, three = [await stack.enter_async_context(place.manager(ttl=60.0, liveness=0.9)) for _ in range(3)]
        with pytest.raises(LockLost) as caught:
            async with asyncio.timeout(ENOUGH), make(one, NAME) as lease:
                waiters = [await _waits(place, make(two, NAME), 1), await _waits(place, make(three, NAME), 2)]
                place.side.flush()
                renew_now(lease)
                await asyncio.sleep(60)
        assert caught.value.reason in (LossReason.DELETED, LossReason.TAKEN_OVER)
        async with asyncio.timeout(ENOUGH):
            fences = await asyncio.gather(*waiters)
        assert min(fences) > lease.fence
        assert len(set(fences)) == 2
        await until(lambda: nothing_held(place.side))


# Looking on.


@both
async def test_what_is_known_of_a_holder_that_came_from_the_queue(
    locks: LockManager, others: LockManager, make: Make, place: Place
) -> None:
    """The same as of any other, once it is inside. Kept by LocalQueue.granted, before the waiter runs, and
    renew.lua.
    """
    lock = locks.lock(NAME, metadata="invoice run") if make is plain else locks.fair_lock(NAME, metadata="invoice run")
    holder = await make(others, NAME).acquire()

    async def release() -> None:
        await until(lambda: place.listeners(NAME))
        holder.release()

    releasing = asyncio.create_task(release())
    async with asyncio.timeout(ENOUGH), lock as lease:
        await releasing
        assert lease.fence > holder.fence
        info = await lock.info()
        assert info is not None
        assert (info.holder, info.metadata) == (locks._runtime.binding.holder, "invoice run")
        assert (info.depth, info.fence) == (1, lease.fence)
        assert info.ttl > 3.0  # the ttl, no longer that of a grant
        assert lease.remaining() > 3.0
        async with lock.acquire():
            assert (await lock.info()).depth == 2  # type: ignore[union-attr]
        with pytest.raises(AcquireTimeout, match="invoice run"):
            await make(others, NAME).acquire(timeout=0)


@nobody_waits
async def test_a_fair_locks_queue_counts_processes_that_wait_for_the_lock(
    locks: LockManager, others: LockManager, place: Place
) -> None:
    """One entry for all its tasks. Kept by info.lua: ZCARD."""
    here = locks.fair_lock(NAME)
    async with here:
        crowd = [asyncio.create_task(_enter(others.lock(NAME))) for _ in range(5)]
        await until(lambda: len(place.waiting(NAME)) == 1)
        crowd += [asyncio.create_task(_enter(others.fair_lock(NAME))) for _ in range(2)]
        await queued(here, 3)
        mine, theirs = await here.info(), await others.fair_lock(NAME).info()
        assert mine is not None
        assert theirs is not None
        assert (mine.waiters, mine.position, theirs.waiters, theirs.position) == (3, None, 3, 1)
    async with asyncio.timeout(ENOUGH):
        await asyncio.gather(*crowd)
