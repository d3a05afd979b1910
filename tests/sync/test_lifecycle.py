"""Where and when a manager for threads can be used, and how it ends."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import textwrap
import threading
from collections.abc import Iterator
from contextvars import ContextVar
from types import SimpleNamespace

import pytest

from aiolock import BackendError, ConfigurationError, LockLost, LossReason, NotAcquired
from aiolock.events import Acquired, Event
from aiolock.sync import Lease, Lock, LockManager
from tests.support import redis_cli
from tests.support.locks import held, nothing_held

from .conftest import ENOUGH, Worker, in_memory, until, waits

FORKED = """
    import contextlib, os, sys, warnings
    from aiolock import ConfigurationError
    from aiolock.sync import LockManager

    warnings.simplefilter("ignore", RuntimeWarning)  # memory:// does not cross processes
    warnings.filterwarnings("ignore", "This process .* is multi-threaded", DeprecationWarning)
    locks = LockManager("memory://")
    child = os.fork()
    if not child:
        with locks, locks.lock("a") as lease:  # opened after the fork
            os._exit(0 if lease.fence else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0

    with locks:
        lock = locks.lock("a")
        lease = lock.acquire()
        stack = contextlib.ExitStack()
        stack.enter_context(lock)
        dropped = [lock.acquire()]
        dropped[0].__enter__()
        child = os.fork()
        if not child:
            uses = [lock.acquire, lock.release, lock.info, lease.release, lease.renew, lease.wait_lost, locks.open]
            uses += [lease.ensure, lease.remaining, lease.detach, lease.__enter__, lock.owned, stack.close]
            uses += [lambda look=look: getattr(lease, look) for look in ("lost", "reason", "wanted", "released")]
            uses += [locks.semaphore("s", 1).acquire, locks.latch("l", 1).count_down, locks.rw_lock("r").read.acquire]
            uses += [locks.condition(lock).notify, locks.multi_lock("a", "b").try_acquire, locks.fair_lock("a").info]
            seen = []
            for use in uses:
                try:
                    use()
                except ConfigurationError as error:
                    seen.append("forked child" in str(error))
            locks.close()  # harmless
            dropped.clear()
            del lock, lease, locks, uses, use
            sys.exit(0 if seen == [True] * 23 else 1)
        stack.close()
        dropped[0].release()
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        lease.release()
        assert not lock.is_locked()
    print("done")
"""
LEFT_OPEN = """
    import sys, threading
    from aiolock.sync import LockManager

    locks = LockManager(sys.argv[1], request_timeout=600).open()
    lease = locks.lock("plain").acquire()
    inside = threading.Event()

    def daemon():
        with locks.lock("in a daemon thread"):
            inside.set()
            threading.Event().wait()

    def other():
        with locks.lock("other"):
            threading.main_thread().join()  # the interpreter waits for this thread, and then closes the manager
            with LockManager(sys.argv[1].replace("127.0.0.1", "localhost")) as late:  # it asks for an address
                late.lock("late").acquire().release()

    threading.Thread(target=daemon, daemon=True).start()
    threading.Thread(target=other).start()
    inside.wait()
    print("main ends")
"""


def script(source: str, *args: str) -> str:
    command = [sys.executable, "-W", "error", "-c", textwrap.dedent(source), *args]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr
    return done.stdout


def test_before_and_after() -> None:
    """Kept by Portal._check."""
    locks = in_memory()
    lock = locks.lock("a")
    with pytest.raises(ConfigurationError, match="before its manager was opened"):
        lock.acquire()
    locks.close()
    for _ in range(2):
        assert not locks.is_open
        with locks, lock as lease, pytest.raises(ConfigurationError, match="open already"):
            locks.open()
        with locks:
            assert locks.is_open
            assert locks.ping() is True
        assert not locks.is_open
        with pytest.raises(ConfigurationError, match="after its manager was closed"):
            lock.info()
    with pytest.raises(ConfigurationError, match="after its manager was closed"), lease:
        pass


def test_a_manager_that_cannot_open() -> None:
    """It leaves no thread. Kept by LockManager.open."""
    with pytest.raises(BackendError):
        LockManager("redis://127.0.0.1:1", request_timeout=0.2).open()
    assert "aiolock" not in {thread.name for thread in threading.enumerate()}


def test_a_system_without_threads_or_sockets(monkeypatch: pytest.MonkeyPatch) -> None:
    """It says so, and can be opened later. Kept by Portal.open and Portal.close."""
    locks = in_memory()

    def fails(*args: object) -> None:
        raise OSError(24, "Too many open files")

    for what in ("threading.Thread.start", "asyncio.events.new_event_loop"):
        with monkeypatch.context() as patched:
            patched.setattr(what, fails)
            with pytest.raises(OSError, match="Too many"):
                locks.open()
        with locks:
            assert not locks.lock("a").is_locked()


@pytest.mark.parametrize(
    ("patcher", "function"), [("gevent.monkey", "is_module_patched"), ("eventlet.patcher", "is_monkey_patched")]
)
def test_greenlets(monkeypatch: pytest.MonkeyPatch, patcher: str, function: str) -> None:
    """Refused if they stand for threads or sockets. Kept by `check_threads()`."""
    locks, replaced = in_memory(), {"time"}
    monkeypatch.setitem(sys.modules, patcher, SimpleNamespace(**{function: replaced.__contains__}))
    with locks:
        pass
    replaced.add("socket")
    with pytest.raises(ConfigurationError, match=r"monkey-patched socket, .* --pool=threads"):
        locks.open()


def test_a_manager_that_is_opened_again(worker: Worker) -> None:
    """Who met the earlier opening is told that it was closed. Kept by Portal._post."""
    locks = in_memory(request_timeout=0.05).open()
    entered, again = threading.Event(), threading.Event()

    def body() -> None:
        with locks.lock("a"):
            entered.set()
            assert again.wait(ENOUGH)

    running = worker.begin(body)
    assert entered.wait(ENOUGH)
    former = locks._portal.task("")
    locks.close()
    with locks:
        again.set()
        with pytest.raises(LockLost) as lost:
            running.result(ENOUGH)
        assert lost.value.reason is LossReason.CLOSED
        with pytest.raises(ConfigurationError, match="after its manager was closed"):
            locks._portal._post("", former.loop, former.thread_ended)


async def test_a_thread_with_an_event_loop_is_not_blocked(memory_in_thread: LockManager) -> None:
    """Kept by Portal._check_thread."""
    lock = memory_in_thread.lock("a")
    for use in (lock.acquire, lock.try_acquire, lock.is_locked, memory_in_thread.close, in_memory().open):
        with pytest.raises(ConfigurationError, match="runs an event loop"):
            use()
    lease = await asyncio.to_thread(lock.acquire)
    assert not lease.lost
    assert lease.remaining() > 0
    with pytest.raises(ConfigurationError, match="runs an event loop"):
        lease.release()
    await asyncio.to_thread(lease.release)


@pytest.fixture
def memory_in_thread(worker: Worker) -> Iterator[LockManager]:
    """Opened and closed where no loop runs."""
    locks = in_memory()
    worker(locks.open)
    yield locks
    worker(locks.close)


def test_an_observer() -> None:
    """It runs on the manager's loop, with the context variables of the thread that acquires. Kept by Call.run.

    It cannot use the lock: it would wait for itself. Kept by Portal._check_thread.
    """
    request: ContextVar[str] = ContextVar("request", default="none")
    seen: list[str] = []
    errors: list[str] = []

    def observe(event: Event) -> None:
        if isinstance(event, Acquired):
            seen.append(request.get())
            try:
                locks.lock("b").acquire()
            except ConfigurationError as error:
                errors.append(str(error))

    locks = in_memory(observer=observe)
    with locks:
        token = request.set("mine")
        with locks.lock("a"):
            request.reset(token)
        with locks.lock("a"):
            pass
    assert seen == ["mine", "none"]
    assert "on the manager's own event loop" in errors[0]


def test_closing_ends_waits(worker: Worker) -> None:
    """Kept by the core's closing; and by Portal.close for what came too late."""
    locks = in_memory().open()
    lease = locks.lock("a").acquire()
    waiting = worker.begin(locks.lock("a").acquire)
    until(lambda: waits(locks))
    locks.close()
    with pytest.raises(NotAcquired):
        waiting.result(ENOUGH)
    assert lease.reason is LossReason.CLOSED


def test_closing_waits_for_blocks(worker: Worker, redis_url: str) -> None:
    """And loses their locks; a block that ends in time gives its key back. Kept by Lease._guard."""
    locks = LockManager(redis_url).open()
    entered = threading.Event()

    def body() -> LossReason:
        with locks.lock("a") as lease:
            entered.set()
            return lease.wait_lost()

    running = worker.begin(body)
    assert entered.wait(ENOUGH)
    locks.close()
    with pytest.raises(LockLost) as lost:
        running.result(ENOUGH)
    assert lost.value.reason is LossReason.CLOSED
    with redis_cli.client(redis_url) as client:
        assert nothing_held(client)


def test_a_block_that_outlasts_its_manager(worker: Worker) -> None:
    """It tells its loss all the same. Kept by Lease._exit."""
    locks = in_memory(request_timeout=0.05).open()
    entered, closed = threading.Event(), threading.Event()

    def body() -> None:
        with locks.lock("a"):
            entered.set()
            assert closed.wait(ENOUGH)

    running = worker.begin(body)
    assert entered.wait(ENOUGH)
    locks.close()
    closed.set()
    with pytest.raises(LockLost) as lost:
        running.result(ENOUGH)
    assert lost.value.reason is LossReason.CLOSED


@pytest.mark.filterwarnings("default::ResourceWarning")
def test_a_lease_of_a_thread_that_ended(memory: LockManager) -> None:
    """Released once nobody can release it. Kept by ThreadTask.thread_ended."""
    lock, worker, kept = memory.lock("a"), Worker(), list[Lease]()
    worker(lambda: kept.append(lock.acquire()))
    worker.end()
    until(lambda: len(memory._portal._tasks) == 1)  # this thread's
    assert lock.is_locked()
    with pytest.warns(ResourceWarning, match="unreleased"):
        kept.clear()
    assert not lock.is_locked()


def test_a_generator_goes_from_thread_to_thread(memory: LockManager) -> None:
    """As a dependency of FastAPI does; the first thread may end meanwhile. Kept by ThreadTask.entered, Blocks.find."""
    lock, one, two = memory.lock("a"), Worker(), Worker()

    def dependency(lock: Lock) -> Iterator[Lease]:
        with lock as lease:
            yield lease

    first, second = dependency(lock), dependency(lock)
    lease = one(lambda: next(first))
    again = one(lambda: next(second))
    one.end()
    assert two(lock.owned) == 0
    assert lock.is_locked()
    assert two(lambda: next(first, None)) is None
    assert (lease.released, again.released, again.depth) == (True, False, 1)
    two(second.close)
    two.end()
    assert not lock.is_locked()
    until(lambda: len(memory._portal._tasks) == 1)


async def test_a_block_that_an_event_loop_leaves(memory_in_thread: LockManager) -> None:
    """As the garbage collector does there: nothing may wait, so it is given back later. Kept by Lease._exit."""
    lock = memory_in_thread.lock("a")

    def locked() -> Iterator[Lease]:
        with lock as lease:
            yield lease

    generator = locked()
    lease = await asyncio.to_thread(next, generator)
    with pytest.raises(ConfigurationError, match="runs an event loop"):
        generator.close()
    await asyncio.to_thread(until, lambda: lease.released)
    assert not await asyncio.to_thread(lock.is_locked)


@pytest.mark.skipif(not hasattr(__import__("os"), "fork"), reason="no fork on this platform")
def test_a_fork() -> None:
    """Open it afterwards. Kept by Portal._check_process, Lease._own, and Lease.__del__."""
    assert script(FORKED) == "done\n"


@pytest.mark.skipif(
    (3, 12) <= sys.version_info < (3, 12, 3),
    reason="no thread can begin once the main one has ended: https://github.com/python/cpython/issues/113964",
)
def test_an_interpreter_that_exits_closes_it(redis_url: str) -> None:
    """After its other threads, which can still connect; only what a daemon thread holds is left to expire, and nothing
    waits for that thread, which does not run any more.

    Kept by Portal.open, by Executor.submit, and by Lifecycle.close: `waits`.
    """
    assert script(LEFT_OPEN, redis_url) == "main ends\n"
    with redis_cli.client(redis_url) as client:
        assert [name for name in ("plain", "other", "in a daemon thread") if held(client, name)] == [
            "in a daemon thread"
        ]
