"""The lock's contract, on every backend that offers it: two managers that share a store are two processes."""

# ruff: noqa: PT012 - what raises is the whole guarded block

from __future__ import annotations

import asyncio
import os
import time

import pytest

from aiolock import (
    AcquireTimeout,
    BackendError,
    ConfigurationError,
    Lease,
    Lock,
    LockInfo,
    LockLost,
    LockManager,
    LossReason,
    NotOwned,
)
from aiolock.core.manager_channel import ManagerChannel
from aiolock.scripts.keys import DIRTY_MS, Keys
from tests.support.lock_calls import State

from .places import SHORT, Place, cancels, give_back, keys_of, nobody_waits, renew_now, renewed, revoked, steal, until

NAME = "order:42"
ENOUGH = 5.0
"""Far longer than anything here needs, far shorter than any recheck or ttl that could help instead."""


# Holding and releasing.


async def test_one_holder_at_a_time(here: Lock, there: Lock) -> None:
    """Invariant 1. Kept by acquire_free.lua: `tonumber(expires or now + 1) <= now`, and acquire.lua: `name.live`."""
    async with here:
        async with there.try_acquire() as lease:
            assert lease is None
        assert await there.is_locked()
    async with there.try_acquire() as lease:
        assert lease is not None
        async with here.try_acquire() as other:
            assert other is None


@pytest.mark.not_in_queues("a free name has no state")
async def test_nothing_is_left_but_a_clean_state_that_expires(here: Lock, place: Place) -> None:
    """Invariant 8. Kept by release_free.lua: `'PX', ARGV[2]`."""
    keys = keys_of(NAME)
    async with here:
        assert place.keys() == {keys.lock}
        held = place.state(NAME)
        assert 0 < held.pttl <= place.ttl * 1000
        assert held.pttl < held.kept <= DIRTY_MS + place.ttl * 1000
    assert place.keys() == {keys.lock}
    assert place.gone(NAME)
    assert place.ttl * 1000 < place.state(NAME).kept <= place.ttl * 1000 + place.grace_ms


async def test_plain_acquire_and_release(here: Lock, there: Lock) -> None:
    lease = await here.acquire()
    assert await there.try_acquire() is None
    await lease.release()
    await lease.release()  # idempotent
    assert not await there.is_locked()
    second = await here.acquire()
    await here.release()
    assert second.released
    with pytest.raises(NotOwned, match=NAME):
        await here.release()


async def test_release_is_sent_when_called(here: Lock, there: Lock) -> None:
    lease = await here.acquire()
    lease.release()
    async with asyncio.timeout(ENOUGH), there as other:
        assert other.fence > lease.fence


async def test_depth_is_mirrored(here: Lock, place: Place) -> None:
    """Nested acquisitions are leases of one hold. Kept by nest.lua: `name.depth = ARGV[4]`."""
    depths = []

    async def look(lease: Lease) -> None:
        info = await here.info()
        assert info is not None
        assert info.depth == lease.depth == place.state(NAME).depth
        depths.append(info.depth)

    async with here as one:
        await look(one)
        async with here as two:
            await look(two)
            three = await here.acquire()
            await look(three)
            assert one.fence == two.fence == three.fence
            await three.release()
            await look(two)
        await look(one)
    assert depths == [1, 2, 3, 2, 1]
    assert await here.info() is None


async def test_nested_leases_end_in_any_order(here: Lock, there: Lock) -> None:
    one = await here.acquire()
    two = await here.acquire()
    await one.release()
    await one.release()  # idempotent: it does not end `two`
    assert await there.try_acquire() is None
    await two.release()
    async with there.try_acquire() as lease:
        assert lease is not None


@pytest.mark.not_in_threads("a thread has no ancestors")
async def test_a_child_task_shares_by_owner_only(here: Lock) -> None:
    async def child(owner: object) -> int:
        async with here.acquire(owner=owner, timeout=ENOUGH) as lease:  # type: ignore[arg-type]
            return lease.depth

    async with here as lease:
        assert await asyncio.create_task(child(lease.owner)) == 2
        with pytest.raises(AcquireTimeout, match="owner=lease"):
            await asyncio.create_task(_timed(here, 0))
        owner = lease.owner
    with pytest.raises(NotOwned, match=NAME):
        await here.acquire(owner=owner)


async def _timed(lock: Lock, timeout: float) -> None:
    async with lock.acquire(timeout=timeout):
        pass


async def test_try_acquire_never_waits_for_a_task_of_its_own_process(here: Lock) -> None:
    async with here:
        assert await asyncio.create_task(_tried(here)) is None
    assert await asyncio.create_task(_tried(here)) is not None


async def _tried(lock: Lock) -> int | None:
    async with lock.try_acquire() as lease:
        return None if lease is None else lease.fence


# Waiting.


async def test_a_timeout_names_the_holder(locks: LockManager, there: Lock) -> None:
    async with locks.lock(NAME, metadata="invoice run"):
        loop = asyncio.get_running_loop()
        before = loop.time()
        with pytest.raises(AcquireTimeout) as caught:
            await there.acquire(timeout=0.3)
        assert loop.time() - before > 0.29  # uvloop counts whole milliseconds
        assert isinstance(caught.value, TimeoutError)
        for word in (NAME, "0.3 s", f":{os.getpid()}", "invoice run"):
            assert word in str(caught.value)
        with pytest.raises(AcquireTimeout):
            await there.acquire(timeout=0)
    assert await _tried(there) is not None


async def test_a_release_wakes_a_waiter_in_another_manager(locks: LockManager, there: Lock, place: Place) -> None:
    """Invariant 5. Kept by release.lua: `settle`, and QueueEntry.told; for a quorum by ReleaseListener.listen."""
    holder = await locks.lock(NAME, ttl=60.0).acquire()
    waiter = asyncio.create_task(_tried_patiently(there))
    await until(lambda: place.listeners(NAME))
    assert not waiter.done()
    await holder.release()
    async with asyncio.timeout(ENOUGH):
        assert await waiter > holder.fence
    await until(lambda: not place.listeners(NAME))


async def _tried_patiently(lock: Lock) -> int:
    async with lock as lease:
        return lease.fence


async def test_a_release_between_the_refusal_and_the_subscription_is_not_missed(
    locks: LockManager, others: LockManager
) -> None:
    """H-signals. Kept by acquire.lua: `join`; for a quorum by ReleaseListener: a confirmation counts as a signal."""
    for turns in range(12):
        lock, away = locks.lock(f"n{turns}", ttl=60.0), others.lock(f"n{turns}", ttl=60.0)
        holder = await lock.acquire()
        waiter = asyncio.create_task(_tried_patiently(away))
        for _ in range(turns):
            await asyncio.sleep(0)
        await holder.release()
        async with asyncio.timeout(ENOUGH):
            assert await waiter > holder.fence


async def test_an_expiry_lets_the_next_in(locks: LockManager, there: Lock, place: Place) -> None:
    """Kept by Wait.queued: `free_at`; for a quorum by Race._pause."""
    fence = steal(place, NAME, ttl_ms=300)
    async with asyncio.timeout(ENOUGH), there as lease:
        assert lease.fence > fence
        assert lease.abandoned


@pytest.mark.not_in_threads("threads begin in no order")
async def test_tasks_of_one_process_enter_in_order(here: Lock) -> None:
    entered: list[int] = []

    async def enter(number: int) -> None:
        async with here:
            entered.append(number)
            await asyncio.sleep(0)

    async with asyncio.timeout(ENOUGH):
        async with asyncio.TaskGroup() as group:
            for number in range(20):
                group.create_task(enter(number))
                await asyncio.sleep(0)
    assert entered == list(range(20))


async def test_both_processes_get_their_turn(locks: LockManager, others: LockManager, place: Place) -> None:
    """While others wait, a process whose tasks queue hands on for one turn at most. Kept by Turn.hand_on."""
    entered: list[str] = []
    done = asyncio.Event()

    async def greedy() -> None:
        while not done.is_set():
            async with locks.lock(NAME):
                entered.append("here")
                await asyncio.sleep(0)

    async with asyncio.timeout(ENOUGH), asyncio.TaskGroup() as group:
        for _ in range(5):
            group.create_task(greedy())
        await until(lambda: len(entered) > 5)
        async with others.lock(NAME):
            entered.append("there")
            seen = len(entered)
            await until(lambda: not place.gone(NAME))
            assert len(entered) == seen
        done.set()


async def test_no_two_are_inside_at_once(locks: LockManager, others: LockManager) -> None:
    """Invariants 1 and 2 under load: 2 managers × 5 tasks."""
    inside = 0
    fences: list[int] = []

    async def work(manager: LockManager) -> None:
        nonlocal inside
        for _ in range(10):
            async with manager.lock(NAME) as lease:
                inside += 1
                assert inside == 1
                fences.append(lease.fence)
                await asyncio.sleep(0)
                inside -= 1

    async with asyncio.timeout(20), asyncio.TaskGroup() as group:
        for manager in (locks, others) * 5:
            group.create_task(work(manager))
    assert len(fences) == 100
    assert fences == sorted(set(fences))


# Fences and abandonment.


async def test_fences_rise_whatever_happens(here: Lock, there: Lock, place: Place) -> None:
    """Invariant 2. Kept by acquire_free.lua and transfer_local.lua: `least`, and state.lua: `known + 1`."""
    fences: list[int] = []

    async def take(lock: Lock) -> None:
        async with lock.acquire(timeout=ENOUGH) as lease:
            fences.append(lease.fence)

    await take(here)
    await take(there)
    fences.append(steal(place, NAME, ttl_ms=50))  # expires
    await take(here)
    fences.append(steal(place, NAME))
    await there.force_release()
    await take(there)
    place.side.flush()
    async with place.manager() as newcomer:  # this manager has heard of no fence
        await take(newcomer.lock(NAME))
    await take(there)
    await asyncio.gather(*(take(here) for _ in range(5)))  # handed on
    assert fences == sorted(set(fences))


@pytest.mark.not_in_queues("it refuses instead: tests/coordinator/test_seam.py")
async def test_the_floor_lifts_fences_when_the_server_forgot(here: Lock, place: Place) -> None:
    """H7: the server lost its data, and its clock went back. Kept by Fences.heard, and `ARGV[3]`."""
    ahead = 2**52
    place.side.hset(keys_of(NAME).lock, State(fence=ahead).encode())
    async with here as lease:
        assert lease.fence == ahead + 1
    place.side.flush()
    async with here as lease:
        assert lease.fence == ahead + 2


@nobody_waits
async def test_two_grants_within_a_tick_have_two_fences(here: Lock) -> None:
    """The Lua trap of tostring(µs). Kept by acquire_free.lua: `string.format('%s%06d', …)`."""
    fences = []
    for _ in range(50):
        async with here as lease:
            fences.append(lease.fence)
    assert fences == sorted(set(fences))
    assert fences[-1] - fences[0] < 5_000_000  # microseconds, not rounded


async def test_abandoned_after_a_crash_and_only_then(here: Lock, there: Lock, place: Place) -> None:
    """Kept by acquire_free.lua: `if state[5] ~= '0' then abandoned = '1' end`."""
    async with here as lease:
        assert not lease.abandoned
    steal(place, NAME, ttl_ms=1)
    await until(lambda: place.gone(NAME))  # a node of a quorum that refuses would remember the thief
    async with there.acquire(timeout=ENOUGH) as lease:
        assert lease.abandoned
        async with there as nested:
            assert nested.abandoned
    await until(lambda: place.settled(NAME))
    async with here as lease:
        assert not lease.abandoned


async def test_an_undo_keeps_the_mark(locks: LockManager, place: Place) -> None:
    """H3 (2): a grant that no task entered repairs nothing. Kept by release.lua: `or name.dirty`."""
    granted = 0
    names = {turns: f"n{turns}" for turns in range(1, 9)}
    fences = {name: steal(place, name, ttl_ms=1) for name in names.values()}
    await until(lambda: all(map(place.gone, fences)))
    for turns, name in names.items():
        lock = locks.lock(name)
        task = asyncio.ensure_future(lock.acquire())
        for _ in range(turns):
            await asyncio.sleep(0)
        if task.done():
            await task.result().release()
            break
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await until(lambda name=name: place.gone(name))
        async with asyncio.timeout(ENOUGH), lock as lease:
            assert lease.abandoned, turns
        granted += place.state(name).fence > fences[name]
    assert granted


@cancels
async def test_force_release_leaves_the_mark(here: Lock, there: Lock) -> None:
    """Kept by force_release.lua: `vacate(name, '1')`."""
    with pytest.raises(LockLost):
        async with here as lease:
            assert await there.force_release()
            renew_now(lease)  # a polling manager finds out by that
            await asyncio.sleep(ENOUGH)
    async with there as lease:
        assert lease.abandoned


# Looking and forcing.


async def test_info(locks: LockManager, there: Lock, place: Place) -> None:
    assert await there.info() is None
    assert not await there.is_locked()
    async with locks.lock(NAME, metadata="invoice\nrun") as lease:
        info = await there.info()
        assert isinstance(info, LockInfo)
        assert info.holder.endswith(f":{os.getpid()}")
        assert (info.depth, info.fence, info.metadata) == (1, lease.fence, "invoice\nrun")
        assert 0 < info.ttl <= place.ttl
        assert await there.is_locked()
    async with there:
        info = await there.info()
        assert info is not None
        assert info.metadata is None


@cancels
@revoked
async def test_force_release_tells_the_holder_at_once(locks: LockManager, there: Lock) -> None:
    """H9. Kept by force_release.lua's PUBLISH to the manager, and ManagerChannel.on_message."""
    with pytest.raises(LockLost) as caught:
        async with asyncio.timeout(ENOUGH), locks.lock(NAME, ttl=60.0) as lease:
            assert await there.force_release()
            await asyncio.sleep(60)
    assert caught.value.reason is lease.reason is LossReason.REVOKED
    assert not await there.force_release()


@cancels
@revoked
async def test_a_revocation_does_not_hit_the_successor(here: Lock, there: Lock, locks: LockManager) -> None:
    """H9 (3). Kept by ManagerChannel.on_message: it compares owner and fence."""
    with pytest.raises(LockLost):
        async with here:
            await there.force_release()
            async with asyncio.timeout(ENOUGH):
                await asyncio.sleep(60)
    async with here as lease:
        channel = locks._runtime.keys.manager(locks._runtime.binding.id)
        assert channel
        ManagerChannel(locks._runtime).on_message(f"revoked {lease._hold.owner} {lease.fence - 1}")
        ManagerChannel(locks._runtime).on_message(f"revoked {locks._runtime.binding.id}:1 {lease.fence}")
        assert not lease.lost


# Staying and losing.


@pytest.mark.parametrize("place", ["memory", "redis"], indirect=True)
async def test_renewal_keeps_it_beyond_its_ttl(locks: LockManager, there: Lock, place: Place) -> None:
    """The server keeps it for longer than it was first asked to. Kept by Hold.extend: `_renew_at`."""
    async with locks.lock(NAME, ttl=SHORT) as lease:
        loop = asyncio.get_running_loop()
        first = loop.time() + SHORT
        await until(lambda: loop.time() + place.state(NAME).pttl / 1000 > first + SHORT / 4)
        assert lease.remaining() > 0
        assert await there.try_acquire() is None


@cancels
@pytest.mark.short_ttl
@nobody_waits
async def test_a_fixed_lease_ends_before_the_server_lets_it_go(place: Place) -> None:
    """Invariant 6, on a machine that may stand still within the margin. Kept by Hold.extend: `expiry - margin`."""
    left = 0
    async with place.manager(ttl=2.8, margin=2.3) as locks:
        with pytest.raises(LockLost) as caught:
            async with locks.lock(NAME, renew=False):
                try:
                    await asyncio.sleep(ENOUGH)
                except asyncio.CancelledError:
                    left = place.state(NAME).pttl
                    raise
    assert caught.value.reason is LossReason.EXPIRED
    assert left > 0


@pytest.mark.short_ttl
@nobody_waits
@pytest.mark.not_in_zookeeper("it refuses a longer ttl: tests/coordinator/test_seam.py")
async def test_a_fixed_lease_lives_on_when_renewed_by_hand(locks: LockManager) -> None:
    async with locks.lock(NAME, ttl=SHORT, renew=False) as lease:
        for _ in range(3):
            expiry = lease._hold.expiry
            await asyncio.sleep(0.1)
            assert lease._hold.expiry == expiry
            await lease.renew()
            assert lease._hold.expiry > expiry + 0.05
        await lease.renew(ttl=60.0)
        assert lease.remaining() > 30
        await lease.renew(ttl=SHORT)  # never shortens
        assert lease.remaining() > 30


@cancels
@nobody_waits
async def test_max_hold(locks: LockManager, place: Place) -> None:
    """Kept by Hold._cause: `self.deadline == self._limit`."""
    with pytest.raises(LockLost) as caught:
        async with asyncio.timeout(ENOUGH), locks.lock(NAME, max_hold=0.2):
            await asyncio.sleep(60)
    assert caught.value.reason is LossReason.MAX_HOLD
    await until(lambda: place.gone(NAME))


@cancels
@nobody_waits
async def test_a_deleted_key_is_a_loss(locks: LockManager, place: Place) -> None:
    """Kept by renew.lua: `'deleted'`, never a new lock."""
    with pytest.raises(LockLost) as caught:
        async with asyncio.timeout(ENOUGH), locks.lock(NAME) as lease:
            place.side.delete(keys_of(NAME).lock)
            renew_now(lease)
            await asyncio.sleep(60)
    assert caught.value.reason is LossReason.DELETED
    assert not place.side.exists(keys_of(NAME).lock)


@cancels
@nobody_waits
async def test_a_stolen_lock_is_a_loss_and_stays_with_the_thief(locks: LockManager, place: Place) -> None:
    """Invariant 4. Kept by renew.lua: `'taken_over'`, and release.lua: `name.owner ~= owner`."""
    with pytest.raises(LockLost) as caught:
        async with asyncio.timeout(ENOUGH), locks.lock(NAME) as lease:
            steal(place, NAME)
            renew_now(lease)
            await asyncio.sleep(60)
    assert caught.value.reason is LossReason.TAKEN_OVER
    assert place.state(NAME).holder == "thief:1"


@cancels
async def test_nesting_in_a_lock_that_is_gone_brings_nothing_back(here: Lock, place: Place) -> None:
    """C2. Kept by nest.lua: `name.owner ~= ARGV[1]`."""
    with pytest.raises(LockLost) as caught:
        async with here as lease:
            place.side.delete(keys_of(NAME).lock)
            with pytest.raises(LockLost):
                await here.acquire()
            assert lease.reason is LossReason.DELETED
            await asyncio.sleep(ENOUGH)
    assert caught.value.reason is LossReason.DELETED
    assert not place.side.exists(keys_of(NAME).lock)


async def test_nesting_after_a_full_cycle_of_another_holder_is_refused(here: Lock, place: Place) -> None:
    """C2, step by step: deleted, taken, written, released by another; then the body nests."""
    with pytest.raises(LockLost):
        async with here:
            steal(place, NAME)
            give_back(place, NAME)
            with pytest.raises(LockLost):
                await here.acquire()
    assert place.gone(NAME)


@pytest.mark.parametrize(("takes_over", "reason"), [(False, LossReason.DELETED), (True, LossReason.TAKEN_OVER)])
async def test_a_release_of_a_lock_that_is_gone_reports_it(
    here: Lock, place: Place, takes_over: bool, reason: LossReason
) -> None:
    """H10: the block overlapped a successor, so it must not look clean. Kept by Release.settle."""
    with pytest.raises(LockLost) as caught:
        async with here:
            place.side.delete(keys_of(NAME).lock)
            if takes_over:
                steal(place, NAME)
    assert caught.value.reason is reason
    with pytest.raises(KeyError, match="mine"):
        async with await _fresh(here, place):
            place.side.delete(keys_of(NAME).lock)
            raise KeyError("mine")  # the body's own error comes through


async def _fresh(lock: Lock, place: Place) -> Lock:
    place.side.delete(keys_of(NAME).lock)
    return lock


@cancels
async def test_a_loss_cancels_every_task_that_shares_the_hold(here: Lock, there: Lock) -> None:
    started = asyncio.Event()

    async def child(owner: object) -> None:
        async with here.acquire(owner=owner):  # type: ignore[arg-type]
            started.set()
            await asyncio.sleep(60)

    with pytest.raises(LockLost):
        async with asyncio.timeout(ENOUGH), here as lease:
            task = asyncio.create_task(child(lease.owner))
            await started.wait()
            await there.force_release()
            renew_now(lease)  # a polling manager finds out by that
            await asyncio.sleep(60)
    with pytest.raises(LockLost):
        await task
    assert await _tried(there) is not None


@revoked
async def test_cancel_on_loss_false_lets_the_body_run_on(locks: LockManager, there: Lock) -> None:
    with pytest.raises(LockLost):
        async with asyncio.timeout(ENOUGH), locks.lock(NAME, cancel_on_loss=False) as lease:
            await there.force_release()
            assert await lease.wait_lost() is LossReason.REVOKED
            await asyncio.sleep(0)
            assert lease.lost
            ran = True
    assert ran


@pytest.mark.not_in_threads("the loop has a thread of its own")
@pytest.mark.short_ttl
@nobody_waits
async def test_a_blocked_loop_is_named(locks: LockManager, there: Lock) -> None:
    """Kept by Guard.exit, which looks at the clock: `hold.check()`."""
    with pytest.raises(LockLost, match=r"LOOP_BLOCKED for at least \d") as caught:
        async with locks.lock(NAME, ttl=0.2):
            time.sleep(0.3)  # noqa: ASYNC251 - the point
    assert caught.value.reason is LossReason.LOOP_BLOCKED
    async with asyncio.timeout(ENOUGH), there:
        pass


@cancels
async def test_closing_refuses_new_acquires_and_releases(place: Place, there: Lock) -> None:
    """H4. Kept by LockManager.aclose: it waits for the blocks to end before it releases."""
    manager = place.manager(ttl=30.0)
    inside = asyncio.Event()
    overlapped = False

    async def body() -> None:
        nonlocal overlapped
        async with manager.lock(NAME):
            inside.set()
            try:
                await asyncio.sleep(60)
            finally:
                await asyncio.sleep(0.05)
                overlapped = place.gone(NAME)

    async with manager:
        task = asyncio.create_task(body())
        await inside.wait()
        waiter = asyncio.create_task(_tried_patiently(manager.lock(NAME)))
        await asyncio.sleep(0)
    with pytest.raises(LockLost) as caught:
        await task
    assert caught.value.reason is LossReason.CLOSED
    assert not overlapped
    with pytest.raises(Exception, match="closed"):
        await waiter
    with pytest.raises(ConfigurationError, match=NAME):
        await manager.lock(NAME).acquire()
    async with asyncio.timeout(ENOUGH), there:
        pass


# Names and neighbours.

NAMES = {
    "spaces": " a b ",
    "brace": "}x",
    "braces": "{a}{b}",
    "percent": "%7Dx",
    "colons": "a:b::c:",
    "newlines": "a\nb\r\nc\n",
    "emoji": "🔒 ключ",
    "nul": "a\x00b",
    "long": "x" * 512,
    "long text": "é" * 256,
}


@pytest.mark.not_polling("no channel is named")
@pytest.mark.parametrize("name", NAMES.values(), ids=NAMES)
async def test_names(locks: LockManager, others: LockManager, place: Place, name: str) -> None:
    async with locks.lock(name) as lease:
        assert await others.lock(name).try_acquire() is None
        info = await others.lock(name).info()
        assert info is not None
        assert info.fence == lease.fence
        waiter = asyncio.create_task(_tried_patiently(others.lock(name)))
        await until(lambda: place.listeners(name))
    async with asyncio.timeout(ENOUGH):
        assert await waiter > lease.fence
    async with locks.lock(name):
        with pytest.raises(AcquireTimeout):
            await others.lock(name).acquire(timeout=0)


async def test_names_that_look_alike_differ(locks: LockManager, others: LockManager) -> None:
    for one, other in (("}x", "%7Dx"), ("a", "a:queue"), ("a", "A"), ("a", "a ")):
        async with locks.lock(one), others.lock(other).try_acquire() as lease:
            assert lease is not None


async def test_namespaces_do_not_mix(here: Lock, place: Place) -> None:
    async with here, place.manager(namespace="another") as elsewhere:
        assert not await elsewhere.lock(NAME).force_release()
        async with elsewhere.lock(NAME).try_acquire() as lease:
            assert lease is not None
            assert place.keys() == {keys_of(NAME).lock, Keys("another").of("lock", NAME).lock}
        assert await here.is_locked()


@pytest.mark.not_in_queues("keys have no types")
async def test_a_key_of_another_type_is_left_alone(here: Lock, there: Lock, place: Place) -> None:
    place.side.set(keys_of(NAME).lock, "mine")
    for call in (here.acquire, there.try_acquire, here.info, here.force_release):
        with pytest.raises(BackendError, match="another") as caught:
            await call()
        assert NAME in str(caught.value)
        assert not caught.value.transient
    assert place.keys() == {keys_of(NAME).lock}
    place.side.delete(keys_of(NAME).lock)
    async with here:
        pass


async def test_a_ping_is_answered_and_leaves_nothing(locks: LockManager, others: LockManager, place: Place) -> None:
    """Whoever has the lock of that name. Kept by LockManager.ping."""
    assert await locks.ping() is True
    assert place.keys() == set()
    async with others.lock("ping"):
        assert await locks.ping() is True


@nobody_waits
@pytest.mark.not_in_queues("keys have no types")
async def test_one_bad_key_spoils_no_other_lease(locks: LockManager, place: Place) -> None:
    """C5. Kept by renew.lua: each key under `pcall`; or by Renewals._request, which splits what failed as a whole."""
    leases = [await locks.lock(f"n{i}").acquire() for i in range(5)]
    bad, good = leases.pop(2), leases
    place.side.set(keys_of("n2").lock, "a string")
    before = bad._hold.expiry
    renew_now(bad)
    await renewed(*good)
    assert bad._hold.expiry == before
    assert not bad.lost  # until its deadline: see tests/unit/test_renewals.py
    for lease in good:
        await lease.release()
    with pytest.raises(BackendError, match="n2"):
        await bad.release()
    place.side.delete(keys_of("n2").lock)
