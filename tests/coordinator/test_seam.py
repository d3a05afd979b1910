"""What a store with queues of its own offers, and what it refuses."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack

import pytest

from aiolock import AcquireTimeout, BackendError, ConfigurationError, LockManager
from aiolock.backends.coordinator import CoordinatorBackend
from aiolock.backends.coordinator.store import OwnPlace, View
from tests.support.queue_store import Queues, QueueStore


def manager(queues: Queues, **options: object) -> LockManager:
    return LockManager(CoordinatorBackend(QueueStore(queues), "aiolock"), ttl=6.0, **options)  # type: ignore[arg-type]


async def until(check: Callable[[], object]) -> None:
    """Wait for what is not announced."""
    async with asyncio.timeout(5):
        while not check():  # noqa: ASYNC110 - nothing here sets an event
            await asyncio.sleep(0)


@pytest.fixture
def queues() -> Queues:
    return Queues()


@pytest.fixture
async def locks(queues: Queues) -> AsyncIterator[LockManager]:
    async with manager(queues) as made:
        yield made


async def test_a_lock_alone(locks: LockManager, queues: Queues) -> None:
    """One request to take it, one to give it back."""
    lock = locks.lock("a")
    async with lock as lease:
        assert lease.fence > 0
        assert not lease.abandoned
        assert queues.trips == 1
        assert 5 < lease.remaining() < 6
    assert queues.trips == 2
    assert not await lock.is_locked()


async def test_a_hand_off_between_processes(locks: LockManager, queues: Queues) -> None:
    """A waiter enters, hears that the one before it is gone, and claims."""
    async with manager(queues) as others:
        first = await locks.lock("a").acquire()
        waiting = asyncio.create_task(others.lock("a").acquire())  # type: ignore[arg-type]
        await until(lambda: len(queues.queue("aiolock/lock/a")) == 2)
        trips = queues.trips
        await first.release()
        second = await waiting
        assert second.fence > first.fence
        assert queues.trips == trips + 2
        await second.release()


async def test_one_attempt_leaves_no_place(locks: LockManager, queues: Queues) -> None:
    async with manager(queues) as others, locks.lock("a"):
        attempt = others.lock("a").try_acquire()
        assert await attempt is None
        assert attempt.holder is not None
        with pytest.raises(AcquireTimeout):
            await others.lock("a").acquire(timeout=0)
        assert len(queues.queue("aiolock/lock/a")) == 1


@pytest.mark.parametrize("what", ["multi locks", "conditions", "latches", "tickets", "changes of permits"])
async def test_what_needs_scripts_is_refused(locks: LockManager, what: str) -> None:
    """When it is made. Kept by `Abilities.need_scripts`."""

    async def use() -> None:
        match what:
            case "multi locks":
                locks.multi_lock("a", "b")
            case "conditions":
                locks.condition(locks.lock("a"))
            case "latches":
                locks.latch("a", 2)
            case "tickets":
                async with locks.lock("a") as lease:
                    await lease.detach()
            case _:
                await locks.semaphore("a", 2).set_permits(3)

    with pytest.raises(ConfigurationError, match=rf"^{what} are not offered on a test, as for '.*': use a"):
        await use()


async def test_a_store_that_gives_less_than_the_ttl() -> None:
    """It is refused at once. A grant that is never longer than the margin would be asked for again and again."""
    async with manager(Queues(longest=5.0)) as locks:
        with pytest.raises(BackendError, match=r"the test keeps a place for 5\.0 s, not for 6.0 s") as caught:
            await locks.lock("a").acquire()
        assert not caught.value.transient
        async with locks.lock("a", ttl=4.0):
            pass


async def test_a_store_that_has_lost_data(locks: LockManager, queues: Queues) -> None:
    """Its fences would fall: a grant below what was known when its place was asked for is refused."""
    queues.revision = 1000
    async with locks.lock("a"):
        pass
    queues.revision = 10
    with pytest.raises(BackendError, match="counts from 11, but gave fence 1001 before: it has lost data"):
        await locks.lock("a").acquire()
    await until(lambda: not queues.queue("aiolock/lock/a"))  # the undo is not awaited


async def test_a_later_grant_has_a_lower_fence_than_another_name(locks: LockManager, queues: Queues) -> None:
    """It was in its queue before. Kept by `OwnPlace.floor`."""
    async with manager(queues) as others:
        first = await others.lock("a").acquire()
        waiting = asyncio.create_task(locks.lock("a").acquire())  # type: ignore[arg-type]
        await until(lambda: len(queues.queue("aiolock/lock/a")) == 2)
        async with locks.lock("b") as other:
            await first.release()
            second = await waiting
            assert second.fence < other.fence
            await second.release()


async def test_what_happened_while_the_connection_was_gone(queues: Queues) -> None:
    """A waiter looks again once it is back. Kept by `CoordinatorBackend._back`."""
    store = QueueStore(queues)
    rare = LockManager(CoordinatorBackend(store, "aiolock"), recheck=60.0, liveness=60.0, ttl=180.0)
    async with rare as here, manager(queues) as there:
        lease = await there.lock("a").acquire()
        lock = here.lock("a")
        waiting = asyncio.create_task(lock.acquire())  # type: ignore[arg-type]
        await until(lock._gate().first_queued)
        store.cut()
        await lease.release()
        assert not waiting.done()
        store.mend()
        async with asyncio.timeout(5):
            await (await waiting).release()


async def test_a_ttl_that_becomes_longer_than_a_place_is_kept() -> None:
    """It is refused, and what is held goes on as before. Kept by `Places._too_long`, `Lease.renew` and `_nest`."""
    why = r"the longest ttl|keeps it for 6 s at most, not for 60 s"
    async with manager(Queues(longest=6.0)) as locks:
        async with locks.lock("a", ttl=6.0) as lease, locks.lock("b", ttl=6.0):
            with pytest.raises(BackendError, match=why):
                await lease.renew(60.0)
            with pytest.raises(BackendError, match=why):
                await locks.lock("a", ttl=60.0).acquire()
            assert lease.depth == 1
            await lease.renew()
            assert 5 < lease.remaining() < 6
        async with locks.lock("a", ttl=5.0, renew=False) as lease:
            with pytest.raises(BackendError, match=why):
                await lease.renew(60.0)
            await lease.renew(6.0)


async def test_a_permit_that_is_given_back_wakes_few(queues: Queues) -> None:
    """The first that wait watch all that are in; each other one whom it follows. Kept by Places._follow."""
    async with AsyncExitStack() as stack:
        managers = [await stack.enter_async_context(manager(queues, liveness=60.0)) for _ in range(22)]
        held = [await locks.semaphore("a", 2).acquire() for locks in managers[:2]]
        waiting = []
        for number, locks in enumerate(managers[2:], 3):
            waiting.append(asyncio.create_task(locks.semaphore("a", 2).acquire()))
            async with asyncio.timeout(5):
                while len(queues.queue("aiolock/semaphore/a")) < number:  # noqa: ASYNC110 - it is not told
                    await asyncio.sleep(0)
        for at, one in enumerate(waiting):
            before = queues.trips
            await (held[at].release() if at < 2 else waiting[at - 2].result().release())
            async with asyncio.timeout(5):
                await one
            assert queues.trips - before <= 8  # of a release, three looks, a claim, and what follows
        for one in waiting[-2:]:
            await one.result().release()


@pytest.mark.parametrize("rounds", [1, 2])
async def test_closing_while_the_store_is_away(queues: Queues, caplog: pytest.LogCaptureFixture, rounds: int) -> None:
    """It waits for the round of attempts that runs, and for one more. Kept by CoordinatorBackend._finish."""
    backend = CoordinatorBackend(store := QueueStore(queues), "aiolock")
    locks = LockManager(backend, ttl=6.0)
    await locks.open()
    lease = await locks.lock("a").acquire()
    store.cut()
    releasing = asyncio.create_task(lease.release())
    await until(lambda: backend._calls)
    closing = asyncio.create_task(locks.close())
    await until(lambda: backend._quiet is not None)
    for _ in range(rounds):
        assert not closing.done()
        store._lost(BackendError("", "still away", transient=True), True)
        for _ in range(5):
            await asyncio.sleep(0)
    if rounds == 1:
        store.mend()
    await asyncio.wait_for(closing, 2)
    await asyncio.wait((releasing,))
    assert len(queues.queue("aiolock/lock/a")) == rounds - 1
    assert ("'a' was not released" in caplog.text) == (rounds == 2)


async def test_a_place_is_gone_before_its_answer_comes(
    locks: LockManager, queues: Queues, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its ttl was shorter than the answer took: who waits begins again, as nothing was refused. Kept by
    Places._enter.
    """
    enter, slow = QueueStore.enter, [True]

    async def late(self: QueueStore, own: OwnPlace, waits: bool) -> View:
        view = await enter(self, own, waits)
        if slow:
            slow.clear()
            queues.drop(own.path, own.key)
            own.key = ""
            return View([place for place in view.places if place.owner != own.owner])
        return view

    async with manager(queues) as others, others.lock("a") as lease:
        monkeypatch.setattr(QueueStore, "enter", late)
        waiting = asyncio.create_task(locks.lock("a").acquire(timeout=20.0))
        await until(lambda: not slow and (waiting.done() or len(queues.queue("aiolock/lock/a")) == 2))
        await lease.release()
        await (await waiting).release()
