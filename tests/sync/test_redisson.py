"""Redisson's locks, for threads: the same as for tasks, on a real server."""

from __future__ import annotations

import pytest

from aiolock import ConfigurationError, LockLost, LossReason
from aiolock.redisson import RFairLockInfo
from aiolock.sync import LockManager
from aiolock.sync.redisson import Redisson

from .conftest import Worker, until

NAME = "order:42"


def test_a_lock_by_thread(locks: LockManager, others: LockManager, worker: Worker) -> None:
    here, there = Redisson(locks).lock(NAME), Redisson(others).lock(NAME)
    assert here.info() is None
    with here, here as inner:
        assert inner.depth == here.owned() == 2
        assert worker(here.try_acquire) is None
        assert there.try_acquire() is None
        with pytest.raises(ConfigurationError, match="has no fence"):
            _ = inner.fence
    assert not there.is_locked()


def test_fences(locks: LockManager) -> None:
    fenced = Redisson(locks).fenced_lock(NAME)
    with fenced as first:
        info = fenced.info()
        assert info is not None
        assert info.fence == first.fence
    with fenced as second:
        assert second.fence > first.fence


def test_an_end_by_force(locks: LockManager, others: LockManager) -> None:
    """It is told on the lock's channel; the thread finds it in its lease."""
    lease = Redisson(locks).lock(NAME).acquire()
    assert Redisson(others).lock(NAME).force_release()
    until(lambda: lease.lost)
    assert lease.reason is LossReason.DELETED
    with pytest.raises(LockLost):
        lease.release()


def test_a_fair_lock(locks: LockManager, others: LockManager, worker: Worker) -> None:
    here, there = Redisson(locks).fair_lock(NAME), Redisson(others).fair_lock(NAME)
    with there:
        waiting = worker.begin(here.acquire)
        until(lambda: waits_in_line(there.info()))
    worker(waiting.result().release)


def waits_in_line(info: RFairLockInfo | None) -> bool:
    assert info is not None
    return info.waiters == 1


def test_a_read_write_lock(locks: LockManager, others: LockManager) -> None:
    here, there = Redisson(locks).rw_lock(NAME), Redisson(others).rw_lock(NAME)
    with here.read, there.read:
        info = here.info()
        assert info is not None
        assert info.readers == 2
    lease = here.write.acquire()
    assert there.read.try_acquire() is None
    assert there.force_release()
    assert not here.is_locked()
    there.write.acquire().release()
    with pytest.raises(LockLost):
        lease.release()


def test_what_it_cannot_be_made_of() -> None:
    with pytest.raises(ConfigurationError, match=r"of aiolock\.sync"):
        Redisson("redis://")  # type: ignore[arg-type]


def test_permits(locks: LockManager, others: LockManager, worker: Worker) -> None:
    here, there = (Redisson(manager).permit_expirable_semaphore(NAME) for manager in (locks, others))
    assert here.try_set_permits(3)
    assert not there.try_set_permits(9)
    with here, here.acquire(2) as lease:
        assert (there.available(), there.info().used) == (0, 3)
        assert there.try_acquire() is None
        waiting = worker.begin(there.acquire)
        lease.release(1)
    worker(waiting.result().release)
    assert here.info().available == 3


def test_a_latch(locks: LockManager, others: LockManager, worker: Worker) -> None:
    here, there = (Redisson(manager).count_down_latch(NAME) for manager in (locks, others))
    assert here.try_set_count(2)
    assert not there.try_set_count(9)
    waiting = worker.begin(there.wait)
    assert here.count_down() == 1
    assert not waiting.done()
    assert here.count_down() == 0
    waiting.result()
    assert there.count() == 0
