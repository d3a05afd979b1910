"""The contract of everything that locks exclusively and queues on the server: a fair lock, the write side of a
read-write lock, a semaphore with one permit.
"""

# ruff: noqa: PT012 - what raises is the whole guarded block

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest

from aiolock import (
    AcquireTimeout,
    BackendError,
    ConfigurationError,
    Lease,
    LockLost,
    LockManager,
    LossReason,
    NotAcquired,
    NotOwned,
)
from aiolock.scripts.keys import GRACE_MS
from aiolock.scripts.queue.inspection import FIRST
from tests.support.locks import unlimited
from tests.support.queues import RARE, SUMMARY

from .places import KEYS, SHORT, TTL_MS, Place, nobody_waits, renew_now, renewed, revoked, until
from .strangers import Stranger, queued, stranger_of

NAME = "order:42"
ENOUGH = 5.0
"""Far longer than anything here needs, far shorter than any ttl that could help instead."""


on_a_server = pytest.mark.parametrize("place", ["redis"], indirect=True)
"""For tests that take real time."""


class Kind(NamedTuple):
    """One of them: the kind in its keys, and how to make it."""

    kind: str
    make: Callable[..., Any]

    @property
    def state(self) -> str:
        """The key of what outlives a hold."""
        keys = KEYS.of(self.kind, NAME)
        return keys.lock if self.kind == "lock" else keys.state

    @property
    def keys(self) -> tuple[str, ...]:
        """All holders and waiters of a name."""
        keys = KEYS.of(self.kind, NAME)
        return keys.of_lock if self.kind == "lock" else keys.queue

    def held_for(self, place: Place) -> dict[str, float]:
        """The holder, and for how much longer it holds the name, in ms."""
        if self.kind == "lock":
            state = place.state(NAME)
            return {state.holder: state.pttl} if state.holder else {}
        _, order = KEYS.of(self.kind, NAME).queue
        now = time.time() * 1000
        return {owner: until - now for owner, until in place.side.scores(order).items() if now < until < FIRST}


def semaphore(locks: LockManager, name: str, **options: Any) -> Any:
    return locks.semaphore(name, 1, **options)


KINDS = {
    "fair": Kind("lock", LockManager.fair_lock),
    "write": Kind("rw", lambda locks, name, **options: locks.rw_lock(name, **options).write),
    "semaphore": Kind("semaphore", semaphore),
}


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> Kind:
    return KINDS[request.param]


@pytest.fixture
def here(kind: Kind, locks: LockManager) -> Any:
    return kind.make(locks, NAME)


@pytest.fixture
def there(kind: Kind, others: LockManager) -> Any:
    return kind.make(others, NAME)


@pytest.fixture
def stranger(kind: Kind, place: Place) -> Stranger:
    return stranger_of(place, kind.kind, NAME)


async def tried(lock: Any) -> int | None:
    async with lock.try_acquire() as lease:
        return None if lease is None else lease.fence


async def entered(lock: Any) -> int:
    async with lock as lease:
        assert lease.remaining() > 0
        return int(lease.fence)


# Holding and releasing.


async def test_one_holder_at_a_time(here: Any, there: Any) -> None:
    """Invariant 1. Kept by ask.lua: `state.used + weight <= state.capacity`."""
    async with here:
        assert await tried(there) is None
        assert (await there.info()) is not None
    async with there.try_acquire() as lease:
        assert lease is not None
        assert await tried(here) is None


async def test_nothing_is_left_but_a_clean_state_that_expires(here: Any, kind: Kind, place: Place) -> None:
    """Invariant 8. Kept by close.lua: `lasting = clean_ttl`, release_free.lua: `ARGV[2]`, and join.lua: `PEXPIRE`."""
    async with here:
        assert {kind.state} <= place.keys() <= set(kind.keys)
        waiter = asyncio.create_task(entered(here))
        await queued(here)
        assert place.keys() == set(kind.keys)
        assert min(map(place.side.pttl, kind.keys)) > TTL_MS
        waiter.cancel()
        await asyncio.gather(waiter, return_exceptions=True)
    assert not kind.held_for(place)
    assert not unlimited(place.side)
    assert TTL_MS < place.side.pttl(kind.state) <= TTL_MS + GRACE_MS
    if kind.kind == "lock":
        known = KEYS.of("lock", NAME).of_lock[2]
        assert place.keys() == {kind.state, known}  # heartbeats end with the next queue, or by themselves
        assert place.side.pttl(known) <= GRACE_MS
    else:
        assert place.keys() == {kind.state}
        assert set(place.side.hash(kind.state)) - set(RARE) == set(SUMMARY) - set(RARE)


@nobody_waits
async def test_plain_acquire_and_release(here: Any, there: Any) -> None:
    lease = await here.acquire()
    assert await tried(there) is None
    await lease.release()
    await lease.release()  # idempotent
    assert await tried(there) is not None
    second = await here.acquire()
    await here.release()
    assert second.released
    with pytest.raises(NotOwned, match=NAME):
        await here.release()


async def test_release_is_sent_when_called(here: Any, there: Any) -> None:
    lease = await here.acquire()
    lease.release()
    async with asyncio.timeout(ENOUGH), there as other:
        assert other.fence > lease.fence


@pytest.mark.parametrize("name", ["fair", "write"])
async def test_nested_leases_end_in_any_order(locks: LockManager, others: LockManager, name: str) -> None:
    here, there = (KINDS[name].make(manager, NAME) for manager in (locks, others))
    one = await here.acquire()
    two = await here.acquire()
    assert (one.fence, one.depth) == (two.fence, 2)
    await one.release()
    assert await tried(there) is None
    await two.release()
    assert await tried(there) is not None


@pytest.mark.parametrize("name", ["fair", "write"])
async def test_a_child_task_shares_by_owner_only(locks: LockManager, name: str) -> None:
    here = KINDS[name].make(locks, NAME)

    async def child(**options: Any) -> int:
        async with here.acquire(**options) as lease:
            return int(lease.depth)

    async with here as lease:
        assert await asyncio.create_task(child(owner=lease.owner, timeout=ENOUGH)) == 2
        with pytest.raises(AcquireTimeout, match="owner=lease"):
            await asyncio.create_task(child(timeout=0))
        owner = lease.owner
    with pytest.raises(NotOwned, match=NAME):
        await here.acquire(owner=owner)


async def test_no_two_are_inside_at_once(kind: Kind, locks: LockManager, others: LockManager) -> None:
    """Invariants 1 and 2 under load: 2 managers × 5 tasks, some of which give up."""
    inside = 0
    fences: list[int] = []

    async def work(manager: LockManager, number: int) -> None:
        nonlocal inside
        for turn in range(6):
            try:
                async with kind.make(manager, NAME).acquire(timeout=0.02 if (turn + number) % 4 == 0 else 20) as lease:
                    inside += 1
                    assert inside == 1
                    fences.append(lease.fence)
                    await asyncio.sleep(0.003)
                    inside -= 1
            except (AcquireTimeout, BackendError):
                pass  # the latter if even the first answer did not come in time

    async with asyncio.timeout(20), asyncio.TaskGroup() as group:
        for number in range(10):
            group.create_task(work((locks, others)[number % 2], number))
    assert len(fences) >= 40
    assert fences == sorted(set(fences))


# Waiting.


async def test_a_timeout_names_the_holder_and_your_place(kind: Kind, locks: LockManager, there: Any) -> None:
    async with kind.make(locks, NAME, metadata="invoice run"):
        loop = asyncio.get_running_loop()
        before = loop.time()
        with pytest.raises(AcquireTimeout) as caught:
            await there.acquire(timeout=0.3)
        assert loop.time() - before > 0.29  # uvloop counts whole milliseconds
        for word in (NAME, "0.3 s", f":{os.getpid()}", "invoice run", "number 1 in the queue"):
            assert word in str(caught.value)
        with pytest.raises(AcquireTimeout, match=r"within 0 s.*invoice run"):
            await there.acquire(timeout=0)
    assert await tried(there) is not None


async def test_a_release_lets_a_waiter_in_another_manager_in(here: Any, there: Any, kind: Kind, place: Place) -> None:
    holder = await here.acquire()
    waiter = asyncio.create_task(there.acquire())
    await queued(here)
    assert not waiter.done()
    await holder.release()
    async with asyncio.timeout(ENOUGH):
        lease: Lease = await waiter
        assert (lease.fence > holder.fence, lease.abandoned, lease.lost) == (True, False, False)
        await until(lambda: lease.remaining() > 3.0)  # its first renewal: the ttl is no longer that of a grant
    assert set(kind.held_for(place)) == {lease._hold.owner}
    assert not unlimited(place.side)
    await lease.release()


async def test_no_one_barges_in(here: Any, there: Any, stranger: Stranger) -> None:
    """H6: the name is free, but a live waiter queues. Kept by acquire.lua: `if not name.head and …`, and the lock's:
    `settle`.
    """
    async with here:
        stranger.queue()
    assert stranger.holds  # granted
    stranger.leave()
    assert await tried(there) is not None


@on_a_server
async def test_an_expiry_lets_the_next_in(there: Any, stranger: Stranger) -> None:
    """A crashed holder delays others by its ttl. Kept by acquire.lua's settle, in a waiter's refresh."""
    fence = stranger.take(ttl=0.3)
    async with asyncio.timeout(ENOUGH), there as lease:
        assert lease.fence > fence
        assert lease.abandoned


@on_a_server
@pytest.mark.not_polling("the server cannot see that a polling process is dead")
async def test_a_dead_waiter_is_skipped(kind: Kind, place: Place, here: Any) -> None:
    """The same for one that the lock was granted to. Kept by queue.lua: `tonumber(alive) > NOW`, settle.lua: `<=
    now`.
    """
    dead = stranger_of(place, kind.kind, NAME, liveness=1.0)
    async with place.manager() as third:
        for before_release in (True, False):
            lease = await here.acquire()
            dead.queue()
            waiter = asyncio.create_task(entered(kind.make(third, NAME)))
            await queued(here, 2)
            if before_release:
                dead.die()
            await lease.release()
            assert dead.holds is not before_release
            async with asyncio.timeout(ENOUGH):
                assert await waiter > lease.fence


async def test_looking_on(kind: Kind, here: Any, there: Any, place: Place) -> None:
    """Looking changes nothing, and a waiter knows its own place."""
    async with here:
        stranger = stranger_of(place, kind.kind, NAME)
        stranger.queue()
        waiters = [asyncio.create_task(entered(there))]
        await queued(there, 2)
        waiters.append(asyncio.create_task(entered(there)))
        await queued(there, 3)
        mine, theirs = await here.info(), await there.info()
        assert (mine.waiters, mine.position) == (3, None)
        assert (theirs.waiters, theirs.position) == (3, 2)
        stranger.leave()
        assert (await there.info()).position == 1
    async with asyncio.timeout(ENOUGH):
        await asyncio.gather(*waiters)


# Fences and abandonment.


async def test_fences_rise_whatever_happens(kind: Kind, here: Any, there: Any, place: Place) -> None:
    """Invariant 2. Kept by state.lua: `math.max(name.fence + 1, …)`, and state.lua: `known + 1`."""
    fences: list[int] = []
    stranger = stranger_of(place, kind.kind, NAME)

    async def take(lock: Any) -> None:
        async with lock.acquire(timeout=ENOUGH) as lease:
            fences.append(lease.fence)

    await take(here)
    await take(there)
    fences.append(stranger.take(ttl=0.02))
    await asyncio.sleep(0.03)
    await take(here)
    fences.append(stranger.take())
    assert await there.force_release()
    await take(there)
    place.side.flush()
    async with place.manager() as newcomer:  # this manager has heard of no fence
        await take(kind.make(newcomer, NAME))
    place.side.flush()
    await take(there)
    await asyncio.gather(*(take(lock) for lock in (here, there) * 3))
    assert fences == sorted(set(fences))


async def test_abandoned_after_a_crash_and_only_then(here: Any, there: Any, stranger: Stranger) -> None:
    async with here as lease:
        assert not lease.abandoned
    stranger.take(ttl=0.02)
    await asyncio.sleep(0.03)
    async with there.acquire(timeout=ENOUGH) as lease:
        assert lease.abandoned
    async with here as lease:
        assert not lease.abandoned


async def test_an_undo_keeps_the_mark(kind: Kind, locks: LockManager, place: Place) -> None:
    """H3 (2): a grant that no task entered repairs nothing. Kept by release.lua: `ending == 'undone' and abandoned`."""
    lock, stranger = kind.make(locks, NAME), stranger_of(place, kind.kind, NAME)
    stranger.take(ttl=0.02)
    await asyncio.sleep(0.03)
    task = asyncio.ensure_future(lock.acquire())
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    async with asyncio.timeout(ENOUGH), lock as lease:
        assert lease.abandoned


# Staying and losing.


@revoked
async def test_force_release_tells_the_holder_at_once(kind: Kind, locks: LockManager, there: Any) -> None:
    """H9. Kept by force_release.lua's PUBLISH to the manager."""
    with pytest.raises(LockLost) as caught:
        async with asyncio.timeout(ENOUGH), kind.make(locks, NAME, ttl=60.0) as lease:
            assert await there.force_release()
            await asyncio.sleep(60)
    assert caught.value.reason is lease.reason is LossReason.REVOKED
    assert not await there.force_release()
    async with there as lease:
        assert lease.abandoned


async def test_force_release_grants_to_the_next(there: Any, stranger: Stranger, kind: Kind, place: Place) -> None:
    """In the same script, so no waiter has to ask. Kept by force_release.lua's settle."""
    stranger.take()
    behind = stranger_of(place, kind.kind, NAME, owner="another:1")
    behind.queue()
    assert await there.force_release()
    assert behind.holds
    behind.leave()


@nobody_waits
async def test_renewal_keeps_it_beyond_its_ttl(kind: Kind, locks: LockManager, there: Any) -> None:
    """This holds after a wait, too. Kept by Hold.extend: `_renew_at`."""
    holder = await there.acquire()
    waiter = asyncio.ensure_future(kind.make(locks, NAME, ttl=60.0).acquire())
    await queued(there)
    await holder.release()
    lease = await waiter
    await renewed(lease)
    assert lease.remaining() > 0
    assert await tried(there) is None
    await lease.release()


@on_a_server
@nobody_waits
async def test_a_fixed_lease_ends_before_the_server_lets_it_go(kind: Kind, there: Any, place: Place) -> None:
    """Invariant 6, after a wait, on a machine that may stand still within the margin.

    Kept by Hold.extend: `deadline = expiry - margin`.
    """
    held = False

    async def hold(locks: LockManager) -> None:
        nonlocal held
        async with kind.make(locks, NAME, renew=False).acquire(timeout=ENOUGH) as lease:
            try:
                await asyncio.sleep(60)
            except asyncio.CancelledError:
                held = lease._hold.owner in kind.held_for(place)
                raise

    async with place.manager(ttl=2.8, margin=2.3) as locks:
        holder = await there.acquire()
        waiter = asyncio.create_task(hold(locks))
        await queued(there)
        await holder.release()
        with pytest.raises(LockLost) as caught:
            async with asyncio.timeout(ENOUGH):
                await waiter
    assert caught.value.reason is LossReason.EXPIRED
    assert held


@nobody_waits
async def test_a_fixed_lease_lives_on_when_renewed_by_hand(kind: Kind, locks: LockManager) -> None:
    async with kind.make(locks, NAME, ttl=SHORT, renew=False) as lease:
        await lease.renew(ttl=60.0)
        assert lease.remaining() > 30
        await lease.renew(ttl=SHORT)  # never shortens
        assert lease.remaining() > 30


@nobody_waits
async def test_max_hold(kind: Kind, locks: LockManager, there: Any) -> None:
    """Kept by Hold._cause: `self.deadline == self._limit`."""
    with pytest.raises(LockLost) as caught:
        async with asyncio.timeout(ENOUGH), kind.make(locks, NAME, max_hold=0.1):
            await asyncio.sleep(60)
    assert caught.value.reason is LossReason.MAX_HOLD
    async with asyncio.timeout(ENOUGH), there:
        pass


@nobody_waits
@pytest.mark.parametrize(("takes_over", "reason"), [(False, LossReason.DELETED), (True, LossReason.TAKEN_OVER)])
async def test_a_lock_that_is_gone_is_lost(
    kind: Kind, locks: LockManager, place: Place, stranger: Stranger, takes_over: bool, reason: LossReason
) -> None:
    """The renewal or the release finds out, whichever comes first. Kept by renew.lua and release.lua: `gone`."""
    for waits in (60.0, 0.0):
        with pytest.raises(LockLost) as caught:
            async with asyncio.timeout(ENOUGH), kind.make(locks, NAME) as lease:
                place.side.delete(*kind.keys)
                if takes_over:
                    stranger.take()
                if waits:
                    renew_now(lease)
                await asyncio.sleep(waits)
        assert caught.value.reason is reason
        assert stranger.holds is takes_over
        place.side.flush()


@revoked
async def test_cancel_on_loss_false_lets_the_body_run_on(kind: Kind, locks: LockManager, there: Any) -> None:
    ran = False
    with pytest.raises(LockLost):
        async with asyncio.timeout(ENOUGH), kind.make(locks, NAME, cancel_on_loss=False) as lease:
            await there.force_release()
            assert await lease.wait_lost() is LossReason.REVOKED
            await asyncio.sleep(0)
            ran = True
    assert ran


async def test_closing_refuses_new_acquires_and_releases(kind: Kind, place: Place, there: Any) -> None:
    """H4. Kept by LockManager.aclose: it waits for the blocks to end before it releases."""
    manager = place.manager(ttl=30.0)
    inside = asyncio.Event()
    overlapped = False

    async def body() -> None:
        nonlocal overlapped
        async with kind.make(manager, NAME):
            inside.set()
            try:
                await asyncio.sleep(60)
            finally:
                await asyncio.sleep(0.05)
                overlapped = not kind.held_for(place)

    async with manager:
        task = asyncio.create_task(body())
        await inside.wait()
        waiter = asyncio.create_task(entered(kind.make(manager, NAME)))
        await queued(there)
        behind = asyncio.create_task(entered(there))
        await queued(there, 2)
    with pytest.raises(LockLost) as caught:
        await task
    assert caught.value.reason is LossReason.CLOSED
    assert not overlapped
    with pytest.raises(NotAcquired, match="closed"):
        await waiter
    with pytest.raises(ConfigurationError, match=NAME):
        await kind.make(manager, NAME).acquire()
    async with asyncio.timeout(ENOUGH):
        await behind


# Names and neighbours.


NAMES = [" a b ", "}x", "{a}{b}", "%7Dx", "a:b::c:", "a\nb\r\nc\n", "🔒 ключ", "x" * 512]


@nobody_waits
async def test_names(kind: Kind, locks: LockManager, others: LockManager) -> None:
    for name in NAMES:
        async with kind.make(locks, name, metadata="a b\nc ") as lease:
            waiter = asyncio.create_task(entered(kind.make(others, name, metadata="1 2 3")))
            await queued(kind.make(others, name))
        async with asyncio.timeout(ENOUGH):
            assert await waiter > lease.fence


async def test_kinds_with_the_same_name_are_independent(locks: LockManager, others: LockManager) -> None:
    async with locks.lock(NAME), KINDS["write"].make(locks, NAME), KINDS["semaphore"].make(locks, NAME):
        for kind in KINDS.values():
            assert await tried(kind.make(others, NAME)) is None


async def test_a_key_of_another_type_is_left_alone(kind: Kind, here: Any, there: Any, place: Place) -> None:
    place.side.set(kind.state, "mine")
    for call in (here.acquire, there.try_acquire, here.info, here.force_release):
        with pytest.raises(BackendError, match="another") as caught:
            await call()
        assert NAME in str(caught.value)
        assert not caught.value.transient
    assert place.keys() == {kind.state}
    place.side.delete(kind.state)
    async with here:
        pass
