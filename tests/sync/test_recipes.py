"""The recipes for threads: they exclude those for tasks, run in the thread that calls, and leave nothing behind."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

import aiolock.recipes
from aiolock import BackendError, ConfigurationError, LockLost
from aiolock.recipes import Busy, NotRun, Run, RunStatus, Unavailable
from aiolock.sync import LockManager
from aiolock.sync.recipes import current_lease, exclusive, once
from aiolock.testing import MemoryBackend

from .conftest import ENOUGH, Worker

NAME = "order:42"


def away(*_: object, **__: object) -> Any:
    """The server, while it cannot be reached."""
    raise BackendError(NAME, "unreachable", transient=True)


def refusing(monkeypatch: pytest.MonkeyPatch, locks: LockManager) -> None:
    """From now on the server refuses everything."""

    async def ask(*_: object, **__: object) -> None:
        away()

    monkeypatch.setattr(type(locks._core._runtime), "ask", ask)


# One call at a time.


def test_one_call_at_a_time(locks: LockManager, others: LockManager, worker: Worker) -> None:
    """Across managers, in the thread that calls, with the arguments' key. Kept by `exclusive.call`."""
    inside: list[str] = []
    entered, leave = threading.Event(), threading.Event()

    def work(order: str) -> str:
        """Its own text."""
        lease = current_lease()
        assert lease is not None
        inside.append(threading.current_thread().name)
        entered.set()
        assert leave.wait(ENOUGH)
        return f"{lease.name} {order}"

    first = exclusive(locks, key="order:{order}")(work)
    second = exclusive(others, key="order:{order}", busy="raise")(work)
    third = exclusive(others, key="order:{order}", busy="skip")(work)
    running = worker.begin(lambda: first(order="42"))
    assert entered.wait(ENOUGH)
    with pytest.raises(Busy) as caught:
        second("42")
    assert caught.value.holder is not None
    assert caught.value.holder.process == locks._core._runtime.binding.holder
    assert third("42") is None
    leave.set()
    assert second("43") == "order:43 43"
    assert running.result(ENOUGH) == "order:42 42"
    assert inside == [inside[0], threading.current_thread().name]
    assert inside[0] != inside[1]
    assert current_lease() is None
    assert (first.__name__, first.__doc__) == ("work", "Its own text.")
    assert not locks.lock(NAME).is_locked()


def test_calls_wait_in_order(locks: LockManager) -> None:
    """And a call of the same thread nests. Kept by `take(…, "wait")`."""
    most, now = 0, 0

    @exclusive(locks, key=lambda *_: NAME)
    def work(depth: int) -> int:
        nonlocal most, now
        now += 1
        most = max(most, now - depth)
        found = work(depth + 1) if depth < 2 else depth
        now -= 1
        return found

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(work, [0] * 8)) == [2] * 8
    assert most == 1


def test_an_error_of_the_function_releases(locks: LockManager) -> None:
    @exclusive(locks, key=lambda: NAME)
    def work() -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        work()
    assert not locks.lock(NAME).is_locked()


def test_a_lost_lock_is_told_at_the_end(locks: LockManager, others: LockManager) -> None:
    """A thread cannot be cancelled. Kept by `with guard`."""
    ran: list[bool] = []

    @exclusive(locks, key=lambda: NAME)
    def work() -> None:
        others.lock(NAME).force_release()
        lease = current_lease()
        assert lease is not None
        lease.wait_lost(ENOUGH)
        ran.append(True)

    with pytest.raises(LockLost):
        work()
    assert ran == [True]


def test_in_an_outage(memory: LockManager, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    """`run` runs without the lock, which is told. Kept by `runs_without`."""
    monkeypatch.setattr(aiolock.recipes.taking.Lock, "acquire", away)

    def work() -> object:
        return current_lease()

    with pytest.raises(Unavailable):
        exclusive(memory, key=lambda: NAME)(work)()
    assert exclusive(memory, key=lambda: NAME, outage="run")(work)() is None
    assert "runs without lock" in caplog.text


class Service:
    """Has a manager, and a method that is exclusive."""

    def __init__(self, locks: LockManager) -> None:
        self.locks = locks

    @exclusive(lambda self: self.locks, key="order:{order}")
    def pay(self, order: str) -> str:
        lease = current_lease()
        assert lease is not None
        return lease.name


def test_a_method_finds_its_manager(memory: LockManager) -> None:
    assert Service(memory).pay("7") == "order:7"


async def coroutine() -> None: ...


def generator() -> Any:
    yield


@pytest.mark.parametrize("decorator", [lambda locks: exclusive(locks, key=lambda: ""), lambda locks: job(locks)])
@pytest.mark.parametrize("fn", [coroutine, generator, 7])
def test_what_does_not_end_in_its_call_is_refused(
    memory: LockManager, decorator: Callable[[LockManager], Any], fn: Any
) -> None:
    """Kept by `check_plain`."""
    with pytest.raises(TypeError, match="for threads decorates functions without async and yield"):
        decorator(memory)(fn)


def test_wrong_managers_and_options() -> None:
    asynchronous: Any = aiolock.LockManager(MemoryBackend())
    with pytest.raises(ConfigurationError, match=r"aiolock\.sync\.LockManager"):
        exclusive(7, key="a")  # type: ignore[call-overload]
    with pytest.raises(ConfigurationError, match=r"aiolock\.sync\.LockManager"):
        once(asynchronous, "a", window=1.0, repeat="never")
    with pytest.raises(ConfigurationError, match="busy must be"):
        exclusive(lambda: asynchronous, key="a", busy="join")  # type: ignore[call-overload]


# Once per window.


def job(locks: LockManager, repeat: Any = "both") -> Any:
    return once(locks, "report", window=60.0, repeat=repeat)


def test_one_run_of_many(locks: LockManager, others: LockManager) -> None:
    """Among threads of two processes, and tasks. Kept by `Once.run`."""
    with ThreadPoolExecutor(6) as pool:
        runs: list[Run[int]] = list(
            pool.map(lambda manager: job(manager).run(lambda lease: lease.fence), (locks, others) * 5)
        )
    (mine,) = [run for run in runs if run.ran]
    assert (mine.status, mine.result) == (RunStatus.SUCCEEDED, mine.fence)
    seen = others._portal.call(
        "", lambda: aiolock.recipes.once(others._core, "report", window=60.0, repeat="never").run(never)
    )
    assert (seen.ran, seen.status, seen.fence, seen.by) == (False, RunStatus.SUCCEEDED, mine.fence, mine.by)
    last = job(others).last()
    assert last is not None
    assert (last.fence, job(others).forget(), job(others).last()) == (mine.fence, True, None)
    assert job(locks).run(lambda lease: None).ran


async def never(lease: object) -> None:
    raise AssertionError


def test_a_decorated_function_has_a_window_for_each_key(locks: LockManager) -> None:
    @once(locks, "bill:{month}", window=60.0, repeat="never")
    def bill(month: str, cents: int = 1) -> tuple[str, int]:
        lease = current_lease()
        assert lease is not None
        return lease.name, cents

    first, second, third = bill("may", cents=3), bill("may"), bill("june")
    assert (first.result, second.ran, third.result) == (("bill:may", 3), False, ("bill:june", 1))
    with pytest.raises(TypeError, match="missing a required argument"):
        bill()  # type: ignore[call-arg]


def test_how_a_run_ended(locks: LockManager) -> None:
    """Kept by `Once._call`: an error fails it, Ctrl-C interrupts it, and each may be repeated if you say so."""

    def fail(lease: object) -> None:
        raise ZeroDivisionError

    def interrupt(lease: object) -> None:
        raise KeyboardInterrupt

    with pytest.raises(ZeroDivisionError):
        job(locks).run(fail)
    assert job(locks, "interrupted").run(fail).status is RunStatus.FAILED
    with pytest.raises(KeyboardInterrupt):
        job(locks, "failed").run(interrupt)
    assert job(locks, "failed").run(fail).status is RunStatus.INTERRUPTED
    assert job(locks, "interrupted").run(lambda lease: 5).result == 5
    assert not locks.lock("report").is_locked()


def test_a_run_that_lost_its_lock_was_interrupted(locks: LockManager, others: LockManager) -> None:
    """Kept by `Once._call`: `lease.lost`."""

    def work(lease: Any) -> None:
        others.lock("report").force_release()
        lease.wait_lost(ENOUGH)
        raise ZeroDivisionError

    with pytest.raises((ZeroDivisionError, LockLost)):
        job(locks).run(work)
    last = job(locks).last()
    assert last is not None
    assert last.status is RunStatus.INTERRUPTED


def test_while_another_runs(locks: LockManager, others: LockManager, worker: Worker) -> None:
    entered, leave = threading.Event(), threading.Event()

    def work(lease: object) -> int:
        entered.set()
        assert leave.wait(ENOUGH)
        return 1

    running = worker.begin(lambda: job(locks).run(work))
    assert entered.wait(ENOUGH)
    run = job(others).run(work)
    assert (run.ran, run.status, run.by) == (False, RunStatus.RUNNING, locks._core._runtime.binding.holder)
    leave.set()
    assert running.result(ENOUGH).result == 1


def test_a_manager_that_is_closed_while_a_job_runs(redis_url: str) -> None:
    """The job is told, not that its manager is closed. Kept by `Once._call`: `suppress`."""
    locks = LockManager(redis_url, request_timeout=0.2).open()
    closer = threading.Thread(target=locks.close)

    def work(lease: Any) -> None:
        closer.start()
        closer.join(ENOUGH)

    with pytest.raises(LockLost):
        job(locks).run(work)


def test_a_job_that_redis_refuses_was_not_run(memory: LockManager, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(TypeError, match="a job gets one argument"):
        job(memory).run(lambda: None)
    refusing(monkeypatch, memory)
    with pytest.raises(NotRun):
        job(memory).run(lambda lease: None)
