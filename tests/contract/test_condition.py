"""The condition's contract, on every backend that offers it: two managers that share a store are two processes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import anyio
import pytest

from aiolock import (
    BackendError,
    Condition,
    ConfigurationError,
    Lease,
    Lock,
    LockLost,
    LockManager,
    LossReason,
    NotAcquired,
    NotOwned,
    WaitTimeout,
)
from aiolock.core.holding.level import Watcher
from aiolock.core.resume import reacquire
from aiolock.scripts.condition import ConditionCalls

from .places import KEYS, Place, keys_of, until

NAME = "order:42"
ENOUGH = 8.0
"""Far longer than anything here needs."""
CALLS = ConditionCalls(KEYS, NAME, 60_000)


@pytest.fixture
def ready(locks: LockManager, here: Lock) -> Condition:
    return locks.condition(here)


@pytest.fixture
def set_ready(others: LockManager, there: Lock) -> Condition:
    return others.condition(there)


class Waiter:
    """A task that waits once.

    Attributes:
        fences: of its lease, before and after.
    """

    def __init__(self, lock: Lock, condition: Condition, order: list[str] | None = None, name: str = "") -> None:
        self.fences: list[int] = []
        self.lease: Lease | None = None
        self._lock, self._condition, self._order, self._name = lock, condition, order, name
        self.task = asyncio.create_task(self._run())

    async def _run(self) -> None:
        async with self._lock as lease:
            self.lease = lease
            self.fences.append(lease.fence)
            assert await self._condition.wait() is True
            lease.ensure()
            self.fences.append(lease.fence)
            if self._order is not None:
                self._order.append(self._name)


def waiters(place: Place) -> int:
    return len(place.side.hash(keys_of(NAME, "condition").lock).keys() - {"version"})


async def waiting(place: Place, lock: Lock, condition: Condition, *facts: object) -> Waiter:
    """Return a task that waits, and has released the lock."""
    count = waiters(place)
    waiter = Waiter(lock, condition, *facts)  # type: ignore[arg-type]
    await until(lambda: waiters(place) > count and place.gone(NAME))
    return waiter


async def test_a_notification_wakes_one_under_a_new_fence(
    here: Lock, there: Lock, ready: Condition, set_ready: Condition, place: Place
) -> None:
    async with asyncio.timeout(ENOUGH):
        waiter = await waiting(place, here, ready)
        assert waiter.lease is not None
        assert waiter.lease.released
        assert waiter.lease.remaining() == 0.0
        async with there as between:
            assert await set_ready.notify() == 1
            assert await set_ready.notify() == 0
            assert len(waiter.fences) == 1
        await waiter.task
    before, after = waiter.fences
    assert before < between.fence < after
    assert waiter.lease.released
    assert place.gone(NAME)
    assert waiters(place) == 0


async def test_first_come_first_notified(
    here: Lock, there: Lock, ready: Condition, set_ready: Condition, place: Place
) -> None:
    order: list[str] = []
    async with asyncio.timeout(ENOUGH):
        tasks = [
            (await waiting(place, lock, condition, order, name)).task
            for lock, condition, name in ((here, ready, "a"), (there, set_ready, "b"), (here, ready, "c"))
        ]
        for count, expected in ((1, ["a"]), (2, ["a", "b", "c"])):
            async with there:
                assert await set_ready.notify(count) == count
            await until(lambda expected=expected: len(order) == len(expected))  # type: ignore[misc]
            assert sorted(order) == expected
        await asyncio.gather(*tasks)


async def test_notify_all(here: Lock, there: Lock, ready: Condition, set_ready: Condition, place: Place) -> None:
    async with asyncio.timeout(ENOUGH):
        all_of_them = [await waiting(place, *pair) for pair in [(here, ready), (there, set_ready)] * 2]
        async with here:
            assert await ready.notify_all() == 4
        await asyncio.gather(*(waiter.task for waiter in all_of_them))


@pytest.mark.parametrize("asks", [False, True], ids=["function", "coroutine function"])
async def test_wait_for(here: Lock, there: Lock, ready: Condition, set_ready: Condition, asks: bool) -> None:
    jobs: list[str] = []

    async def ask() -> list[str]:
        await asyncio.sleep(0)
        return jobs

    async def consume() -> str:
        async with here:
            found = await ready.wait_for(ask if asks else lambda: jobs)
            return found.pop()

    async with asyncio.timeout(ENOUGH):
        consumer = asyncio.create_task(consume())
        for job in ("", "", "x"):  # the first two find nothing to do, or nobody who waits
            async with there:
                jobs += [job] if job else []
                await set_ready.notify()
        assert await consumer == "x"


async def test_a_loss_while_it_waits_is_impossible(
    here: Lock, there: Lock, ready: Condition, set_ready: Condition, place: Place
) -> None:
    """Somebody takes the lock by force: whoever waits for the condition does not hold it."""
    async with asyncio.timeout(ENOUGH):
        waiter = await waiting(place, here, ready)
        lease = await there.acquire()
        assert await here.force_release()
        assert waiter.lease is not None
        assert not waiter.lease.lost
        with pytest.raises(NotOwned):
            waiter.lease.ensure()
        with pytest.raises(LockLost):
            await lease.release()
        async with there:
            await set_ready.notify()
        await waiter.task


@pytest.mark.not_polling("a revocation is noticed at the next renewal")
async def test_the_new_hold_guards_the_block(
    here: Lock, there: Lock, ready: Condition, set_ready: Condition, place: Place
) -> None:
    """Kept by Guard.resume: without it, nothing would cancel the rest of the block."""

    async def hold() -> None:
        async with here:
            await ready.wait()
            inside.set()
            await asyncio.Event().wait()

    inside = asyncio.Event()
    async with asyncio.timeout(ENOUGH):
        task = asyncio.create_task(hold())
        await until(lambda: waiters(place) == 1 and place.gone(NAME))
        async with there:
            await set_ready.notify()
        await inside.wait()
        assert await there.force_release()
        with pytest.raises(LockLost):
            await task


@pytest.mark.not_polling("no message tells it")
@pytest.mark.parametrize("wanted", [True, False], ids=["wanted", "lost"])
async def test_who_watches_the_lease_goes_on(
    here: Lock, there: Lock, ready: Condition, set_ready: Condition, place: Place, wanted: bool
) -> None:
    """Kept by Hold.part_with: without it they are told that the lease was released."""

    async def hold() -> None:
        async with here as lease:
            watching.append(asyncio.create_task(lease.wait_wanted() if wanted else lease.wait_lost()))
            await ready.wait()
            inside.set()
            await asyncio.Event().wait()

    inside = asyncio.Event()
    watching: list[asyncio.Task[object]] = []
    async with asyncio.timeout(ENOUGH):
        task = asyncio.create_task(hold())
        await until(lambda: waiters(place) == 1 and place.gone(NAME))
        async with there:
            await set_ready.notify()
        await inside.wait()
        assert not watching[0].done()
        await (there.request_release() if wanted else there.force_release())
        assert await watching[0] is (None if wanted else LossReason.REVOKED)
        task.cancel()
        await asyncio.wait((task,))


async def test_who_watches_a_lease_that_does_not_come_back_is_told(place: Place) -> None:
    async def hold() -> None:
        lock = manager.lock(NAME)
        async with lock as lease:
            watching.extend(asyncio.create_task(watch) for watch in (lease.wait_wanted(), lease.wait_lost()))
            await manager.condition(lock).wait()

    watching: list[asyncio.Task[object]] = []
    async with asyncio.timeout(ENOUGH):
        async with place.manager(ttl=place.ttl) as manager:
            task = asyncio.create_task(hold())
            await until(lambda: waiters(place) == 1 and place.gone(NAME))
        for watch in watching:
            with pytest.raises(NotOwned):
                await watch
        with pytest.raises(NotAcquired):
            await task


async def test_two_lock_objects_of_a_process(locks: LockManager, here: Lock, ready: Condition, place: Place) -> None:
    """Whoever notifies has the lock, also once a waiter asks for it. Broken by a second Gate for the name."""
    other = locks.lock(NAME)
    async with asyncio.timeout(ENOUGH):
        waiter = await waiting(place, here, ready)
        async with other:
            assert await locks.condition(other).notify() == 1
            await until(lambda: here._gate().occupied())
            assert await locks.condition(other).notify() == 0
            async with other as inner:
                assert inner.depth == 2
        await waiter.task
    assert not locks._runtime.gates


async def test_a_lock_that_was_lost_before_is_told(
    here: Lock, there: Lock, ready: Condition, set_ready: Condition, place: Place
) -> None:
    """The answer to the release says so; the block below it was not alone."""

    async def wait() -> None:
        async with here as lease:
            place.side.flush()
            try:
                await ready.wait()
            finally:
                held.append(not lease.released)

    held: list[bool] = []
    async with asyncio.timeout(ENOUGH):
        task = asyncio.create_task(wait())
        await until(lambda: waiters(place) == 1)
        async with there:
            await set_ready.notify()
        with pytest.raises(LockLost):
            await task
    assert held == [True]


async def test_a_lost_lease_does_not_wait(locks: LockManager, there: Lock, place: Place) -> None:
    lock = locks.lock(NAME, cancel_on_loss=False)
    async with asyncio.timeout(ENOUGH):
        lease = await lock.acquire()
        assert await there.force_release()
        with pytest.raises(LockLost):
            await lease.renew()
        with pytest.raises(LockLost):
            await locks.condition(lock).wait()
        assert lease.lost
        with pytest.raises(LockLost):
            await lease.release()
    assert waiters(place) == 0


async def test_a_nested_block_does_not_wait(here: Lock, ready: Condition, place: Place) -> None:
    """Even if the lease around it was released by hand: a loss of the new hold would cancel nothing."""
    async with asyncio.timeout(ENOUGH), here as outer, here:
        outer.release()
        with pytest.raises(ConfigurationError, match="outermost"):
            await ready.wait()
    assert waiters(place) == 0


async def test_a_clean_up_is_shielded_by_the_new_hold(locks: LockManager, place: Place) -> None:
    """Also when the hold from before the wait would have expired. Broken by keeping that one."""

    @asynccontextmanager
    async def transaction() -> AsyncIterator[None]:
        yield
        await asyncio.sleep(0.01)
        ended.append("committed")

    ended: list[str] = []
    lock = locks.lock(NAME)
    async with asyncio.timeout(ENOUGH), lock as lease, lease.shielded(transaction()):
        before = lease._hold
        with pytest.raises(WaitTimeout):
            await locks.condition(lock).wait(timeout=0.01)
        before.expiry = locks._runtime.clock.now()
    assert ended == ["committed"]


async def test_a_timeout_holds_the_lock_again(here: Lock, there: Lock, ready: Condition, place: Place) -> None:
    async with asyncio.timeout(ENOUGH), here as lease:
        with pytest.raises(WaitTimeout, match=NAME):
            await ready.wait(timeout=0.05)
        lease.ensure()
        with pytest.raises(WaitTimeout, match=r"within 0\.05 s"):
            await ready.wait_for(lambda: False, timeout=0.05)
        looks = iter([False, True])
        assert await ready.wait_for(lambda: next(looks), timeout=0.05)  # it looks once more at the end
        assert await there.try_acquire() is None
    await until(lambda: not waiters(place))


async def hold_again(lock: Lock, condition: Condition, held: list[bool]) -> None:
    """Wait, and note whether the lock is held when that ends."""
    async with lock as lease:
        try:
            await condition.wait()
        finally:
            held.append(not lease.released)


async def test_cancelled_while_it_waits(
    here: Lock, there: Lock, ready: Condition, set_ready: Condition, place: Place
) -> None:
    """It holds the lock when the cancellation arrives, as asyncio.Condition has it, and lets go at the block's end."""
    held: list[bool] = []
    async with asyncio.timeout(ENOUGH):
        task = asyncio.create_task(hold_again(here, ready, held))
        await until(lambda: waiters(place) == 1 and place.gone(NAME))
        async with there:
            task.cancel()
            await asyncio.sleep(0.01)
            task.cancel()  # does not hurry it
            await asyncio.sleep(0.01)
            assert not task.done()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert held == [True]
        async with there:
            assert await set_ready.notify() == 0


async def test_a_cancelled_scope_does_not_hurry_it_either(
    here: Lock, there: Lock, ready: Condition, place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """anyio cancels again and again: without a shield each attempt to acquire the lock would be cancelled."""
    held: list[bool] = []
    attempts: list[Lease] = []
    scope = anyio.CancelScope()

    async def count(lease: Lease, watchers: tuple[Watcher, ...]) -> None:
        attempts.append(lease)
        await reacquire(lease, watchers)

    async def wait() -> None:
        with scope:
            await hold_again(here, ready, held)

    monkeypatch.setattr("aiolock.primitives.condition.reacquire", count)
    async with asyncio.timeout(ENOUGH):
        task = asyncio.create_task(wait())
        await until(lambda: waiters(place) == 1 and place.gone(NAME))
        async with there:
            scope.cancel()
            await asyncio.sleep(0.05)
            assert not task.done()
        await task
    assert held == [True]
    assert len(attempts) == 1


async def test_cancelled_after_it_was_notified(
    here: Lock, there: Lock, ready: Condition, set_ready: Condition, place: Place
) -> None:
    """The next one is notified in its place. Kept by leave.lua."""
    async with asyncio.timeout(ENOUGH):
        first = await waiting(place, here, ready)
        second = await waiting(place, there, set_ready)
        async with there:
            assert await set_ready.notify() == 1
            first.task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await first.task
        await second.task


async def test_a_waiter_that_dies_passes_its_notification_on(
    here: Lock, there: Lock, ready: Condition, set_ready: Condition, place: Place
) -> None:
    """It is found out when it sends no heartbeat. Kept by line.lua: `passed`."""
    place.side.run(ConditionCalls(KEYS, NAME, 300).wait("dead:1", joins=True))
    async with asyncio.timeout(ENOUGH):
        waiter = await waiting(place, here, ready)
        async with there:
            assert await set_ready.notify() == 1
        assert not waiter.task.done()
        await waiter.task


async def test_a_server_that_forgot_it_wakes_it(here: Lock, ready: Condition, place: Place) -> None:
    """A notification may have been missed. Broken by joining again."""
    async with asyncio.timeout(ENOUGH):
        waiter = await waiting(place, here, ready)
        place.side.flush()
        await waiter.task
    before, after = waiter.fences
    assert before < after


async def test_closing_the_manager_ends_the_wait(place: Place) -> None:
    async with place.manager(ttl=place.ttl) as manager:
        lock = manager.lock(NAME)
        waiter = await waiting(place, lock, manager.condition(lock))
    with pytest.raises(NotAcquired):
        await waiter.task


async def test_only_whoever_holds_the_lock(here: Lock, ready: Condition) -> None:
    calls: tuple[Callable[[], object], ...] = (ready.wait, ready.notify, lambda: ready.wait_for(lambda: True))
    for call in calls:
        with pytest.raises(NotOwned, match=NAME):
            await call()  # type: ignore[misc]
    async with here, here:
        with pytest.raises(ConfigurationError, match="2 times"):
            await ready.wait()


async def test_entering_it_is_entering_its_lock(here: Lock, there: Lock, ready: Condition) -> None:
    async with asyncio.timeout(ENOUGH):
        async with ready as lease:
            assert here.owned() == 1
            async with here:
                assert here.owned() == 2
            with pytest.raises(WaitTimeout):
                await ready.wait(timeout=0.01)
            lease.ensure()
        assert here.owned() == 0
        with pytest.raises(LockLost):  # noqa: PT012 - what raises is the whole guarded block
            async with ready:
                await there.force_release()
                await asyncio.Event().wait()


async def test_one_that_lost_it_leaves_the_next_in_peace(locks: LockManager, there: Lock, place: Place) -> None:
    """Both entered through one condition. Kept by Condition.__aenter__: not awaited there."""
    ready = locks.condition(locks.lock(NAME, cancel_on_loss=False))
    leave, left = asyncio.Event(), asyncio.Event()

    async def lose(entered: asyncio.Event) -> None:
        async with ready as lease:
            entered.set()
            await lease.wait_lost()
            await leave.wait()

    async def follow(entered: asyncio.Event) -> None:
        async with ready as lease:
            entered.set()
            await left.wait()
            lease.ensure()
            assert not place.gone(NAME)

    async with asyncio.timeout(ENOUGH):
        events = asyncio.Event(), asyncio.Event()
        losing = asyncio.create_task(lose(events[0]))
        await events[0].wait()
        await there.force_release()
        following = asyncio.create_task(follow(events[1]))
        await events[1].wait()
        leave.set()
        with pytest.raises(LockLost):
            await losing
        left.set()
        await following


async def test_what_cannot_be(locks: LockManager, others: LockManager, here: Lock, ready: Condition) -> None:
    with pytest.raises(ConfigurationError, match="another manager"):
        others.condition(here)
    with pytest.raises(ConfigurationError, match="needs a lock"):
        locks.condition("order:42")  # type: ignore[arg-type]
    async with here:
        for n in (-1, True, 1.5):
            with pytest.raises(ConfigurationError, match="whole number"):
                await ready.notify(n)  # type: ignore[arg-type]


async def test_a_refused_wait_keeps_the_lock(here: Lock, ready: Condition, place: Place) -> None:
    place.side.set(keys_of(NAME, "condition").lock, "another type")
    async with asyncio.timeout(ENOUGH), here as lease:
        with pytest.raises(BackendError, match="WRONGTYPE"):
            await ready.wait()
        lease.ensure()
