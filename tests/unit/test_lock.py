"""The reentrant lock: nesting, sharing, releasing by task, asking about it."""

from __future__ import annotations

import asyncio
import gc
import os
import sys
from typing import Any

import pytest

from aiolock import (
    AcquireTimeout,
    BackendError,
    Lease,
    Lock,
    LockInfo,
    LockLost,
    LockManager,
    LossReason,
    NotOwned,
)
from aiolock.testing import MemoryBackend

from .world import DEADLINE, TTL, Crew, Holder, assert_empty, expect_loss, lock_keys, settle, state_of


async def test_two_tasks_take_turns(locks: LockManager, crew: Crew, backend: MemoryBackend) -> None:
    first, second = Holder(crew, locks.lock("a")), Holder(crew, locks.lock("a"))
    await settle(backend)
    assert (first.entered.done(), second.entered.done()) == (True, False)
    await first.end()
    await settle(backend)
    assert second.entered.done()


async def test_two_processes_take_turns(locks: LockManager, peer: LockManager, crew: Crew) -> None:
    async with locks.lock("a"):
        with pytest.raises(AcquireTimeout):
            await peer.lock("a").acquire(timeout=0)
    async with peer.lock("a").acquire(timeout=0) as lease:
        assert lease.depth == 1


async def test_reentrant(locks: LockManager, peer: LockManager, backend: MemoryBackend) -> None:
    lock = locks.lock("a")
    async with lock as outer:
        async with lock as middle, locks.lock("a").acquire(timeout=0) as inner, lock.try_acquire() as innermost:
            assert innermost is not None
            assert len({outer.fence, middle.fence, inner.fence, innermost.fence}) == 1
            assert len({id(outer), id(middle), id(inner), id(innermost)}) == 4
            assert outer.depth == 4
            info = await peer.lock("a").info()
            assert info is not None
            assert info.depth == 4
        assert outer.depth == 1
        assert await peer.lock("a").is_locked()
    assert not await peer.lock("a").is_locked()
    assert not state_of(backend, "a").dirty


async def test_one_lock_object_serves_many_tasks(locks: LockManager, crew: Crew, backend: MemoryBackend) -> None:
    """redis-py #4258: a lock that carries the token lets one task release another's."""
    lock, inside, seen = locks.lock("a"), 0, 0

    async def work() -> None:
        nonlocal inside, seen
        async with lock:
            inside += 1
            seen = max(seen, inside)
            await asyncio.sleep(0)
            async with lock:
                await asyncio.sleep(0)
            inside -= 1

    await asyncio.gather(*(crew.start(work()) for _ in range(20)))
    assert seen == 1


async def test_nesting_in_a_lock_that_is_gone(locks: LockManager, peer: LockManager, backend: MemoryBackend) -> None:
    """C2: only depth 1 creates; a nested acquire resurrects nothing."""
    lock = locks.lock("a")
    outer = await lock.acquire()
    backend.expire("a")
    async with peer.lock("a"):
        pass
    with expect_loss(LossReason.DELETED):
        await lock.acquire()
    assert lock_keys(backend) == []
    assert outer.reason is LossReason.DELETED
    with pytest.raises(LockLost):
        await outer.release()


async def test_nesting_in_a_lock_that_was_taken_over(locks: LockManager, backend: MemoryBackend) -> None:
    """C2: the nested acquire carries the lease's fence."""
    with expect_loss(LossReason.TAKEN_OVER):
        async with locks.lock("a"):
            backend.steal("a")
            async with locks.lock("a"):
                pytest.fail("entered a lock that another owner holds")
    assert len(lock_keys(backend)) == 1


async def test_nesting_late_is_refused_without_a_request(locks: LockManager, backend: MemoryBackend) -> None:
    lease = await locks.lock("a", renew=False).acquire()
    backend.clock.jump(DEADLINE)
    backend.calls.clear()
    with expect_loss(LossReason.EXPIRED):
        await locks.lock("a").acquire()
    assert backend.calls == []
    with pytest.raises(LockLost):
        await lease.release()


async def test_a_nested_acquire_that_is_cancelled_leaves_the_outer_one(
    locks: LockManager, peer: LockManager, backend: MemoryBackend
) -> None:
    """C3 (a), `_nest`: its undo is release(o, local depth), never 0."""
    lock = locks.lock("a")

    async with lock as outer:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0):
                await lock.acquire()
        await settle(backend)
        assert outer.depth == 1
        assert not outer.lost
        await outer.renew()
        info = await peer.lock("a").info()
        assert info is not None
        assert info.depth == 1
    assert not await peer.lock("a").is_locked()


async def test_a_nested_acquire_in_an_outage(locks: LockManager, backend: MemoryBackend, crew: Crew) -> None:
    async def nest() -> None:
        async with locks.lock("a") as outer:
            ready.set()
            with pytest.raises(BackendError, match="nesting in lock 'a'"):
                await locks.lock("a").acquire()
            assert outer.depth == 1
            await end.wait()

    ready, end = asyncio.Event(), asyncio.Event()
    task = crew.start(nest())
    await asyncio.sleep(0)
    with backend.outage():
        await ready.wait()
        await backend.clock.advance(6)
    end.set()
    await task
    await settle(backend)
    assert lock_keys(backend) == []


async def test_a_child_task_does_not_own(locks: LockManager) -> None:
    async with locks.lock("a"):
        with pytest.raises(AcquireTimeout, match=r"pass owner=lease\.owner"):
            await asyncio.create_task(_acquire(locks, timeout=0))


async def _acquire(locks: LockManager, **options: Any) -> Lease:
    return await locks.lock("a").acquire(**options)


async def test_a_child_task_is_given_the_owner(locks: LockManager, peer: LockManager) -> None:
    async with locks.lock("a") as lease:
        child = await asyncio.create_task(_acquire(locks, owner=lease.owner, timeout=0))
        assert (child.fence, child.depth) == (lease.fence, 2)
    assert await peer.lock("a").is_locked()
    await child.release()
    assert not await peer.lock("a").is_locked()


async def test_the_owner_of_something_else(locks: LockManager, peer: LockManager) -> None:
    async with locks.lock("a") as a, peer.lock("b") as b:
        for owner in (a.owner, b.owner):
            with pytest.raises(NotOwned, match="'c'"):
                await locks.lock("c").acquire(owner=owner)
        with pytest.raises(NotOwned):
            await locks.lock("b").acquire(owner=b.owner)
    with pytest.raises(NotOwned, match="open lease"):
        await locks.lock("a").acquire(owner=a.owner)


async def test_a_stranger_that_times_out_is_told_who_holds_it(
    locks: LockManager, peer: LockManager, crew: Crew
) -> None:
    holder = Holder(crew, peer.lock("a", metadata="the nightly import"))
    await holder.entered
    with pytest.raises(AcquireTimeout, match=f"{os.getpid()} the nightly import") as caught:
        await locks.lock("a").acquire(timeout=0)
    assert caught.value.name == "a"
    assert "pass owner=" not in str(caught.value)


async def test_a_neighbour_that_times_out_is_told_that_it_is_one(locks: LockManager, crew: Crew) -> None:
    holder = Holder(crew, locks.lock("a"))
    await holder.entered
    with pytest.raises(AcquireTimeout, match="another task of this process"):
        await locks.lock("a").acquire(timeout=0)


async def test_grandchildren_know_their_ancestors(locks: LockManager, peer: LockManager) -> None:
    """Review 1, reentrancy: a ContextVar only detects."""

    async def child() -> None:
        async with locks.lock("b"):
            await asyncio.create_task(_acquire(locks, timeout=0))

    async with locks.lock("a"):
        with pytest.raises(AcquireTimeout, match="a task that started this one holds it"):
            await asyncio.create_task(child())


async def test_an_ancestor_that_has_released_does_not_count(locks: LockManager, peer: LockManager) -> None:
    async with locks.lock("a"):
        pass
    async with peer.lock("a"):
        with pytest.raises(AcquireTimeout) as caught:
            await asyncio.create_task(_acquire(locks, timeout=0))
    assert "owner=" not in str(caught.value)


@pytest.mark.parametrize("timeout", [0, 0.5, 3, 60])
async def test_timeout(
    locks: LockManager, peer: LockManager, backend: MemoryBackend, crew: Crew, timeout: float
) -> None:
    async with peer.lock("a"):
        task = crew.start(_acquire(locks, timeout=timeout))
        if timeout:
            await backend.clock.advance(timeout - 0.01)
            assert not task.done()
        await backend.clock.advance(0.01)
        assert task.done()
        with pytest.raises(AcquireTimeout, match=f"within {timeout:g} s"):
            await task
    assert_empty(locks)


async def test_timeouts_come_from_call_lock_manager(backend: MemoryBackend, peer: LockManager, crew: Crew) -> None:
    async with (
        LockManager(MemoryBackend(backend), acquire_timeout=1) as locks,
        peer.lock("a"),
    ):
        tasks = {
            1: crew.start(_acquire(locks)),
            2: crew.start(_get(locks.lock("a", acquire_timeout=2))),
            3: crew.start(_get(locks.lock("a", acquire_timeout=2), timeout=3)),
        }
        forever = [crew.start(_acquire(locks, timeout=None)), crew.start(_get(locks.lock("a", acquire_timeout=None)))]
        for after, task in tasks.items():
            assert not task.done()
            await backend.clock.advance(1)
            with pytest.raises(AcquireTimeout, match=f"within {after} s"):
                await task
        await backend.clock.advance(100)
        assert not any(task.done() for task in forever)
        for task in forever:
            task.cancel()
        await settle(backend)


async def _get(lock: Lock, **options: Any) -> Lease:
    return await lock.acquire(**options)


async def test_try_acquire(locks: LockManager, peer: LockManager, backend: MemoryBackend) -> None:
    async with locks.lock("a").try_acquire() as lease:
        assert lease is not None
        async with peer.lock("a").try_acquire() as other:
            assert other is None
        assert await peer.lock("a").try_acquire() is None
    async with peer.lock("a").try_acquire() as other:
        assert other is not None
    assert backend.calls.count("acquire") == 1


async def test_try_acquire_does_not_jump_the_queue(
    locks: LockManager, peer: LockManager, backend: MemoryBackend, crew: Crew
) -> None:
    async with peer.lock("a"):
        waiting = Holder(crew, locks.lock("a"))
        await settle(backend)
        assert await locks.lock("a").try_acquire() is None
    await settle(backend)
    assert waiting.entered.done()


async def test_try_acquire_guards_its_block(locks: LockManager, backend: MemoryBackend) -> None:
    with expect_loss(LossReason.TAKEN_OVER):
        async with locks.lock("a").try_acquire() as lease:
            assert lease is not None
            backend.steal("a")
            await backend.clock.advance(TTL)


async def test_try_acquire_in_an_outage(locks: LockManager, backend: MemoryBackend, crew: Crew) -> None:
    async def attempt() -> None:
        await locks.lock("a").try_acquire()

    with backend.outage():
        task = crew.start(attempt())
        await backend.clock.advance(5.1)
        with pytest.raises(BackendError):
            await task
    await settle(backend)
    assert lock_keys(backend) == []


async def test_lock_release_works_as_an_rlocks(locks: LockManager, peer: LockManager) -> None:
    lock = locks.lock("a")
    outer, inner = await lock.acquire(), await lock.acquire()
    await lock.release()
    assert (inner.released, outer.released) == (True, False)
    await locks.lock("a").release()
    assert outer.released
    with pytest.raises(NotOwned, match=r"release\(\) on the lease"):
        await lock.release()
    assert not await peer.lock("a").is_locked()


async def test_lock_release_spares_other_tasks(locks: LockManager, crew: Crew, backend: MemoryBackend) -> None:
    holder = Holder(crew, locks.lock("a"))
    lease = await holder.entered
    with pytest.raises(NotOwned):
        await locks.lock("a").release()
    assert not lease.released


async def test_lock_release_of_a_lost_lease(locks: LockManager, backend: MemoryBackend) -> None:
    lock = locks.lock("a")
    await lock.acquire()
    backend.steal("a")
    await backend.clock.advance(TTL / 3)
    with expect_loss(LossReason.TAKEN_OVER):
        await lock.release()


async def test_lock_release_after_wait_for(locks: LockManager, peer: LockManager) -> None:
    """On Python 3.11 `wait_for` acquires in a task that has then ended: whose lease it is cannot be decided."""
    lock = locks.lock("a")
    lease = await asyncio.wait_for(_get(lock), 5)
    if sys.version_info < (3, 12):
        with pytest.raises(NotOwned, match="wait_for"):
            lock.release()
    await lease.release()
    assert not await peer.lock("a").is_locked()


async def test_info(locks: LockManager, peer: LockManager, backend: MemoryBackend) -> None:
    lock = peer.lock("a")
    assert await lock.info() is None
    assert not await lock.is_locked()
    async with locks.lock("a", ttl=20, metadata="line 1\nline 2") as lease:
        await backend.clock.advance(5)
        info = await lock.info()
        assert isinstance(info, LockInfo)
        assert info.holder.endswith(f":{os.getpid()}")
        assert info == LockInfo(info.holder, 1, 15.0, lease.fence, "line 1\nline 2")
        assert await lock.is_locked()
    async with locks.lock("a"):
        again = await lock.info()
        assert again is not None
        assert again.metadata is None


async def test_info_in_an_outage(locks: LockManager, backend: MemoryBackend, crew: Crew) -> None:
    async def look() -> bool:
        return await locks.lock("a").is_locked()

    with backend.outage():
        task = crew.start(look())
        await backend.clock.advance(5.1)
        with pytest.raises(BackendError, match="looking at lock 'a'"):
            await task


async def test_force_release(locks: LockManager, peer: LockManager, backend: MemoryBackend, crew: Crew) -> None:
    assert not await peer.lock("a").force_release()
    holder, waiter = Holder(crew, locks.lock("a")), Holder(crew, peer.lock("a"))
    await settle(backend)
    assert await peer.lock("a").force_release()
    await settle(backend)
    with expect_loss(LossReason.REVOKED):
        await holder.task
    assert waiter.entered.done()
    assert waiter.entered.result().abandoned
    await backend.clock.advance(2 * TTL)
    assert not waiter.entered.result().lost


async def test_force_release_of_your_own_lock(locks: LockManager, backend: MemoryBackend) -> None:
    with expect_loss(LossReason.REVOKED):
        async with locks.lock("a") as lease:
            assert await locks.lock("a").force_release()
            await lease.wait_lost()
    assert lock_keys(backend) == []


async def test_a_key_of_another_type(locks: LockManager, backend: MemoryBackend) -> None:
    backend.store.set("aiolock:lock:{a}", "not a hash", 1_000_000)
    with pytest.raises(BackendError, match="holds another type"):
        await locks.lock("a").acquire()
    with pytest.raises(BackendError):
        await locks.lock("a").try_acquire()
    await settle(backend)
    assert_empty(locks)
    assert backend.store.get("aiolock:lock:{a}") == "not a hash"


async def test_an_acquisition_is_used_once(locks: LockManager) -> None:
    acquisition = locks.lock("a").acquire()
    async with acquisition as lease:
        with pytest.raises(RuntimeError, match="call acquire"):
            await acquisition
        with pytest.raises(RuntimeError):
            await acquisition.__aenter__()
    assert lease.released


async def test_an_acquisition_that_is_not_awaited_warns(locks: LockManager, backend: MemoryBackend) -> None:
    with pytest.warns(RuntimeWarning, match="lock 'a' was never awaited"):
        locks.lock("a").acquire()
    with pytest.warns(RuntimeWarning, match="never awaited"):
        locks.lock("a").try_acquire()
    gc.collect()
    assert backend.calls == []


async def test_errors_of_the_body_pass(locks: LockManager, backend: MemoryBackend) -> None:
    class MineError(BaseException):
        pass

    async def fail(error: BaseException) -> None:
        async with locks.lock("a"):
            raise error

    for error in (ZeroDivisionError("x"), MineError(), asyncio.CancelledError(), TimeoutError(), LookupError()):
        with pytest.raises(type(error)) as caught:
            await fail(error)
        assert caught.value is error
        assert lock_keys(backend) == []


async def test_plain_use_in_try_finally(locks: LockManager, peer: LockManager) -> None:
    lease = await locks.lock("a").acquire(timeout=2.0)
    try:
        assert await peer.lock("a").is_locked()
    finally:
        await lease.release()
    assert not await peer.lock("a").is_locked()


def test_repr() -> None:
    lock = LockManager(MemoryBackend()).lock("order:42", ttl=12)
    assert repr(lock) == "<Lock 'order:42' ttl=12>"
    assert lock.name == "order:42"


async def test_a_nested_loss_is_raised_by_the_outermost_block(locks: LockManager, backend: MemoryBackend) -> None:
    inner_saw: list[BaseException] = []
    with expect_loss(LossReason.DELETED):
        async with locks.lock("a"):
            try:
                async with locks.lock("a"):
                    backend.expire("a")
                    await backend.clock.advance(TTL / 3)
            except BaseException as error:
                inner_saw.append(error)
                raise
    assert [type(error) for error in inner_saw] == [asyncio.CancelledError]
