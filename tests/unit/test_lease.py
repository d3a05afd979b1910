"""A lease: releasing it, asking it, and what becomes of one that no one can release."""

from __future__ import annotations

import asyncio
import copy
import gc
import logging
import pickle
import warnings
import weakref
from collections.abc import AsyncIterator

import pytest

from aiolock import BackendError, Lease, LockLost, LockManager, LossReason, NotOwned
from aiolock.testing import MemoryBackend

from .world import (
    DEADLINE,
    MARGIN,
    TTL,
    Crew,
    Holder,
    assert_empty,
    expect_loss,
    lock_keys,
    runtime_of,
    settle,
    state_of,
)


async def test_release_is_idempotent(locks: LockManager, backend: MemoryBackend) -> None:
    lease = await locks.lock("a").acquire()
    for _ in range(3):
        await lease.release()
    assert backend.calls == ["acquire", "release"]
    assert lease.released


async def test_release_is_sent_when_called(locks: LockManager, peer: LockManager, backend: MemoryBackend) -> None:
    """§3: awaiting only observes the reply."""
    lease = await locks.lock("a").acquire()
    lease.release()
    assert lease.released
    await settle(backend)
    async with peer.lock("a").acquire(timeout=0) as other:
        assert not other.abandoned


async def test_releasing_a_nested_lease_twice_leaves_the_outer_one(locks: LockManager, peer: LockManager) -> None:
    """Review "Hold versus Lease": distinct handles tell a repeated release from a new one."""
    lock = locks.lock("a")
    outer, inner = await lock.acquire(), await lock.acquire()
    await inner.release()
    await inner.release()
    assert (outer.released, outer.depth) == (False, 1)
    assert await peer.lock("a").is_locked()
    await outer.release()
    assert not await peer.lock("a").is_locked()


async def test_any_order_of_release(locks: LockManager, backend: MemoryBackend) -> None:
    lock = locks.lock("a")
    leases = [await lock.acquire() for _ in range(3)]
    for lease, left in zip((leases[0], leases[2], leases[1]), (2, 1, 0), strict=True):
        await lease.release()
        assert lease.depth == left
    assert lock_keys(backend) == []


async def test_early_release_inside_the_block(locks: LockManager, peer: LockManager) -> None:
    async with locks.lock("a") as lease:
        await lease.release()
        async with peer.lock("a").acquire(timeout=0) as other:
            assert other.fence > lease.fence
            assert not lease.lost
            with pytest.raises(NotOwned, match="was released"):
                lease.ensure()


async def test_ensure_and_remaining(locks: LockManager, backend: MemoryBackend) -> None:
    lease = await locks.lock("a", renew=False).acquire()
    assert lease.remaining() == pytest.approx(DEADLINE)
    lease.ensure()
    lease.ensure(DEADLINE - 0.01)
    with expect_loss(LossReason.EXPIRED, "not 28 s"):
        lease.ensure(28)
    assert not lease.lost
    await backend.clock.advance(20)
    assert lease.remaining() == pytest.approx(DEADLINE - 20)
    lease.ensure(6.9)
    backend.clock.jump(DEADLINE)
    assert lease.remaining() == 0.0
    with pytest.raises(LockLost):
        lease.ensure()
    with pytest.raises(LockLost):
        await lease.release()
    assert lease.remaining() == 0.0


async def test_remaining_is_zero_after_release(locks: LockManager) -> None:
    async with locks.lock("a") as lease:
        assert lease.remaining() > 0
    assert (lease.remaining(), lease.released, lease.lost) == (0.0, True, False)


async def test_renew_by_hand(locks: LockManager, backend: MemoryBackend) -> None:
    async with locks.lock("a", renew=False) as lease:
        await backend.clock.advance(20)
        await lease.renew()
        assert lease.remaining() == pytest.approx(DEADLINE)
        await lease.renew(100)
        assert lease.remaining() == pytest.approx(100 - MARGIN)
        await lease.renew(1)
        assert lease.remaining() == pytest.approx(100 - MARGIN)
        await backend.clock.advance(90)
        assert not lease.lost
        await lease.renew()
        assert lease.remaining() == pytest.approx(100 - MARGIN)


async def test_renew_finds_the_loss(locks: LockManager, backend: MemoryBackend) -> None:
    lease = await locks.lock("a").acquire()
    backend.steal("a")
    with expect_loss(LossReason.TAKEN_OVER):
        await lease.renew()
    with expect_loss(LossReason.TAKEN_OVER):
        await lease.release()
    with pytest.raises(LockLost):
        await lease.renew()


async def test_renew_of_a_released_lease(locks: LockManager) -> None:
    lease = await locks.lock("a").acquire()
    await lease.release()
    with pytest.raises(NotOwned, match="'a' was released"):
        await lease.renew()


async def test_renew_in_an_outage(locks: LockManager, backend: MemoryBackend, crew: Crew) -> None:
    lease = await locks.lock("a", renew=False).acquire()
    with backend.outage(silent=True):
        task = crew.start(lease.renew())
        await backend.clock.advance(5)
        with pytest.raises(BackendError, match="renewing lock 'a' got no answer within 5 s"):
            await task
        assert not lease.lost
    await lease.release()


async def test_release_after_a_loss(locks: LockManager, backend: MemoryBackend) -> None:
    """§3: a plain acquire has no scope to cancel; its release raises."""
    lease = await locks.lock("a").acquire()
    backend.steal("a")
    await backend.clock.advance(TTL / 3)
    for _ in range(2):
        with expect_loss(LossReason.TAKEN_OVER):
            await lease.release()


@pytest.mark.parametrize(
    ("happened", "reason"),
    [("steal", LossReason.TAKEN_OVER), ("expire", LossReason.DELETED)],
    ids=["stolen", "deleted"],
)
@pytest.mark.parametrize("plain", [True, False], ids=["plain", "guarded"])
async def test_not_owned_before_the_deadline_is_a_loss(
    locks: LockManager, backend: MemoryBackend, happened: str, reason: LossReason, plain: bool
) -> None:
    """H10, `Release.settle`: `now < hold.deadline`; otherwise the exit looks clean though a successor
    overlapped.
    """
    lock = locks.lock("a")
    if plain:
        lease = await lock.acquire()
        getattr(backend, happened)("a")
        with expect_loss(reason):
            await lease.release()
    else:
        with expect_loss(reason):
            async with lock:
                getattr(backend, happened)("a")


async def test_not_owned_does_not_mask_the_bodys_error(locks: LockManager, backend: MemoryBackend) -> None:
    """§6 Release: it never masks the body's exception."""
    lock = locks.lock("a")

    async def fail() -> None:
        async with lock:
            backend.steal("a")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await fail()


async def test_not_owned_by_a_repeated_release_is_no_loss(
    locks: LockManager, peer: LockManager, backend: MemoryBackend
) -> None:
    """H10: the first copy did it, its reply was lost, and the name went to another owner."""
    lease = await locks.lock("a").acquire()
    backend.fail_next("reply")
    await lease.release()
    assert not lease.lost
    async with peer.lock("a").acquire(timeout=0) as other:
        assert not other.abandoned


async def test_outage_at_release_is_a_warning(
    locks: LockManager, backend: MemoryBackend, crew: Crew, caplog: pytest.LogCaptureFixture
) -> None:
    """§6 Release: a valid body end with an unreachable server is no error; the release continues in the background."""
    holder = Holder(crew, locks.lock("a"))
    await holder.entered
    with backend.outage():
        holder.leave.set()
        await backend.clock.advance(4.9)
        assert not holder.task.done()
        await backend.clock.advance(0.2)
        await holder.task
        assert "continues in the background" in caplog.text
        assert lock_keys(backend) != []
    await settle(backend)
    assert lock_keys(backend) == []


async def test_repr_shows_state_and_no_owner(locks: LockManager, backend: MemoryBackend) -> None:
    lock = locks.lock("order:42")
    lease = await lock.acquire()
    assert repr(lease) == f"<Lease 'order:42' fence={lease.fence} depth=1 remaining=27.0>"
    owner, acquisition = lease.owner, lock.acquire()
    shown = f"{lease!r} {owner!r} {lock!r} {locks!r} {acquisition!r} {lease} {lock}"
    inner = await acquisition
    assert "depth=2" in repr(inner)
    await inner.release()
    await lease.release()
    assert "released" in repr(lease)
    lost = await lock.acquire()
    lost._hold.lose(LossReason.DELETED)
    assert "lost=DELETED" in repr(lost)
    with pytest.raises(LockLost) as caught:
        await lost.release()
    secret = runtime_of(locks).binding.id
    assert secret not in f"{shown} {lease!r} {lost!r} {caught.value}"


async def test_the_owner_is_never_logged(
    locks: LockManager, peer: LockManager, backend: MemoryBackend, crew: Crew, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.DEBUG, "aiolock"):
        holder = Holder(crew, locks.lock("a"))
        await holder.entered
        with pytest.raises(TimeoutError) as caught:
            await peer.lock("a").acquire(timeout=0)
        with backend.outage():
            await backend.clock.advance(TTL)
        with pytest.raises(LockLost):
            await holder.task
    text = caplog.text + str(caught.value) + str([vars(record) for record in caplog.records])
    assert runtime_of(locks).binding.id not in text
    assert runtime_of(peer).binding.id not in text


async def test_nothing_leaves_the_process(locks: LockManager) -> None:
    async with locks.lock("a") as lease:
        for thing in (lease, lease.owner, locks.lock("a"), locks):
            for leave in (pickle.dumps, copy.copy):
                with pytest.raises(TypeError, match="cannot leave its process"):
                    leave(thing)
        with pytest.raises(TypeError, match="cannot leave its process"):
            pickle.dumps(locks.rw_lock("a"))


async def test_a_collected_lease_is_released(locks: LockManager, peer: LockManager, backend: MemoryBackend) -> None:
    """Invariant 9, `Lease.__del__`; hold.leases drops a lease whose task has ended (`LeasesByTask._end`)."""

    async def forget() -> weakref.ref[Lease]:
        return weakref.ref(await locks.lock("a").acquire())

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        lease = await asyncio.create_task(forget())
        await settle(backend)
        gc.collect()
    said = [(warning.category, str(warning.message)[:21]) for warning in caught]
    assert said == [(ResourceWarning, "unreleased <Lease 'a'")]
    caught.clear()  # a warning keeps its source
    assert lease() is None
    await settle(backend)
    assert backend.calls == ["acquire", "release"]
    async with peer.lock("a").acquire(timeout=0) as other:
        assert other.abandoned


async def test_an_unreferenced_lease_lives_while_its_task_does(locks: LockManager, backend: MemoryBackend) -> None:
    """H13: ownership keeps a lease alive while its task lives, so `lock.release()` finds it."""
    lock = locks.lock("a")
    await lock.acquire()
    gc.collect()
    await backend.clock.advance(TTL)
    assert lock_keys(backend) != []
    await lock.release()
    assert lock_keys(backend) == []


async def test_a_lease_collected_in_another_thread(locks: LockManager, backend: MemoryBackend) -> None:
    """`Gate.collected`: `call_soon_threadsafe`."""

    async def forget() -> list[Lease]:
        return [await locks.lock("a").acquire()]

    kept = await asyncio.create_task(forget())
    await settle(backend)
    with pytest.warns(ResourceWarning):
        await asyncio.to_thread(kept.clear)
    await settle(backend)
    assert lock_keys(backend) == []


async def test_a_kept_lease_of_a_task_that_ended_is_renewed(locks: LockManager, backend: MemoryBackend) -> None:
    async def acquire() -> Lease:
        return await locks.lock("a").acquire()

    lease = await asyncio.create_task(acquire())
    await backend.clock.advance(3 * TTL)
    assert not lease.lost
    await lease.release()


async def test_a_task_that_ends_inside_the_block(
    locks: LockManager, backend: MemoryBackend, caplog: pytest.LogCaptureFixture
) -> None:
    """Invariant 9, `LeasesByTask._end`: released, with an ERROR; a block that is never left is not renewed."""

    async def enter() -> Lease:
        return await locks.lock("a").__aenter__()

    lease = await asyncio.create_task(enter())
    await settle(backend)
    assert lease.released
    assert lock_keys(backend) == []
    (record,) = [record for record in caplog.records if record.levelno == logging.ERROR]
    assert "ended inside `async with`" in record.getMessage()
    assert state_of(backend, "a").dirty
    assert_empty(locks)


async def test_a_nested_block_that_is_never_left(
    locks: LockManager, backend: MemoryBackend, caplog: pytest.LogCaptureFixture
) -> None:
    async def enter() -> None:
        for _ in range(3):
            await locks.lock("a").acquire().__aenter__()

    await asyncio.create_task(enter())
    await settle(backend)
    assert lock_keys(backend) == []
    assert caplog.text.count("ended inside `async with`") == 3


async def numbers(locks: LockManager) -> AsyncIterator[int]:
    async with locks.lock("a"):
        for number in range(10):
            yield number


@pytest.mark.filterwarnings("ignore:async generator")
async def test_a_generator_left_half_way(locks: LockManager, backend: MemoryBackend) -> None:
    """Review b: `__aexit__` runs in another task, and releases all the same."""
    async for number in numbers(locks):
        if number == 2:
            break
    gc.collect()
    await settle(backend)
    assert lock_keys(backend) == []
    assert backend.calls.count("release") == 1


@pytest.mark.filterwarnings("ignore:async generator")
async def test_a_generator_closed_by_another_task(locks: LockManager, backend: MemoryBackend, crew: Crew) -> None:
    generator = numbers(locks)
    assert await anext(generator) == 0
    await crew.start(generator.aclose())  # type: ignore[attr-defined]
    assert lock_keys(backend) == []


@pytest.mark.filterwarnings("ignore:async generator")
async def test_leaving_a_generator_elsewhere_spares_another_task(
    locks: LockManager, backend: MemoryBackend, crew: Crew
) -> None:
    """`Blocks.leave`: of blocks entered in other tasks, the generator's own is meant, and not one that still runs."""
    lock = locks.lock("a", cancel_on_loss=False)

    async def one() -> AsyncIterator[int]:
        async with lock:
            yield 1

    generator = one()
    assert await anext(generator) == 1
    await lock.force_release()
    await settle(backend)
    inside, leave = asyncio.Event(), asyncio.Event()

    async def other() -> bool:
        async with lock as lease:
            inside.set()
            await leave.wait()
            return lease.released

    task = crew.start(other())
    await inside.wait()
    closing = crew.start(generator.aclose())  # type: ignore[attr-defined]
    await settle(backend)
    assert lock_keys(backend) != []
    leave.set()
    assert await task is False
    with expect_loss(LossReason.REVOKED):
        await closing


async def test_ancestry_does_not_keep_leases(locks: LockManager, backend: MemoryBackend) -> None:
    async with locks.lock("a") as lease:
        seen = weakref.ref(lease)
    del lease
    gc.collect()
    assert seen() is None


class Transaction:
    """asyncpg's: its exit awaits a ROLLBACK."""

    def __init__(self, rollback: asyncio.Event) -> None:
        self.rollback = rollback
        self.ended = ""

    async def __aenter__(self) -> Transaction:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: object, trace: object) -> None:
        try:
            await self.rollback.wait()
        except asyncio.CancelledError:
            self.ended = "cut off"
            raise
        self.ended = "rolled back" if kind else "committed"


async def lose_in_transaction(locks: LockManager, transaction: Transaction, shielded: bool) -> None:
    async with (
        locks.lock("a", renew=False) as lease,
        lease.shielded(transaction) if shielded else transaction as same,
    ):
        assert same is transaction
        await asyncio.Event().wait()


async def test_shielded_rolls_back_within_the_margin(locks: LockManager, backend: MemoryBackend, crew: Crew) -> None:
    """Review e, `Shielded.__aexit__`: level cancellation would cancel the ROLLBACK at its first await."""
    transaction = Transaction(asyncio.Event())
    task = crew.start(lose_in_transaction(locks, transaction, shielded=True))
    await settle(backend)
    await backend.clock.advance(DEADLINE + MARGIN - 0.1)
    assert transaction.ended == ""
    transaction.rollback.set()
    with expect_loss(LossReason.EXPIRED):
        await task
    assert transaction.ended == "rolled back"


async def test_unshielded_is_cancelled_half_way(locks: LockManager, backend: MemoryBackend, crew: Crew) -> None:
    transaction = Transaction(asyncio.Event())
    task = crew.start(lose_in_transaction(locks, transaction, shielded=False))
    await settle(backend)
    await backend.clock.advance(DEADLINE)
    with expect_loss(LossReason.EXPIRED):
        await task
    assert transaction.ended == "cut off"


async def test_shielded_ends_with_the_servers_expiry(locks: LockManager, backend: MemoryBackend, crew: Crew) -> None:
    """`_Expiry`: the clean-up is cancelled when the next holder may come in."""
    transaction = Transaction(asyncio.Event())
    task = crew.start(lose_in_transaction(locks, transaction, shielded=True))
    await settle(backend)
    await backend.clock.advance(TTL - 0.001)
    assert (transaction.ended, task.done()) == ("", False)
    await backend.clock.advance(0.001)
    with expect_loss(LossReason.EXPIRED):
        await task
    assert transaction.ended == "cut off"


async def test_shielded_follows_renewals(locks: LockManager, backend: MemoryBackend, crew: Crew) -> None:
    transaction = Transaction(asyncio.Event())

    async def commit() -> None:
        async with locks.lock("a") as lease, lease.shielded(transaction):
            pass

    task = crew.start(commit())
    await settle(backend)
    await backend.clock.advance(5 * TTL)
    assert not task.done()
    transaction.rollback.set()
    await task
    assert transaction.ended == "committed"


async def test_shielded_outside_of_a_loss_passes_errors_on(locks: LockManager) -> None:
    transaction = Transaction(asyncio.Event())
    transaction.rollback.set()
    with pytest.raises(ZeroDivisionError):
        async with locks.lock("a") as lease, lease.shielded(transaction):
            raise ZeroDivisionError
    assert transaction.ended == "rolled back"


async def test_fences_rise_and_abandonment_shows(locks: LockManager, peer: LockManager, backend: MemoryBackend) -> None:
    """Invariant 2, `mint`: across release, expiry, stealing, FLUSHALL."""
    fences = []

    async def take(manager: LockManager) -> Lease:
        async with manager.lock("a") as lease:
            fences.append(lease.fence)
            return lease

    assert not (await take(locks)).abandoned
    assert not (await take(peer)).abandoned
    lost = await locks.lock("a").acquire()
    fences.append(lost.fence)
    backend.expire("a")
    assert (await take(peer)).abandoned
    with pytest.raises(LockLost):
        await lost.release()
    assert not (await take(peer)).abandoned
    fences.append(backend.steal("a"))
    backend.flush()
    await backend.clock.advance(0.001)
    assert not (await take(peer)).abandoned  # the evidence went with the data: False can mean unknown
    assert not (await take(locks)).abandoned
    assert fences == sorted(set(fences))


async def test_the_floor_is_the_highest_known_fence(locks: LockManager, backend: MemoryBackend) -> None:
    """H7, `Fences.heard`: data lost and the server's clock back; a manager that saw the last fence still gets a higher
    one.
    """
    async with locks.lock("a") as first:
        pass
    backend.flush()
    wall = backend.store.wall_us
    backend.store.wall_us = lambda: wall() - 3_600_000_000
    async with locks.lock("b") as second:
        assert second.fence > first.fence


async def test_an_undone_grant_keeps_the_evidence(
    locks: LockManager, peer: LockManager, backend: MemoryBackend, crew: Crew
) -> None:
    """H3 (2): `release(… 'undone')` restores the flag it found; nothing has been repaired yet."""
    gone = await peer.lock("a").acquire()
    backend.expire("a")
    holder = Holder(crew, locks.lock("a"))
    await asyncio.sleep(0)
    holder.task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await holder.task
    assert backend.calls == ["acquire", "release"]
    async with locks.lock("a") as lease:
        assert lease.abandoned
    with pytest.raises(LockLost):
        await gone.release()


async def test_a_replay_reads_its_own_grant(locks: LockManager, peer: LockManager, backend: MemoryBackend) -> None:
    """H3 (1): the repetition of a grant whose reply was lost must not see its own dirty mark, nor miss the crash."""
    backend.fail_next("reply")
    async with locks.lock("a") as lease:
        assert not lease.abandoned
    gone = await peer.lock("a").acquire()
    backend.expire("a")
    backend.fail_next("reply")
    async with locks.lock("a") as lease:
        assert lease.abandoned
        assert lease.depth == 1
    with pytest.raises(LockLost):
        await gone.release()
