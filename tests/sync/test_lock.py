"""The promises of a lock, for threads: on a real server, where two managers are two processes."""

# ruff: noqa: PT012 - what raises is the whole guarded block

from __future__ import annotations

import sys
import threading
import traceback
from contextlib import ExitStack
from itertools import pairwise

import pytest

from aiolock import AcquireTimeout, LockLost, LossReason, NotOwned, WaitTimeout
from aiolock.sync import Lease, LockManager

from .conftest import ENOUGH, Worker, until, waits

NAME = "order:42"


def test_one_holder_at_a_time(locks: LockManager, others: LockManager) -> None:
    """Invariant 1. Kept by Primitive._obtain."""
    here, there = locks.lock(NAME), others.lock(NAME)
    with here as lease:
        assert there.try_acquire() is None
        assert there.is_locked()
        held = there.info()
        assert held is not None
        assert held.fence == lease.fence
        with pytest.raises(AcquireTimeout) as late:
            there.acquire(timeout=0.05)
        assert late.value.holder is not None
    next_lease = there.try_acquire()
    assert next_lease is not None
    with next_lease:
        assert next_lease.fence > lease.fence
        assert here.try_acquire() is None
    assert not here.is_locked()


def test_no_increment_is_lost(locks: LockManager, others: LockManager) -> None:
    """Threads of two processes; fences rise. Kept by Blocks.find: each `with` leaves its own lease."""
    count, fences = 0, []

    def increment(manager: LockManager) -> None:
        nonlocal count
        lock = manager.lock(NAME)
        for _ in range(10):
            with lock as lease:
                seen = count
                fences.append(lease.fence)
                lease.ensure()
                count = seen + 1

    threads = [threading.Thread(target=increment, args=(each,)) for each in (locks, others) * 4]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(ENOUGH)
    assert count == 80
    assert all(one < other for one, other in pairwise(fences))
    until(lambda: len(locks._portal._tasks) <= 1)  # that of this thread


def test_a_thread_nests_and_another_does_not(memory: LockManager, worker: Worker) -> None:
    """As with `threading.RLock`. Kept by Portal.task: all calls of a thread run in one task."""
    lock = memory.lock(NAME)
    with lock as outer:
        with lock as inner:
            assert (inner.depth, outer.depth) == (2, 2)
            assert inner.fence == outer.fence
            assert lock.owned() == 2
        assert outer.depth == 1
        assert worker(lock.owned) == 0
        assert worker(lock.try_acquire) is None
        shared = worker(lambda: lock.acquire(owner=outer.owner))
        assert worker(lock.owned) == 1
        worker(lock.release)
        assert shared.released
    assert not lock.is_locked()


def test_only_the_thread_itself_releases_the_lock(memory: LockManager, worker: Worker) -> None:
    """The rule of `threading.RLock` for the lock; its lease may be released anywhere. Kept by Primitive.release."""
    lock = memory.lock(NAME)
    lease = worker(lock.acquire)
    with pytest.raises(NotOwned, match="this thread has no lease"):
        lock.release()
    assert lock.is_locked()
    lease.release()
    lease.release()
    assert not lock.is_locked()
    with pytest.raises(NotOwned):
        worker(lock.release)


def test_an_error_whose_frames_are_cleared(memory: LockManager, worker: Worker) -> None:
    """As Celery and unittest do: the thread goes on, with what it holds. Kept by `error.with_traceback()`."""
    lock = memory.lock(NAME)
    held = worker(lock.acquire)
    with memory.lock("mine") as mine:
        with pytest.raises(AcquireTimeout) as late:
            lock.acquire(timeout=0)
        traceback.clear_frames(late.value.__traceback__)
        assert memory.lock("mine").owned() == 1
        assert not mine.released
    held.release()


def test_a_block_releases_its_lease_itself(memory: LockManager) -> None:
    """Kept by Lease._guard: a block has its guard, as on the asynchronous side."""
    lock = memory.lock(NAME)
    with lock as lease:
        with pytest.raises(NotOwned, match="`with` block"):
            lock.release()
        lease.release()
        assert not lock.is_locked()
    with lock.acquire(timeout=1.0) as lease:
        assert lock.is_locked()
    assert lease.released
    with pytest.raises(NotOwned), lease:
        pass


def test_a_loss_is_told_and_the_block_runs_on(locks: LockManager, others: LockManager) -> None:
    """Kept by `split()`: a thread's lock never cancels; and by `watch_over()`."""
    told: list[tuple[Lease, str]] = []
    lock = locks.lock(NAME, on_lost=lambda lost: told.append((lost, threading.current_thread().name)))
    steps = []
    with pytest.raises(LockLost) as lost, lock as lease:
        assert others.lock(NAME).force_release()
        assert lease.wait_lost() is LossReason.REVOKED
        assert (lease.lost, lease.reason, lease.remaining()) == (True, LossReason.REVOKED, 0.0)
        with pytest.raises(LockLost):
            lease.ensure()
        steps.append("ran on")
        until(lambda: told)
    assert lost.value.reason is LossReason.REVOKED
    assert steps == ["ran on"]
    assert [(each is lease, name) for each, name in told] == [(True, f"aiolock lost {NAME}")]


def test_whoever_has_the_lease_a_loss_is_told(memory: LockManager) -> None:
    """Of each lease: also if the thread that acquired it has ended, and nobody keeps the handle. Kept by `Watcher`."""
    told: list[tuple[str, Lease]] = []
    worker, kept = Worker(), list[Lease]()
    plain, tells = memory.lock(NAME), memory.lock(NAME, on_lost=lambda lost: told.append(("outer", lost)))
    inner = memory.lock(NAME, on_lost=lambda lost: told.append(("inner", lost)))

    worker(lambda: kept.append(tells.acquire()))
    worker.end()
    until(lambda: len(memory._portal._tasks) <= 1)  # that of this thread
    plain.force_release()
    until(lambda: told)
    assert [lost for _, lost in told] == kept
    with pytest.raises(LockLost):
        kept[0].release()
    told.clear()
    with pytest.raises(LockLost), plain:
        first, second = tells.acquire(), inner.acquire()
        first.release()
        inner.acquire()
        plain.force_release()
        until(lambda: len(told) == 2)
        assert [which for which, _ in told] == ["inner", "inner"]
        assert second in [lost for _, lost in told]
        assert all(lost.lost for _, lost in told)


def test_a_watched_lease_is_not_kept(memory: LockManager) -> None:
    """Nobody is renewed who cannot release. Kept by `watch_over()`, which has it weakly."""
    told, worker = list[Lease](), Worker()
    lock = memory.lock(NAME, on_lost=told.append)

    def drops() -> None:
        worker(lambda: lock.acquire().name)
        worker.end()
        until(lambda: not lock.is_locked())

    with pytest.warns(ResourceWarning, match="unreleased"):
        drops()
    assert told == []


def test_a_block_of_a_stack(memory: LockManager) -> None:
    """It was entered by a frame that has ended; a later one may have its id. Kept by Blocks._left_by: `block.code`."""
    lock = memory.lock(NAME)
    with ExitStack() as stack:
        stack.enter_context(lock)
        (block,) = lock._blocks._open
        lock._blocks._open = [block._replace(frame=id(sys._getframe()))]
    assert not lock.is_locked()


def test_an_error_of_the_body_comes_before_its_loss(memory: LockManager) -> None:
    """Kept by Lease._leave, which gives the core the body's error."""
    with pytest.raises(ValueError, match="mine") as error, memory.lock(NAME):
        memory.lock(NAME).force_release()
        raise ValueError("mine")
    assert any("was lost meanwhile" in note for note in error.value.__notes__)


def test_a_watching_thread(memory: LockManager, worker: Worker) -> None:
    """Kept by Lease._within."""
    lease = memory.lock(NAME).acquire()
    with pytest.raises(WaitTimeout, match="was not lost"):
        lease.wait_lost(timeout=0.01)
    with pytest.raises(WaitTimeout, match="was not wanted"):
        lease.wait_wanted(timeout=0)
    watching = worker.begin(lease.wait_lost)
    until(lambda: lease._core._hold.watchers)
    lease.release()
    with pytest.raises(NotOwned):
        watching.result(ENOUGH)


def test_a_thread_waits_for_its_turn(locks: LockManager, others: LockManager, worker: Worker) -> None:
    """A release elsewhere wakes it, and `request_release()` reaches a thread."""
    lock = others.lock(NAME)
    with locks.lock(NAME) as lease:
        waiting = worker.begin(lock.acquire)
        until(lambda: waits(others))
        assert not lock.request_release()
        lease.wait_wanted(timeout=ENOUGH)
        assert lease.wanted
        assert not waiting.done()
    taken = waiting.result(ENOUGH)
    assert taken.fence > lease.fence
    taken.release()
