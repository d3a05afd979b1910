"""The multi lock's contract, on every backend: the same locks as the plain lock's, all or none, in any order."""

# ruff: noqa: PT012 - what raises is the whole guarded block

from __future__ import annotations

import asyncio
import os
import random
from collections.abc import Callable
from itertools import product

import pytest

from aiolock import AcquireTimeout, ConfigurationError, LockLost, LockManager, LossReason, MultiLock, NotAcquired, Owner
from aiolock.core.waiting.gathering import LONGEST, SHARE, Gathering
from aiolock.primitives.multi_lock import MAX_NAMES
from tests.support import locks as locks_kept
from tests.support.redis_cli import CommandStats

from .places import Place, RedisPlace, give_back, keys_of, renewed, revoked, steal, until

ENOUGH = 5.0
SOON = 4.0
"""Shorter than any recheck or ttl that could wake a waiter, too."""
"""Far longer than anything here needs, far shorter than any recheck or ttl that could help instead."""
NAMES = ("a", "b", "c", "d", "e")


@pytest.fixture
def here(locks: LockManager) -> MultiLock:
    return locks.multi_lock("b", "a")


@pytest.fixture
def there(others: LockManager) -> MultiLock:
    return others.multi_lock("a", "b")


def held_keys(place: Place) -> set[str]:
    """The keys of the locks that are held. None of the keys may live for ever."""
    return {*locks_kept.held_names(place.side), *locks_kept.unlimited(place.side)}


# What it holds.


async def test_all_or_none(here: MultiLock, others: LockManager, place: Place) -> None:
    async with here as lease:
        assert held_keys(place) == {keys_of("a").lock, keys_of("b").lock}
        assert lease.name == "a + b"
        assert await others.lock("a").try_acquire() is None
        assert await others.lock("b").try_acquire() is None
        assert await others.multi_lock("b", "c").try_acquire() is None
        assert not await others.lock("c").is_locked()
    assert held_keys(place) == set()
    async with others.lock("b") as lease:
        assert await asyncio.create_task(tried(here)) is None
        await until(lambda: held_keys(place) == {keys_of("b").lock})  # what it took in pieces, it gives back


async def tried(lock: MultiLock) -> int | None:
    async with lock.try_acquire() as lease:
        return None if lease is None else lease.fence


async def test_one_fence_above_every_earlier_one_of_any_name(here: MultiLock, others: LockManager) -> None:
    fences = []
    for lock in (others.lock("a"), here, others.lock("b"), others.multi_lock("b", "c"), here, others.lock("a")):
        async with lock as lease:
            fences.append(lease.fence)
    assert fences == sorted(set(fences))


async def test_it_nests(here: MultiLock, locks: LockManager, place: Place) -> None:
    async with here as outer:
        async with locks.multi_lock("a", "b") as inner:
            assert (inner.depth, inner.fence) == (2, outer.fence)
            assert [info.depth for info in (await here.info()).values()] == [2, 2]
        assert place.state("b").depth == 1
    assert held_keys(place) == set()


async def test_info_is_of_its_parts(here: MultiLock, others: LockManager) -> None:
    assert await here.info() == {}
    assert not await here.is_locked()
    async with others.lock("b", metadata="invoice run") as lease:
        ((name, info),) = (await here.info()).items()
        assert (name, info.fence, info.depth, info.metadata) == ("b", lease.fence, 1, "invoice run")
        assert await here.is_locked()
    async with here as lease:
        info = await others.lock("a").info()
        assert info is not None
        assert (info.fence, info.holder.rpartition(":")[2]) == (lease.fence, str(os.getpid()))


@pytest.mark.not_polling("a manager that polls hears no messages")
async def test_its_holders_are_asked_to_finish(here: MultiLock, others: LockManager) -> None:
    """Each of them, also another multi lock; it waits for the end of all these. Kept by `request_release`."""
    assert await here.request_release()
    async with asyncio.timeout(10.0):
        async with others.lock("a") as plain, others.multi_lock("b", "c") as other:
            asking = asyncio.ensure_future(here.request_release(grace=60.0))
            await plain.wait_wanted()
            await other.wait_wanted()
            await plain.release()
            await asyncio.sleep(0)
            assert not asking.done()
        assert await asking


@pytest.mark.parametrize("place", ["memory"], indirect=True)
async def test_so_many_are_asked_at_once(locks: LockManager, others: LockManager) -> None:
    """However many names it has, and all of them. Kept by AT_ONCE in revocation.py."""
    names, most = [f"n{at}" for at in range(600)], 0
    few = [await others.lock(name).acquire() for name in (names[0], names[-1])]
    asking = asyncio.create_task(locks.multi_lock(*names).request_release(force=True))
    while not asking.done():
        most = max(most, len(asyncio.all_tasks()))
        await asyncio.sleep(0)
    assert await asking
    assert 250 < most < 270
    for lease in few:
        assert lease.wanted
        with pytest.raises(LockLost):
            await lease.release()


async def test_its_holders_are_forced_to_finish(here: MultiLock, others: LockManager) -> None:
    lease = await others.multi_lock("b", "c").acquire()
    assert not await here.request_release()
    assert await here.request_release(force=True)
    async with asyncio.timeout(10.0), here:
        with pytest.raises(LockLost):
            await lease.release()
    with pytest.raises(ConfigurationError, match="grace"):
        await here.request_release(grace=-1.0)


@pytest.mark.parametrize("count", [64, 130])
async def test_many_names(locks: LockManager, others: LockManager, place: Place, count: int) -> None:
    """In one script, and in pieces. Its name is short, and another's that differs in one of them."""
    names = [f"n{i}" for i in range(count)]
    lock = locks.multi_lock(*names)
    async with lock as lease:
        await lease.renew()
        held = await lock.info()
        assert len(held) == count
        assert {info.fence for info in held.values()} == {lease.fence}
        assert await others.lock(names[-1]).try_acquire() is None
    assert held_keys(place) == set()
    assert locks.multi_lock(*names[1:], "n").name != lock.name
    assert len(lock.name) < 500


async def test_abandoned_if_any_part_was(here: MultiLock, locks: LockManager, place: Place) -> None:
    steal(place, "b")
    locks_kept.let_expire(place.side, "b")
    async with here as lease:
        assert lease.abandoned
    async with locks.lock("b") as plain:
        assert not plain.abandoned


@pytest.mark.parametrize(
    ("names", "words"),
    [
        ((), "needs names"),
        ([f"n{i}" for i in range(MAX_NAMES + 1)], "10001 names"),
        (("a", ""), "0 bytes"),
        ((["a", "b"],), "must be str"),
    ],
)
def test_names_that_cannot_work(locks: LockManager, names: tuple[str, ...], words: str) -> None:
    with pytest.raises(ConfigurationError, match=words):
        locks.multi_lock(*names)


def test_names_are_a_set(locks: LockManager) -> None:
    assert locks.multi_lock("b", "a", "b").names == ("a", "b")
    assert locks.multi_lock("b", "a").name == locks.multi_lock("a", "b").name
    with pytest.raises(TypeError, match="acquire_timeout"):
        locks.multi_lock("a", timeout=3)  # type: ignore[call-arg]


# Waiting.


async def test_a_timeout_names_the_part_and_its_holder(here: MultiLock, others: LockManager) -> None:
    async with others.lock("b", metadata="invoice run"):
        with pytest.raises(AcquireTimeout) as caught:
            await here.acquire(timeout=0.3)
        for word in ("'a + b'", "'b' is held by", f":{os.getpid()}", "invoice run"):
            assert word in str(caught.value)


@pytest.mark.not_polling("there are no messages")
@pytest.mark.parametrize("names", ["ab", "ba"])
async def test_the_releases_of_its_parts_wake(others: LockManager, place: Place, names: str) -> None:
    """Invariant 5, in either order. Kept by Gathering.told: a grant of one name makes it ask for all."""
    leases = {name: await others.lock(name).acquire() for name in names}
    async with place.manager(ttl=60.0, liveness=60.0) as calm:
        lock = calm.multi_lock("a", "b")
        groups = "".join(group.names[0] for group in lock._calls.groups)
        spread = len(groups) > 1  # then it begins with the first place, and holds what it has
        stands, first, second = (groups[0], *groups) if spread else (names[0], "a", "b")
        waiter = asyncio.create_task(tried_within(lock, 60.0))
        await until(lambda: place.waiting(stands))
        assert not place.waiting("b" if stands == "a" else "a")  # it stands at the older hold
        for entry in calm._runtime.queue_entries.values():
            if isinstance(entry, Gathering):
                entry._began -= LONGEST / SHARE  # which is how long it keeps what is free, as a share of its wait
        await leases[first].release()
        await until(lambda: (place.state(first).depth, len(place.waiting(second))) == (int(spread), 1))
        assert bool(place.state(first).holder) == (spread or names == "ab")  # or free, as no one waits for it
        assert not waiter.done()
        await leases[second].release()
        async with asyncio.timeout(SOON):
            assert await waiter
    assert not held_keys(place)


async def tried_within(lock: MultiLock, seconds: float = ENOUGH) -> int:
    async with lock.acquire(timeout=seconds) as lease:
        return lease.fence


@pytest.mark.not_polling("there are no messages")
@pytest.mark.parametrize("names", [("a",), ("b",), ("b", "c")])
@pytest.mark.parametrize("elsewhere", [False, True])
async def test_its_release_wakes_the_waiters_of_its_parts(
    place: Place, locks: LockManager, others: LockManager, names: tuple[str, ...], elsewhere: bool
) -> None:
    """Those of its own process, too. Kept by its release.lua: each name goes to the first of its own queue."""
    manager = others if elsewhere else locks
    lock = manager.lock(names[0], ttl=60.0) if len(names) == 1 else manager.multi_lock(*names, ttl=60.0)
    async with locks.multi_lock("a", "b", ttl=60.0):
        waiter = asyncio.create_task(tried_within(lock))  # type: ignore[arg-type]
        await until(lambda: any(map(place.waiting, names)))
    async with asyncio.timeout(SOON):
        assert await waiter


@pytest.mark.not_polling("there are no messages")
@pytest.mark.parametrize("names", [("a",), ("b", "c")])
async def test_it_is_woken_by_a_part_of_its_own_process(
    place: Place, here: MultiLock, locks: LockManager, names: tuple[str, ...]
) -> None:
    lock = locks.lock(*names, ttl=60.0) if len(names) == 1 else locks.multi_lock(*names, ttl=60.0)
    async with lock:
        waiter = asyncio.create_task(tried_within(here))
        await until(lambda: any(map(place.waiting, names)))
    async with asyncio.timeout(SOON):
        assert await waiter


async def test_tasks_that_take_names_in_any_order_all_finish(locks: LockManager, others: LockManager) -> None:
    """There is no deadlock, and one holder per name, with overlapping sets and with plain locks of the same names."""
    dice = random.Random()
    inside: dict[str, int] = dict.fromkeys(NAMES, 0)
    fences: dict[str, list[int]] = {name: [] for name in NAMES}

    async def work(manager: LockManager) -> None:
        for _ in range(6):
            names = dice.sample(NAMES, dice.randint(1, 3))
            lock = manager.lock(names[0]) if len(names) == 1 else manager.multi_lock(*names)
            async with lock as lease:
                for name in names:
                    inside[name] += 1
                    assert inside[name] == 1, names
                    fences[name].append(lease.fence)
                await asyncio.sleep(dice.choice([0, 0, 0.001]))
                for name in names:
                    inside[name] -= 1

    async with asyncio.timeout(30.0):
        await asyncio.gather(*(work(manager) for manager in (locks, others) for _ in range(12)))
    assert all(seen == sorted(set(seen)) for seen in fences.values())


async def test_a_local_queue_leaves_room_for_others(place: Place) -> None:
    """Each of its entries goes to the end of the queues. Kept by MultiCalls.transfers: a release is a release."""
    async with place.manager(handoff_limit=2) as locks, place.manager(recheck=60.0) as others:
        lock = locks.multi_lock("a", "b")
        entries = 0
        stop = False

        async def crowd() -> None:
            nonlocal entries
            while not stop:
                async with lock:
                    entries += 1

        tasks = [asyncio.create_task(crowd()) for _ in range(4)]
        await until(lambda: entries)
        async with asyncio.timeout(ENOUGH), others.lock("b"):
            pass
        async with asyncio.timeout(ENOUGH), others.multi_lock("a", "c"):
            pass
        stop = True
        await asyncio.gather(*tasks)


async def test_plain_handoffs_leave_room_for_a_multi_lock_of_the_same_process(place: Place) -> None:
    """Kept by transfer_local.lua: a turn ends while a multi lock is the first in line."""
    async with place.manager(handoff_limit=2, recheck=60.0) as locks:
        entries = 0
        stop = False

        async def crowd() -> None:
            nonlocal entries
            while not stop:
                async with locks.lock("a"):
                    entries += 1

        tasks = [asyncio.create_task(crowd()) for _ in range(4)]
        await until(lambda: entries)
        async with asyncio.timeout(ENOUGH), locks.multi_lock("a", "b"):
            pass
        stop = True
        await asyncio.gather(*tasks)


async def test_names_in_constant_demand_let_it_in(place: Place) -> None:
    """Its place in each queue follows from how long it has waited, and it keeps what it gets. Kept by Gathering."""
    async with place.manager(ttl=place.ttl) as one, place.manager(ttl=place.ttl) as two, place.manager() as locks:
        entries = dict.fromkeys("abc", 0)
        stop = False

        async def crowd(manager: LockManager, name: str) -> None:
            while not stop:
                async with manager.lock(name):
                    entries[name] += 1
                    await asyncio.sleep(0.001)

        tasks = [asyncio.create_task(crowd(*who)) for who in list(product((one, two), entries)) * 2]
        await until(lambda: min(entries.values()) > 3)
        for _ in range(5):
            before = min(entries.values())
            async with asyncio.timeout(ENOUGH), locks.multi_lock(*entries):
                pass
            await until(lambda least=before: min(entries.values()) > least)  # type: ignore[misc]
        stop = True
        await asyncio.gather(*tasks)
    assert not held_keys(place)


# What a task holds already.


@pytest.mark.parametrize(
    ("outer", "inner"),
    [
        (lambda m: m.lock("a"), lambda m: m.multi_lock("a", "b")),
        (lambda m: m.multi_lock("a", "b"), lambda m: m.lock("b")),
        (lambda m: m.multi_lock("a", "b"), lambda m: m.multi_lock("b", "c")),
        (lambda m: m.multi_lock("a", "b"), lambda m: m.multi_lock("a")),
    ],
)
async def test_a_task_does_not_wait_for_itself(
    locks: LockManager, others: LockManager, outer: Callable[..., MultiLock], inner: Callable[..., MultiLock]
) -> None:
    """Kept by acquisition._refuse_overlap."""
    owner: asyncio.Future[Owner] = asyncio.get_running_loop().create_future()
    sharer = asyncio.create_task(sharing(outer(locks), owner, inner(locks)))
    async with asyncio.timeout(ENOUGH), outer(locks) as lease:
        for attempt in (inner(locks).acquire, inner(locks).try_acquire):
            with pytest.raises(NotAcquired, match="wait for itself") as caught:
                await attempt()
            assert not isinstance(caught.value, AcquireTimeout)
            assert repr(outer(locks).name) in str(caught.value)
        owner.set_result(lease.owner)
        with pytest.raises(NotAcquired, match="wait for itself"):
            await sharer
        with pytest.raises(AcquireTimeout, match=f"started this one holds '{outer(locks).name.replace('+', '.')}'"):
            await asyncio.create_task(timed(inner(locks), 0))
        with pytest.raises(AcquireTimeout, match="held by"):
            await timed(inner(others), 0)
    async with asyncio.timeout(ENOUGH), inner(locks):
        pass


async def sharing(lock: MultiLock, owner: asyncio.Future[Owner], other: MultiLock) -> None:
    async with lock.acquire(owner=await owner), other:
        pass


async def timed(lock: MultiLock, timeout: float) -> None:
    async with lock.acquire(timeout=timeout):
        pass


async def test_disjoint_names_do_not_matter(locks: LockManager) -> None:
    async with locks.lock("c"), locks.multi_lock("a", "b") as one, locks.lock("d"), locks.multi_lock("e", "f") as other:
        assert (one.name, other.name) == ("a + b", "e + f")
        assert not one.lost


# Losing it.


async def test_it_is_lost_with_one_part_and_frees_the_others(here: MultiLock, place: Place) -> None:
    """Kept by renew.lua: `gone or …`, and release.lua, which frees the rest."""
    with pytest.raises(LockLost) as caught:
        async with here as lease:
            fence = steal(place, "b")
            assert fence > lease.fence
            with pytest.raises(LockLost):
                await lease.renew()
            await asyncio.sleep(ENOUGH)
    assert caught.value.reason is LossReason.TAKEN_OVER
    await until(lambda: held_keys(place) == {keys_of("b").lock})  # the release is not awaited after a loss
    give_back(place, "b")


@revoked
async def test_force_release_of_a_part_ends_it(here: MultiLock, others: LockManager, place: Place) -> None:
    with pytest.raises(LockLost) as caught:
        async with here:
            assert await others.lock("a").force_release()
            await asyncio.sleep(ENOUGH)
    assert caught.value.reason is LossReason.REVOKED
    await until(lambda: not held_keys(place))


async def test_a_part_found_gone_at_the_end(here: MultiLock, place: Place) -> None:
    with pytest.raises(LockLost) as caught:
        async with here:
            place.side.delete(keys_of("a").lock)
    assert caught.value.reason is LossReason.DELETED
    await until(lambda: not held_keys(place))


async def test_every_part_is_renewed(place: Place) -> None:
    async with place.manager(ttl=60.0) as locks, locks.multi_lock("a", "b") as lease:
        parts = ("a", "b")
        for part in parts:
            locks_kept.shorten(place.side, 30_000, part)
        await renewed(lease)
        assert min(place.state(part).pttl for part in parts) > 30_000
        lease.ensure()


async def test_killed_holders_are_followed(here: MultiLock, place: Place) -> None:
    """Both parts expire by themselves, at different times: it asks then, not at the next refresh."""
    steal(place, "a", ttl_ms=150)
    steal(place, "b", ttl_ms=400)
    async with asyncio.timeout(ENOUGH), here as lease:
        assert lease.abandoned


# Costs.


async def test_what_it_costs(redis_place: RedisPlace, commandstats: CommandStats) -> None:
    """The rows marked in docs/explanation/how-it-works.md: requests, and commands inside the scripts."""
    n = len(NAMES)

    async def inside() -> int:
        counts = await commandstats.counts()
        await commandstats.reset()
        assert counts.pop("evalsha") == 1
        counts.pop("ping", None)
        return counts.total()

    async with redis_place.manager() as locks, redis_place.manager() as others:
        lock, rival = locks.multi_lock(*NAMES), others.multi_lock(*NAMES)
        for warm in (lock, rival):
            async with warm as lease:
                await lease.renew()
                await warm.info()
        await commandstats.reset()
        lease = await lock.acquire()
        assert await inside() == 3 * n + 2
        assert await rival.try_acquire() is None
        assert await inside() == 3 * n + 3
        await lease.renew()
        assert await inside() == 3 * n + 1
        assert len(await lock.info()) == n
        assert await inside() == n + 1
        await lease.release()
        assert await inside() == 4 * n + 1
