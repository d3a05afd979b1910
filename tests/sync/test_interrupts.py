"""Ctrl-C, and signals whose handlers raise: nothing stays held that nobody knows of."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import sys
import threading
import warnings
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

import aiolock.sync
from aiolock import ConfigurationError, LockLost
from aiolock.sync import Condition, FairLock, Latch, Lease, Lock, LockManager, MultiLock, RWLock, Semaphore
from aiolock.sync.call import Call
from aiolock.sync.portal import Portal
from aiolock.sync.thread_task import ThreadTask

from .conftest import Worker, in_memory, until, waits

OURS = pytest.mark.skipif(not hasattr(signal, "pthread_kill"), reason="no signals for threads on this platform")


def interrupted(do: Callable[[], object], *steps: int, files: str = "") -> list[str]:
    """Raise KeyboardInterrupt in `do` where a signal's handler might: where a function begins, and after each call of
    one that is written in C.

    Args:
        do: what is interrupted.
        steps: the first signal comes after so many of these, the next one so many after that.
        files: only in what is written in files whose names begin so.

    Returns:
        Where they came; fewer if there are fewer steps.
    """
    left, where = list(steps), list[str]()

    def profile(frame: FrameType, event: str, arg: Any) -> None:
        code = frame.f_code
        if event not in ("call", "c_return") or not left or not code.co_filename.startswith(files):
            return
        if code.co_filename == __file__ or collects(frame):
            return
        if left[0]:
            left[0] -= 1
            return
        del left[0]
        where.append(code.co_qualname if event == "call" else f"{code.co_qualname} after {arg.__name__}")
        raise KeyboardInterrupt

    def trace(frame: FrameType, event: str, arg: object) -> Any:
        frame.f_trace_lines = False
        if event == "exception" and left:
            sys.setprofile(profile)  # what it raised has switched it off
        return trace

    gc.disable()  # what it runs is not what is tested
    sys.settrace(trace)
    sys.setprofile(profile)
    try:
        do()
    except KeyboardInterrupt:
        assert where
    finally:
        sys.setprofile(None)
        sys.settrace(None)
        gc.enable()
    return where


def collects(frame: FrameType | None) -> bool:
    """Whether that runs where what is raised is swallowed: below a `__del__`, a weak reference's callback, or in a
    generator that is closed.
    """
    while frame is not None:
        if frame.f_code.co_name in ("__del__", "_remove", "<genexpr>"):
            return True
        frame = frame.f_back
    return False


def at_every_step(
    do: Callable[[], object],
    check: Callable[[list[str]], object],
    signals: int = 1,
    files: str = "",
    before: tuple[int, ...] = (),
) -> int:
    """Interrupt `do` at each step in turn; return how many there are.

    Args:
        do: what is interrupted.
        check: called after that, with the places.
        signals: each of them is followed by others at each step after it, until there are so many.
        files: see `interrupted()`.
        before: the steps of those that come first.
    """
    step = rounds = 0
    while True:
        where = interrupted(do, *before, step, files=files)
        rounds += 1
        check(where)
        if len(where) <= len(before):
            return rounds
        if signals > 1:
            rounds += at_every_step(do, check, signals - 1, files, (*before, step))
        step += 1


def block(lock: Lock) -> None:
    with lock:
        pass


def nested(lock: Lock) -> None:
    with lock, lock:
        pass


def by_hand(lock: Lock) -> None:
    lock.acquire()
    lock.release()


def entered(lock: Lock) -> None:
    lease = lock.try_acquire()
    assert lease is not None
    with lease:
        pass


def guarded(semaphore: Semaphore) -> None:
    with semaphore.acquire(2) as lease:
        lease.release(1)


def read_and_write(lock: RWLock) -> None:
    with lock.write, lock.read:
        pass


def several(lock: MultiLock) -> None:
    with lock:
        pass


def wanted(lock: FairLock) -> None:
    with lock as lease, suppress(TimeoutError):
        lease.wait_wanted(timeout=0.001)


def notified(condition: tuple[Lock, Condition]) -> None:
    with condition[0], suppress(TimeoutError):
        condition[1].wait(timeout=0.001)


def opened(latch: Latch) -> None:
    with suppress(TimeoutError):
        latch.wait(timeout=0.001)


def waited(locks: LockManager) -> tuple[Lock, Condition]:
    lock = locks.lock("a")
    return lock, locks.condition(lock)


USES: dict[Callable[[Any], object], Callable[[LockManager], object]] = {
    block: lambda locks: locks.lock("a"),
    nested: lambda locks: locks.lock("a"),
    by_hand: lambda locks: locks.lock("a"),
    entered: lambda locks: locks.lock("a"),
    guarded: lambda locks: locks.semaphore("a", 2),
    read_and_write: lambda locks: locks.rw_lock("a"),
    several: lambda locks: locks.multi_lock("a", "b"),
    wanted: lambda locks: locks.fair_lock("a"),
    notified: waited,
    opened: lambda locks: locks.latch("a", 2),
}

FILES = str(Path(aiolock.sync.__file__).parent)

BEGINS = frozenset(
    {
        *("insist", "Primitive.__exit__", "Lease.__exit__", "Lease.__enter__"),
        *("Primitive.release", "Primitive._release", "Lease.release", "Semaphore.release"),
    }
)
"""Where a signal comes as if between two statements: nothing written in Python can prevent that."""


@pytest.mark.parametrize("use", USES, ids=lambda use: str(use.__name__))
def test_what_was_interrupted_holds_nothing(memory: LockManager, worker: Worker, use: Callable[[Any], object]) -> None:
    """Wherever one signal strikes, or two, but for where a call begins. Kept by Portal.call and insist(), where that is
    used, and by Primitive.__enter__ and Lease.__enter__.
    """
    runtime, used, began = memory._core._runtime, [USES[use](memory)], list[str]()

    def check(where: list[str]) -> None:
        if where and where[-1] in BEGINS:
            began.append(where[-1])
            for hold in list(runtime.holds.values()):
                for lease in hold.leases:
                    memory._portal.post(lease._give_up, "undone")
        until(lambda: not runtime.holds and not runtime.gates)
        if where and where[-1] in BEGINS:
            used[:] = [USES[use](memory)]

    with warnings.catch_warnings(record=True) as collected:
        warnings.simplefilter("always")
        assert worker(lambda: at_every_step(lambda: use(used[0]), check)) > 30
        assert len(began) <= 6
        if use in (block, by_hand, entered):
            worker(lambda: at_every_step(lambda: use(used[0]), check, 2))
    assert len(collected) <= len(began)


@pytest.mark.parametrize("more", [0, 1, 2])
def test_an_interrupted_acquire_is_held_or_not(
    memory: LockManager, worker: Worker, monkeypatch: pytest.MonkeyPatch, more: int
) -> None:
    """What the thread did not get, it does not have, also if `more` signals come before the loop knows of the first.
    Kept by Portal.call: `unclaimed`, and each `_withdraw`.
    """
    lock, got, left = memory.lock("a"), list[Lease](), [more]

    def withdraw(portal: Portal, task: ThreadTask, call: Call[Any]) -> bool:
        left[0] -= 1
        if left[0] >= 0:
            raise KeyboardInterrupt
        return known(portal, task, call)

    known = Portal._withdraw
    monkeypatch.setattr(Portal, "_withdraw", withdraw)

    def acquire() -> None:
        left[0] = more
        got.append(lock.acquire())

    def check(where: list[str]) -> None:
        left[0] = 0
        assert lock.owned() == len(got), where
        for lease in got:
            lease.release()
        got.clear()
        assert not lock.is_locked(), where

    assert worker(lambda: at_every_step(acquire, check)) > 30


def test_an_interrupted_acquire_repairs_nothing(memory: LockManager, worker: Worker) -> None:
    """Who gets in next learns that a holder vanished before. Kept by Lease._take_back: `undone`."""
    lock, got = memory.lock("a"), list[Lease]()

    def vanish() -> None:
        lease = lock.acquire()
        lock.force_release()
        with pytest.raises(LockLost):
            lease.release()

    def check(where: list[str]) -> None:
        if got:
            got.pop().release()
        else:
            with lock as lease:
                assert lease.abandoned, where
        vanish()

    worker(vanish)
    assert worker(lambda: at_every_step(lambda: got.append(lock.acquire()), check)) > 30


def test_an_interrupted_opening_or_closing(worker: Worker) -> None:
    """The one leaves nothing open, and the other can be repeated. Kept by Portal.open, Portal.close and Portal._serve.

    A loop that begins only when its opening was given up ends at once.
    """
    made, opened = list[LockManager](), list[LockManager]()

    def use() -> None:
        opened.clear()
        made[:] = [in_memory()]
        opened.append(made[0].open())
        made[0].close()

    def check(where: list[str]) -> None:
        for manager in opened:
            manager.close()
        for manager in made:
            with manager:
                assert manager.lock("a").owned() == 0, where

    assert worker(lambda: at_every_step(use, check, files=FILES)) > 60
    assert "aiolock" not in {thread.name for thread in threading.enumerate()}


@OURS
def test_a_handler_that_closes_while_its_thread_waits(memory: LockManager, worker: Worker) -> None:
    """It would wait for itself, so it gets an error, and nothing is closed. Kept by Portal.begin_closing."""
    lock, told = memory.lock("a"), list[str]()
    lease = worker(lock.acquire)

    def handler(number: int, frame: FrameType | None) -> None:
        with pytest.raises(ConfigurationError) as error:
            memory.close()
        told.append(str(error.value))
        threading.Thread(target=lease.release).start()

    def send() -> None:
        until(lambda: waits(memory))
        os.kill(os.getpid(), signal.SIGUSR1)

    before = signal.signal(signal.SIGUSR1, handler)
    try:
        threading.Thread(target=send).start()
        with lock as mine:
            assert not mine.lost
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert "in the middle of another call" in told[0]


async def test_a_release_behind_a_call_that_is_being_cancelled() -> None:
    """It is carried out, though its thread was interrupted, too. Kept by ThreadTask.abandon: `certain`."""
    task, goes_on = ThreadTask(asyncio.get_running_loop(), lambda ended: None), asyncio.Event()
    carried_out = list[str]()

    async def release(what: str) -> None:
        carried_out.append(what)

    calls = [
        Call("a", goes_on.wait, None, False),
        Call("a", lambda: release("not certain"), None, False),
        Call("a", lambda: release("certain"), None, True),
    ]
    for call in calls:
        task.give(call)
    await asyncio.sleep(0)
    for call in calls[1:]:
        task.abandon(call)
    goes_on.set()
    await asyncio.to_thread(calls[-1].wait)
    assert carried_out == ["certain"]
    await task.stop()


@OURS
def test_ctrl_c_ends_a_wait(memory: LockManager, worker: Worker) -> None:
    """And the lock is another's then. Kept by Call.wait, which a signal interrupts, and ThreadTask.abandon."""
    lock = memory.lock("a")
    lease = worker(lock.acquire)
    main = threading.main_thread().ident
    assert threading.get_ident() == main

    def interrupt() -> None:
        until(lambda: waits(memory))
        signal.pthread_kill(main, signal.SIGINT)

    other = threading.Thread(target=interrupt)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # it is ignored in the background of a shell
    try:
        other.start()
        with pytest.raises(KeyboardInterrupt):
            lock.acquire()
        other.join()
    finally:
        signal.signal(signal.SIGINT, before)
    assert not waits(memory)
    assert lock.owned() == 0
    lease.release()
    with lock:
        assert lock.owned() == 1


@OURS
def test_a_handler_that_locks_while_its_thread_waits(memory: LockManager, worker: Worker) -> None:
    """It would wait for itself. Kept by Portal.call: `task.call`."""
    lock, told = memory.lock("a"), list[str]()
    lease = worker(lock.acquire)

    def handler(number: int, frame: FrameType | None) -> None:
        with pytest.raises(ConfigurationError) as error:
            lock.owned()
        told.append(str(error.value))
        threading.Thread(target=lease.release).start()

    def send() -> None:
        until(lambda: waits(memory))
        os.kill(os.getpid(), signal.SIGUSR1)

    before = signal.signal(signal.SIGUSR1, handler)
    try:
        threading.Thread(target=send).start()
        with lock:
            assert lock.owned() == 1
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert len(told) == 1
    assert "in the middle of another call of this thread" in told[0]
