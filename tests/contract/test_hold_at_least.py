"""A name that is released early stays taken for `hold_at_least`, wherever it is kept."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from inspect import isawaitable
from typing import Any

import pytest

from aiolock import AcquireTimeout, ConfigurationError, LockManager
from aiolock.redisson import Redisson

from .places import Place, nobody_waits, revoked

NAME = "order:42"
LEAST = 0.6
"""Seconds. No test waits for the ttl, which is a minute."""
LONG = 60.0
ENOUGH = 10.0
KINDS: dict[str, Callable[..., Any]] = {
    "lock": lambda locks, **options: locks.lock(NAME, **options),
    "fair_lock": lambda locks, **options: locks.fair_lock(NAME, **options),
    "write": lambda locks, **options: locks.rw_lock(NAME, **options).write,
    "semaphore": lambda locks, **options: locks.semaphore(NAME, 1, **options),
}


@pytest.fixture(params=[*KINDS])
def kind(request: pytest.FixtureRequest, place: Place, locks: LockManager) -> Callable[..., Any]:
    """Each kind that the place has."""
    if request.param != "lock" and not locks._runtime.backend.abilities.queues:
        return KINDS["lock"]
    return KINDS[request.param]


def kept(locks: LockManager, kind: Callable[..., Any] = KINDS["lock"], least: float = LEAST) -> Any:
    """One with the option."""
    return kind(locks, ttl=LONG, hold_at_least=least)


async def asleep(count: int, *managers: LockManager) -> None:
    """Wait until so many tasks wait."""
    while True:
        found: list[Any] = [manager.waiting() for manager in managers]
        if sum([len(await one if isawaitable(one) else one) for one in found]) == count:
            return
        await asyncio.sleep(0.001)


async def test_nobody_gets_in_until_it_is_over(
    locks: LockManager, others: LockManager, kind: Callable[..., Any]
) -> None:
    """Then it is free, without a trace. Kept by `ends` in both release.lua, and by Release._request."""
    lock, there = kept(locks, kind), kind(others)
    async with lock as first:
        pass
    began = first._hold.began
    for other in (there, lock):
        assert await other.try_acquire() is None
        with pytest.raises(AcquireTimeout) as caught:
            await other.acquire(timeout=0)
        assert caught.value.holder is not None
    async with asyncio.timeout(ENOUGH):
        async with there as second:
            assert second._hold.began >= began + LEAST
            assert second.fence > first.fence
            assert not second.abandoned


@nobody_waits
@pytest.mark.parametrize("who", ["there", "here", "there here there"])
async def test_those_who_wait_are_let_in_when_it_is_over(
    locks: LockManager, others: LockManager, kind: Callable[..., Any], who: str
) -> None:
    """Not at the end of its ttl, as they were told before. Kept by `refresh` in both release.lua, and for its own
    process by `passing` in Gate.lower.
    """
    lock, there, entered = kept(locks, kind), kind(others), []

    async def enter(waiter: Any) -> None:
        async with waiter as lease:
            entered.append(lease._hold.began)
        assert not lease.abandoned

    async with asyncio.timeout(ENOUGH):
        async with lock as first, asyncio.TaskGroup() as group:
            for one in who.split():
                group.create_task(enter(there if one == "there" else kind(locks)))
            await asleep(len(who.split()), locks, others)
            await asyncio.sleep(0.05)  # and the server has told them how long the ttl is
            await first.release()
    assert min(entered) >= first._hold.began + LEAST


async def test_a_later_release_frees_it(locks: LockManager, others: LockManager, kind: Callable[..., Any]) -> None:
    """It counts from the grant, not from the release."""
    lock = kept(locks, kind, 0.1)
    async with lock as lease:
        while lock.clock.now() < lease._hold.began + 0.1:  # noqa: ASYNC110 - a clock sets no event
            await asyncio.sleep(0.01)
    async with kind(others).acquire(timeout=0):
        pass


@nobody_waits
async def test_it_is_no_longer_for_who_has_waited(
    locks: LockManager, others: LockManager, kind: Callable[..., Any]
) -> None:
    """Breaks if release.lua takes a grant out of the queue, which nobody has renewed yet, for a copy of the release:
    then it lasts for the whole ttl.
    """
    entered = []

    async def enter(waiter: Any) -> None:
        async with waiter as lease:
            entered.append(lease._hold.began)

    async with asyncio.timeout(ENOUGH):
        async with kind(others) as first, asyncio.TaskGroup() as group:
            for waiting, lock in enumerate((kept(locks, kind), kind(locks)), 1):
                group.create_task(enter(lock))
                await asleep(waiting, locks)
            await first.release()
    assert entered[1] >= entered[0] + LEAST


async def test_any_lease_of_a_hold_counts(locks: LockManager, others: LockManager) -> None:
    """The longest one; here it is nested. Breaks if `_nest` leaves out `Hold.enter`."""
    lock, plain = kept(locks, least=LONG), locks.lock(NAME, ttl=LONG)
    async with plain as outer:
        async with lock:
            pass
        async with plain:
            pass
        if locks._runtime.backend.abilities.queues:
            with pytest.raises(ConfigurationError, match="hold_at_least"):
                await outer.detach()
    assert await others.lock(NAME).try_acquire() is None


async def test_an_error_ends_it_no_sooner(locks: LockManager, others: LockManager, kind: Callable[..., Any]) -> None:
    with pytest.raises(ZeroDivisionError):
        async with kept(locks, kind, LONG):
            raise ZeroDivisionError
    assert await kind(others).try_acquire() is None


async def test_a_closed_manager_leaves_it_taken(place: Place, others: LockManager, kind: Callable[..., Any]) -> None:
    """Released before, or by the end of the manager."""
    async with place.manager(ttl=place.ttl) as locks, kept(locks, kind, LONG):
        pass
    assert await kind(others).try_acquire() is None


async def test_one_that_is_closed_while_it_holds(place: Place, others: LockManager) -> None:
    """Kept by Hold.kept_until: whatever ends it."""
    async with place.manager(ttl=place.ttl) as locks:
        await kept(locks, least=LONG).acquire()
    assert await others.lock(NAME).try_acquire() is None


@revoked
async def test_force_release_ends_it(locks: LockManager, others: LockManager) -> None:
    async with kept(locks, least=LONG):
        pass
    there = others.lock(NAME)
    info = await there.info()
    assert info is not None
    assert 0 < info.ttl <= LONG
    assert await there.force_release()
    async with there.acquire(timeout=0):
        pass


async def test_what_cannot_be_kept_is_refused(locks: LockManager) -> None:
    """Before anything is held. Kept by check_hold_at_least, Primitive.__init__, Level._check_may_leave."""
    with pytest.raises(ConfigurationError, match="raise the ttl"):
        locks.lock(NAME, ttl=1.0, hold_at_least=1.1)
    async with kept(locks) as lease:
        if locks._runtime.backend.abilities.queues:
            with pytest.raises(ConfigurationError, match="hold_at_least"):
                locks.multi_lock(NAME, hold_at_least=0.5)
            with pytest.raises(ConfigurationError, match="hold_at_least"):
                await lease.detach()


@pytest.mark.parametrize("place", ["queues"], indirect=True)
async def test_a_store_with_queues_of_its_own_refuses(locks: LockManager) -> None:
    for kind in KINDS.values():
        with pytest.raises(ConfigurationError, match="hold_at_least"):
            kind(locks, hold_at_least=1.0)


@pytest.mark.parametrize("place", ["memory"], indirect=True)
async def test_redissons_locks_refuse(locks: LockManager) -> None:
    for make in (Redisson(locks).lock, Redisson(locks).fair_lock, Redisson(locks).rw_lock):
        with pytest.raises(ConfigurationError, match="hold_at_least"):
            make(NAME, hold_at_least=1.0)
