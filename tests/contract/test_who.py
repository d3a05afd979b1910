"""Who holds a name, and who waits for it, wherever it is kept."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from aiolock import BackendError, ConfigurationError, HolderInfo, LockManager, NotAcquired, WaiterInfo, WaitTimeout

from .places import Place, nobody_waits, until

NAME = "order:42"


@pytest.fixture
async def checkout(place: Place) -> Any:
    """A process with a name."""
    async with place.manager(ttl=place.ttl, name="checkout") as manager:
        yield manager


async def shown(lock: Any, count: int) -> list[WaiterInfo]:
    """The queue, once it has so many places."""
    async with asyncio.timeout(10):
        while len(queue := await lock.waiters()) < count:  # noqa: ASYNC110 - a server sets no event here
            await asyncio.sleep(0.005)
    return queue


async def test_the_holder_of_a_lock(checkout: LockManager, locks: LockManager) -> None:
    """Kept by Looking.holders."""
    looker = locks.lock(NAME)
    assert await looker.holders() == []
    async with checkout.lock(NAME, metadata="nightly") as lease, checkout.lock(NAME):
        (holder,) = await looker.holders()
        info = await looker.info()
    assert info is not None
    assert isinstance(holder, HolderInfo)
    assert holder.process == info.holder
    assert holder.process.startswith("checkout@")
    assert (holder.metadata, holder.fence, holder.depth, holder.permits) == ("nightly", lease.fence, 2, 1)
    assert 0 < holder.ttl <= 60.0
    assert len(holder.manager) == 8


@pytest.mark.not_in_queues("it does not tell for how long")
async def test_since_when(place: Place, locks: LockManager) -> None:
    if not locks._runtime.backend.abilities.queues:
        return  # its servers have clocks of their own
    lock = locks.lock(NAME)
    async with lock:
        (holder,) = await lock.holders()
    assert holder.held_for is not None
    assert 0 <= holder.held_for < 60.0


@nobody_waits
async def test_who_waits_for_a_lock(checkout: LockManager, locks: LockManager, others: LockManager) -> None:
    """Kept by Looking.waiters."""
    lock = locks.lock(NAME)
    if not locks._runtime.backend.abilities.queues:
        with pytest.raises(ConfigurationError, match="not offered by a quorum"):
            await lock.waiters()
        return
    assert await lock.waiters() == []
    async with locks.fair_lock(NAME):
        first = asyncio.create_task(checkout.fair_lock(NAME).acquire())
        await shown(lock, 1)
        second = asyncio.create_task(others.fair_lock(NAME).acquire())
        one, two = await shown(lock, 2)
        (holder,) = await lock.holders()
        assert (one.position, two.position, one.wants, one.alive) == (1, 2, "task", True)
        assert one.process.startswith("checkout@")
        assert len({one.manager, two.manager, holder.manager}) == 3
    for task in (first, second):
        await (await task).release()
    assert await lock.waiters() == []


async def test_the_holders_of_a_semaphore(checkout: LockManager, locks: LockManager) -> None:
    if not locks._runtime.backend.abilities.queues:
        return
    some = locks.semaphore("api", 5)
    async with some.acquire(2) as two, checkout.semaphore("api", 5, metadata="bulk").acquire(3) as three:
        one, other = await some.holders()
        assert [(holder.permits, holder.fence) for holder in (one, other)] == [(2, two.fence), (3, three.fence)]
        assert (one.metadata, other.metadata) == (None, "bulk")
        assert other.process.startswith("checkout@")
        task = asyncio.create_task(checkout.semaphore("api", 5).acquire(4))
        (waiter,) = await shown(some, 1)
        assert (waiter.wants, waiter.permits) == ("permits", 4)
        assert waiter.process.startswith("checkout@")
        task.cancel()
        await asyncio.wait([task])
    await until(lambda: task.done())


async def test_both_sides_of_a_read_write_lock(checkout: LockManager, locks: LockManager) -> None:
    if not locks._runtime.backend.abilities.queues:
        return
    rw, theirs = locks.rw_lock("page"), checkout.rw_lock("page")
    async with rw.read, theirs.read:
        assert len(await rw.holders()) == 2
        task = asyncio.create_task(theirs.write.acquire())
        (waiter,) = await shown(rw, 1)
        assert waiter.wants == "write"
    lease = await task
    (holder,) = await rw.holders()
    assert holder.process.startswith("checkout@")
    assert holder.fence == lease.fence
    await lease.release()


@pytest.mark.not_in_queues("there are no conditions")
@pytest.mark.not_in_threads("it has its own")
async def test_who_waits_for_a_condition(checkout: LockManager, locks: LockManager) -> None:
    if not locks._runtime.backend.abilities.queues:
        return
    lock = checkout.lock(NAME)
    ready = checkout.condition(lock)
    seen = locks.condition(locks.lock(NAME))

    async def wait() -> None:
        async with lock:
            await ready.wait()

    assert await seen.waiters() == []
    task = asyncio.create_task(wait())
    (waiter,) = await shown(seen, 1)
    assert waiter.wants == "notification"
    assert waiter.process.startswith("checkout@")
    async with locks.lock(NAME):
        await seen.notify()
    await task


async def own(look: Any) -> Any:
    """What this process says of itself: in threads it is asked as a call."""
    found = look()
    return await found if asyncio.iscoroutine(found) else found


async def test_what_this_process_holds(checkout: LockManager, locks: LockManager) -> None:
    """Kept by `leases_of`: all leases, also nested ones, and no lease of another process."""
    assert await own(locks.leases) == []
    async with locks.lock(NAME, metadata="nightly") as first, locks.lock(NAME), checkout.lock("other"):
        outer, inner = await own(locks.leases)
        assert (outer.kind, outer.name, outer.metadata, outer.fence) == ("lock", NAME, "nightly", first.fence)
        assert (outer.side, outer.permits, outer.lost) == ("", 1, False)
        assert outer.task == inner.task != ""
        assert 0 < outer.remaining <= first.remaining() + 1
        assert 0 <= outer.held_for < 60
        assert [lease.name for lease in await own(checkout.leases)] == ["other"]
    assert await own(locks.leases) == []


async def test_what_tasks_of_this_process_wait_for(checkout: LockManager, locks: LockManager) -> None:
    """Kept by `waits_of`, the oldest first; a task that has gone in waits no more."""

    async def wait() -> None:
        async with locks.lock(NAME):
            pass

    async with checkout.lock(NAME):
        tasks = [asyncio.create_task(wait()) for _ in range(2)]
        async with asyncio.timeout(10):
            while len(waits := await own(locks.waiting)) < 2:  # noqa: ASYNC110 - a server sets no event here
                await asyncio.sleep(0.005)
        assert [(one.kind, one.name, one.permits) for one in waits] == [("lock", NAME, 1)] * 2
        assert waits[0].waited >= waits[1].waited >= 0
        assert len({one.task for one in waits}) == 2
        assert await own(checkout.waiting) == []
        tasks.pop().cancel()
        async with asyncio.timeout(10):
            while len(await own(locks.waiting)) > 1:  # noqa: ASYNC110 - in threads, the other end is not told here
                await asyncio.sleep(0.005)
    await asyncio.gather(*tasks)
    assert await own(locks.waiting) == []


async def test_sides_and_permits_of_this_process(locks: LockManager) -> None:
    if not locks._runtime.backend.abilities.queues:
        return
    rw = locks.rw_lock("page")
    async with rw.read, locks.semaphore("api", 5).acquire(3):
        assert [(one.kind, one.side, one.permits) for one in await own(locks.leases)] == [
            ("rw", "read", 1),
            ("semaphore", "", 3),
        ]
    async with rw.write:
        assert [one.side for one in await own(locks.leases)] == ["write"]


def waitable(locks: LockManager) -> list[Any]:
    """What can be waited for here, each as it is made."""
    if not locks._runtime.backend.abilities.queues:
        return [locks.lock]
    if locks._runtime.backend.abilities.requests is not None:
        return [locks.lock, locks.rw_lock]
    return [locks.lock, locks.rw_lock, locks.multi_lock]


async def test_waiting_until_it_is_free(locks: LockManager, others: LockManager) -> None:
    """It takes nothing, so another one comes in at once. Kept by Vacancy.wait_free."""
    for here, there in zip(waitable(locks), waitable(others), strict=True):
        mine, theirs = here(NAME), there(NAME)
        holder = getattr(theirs, "write", theirs)
        assert await mine.wait_free() is True
        lease = await holder.acquire()
        for timeout in (0, 0.02):
            with pytest.raises(WaitTimeout, match="was not free within"):
                await mine.wait_free(timeout)
        waiting = [asyncio.create_task(mine.wait_free()) for _ in range(2)]
        await asyncio.sleep(0.03)
        assert not any(task.done() for task in waiting)
        waiting[1].cancel()
        await lease.release()
        assert await asyncio.wait_for(waiting[0], 10) is True
        await asyncio.wait(waiting)
        async with holder.acquire(timeout=0):
            pass


@pytest.mark.not_in_threads("what asks is another object there")
async def test_an_outage_does_not_end_the_wait(
    locks: LockManager, others: LockManager, monkeypatch: pytest.MonkeyPatch
) -> None:
    """But the first look is told what happens. Kept by `except BackendError`."""
    lock, looks = locks.lock(NAME), 0
    look, transient = type(lock).is_locked, True

    async def refused(self: Any) -> bool:
        nonlocal looks
        looks += 1
        if looks == 1 and transient:
            return True
        if looks < 4:
            raise BackendError(NAME, "away", transient=transient)
        return await look(self)

    monkeypatch.setattr(type(lock), "is_locked", refused)
    assert await lock.wait_free(10) is True
    assert looks == 4
    looks = 1
    with pytest.raises(BackendError, match="away"):
        await lock.wait_free()
    looks, transient = 1, False
    with pytest.raises(BackendError, match="away"):
        await lock.wait_free()


@pytest.mark.parametrize("kind", ["lock", "fair_lock", "semaphore", "rw"])
async def test_ending_the_waits_of_this_process(locks: LockManager, others: LockManager, kind: str) -> None:
    """Those of others wait on, and it can be acquired again. Kept by Gate.end_waits."""

    def of(manager: LockManager) -> Any:
        match kind:
            case "semaphore":
                return manager.semaphore(NAME, 1)
            case "rw":
                return manager.rw_lock(NAME).write
        return getattr(manager, kind)(NAME)

    if kind != "lock" and not locks._runtime.backend.abilities.queues:
        return
    mine, theirs = of(locks), of(others)
    assert await own(mine.cancel_waits) == 0
    holder = await theirs.acquire()
    tasks = [asyncio.create_task(mine.acquire()) for _ in range(3)]
    other = asyncio.create_task(theirs.acquire())
    async with asyncio.timeout(10):
        while len(await own(locks.waiting)) < 3:  # noqa: ASYNC110 - a server sets no event here
            await asyncio.sleep(0.005)
    assert await own(mine.cancel_waits) == 3
    for task in tasks:
        with pytest.raises(NotAcquired, match=r"cancel_waits\(\) was called"):
            await task
    assert not other.done()
    await holder.release()
    await (await asyncio.wait_for(other, 20)).release()
    await (await mine.acquire(timeout=20)).release()
    assert await own(locks.waiting) == []
