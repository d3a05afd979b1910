"""Redisson's lock, as managers of ours share it with each other and with a stranger that writes as Redisson does."""

# ruff: noqa: PT012 - what raises is the whole guarded block

from __future__ import annotations

import asyncio

import pytest

from aiolock import AcquireTimeout, ConfigurationError, LockLost, LockManager, LossReason, NotOwned
from aiolock.core.waiting.race import WATCH_AFTER
from aiolock.redisson import Redisson, RFencedLock, RLock
from aiolock.scripts.base import Call
from aiolock.scripts.redisson import FORCE_RELEASE
from tests.support.scripting import KEYS as OWN

from .places import ClusterPlace, Place, PollingPlace, RedisPlace, renewed, revoked, until

NAME = "order:42"
CHANNEL = f"redisson_lock__channel:{{{NAME}}}"
TOKEN = f"redisson_lock_token:{{{NAME}}}"
JAVA = "6b1c9a54-7c0e-4f3b-9c55-0d6f3b1f8a11:51"
ENOUGH = 5.0
"""Far longer than anything here needs, far shorter than any recheck, ttl or third of a ttl that could help instead."""


@pytest.fixture
def here(locks: LockManager) -> RLock:
    return Redisson(locks).lock(NAME, ttl=60.0)


@pytest.fixture
def there(others: LockManager) -> RLock:
    return Redisson(others).lock(NAME)


@pytest.fixture
def fenced(locks: LockManager) -> RFencedLock:
    return Redisson(locks).fenced_lock(NAME, ttl=60.0)


def taken_by_java(place: Place, ttl_ms: int = 60_000) -> None:
    """Put a thread of Java's in the holder's place, if there is one."""
    place.side.delete(NAME)
    place.side.hset(NAME, {JAVA: "1"})
    place.side.shorten(NAME, ttl_ms)


def freed(place: Place) -> None:
    """Free it as `unlock()` and `forceUnlock()` do: the same is left, and the same is said."""
    place.side.run(Call(NAME, FORCE_RELEASE, (NAME,), (CHANNEL,)))


def listeners(place: Place) -> int:
    """How many managers listen to the name."""
    return (
        place.subscribers(CHANNEL) if isinstance(place, RedisPlace | ClusterPlace) else place.side.store.numsub(CHANNEL)
    )  # type: ignore[attr-defined,no-any-return]


async def listens(place: Place) -> None:
    await until(lambda: listeners(place))


# Holding.


async def test_one_holder_and_nothing_left(here: RLock, there: RLock, place: Place) -> None:
    async with here as lease:
        assert lease.remaining() > 0
        assert list(place.side.hash(NAME).values()) == ["1"]
        assert await there.try_acquire() is None
        with pytest.raises(AcquireTimeout, match=next(iter(place.side.hash(NAME)))):
            await there.acquire(timeout=0.01)
        assert await there.is_locked()
    assert place.keys() == set()
    assert not await there.is_locked()


async def test_it_nests_by_task_whatever_its_face(here: RLock, fenced: RFencedLock, place: Place) -> None:
    """One kind, one gate: a task does not wait for itself. And a child task shares it by its owner."""
    async with fenced as lease, here as nested:
        assert nested.fence == lease.fence == 1
        assert list(place.side.hash(NAME).values()) == ["2"]

        async def child() -> None:
            async with here.acquire(owner=lease.owner) as shared:
                assert shared.depth == 3

        await asyncio.create_task(child())
        assert here.owned() == 2
    assert place.keys() == {TOKEN}


async def test_fences_are_redissons_tokens(fenced: RFencedLock, others: LockManager, place: Place) -> None:
    place.side.set(TOKEN, "41")
    async with fenced as lease:
        assert lease.fence == 42
        info = await fenced.info()
        assert info is not None
        assert info.fence == 42
    async with Redisson(others).fenced_lock(NAME) as lease:
        assert lease.fence == 43


async def test_without_a_token_there_is_no_fence(here: RLock) -> None:
    """Never 0, which a resource that compares fences would let in for ever. Kept by Lease.fence."""
    async with here as lease:
        with pytest.raises(ConfigurationError, match=f"{NAME!r} has no fence.*fenced_lock"):
            _ = lease.fence
        assert "fence" not in repr(lease)


async def test_who_has_it(here: RLock, there: RLock, place: Place) -> None:
    assert await here.info() is None
    taken_by_java(place)
    info = await here.info()
    assert info is not None
    assert (info.holder, info.depth, info.fence) == (JAVA, 1, None)
    assert 50 < info.ttl <= 60
    attempt = here.try_acquire()
    assert await attempt is None
    assert attempt.holder is not None
    assert attempt.holder.process == JAVA


async def test_it_is_renewed(here: RLock, place: Place) -> None:
    async with here as lease:
        place.side.shorten(NAME, 30_000)
        await renewed(lease)
        assert place.side.pttl(NAME) > 50_000


async def test_another_kind_of_lock_is_another_lock(here: RLock, locks: LockManager, place: Place) -> None:
    async with here, locks.lock(NAME):
        assert place.keys() == {NAME, OWN.of("lock", NAME).lock}


# Waiting.


@pytest.mark.parametrize("in_java", [False, True])
async def test_a_release_elsewhere_lets_a_waiter_in(here: RLock, there: RLock, place: Place, in_java: bool) -> None:
    """By its message. Kept by release.lua: `PUBLISH`, and Race.signal."""
    lease = None if in_java else await here.acquire()
    if in_java:
        taken_by_java(place)
    waiter = asyncio.create_task(asyncio.wait_for(_enter(there), ENOUGH))
    await until(lambda: _waits(there, place))
    if lease is None:
        freed(place)
    else:
        await lease.release()
    await waiter
    assert place.keys() == set()


async def _enter(lock: RLock) -> None:
    async with lock:
        pass


def _waits(lock: RLock, place: Place) -> bool:
    """It has been refused, and listens, unless it polls."""
    common = lock._gate().common
    return common is not None and common.refused and bool(listeners(place) or isinstance(place, PollingPlace))


async def test_tasks_of_one_process_follow_each_other(here: RLock, place: Place) -> None:
    """By one request for all of them at a time. Kept by Gate.settle_down: `advance`."""
    entered: list[int] = []

    async def enter(number: int) -> None:
        async with here:
            entered.append(number)

    async with here:
        tasks = [asyncio.create_task(enter(number)) for number in range(3)]
        await until(lambda: len(here._gate().waiters) == 3)
    await asyncio.wait_for(asyncio.gather(*tasks), ENOUGH)
    assert entered == [0, 1, 2]


async def test_a_dead_holder_is_outwaited(there: RLock, place: Place) -> None:
    """No message says so. Kept by Race._pause: `pttl`."""
    taken_by_java(place, 200)
    await asyncio.wait_for(_enter(there), ENOUGH)


async def test_a_cancelled_waiter_leaves_nothing(there: RLock, place: Place) -> None:
    taken_by_java(place)
    waiter = asyncio.create_task(_enter(there))
    await until(lambda: _waits(there, place))
    waiter.cancel()
    await asyncio.gather(waiter, return_exceptions=True)
    assert place.side.hash(NAME) == {JAVA: "1"}
    await until(lambda: not listeners(place))
    assert there._runtime.gates == {}


# Ends by force.


@revoked
@pytest.mark.parametrize("taken", [False, True])
async def test_an_end_by_force_is_heard(here: RLock, place: Place, taken: bool) -> None:
    """Nobody tells the holder but the channel. Kept by Race.held, and Gate.verify_holds."""
    with pytest.raises(LockLost) as lost:
        async with asyncio.timeout(ENOUGH), here:
            await listens(place)
            freed(place)
            if taken:
                taken_by_java(place)
            await asyncio.Event().wait()
    assert lost.value.reason in {LossReason.TAKEN_OVER if taken else LossReason.DELETED, LossReason.DELETED}
    assert place.keys() == ({NAME} if taken else set())


@revoked
async def test_an_end_by_force_before_it_listens(here: RLock, place: Place) -> None:
    """The confirmation of the subscription asks. Kept by Race.on_due."""
    with pytest.raises(LockLost):
        async with asyncio.timeout(ENOUGH), here:
            freed(place)
            await asyncio.Event().wait()


@revoked
async def test_a_short_hold_costs_no_subscription(here: RLock, place: Place) -> None:
    """Two requests for a pair. Kept by WATCH_AFTER, and Race.stop: `forget`."""
    for _ in range(3):
        async with here:
            pass
    await asyncio.sleep(1.5 * WATCH_AFTER)
    assert not listeners(place)
    async with here:
        await listens(place)
    await until(lambda: not listeners(place))


async def test_ending_it_by_force(here: RLock, there: RLock, place: Place) -> None:
    assert not await here.force_release()
    taken_by_java(place)
    assert await here.force_release()
    assert place.keys() == set()


# What cannot be.


async def test_it_cannot_move(here: RLock) -> None:
    async with here as lease:
        with pytest.raises(ConfigurationError, match="cannot be detached"):
            await lease.detach()


async def test_no_one_elses_release(here: RLock) -> None:
    with pytest.raises(NotOwned):
        await here.release()
