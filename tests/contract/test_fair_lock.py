"""The fair lock's own contract: the order, over all processes. test_exclusive.py has what it shares with a lock."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack

import pytest

from aiolock import AcquireTimeout, BackendError, FairLock, FairLockInfo, LockManager

from .places import KEYS, TTL, Place, until, waits
from .strangers import LockStranger, queued

NAME = "order:42"
ENOUGH = 10.0
SOON = 5.0
QUEUE = KEYS.of("lock", NAME).of_lock[1]


@pytest.fixture
async def processes(place: Place) -> AsyncIterator[list[LockManager]]:
    """Three of them."""
    async with place.manager() as one, place.manager() as two, place.manager() as three:
        yield [one, two, three]


@pytest.fixture
async def calm(place: Place) -> AsyncIterator[list[LockManager]]:
    """Three managers whose waiters ask so rarely that only a message can help them soon."""
    async with AsyncExitStack() as stack:
        yield [await stack.enter_async_context(place.manager(liveness=30.0)) for _ in range(3)]


async def test_first_come_first_served_across_processes(processes: list[LockManager]) -> None:
    """Kept by join.lua: `ZADD`, and settle.lua, which takes the head; acquire.lua queues `more` in their order."""
    entered: list[int] = []

    async def enter(number: int) -> None:
        async with processes[number % 3].fair_lock(NAME):
            entered.append(number)
            await asyncio.sleep(0)

    lock = processes[0].fair_lock(NAME)
    async with asyncio.timeout(ENOUGH), asyncio.TaskGroup() as group, lock:
        for number in range(12):
            group.create_task(enter(number))
            await queued(lock, number + 1)
    assert entered == list(range(12))


async def test_timeouts_and_cancels_of_others_do_not_reorder(processes: list[LockManager], place: Place) -> None:
    """Tasks enter by queue number: a waiter that gives up is passed over, and no one overtakes. Fences rise."""
    dice = random.Random(7)
    entered: list[tuple[int, int]] = []  # (queue number, fence) in the order of entry
    inside = 0

    async def enter(number: int) -> None:
        nonlocal inside
        manager = processes[number % 3]
        timeout = dice.choice([None, 20.0, 30.0, 0.03])
        try:
            async with manager.fair_lock(NAME).acquire(timeout=timeout) as lease:
                inside += 1
                assert inside == 1
                entered.append((seen[lease._hold.owner], lease.fence))
                await asyncio.sleep(0.001)
                inside -= 1
        except (AcquireTimeout, BackendError):
            pass  # the latter if even the first answer did not come in time

    def waiters() -> set[str]:
        return {owner for manager in processes for owner in manager._runtime.queue_entries}

    seen: dict[str, int] = {}
    lock = processes[0].fair_lock(NAME)
    async with asyncio.timeout(20):
        async with lock:
            tasks = [asyncio.create_task(enter(number)) for number in range(30)]
            await until(lambda: sum(task.done() for task in tasks) + len(waiters()) == len(tasks))
            await until(lambda: waiters() <= place.side.scores(QUEUE).keys())
            seen |= place.side.scores(QUEUE)
            for task in dice.sample(tasks, 5):
                task.cancel()
            await asyncio.sleep(0.05)  # the short timeouts have passed
        results = await asyncio.gather(*tasks, return_exceptions=True)
    assert {type(result) for result in results} <= {type(None), asyncio.CancelledError}
    assert len(entered) >= 10
    assert entered == sorted(entered)
    assert [fence for _, fence in entered] == sorted({fence for _, fence in entered})


@waits
async def test_short_and_long_timeouts_do_not_drift_the_queue(calm: list[LockManager], place: Place) -> None:
    """Redisson #1104: waiters that came and went cost the waiters behind them nothing."""
    one, two, three = (manager.fair_lock(NAME) for manager in calm)
    lease = await one.acquire()
    patient = asyncio.create_task(_enter(three))
    for _ in range(2):
        with pytest.raises(AcquireTimeout):
            await two.acquire(timeout=0.3)
    async with asyncio.timeout(SOON):
        while (info := await three.info()) is None or (info.waiters, info.position) != (1, 1):  # noqa: ASYNC110
            await asyncio.sleep(0.002)
    await lease.release()
    async with asyncio.timeout(SOON):
        await patient
    assert not place.side.exists(QUEUE)


async def _enter(lock: FairLock) -> None:
    async with lock:
        pass


@pytest.mark.not_in_queues("each place ends by itself")
async def test_a_queue_of_the_dead_is_passed_at_once(calm: list[LockManager], place: Place) -> None:
    """However many died before: one release skips them all. Kept by settle.lua: its loop."""
    one, two, _ = (manager.fair_lock(NAME) for manager in calm)
    lease = await one.acquire()
    dead = [LockStranger(place, NAME, liveness=30.0, owner=f"dead{number}:1") for number in range(20)]
    for stranger in dead:
        stranger.queue()
    behind = asyncio.create_task(_enter(two))
    await queued(one, 21)
    for stranger in dead:
        stranger.die()
    await lease.release()
    async with asyncio.timeout(SOON):
        await behind
    assert not place.side.exists(QUEUE)


@waits
@pytest.mark.not_polling("the server cannot see that a polling process is dead")
async def test_a_grant_to_a_process_that_just_died_ends_with_its_liveness(
    processes: list[LockManager], place: Place
) -> None:
    """Not with its ttl. Kept by settle.lua: `grant(name, entry, '0', tonumber(known), …)`."""
    one, two, _ = (manager.fair_lock(NAME) for manager in processes)
    lease = await one.acquire()
    dead = LockStranger(place, NAME, liveness=1.0)
    dead.queue(ttl=60.0)
    behind = asyncio.create_task(two.acquire())
    await queued(one, 2)
    await lease.release()
    assert dead.holds
    async with asyncio.timeout(ENOUGH):
        await (await behind).release()


async def test_info(locks: LockManager, others: LockManager) -> None:
    here, there = locks.fair_lock(NAME, metadata="invoice\nrun"), others.fair_lock(NAME)
    assert await there.info() is None
    assert not await there.is_locked()
    async with here as lease, here:
        waiters = [asyncio.create_task(_enter(there)) for _ in range(2)]
        await queued(there, 2)
        assert await there.is_locked()
        info = await there.info()
        assert isinstance(info, FairLockInfo)
        assert (info.depth, info.fence, info.metadata) == (2, lease.fence, "invoice\nrun")
        assert (info.holder, info.waiters, info.position) == (locks._runtime.binding.holder, 2, 1)
        assert 0 < info.ttl <= TTL
    await asyncio.gather(*waiters)


@waits
async def test_waiting_survives_a_flush(processes: list[LockManager], place: Place) -> None:
    """Waiters come back by themselves, within a third of the `liveness`."""
    one, two, three = (manager.fair_lock(NAME) for manager in processes)
    lease = await one.acquire()
    waiters = [asyncio.create_task(_enter(lock)) for lock in (two, three, two)]
    await queued(one, 3)
    place.side.flush()
    async with asyncio.timeout(ENOUGH):
        entered = await asyncio.gather(*waiters)
    assert len(entered) == 3
    lease.release()
    await until(lambda: place.gone(NAME) and not place.waiting(NAME))
