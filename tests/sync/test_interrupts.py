"""Ctrl-C, and signals whose handlers raise: nothing stays held that nobody knows of."""

from __future__ import annotations

import asyncio
import linecache
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

import aiolock.sync
from aiolock import ConfigurationError, LockLost
from aiolock.sync import Lease, LockManager
from aiolock.sync.call import Call
from aiolock.sync.portal import Portal
from aiolock.sync.thread_task import ThreadTask

from .conftest import Worker, in_memory, until, waits

FILES = str(Path(aiolock.sync.__file__).parent)
OURS = pytest.mark.skipif(not hasattr(signal, "pthread_kill"), reason="no signals for threads on this platform")


@contextmanager
def interrupted_at(line: int) -> Iterator[list[str]]:
    """Raise KeyboardInterrupt in this thread before the given line, counted from 0, that it runs in `aiolock.sync`.

    Yields:
        Where that was; empty if there are fewer lines.
    """
    left, where, entered = line, list[str](), set[tuple[FrameType, int]]()

    def impossible(frame: FrameType) -> bool:
        """Whether it is a line for tracers only, where no signal's handler runs: `pass`, and a `with` that ends."""
        text = linecache.getline(frame.f_code.co_filename, frame.f_lineno).strip()
        before = (frame, frame.f_lineno) in entered
        entered.add((frame, frame.f_lineno))
        return text == "pass" or (text.startswith("with ") and before)

    def trace(frame: FrameType, event: str, arg: object) -> Any:
        nonlocal left
        if not frame.f_code.co_filename.startswith(FILES) or frame.f_code.co_name == "__del__":
            return None
        if event == "line" and not where and not impossible(frame):
            if left == 0:
                where.append(f"{frame.f_code.co_qualname}:{frame.f_lineno}")
                raise KeyboardInterrupt
            left -= 1
        return trace

    sys.settrace(trace)
    try:
        yield where
    finally:
        sys.settrace(None)


def at_every_line(do: Callable[[], object], check: Callable[[str], object]) -> int:
    """Interrupt `do` before each line in turn; return how many there are."""
    line = 0
    while True:
        with interrupted_at(line) as where:
            try:
                do()
            except KeyboardInterrupt:
                assert where
        if not where:
            return line
        check(where[0])
        line += 1


def test_an_interrupted_block_holds_nothing(memory: LockManager, worker: Worker) -> None:
    """Before whichever line the interruption comes. Kept by Primitive.__enter__, Primitive.__exit__ and Portal.call.

    Not protected is the first line of `Primitive.__exit__`, as in every `__exit__` that is written in Python.
    """
    lock, unprotected = memory.lock("a"), list[str]()

    def block() -> None:
        with lock:
            pass

    def check(where: str) -> None:
        if lock.owned() and where.startswith("Primitive.__exit__"):
            unprotected.append(where)
            lock._blocks._open.pop().lease.__exit__(None, None, None)
        assert not lock.is_locked(), where
        assert lock.owned() == 0, where
        assert not lock._blocks, where

    assert worker(lambda: at_every_line(block, check)) > 40
    assert len(unprotected) <= 2  # `frame, lease = …` and `try:`


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
        got[0].release()
        got.clear()

    def check(where: str) -> None:
        assert lock.owned() == sum(not lease.released for lease in got), where
        for lease in got:
            lease.release()
        got.clear()
        assert not lock.is_locked(), where

    assert worker(lambda: at_every_line(acquire, check)) > 20


def test_an_interrupted_acquire_repairs_nothing(memory: LockManager, worker: Worker) -> None:
    """Who gets in next learns that a holder vanished before. Kept by Lease._take_back: `undone`."""
    lock, got = memory.lock("a"), list[Lease]()

    def vanish() -> None:
        lease = lock.acquire()
        lock.force_release()
        with pytest.raises(LockLost):
            lease.release()

    def check(where: str) -> None:
        if got:
            got.pop().release()
        else:
            with lock as lease:
                assert lease.abandoned, where
        vanish()

    worker(vanish)
    assert worker(lambda: at_every_line(lambda: got.append(lock.acquire()), check)) > 20


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

    def check(where: str) -> None:
        for manager in opened:
            manager.close()
        for manager in made:
            with manager:
                assert manager.lock("a").owned() == 0, where

    assert worker(lambda: at_every_line(use, check)) > 60
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
