"""The other primitives, for threads: each once around, on a real server."""

# ruff: noqa: PT012 - what raises is the whole guarded block

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest
import redis

import aiolock
from aiolock import BackendError, ConfigurationError, LockLost, NotAcquired, NotOwned, WaitTimeout
from aiolock.scripts.keys import Keys
from aiolock.sync import LockManager

from .conftest import ENOUGH, Worker, until


def test_fair_and_multi_locks(locks: LockManager, others: LockManager) -> None:
    fair = locks.fair_lock("a")
    with fair:
        seen = fair.info()
        assert seen is not None
        assert seen.waiters == 0
        assert others.multi_lock("b", "a").try_acquire() is None
    both = others.multi_lock("b", "a")
    with both as lease:
        assert both.names == ("a", "b")
        assert both.is_locked()
        assert {held.fence for held in both.info().values()} == {lease.fence}
        assert locks.lock("b").try_acquire() is None
    assert both.info() == {}


def test_readers_and_a_writer(locks: LockManager, others: LockManager, worker: Worker) -> None:
    here, there = locks.rw_lock("a"), others.rw_lock("a")
    with here.read, there.read:
        seen = here.info()
        assert seen is not None
        assert (seen.readers, seen.writing) == (2, False)
        assert worker(here.write.try_acquire) is None
        with pytest.raises(NotAcquired, match="wait for itself"):
            here.write.acquire(timeout=1.0)
    with here.write as lease, here.read:
        assert here.is_locked()
        assert there.read.try_acquire() is None
        assert here.read.owned() == 1
        assert lease.fence > 0
    assert here.force_release() is False
    assert here.read.force_release() is False


def test_permits(locks: LockManager, others: LockManager, worker: Worker) -> None:
    here, there = locks.semaphore("a", 3), others.semaphore("a", 3)
    with here as one:
        two = worker(lambda: here.acquire(2))
        assert (two.permits, one.permits) == (2, 1)
        assert there.try_acquire() is None
        worker(lambda: here.release(1))
        assert there.available() == 1
        two.release()
        assert there.used() == 1
    with pytest.raises(NotOwned):
        here.release()
    here.set_permits(5)
    assert there.info().permits == 5
    with pytest.raises(LockLost), there.acquire(5, timeout=1.0):
        assert here.force_release()
        assert here.available() == 5


def test_a_latch(locks: LockManager, others: LockManager, worker: Worker) -> None:
    here, there = locks.latch("a", 2), others.latch("a", 2)
    with pytest.raises(WaitTimeout):
        here.wait(timeout=0)
    waiting = worker.begin(here.wait)
    assert there.count_down(by="one") == 1
    assert there.count_down(by="one") == 1
    assert there.count() == 1
    there.count_down()
    assert waiting.result(ENOUGH) is True
    assert here.delete()
    assert here.count() == 2


def test_a_condition(locks: LockManager, others: LockManager, worker: Worker) -> None:
    """`wait_for()` looks in the thread that waits. Kept by Condition.wait_for."""
    jobs: list[str] = []
    here, there = locks.lock("a"), others.lock("a")
    ready = locks.condition(here)

    def consume() -> str:
        with here:
            ready.wait_for(lambda: jobs)
            assert here.owned() == 1
            return jobs.pop()

    consuming = worker.begin(consume)
    changed = others.condition(there)

    def notified() -> int:
        with there:
            known = changed.notify()
            jobs[:] = ["job"] * known  # it waits, and cannot look before the lock is released
            return known

    until(notified)
    assert consuming.result(ENOUGH) == "job"
    with there:
        assert changed.notify_all() == 0
        with pytest.raises(WaitTimeout):
            changed.wait(timeout=0.01)
        with pytest.raises(WaitTimeout):
            changed.wait_for(list, timeout=0.01)
        looks = iter([False, True])
        assert changed.wait_for(lambda: next(looks), timeout=0.01)  # it looks once more at the end
        assert there.owned() == 1
    with changed as lease:
        assert there.owned() == 1
        lease.ensure()
    assert there.owned() == 0
    with pytest.raises(NotOwned):
        ready.wait_for(lambda: True)
    with pytest.raises(ConfigurationError, match="another manager's"):
        others.condition(here)


def test_a_condition_tells_the_blocks_of_threads_apart(locks: LockManager, others: LockManager, worker: Worker) -> None:
    """One thread lost the lock, the other has it. Kept by Condition.__enter__: the frame that enters."""
    here = locks.lock("a")
    ready = locks.condition(here)
    entered, leave = threading.Event(), threading.Event()

    def lose() -> None:
        with ready:
            entered.set()
            assert leave.wait(ENOUGH)

    losing = worker.begin(lose)
    assert entered.wait(ENOUGH)
    assert others.lock("a").force_release()
    with ready as lease:
        leave.set()
        assert isinstance(losing.exception(ENOUGH), LockLost)
        lease.ensure()
        assert here.is_locked()
    assert not here.is_locked()


def test_a_lease_moves_between_a_thread_and_a_task(locks: LockManager, redis_url: str, worker: Worker) -> None:
    """The ticket is the same on both sides, and so is everything on the server."""
    lease = locks.lock("a").acquire()
    ticket = lease.detach(ttl=20.0)
    assert lease.released

    async def continued() -> tuple[int, str]:
        async with aiolock.LockManager(redis_url) as manager:
            taken = await manager.resume(ticket)
            assert await manager.lock("a").is_locked()
            return taken.fence, await taken.detach()

    fence, back = worker(lambda: asyncio.run(continued()))
    assert fence > lease.fence
    with locks.resume(back, ttl=10.0) as resumed:
        assert resumed.fence > fence
        resumed.renew(ttl=20.0)
        assert resumed.remaining() > 10.0
        with pytest.raises(NotOwned):
            locks.resume(back)
    assert not locks.lock("a").is_locked()


def test_keys_of_another_version(locks: LockManager, redis_url: str) -> None:
    """Each primitive says in its thread whose they are, and changes nothing. Kept by `foreign.used_by`."""
    keys = Keys("aiolock")
    state = {"version": "0.4", "left": "2"}
    uses = {
        keys.of("lock", "a").lock: (locks.lock("a").acquire, locks.fair_lock("a").try_acquire, locks.lock("a").info),
        keys.of("semaphore", "a").state: (locks.semaphore("a", 3).acquire, locks.semaphore("a", 3).available),
        keys.of("rw", "a").state: (locks.rw_lock("a").read.acquire, locks.rw_lock("a").info),
        keys.of("latch", "a").lock: (locks.latch("a", 3).count, locks.latch("a", 3).wait),
    }
    with redis.Redis.from_url(redis_url, decode_responses=True) as side:
        for key, calls in uses.items():
            side.hset(key, mapping=state)
            for use in calls:
                with pytest.raises(BackendError, match=r"wire format 0\.4.*delete the key") as caught:
                    use()
                assert not caught.value.transient
            assert side.hgetall(key) == state


@pytest.mark.parametrize("kind", ["semaphore", "rw", "multi"])
def test_all_holders_are_asked_to_finish(locks: LockManager, others: LockManager, kind: str) -> None:
    here: Any
    there: Any
    if kind == "semaphore":
        here, there = locks.semaphore("a", 2), others.semaphore("a", 2)
    elif kind == "rw":
        here, there = locks.rw_lock("a").write, others.rw_lock("a")
        assert others.rw_lock("a").read.request_release()
    else:
        here, there = locks.multi_lock("a", "b"), others.multi_lock("b", "c")
    with here as lease:
        assert not there.request_release()
        lease.wait_wanted()
    assert there.request_release()
