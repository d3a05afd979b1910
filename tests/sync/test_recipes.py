"""The recipes for threads: they exclude those for tasks, run in the thread that calls, and leave nothing behind."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import redis
import redis.asyncio

import aiolock.recipes
from aiolock import BackendError, ConfigurationError, LockLost, NotOwned
from aiolock.recipes import Busy, JoinFailed, NotRun, Run, RunStatus, Unavailable
from aiolock.recipes.joining import Joining
from aiolock.sync import LockManager
from aiolock.sync.recipes import (
    Election,
    current_lease,
    exclusive,
    follows,
    guard,
    leader,
    once,
    reserve,
    reserved,
    unreserve,
)
from aiolock.testing import MemoryBackend

from .conftest import ENOUGH, Worker, until, waits

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


@pytest.mark.parametrize("fails", [False, True])
def test_calls_that_join_one(locks: LockManager, others: LockManager, worker: Worker, fails: bool) -> None:
    """In threads of two processes, and those of tasks. Kept by `_join` and `_telling`."""
    ran: list[int] = []
    entered, leave = threading.Event(), threading.Event()

    def work() -> list[int]:
        ran.append(1)
        entered.set()
        assert leave.wait(ENOUGH)
        if fails:
            raise ZeroDivisionError("by zero")
        return [len(ran)]

    async def never() -> None:
        raise AssertionError

    first, second = (exclusive(one, key=lambda: NAME, busy="join")(work) for one in (locks, others))
    task = aiolock.recipes.exclusive(others._core, key=lambda: NAME, busy="join")(never)
    running = worker.begin(first)
    assert entered.wait(ENOUGH)
    with pytest.raises(Busy):
        exclusive(others, key=lambda: NAME, busy="join", timeout=0.02)(work)()
    known.clear()
    with ThreadPoolExecutor(3) as pool:
        joined = [pool.submit(second), pool.submit(first), pool.submit(lambda: others._portal.call("", task))]
        until(lambda: len(known) == 3)
        leave.set()
    if fails:
        with pytest.raises(ZeroDivisionError):
            running.result(ENOUGH)
        for one in joined:
            with pytest.raises(JoinFailed, match="ZeroDivisionError: by zero"):
                one.result(ENOUGH)
    else:
        assert [one.result(ENOUGH) for one in (running, *joined)] == [[1]] * 4
    assert len(ran) == 1


known: list[Joining] = []
"""Of each call that knows which one it has joined."""


@pytest.fixture(autouse=True)
def joins(monkeypatch: pytest.MonkeyPatch) -> None:
    ask = Joining._ask
    known.clear()

    async def noted(self: Joining, fence: int) -> Any:
        seen = await ask(self, fence)
        if fence and self not in known:
            known.append(self)
        return seen

    monkeypatch.setattr(Joining, "_ask", noted)


def test_a_call_that_joins_may_call_itself(locks: LockManager) -> None:
    @exclusive(locks, key=lambda _: NAME, busy="join")
    def work(depth: int) -> int:
        return depth if depth == 2 else work(depth + 1)

    assert work(0) == 2


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
        exclusive(lambda: asynchronous, key="a", busy="share")  # type: ignore[call-overload]


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


# Leader election.


def test_one_leads_at_a_time(locks: LockManager, others: LockManager, worker: Worker) -> None:
    """The next leads when the first resigns; who resigns for good gets its result. Kept by `_Contest.run`."""
    entered, leave = threading.Event(), threading.Event()

    def first(term: Any, stop: threading.Event) -> int:
        entered.set()
        assert leave.wait(ENOUGH)
        assert not stop.is_set()
        return int(term.fence)

    one, two = leader(locks.lock("feed")), leader(others.lock("feed"))
    assert (one.leading, one.contending) == (False, False)
    running = worker.begin(lambda: one.run(first))
    assert entered.wait(ENOUGH)
    assert (one.leading, one.contending) == (True, True)
    now = two.current()
    assert now is not None
    assert now.holder == locks._core._runtime.binding.holder
    second = threading.Thread(target=lambda: fences.append(two.run(lambda term, stop: term.fence)))
    fences: list[int | None] = []
    second.start()
    until(lambda: waits(others))
    assert (two.leading, two.contending) == (False, True)
    leave.set()
    second.join(ENOUGH)
    assert fences > [running.result(ENOUGH)]
    assert two.current() is None
    assert (one.contending, two.contending) == (False, False)


def test_it_is_told_of_a_loss_and_contends_again(locks: LockManager, others: LockManager) -> None:
    """Kept by `_tell`, and by what `_serve` makes of `LockLost`."""
    fences: list[int] = []

    def work(term: Any, stop: threading.Event) -> str:
        fences.append(term.fence)
        if len(fences) == 1:
            others.lock("feed").force_release()
            assert stop.wait(ENOUGH)
            term.ensure()
        return "done"

    assert leader(locks.lock("feed")).run(work) == "done"
    assert fences == sorted({*fences})
    assert len(fences) == 2


def test_a_result_of_a_term_that_was_lost_unnoticed(locks: LockManager, redis_url: str) -> None:
    """The release finds that: another may lead, so it is no resignation. Kept by `results.clear()`."""
    terms: list[int] = []

    def work(term: Any, stop: threading.Event) -> int:
        terms.append(term.fence)
        if len(terms) == 1:
            with redis.Redis.from_url(redis_url) as client:
                client.delete("aiolock:lock:{feed}")
        return len(terms)

    assert leader(locks.lock("feed")).run(work) == 2


def test_who_is_asked_for_its_term_gives_it_up(locks: LockManager, others: LockManager) -> None:
    """Kept by `_tell`: `wants`. What it returns then is no resignation."""
    terms: list[int] = []

    def work(term: Any, stop: threading.Event) -> str:
        terms.append(term.fence)
        if len(terms) == 1:
            others.lock("feed").request_release()
            assert stop.wait(ENOUGH)
            assert not term.lost
            return "asked"
        return "done"

    assert leader(locks.lock("feed")).run(work) == "done"


def test_a_failure_is_logged_and_it_contends_again(locks: LockManager, caplog: pytest.LogCaptureFixture) -> None:
    """Kept by `_Contest.run`: `failure`."""
    tries: list[int] = []

    def work(term: Any, stop: threading.Event) -> int:
        tries.append(1)
        if len(tries) < 3:
            raise ZeroDivisionError
        return len(tries)

    assert leader(locks.lock("feed"), backoff=0.001, max_backoff=0.002).run(work) == 3
    assert caplog.text.count("the leader's function failed in its term on 'feed'") == 2


@pytest.mark.parametrize("leads", [True, False])
def test_beside_a_service(locks: LockManager, others: LockManager, leads: bool) -> None:
    """It ends with the block, whether it leads or waits. Kept by `_Contest.stop`."""
    entered = threading.Event()
    ended: list[bool] = []

    def work(term: Any, stop: threading.Event) -> None:
        entered.set()
        assert stop.wait(ENOUGH)
        ended.append(term.lost)

    lease = None if leads else others.lock("feed").acquire()
    with leader(locks.lock("feed")).running(work) as election:
        assert isinstance(election, Election)
        if leads:
            assert entered.wait(ENOUGH)
            assert election.leading
        else:
            until(lambda: waits(locks))
    assert ended == ([False] if leads else [])
    assert not election.contending
    if lease is not None:
        lease.release()
    assert election.current() is None


def test_what_ends_it_beside_a_service(locks: LockManager, caplog: pytest.LogCaptureFixture) -> None:
    """A function that returns is a warning, and an error is raised at the end of the block."""
    with leader(locks.lock("feed")).running(lambda term, stop: None) as election:
        until(lambda: not election.contending)
    assert "which resigns permanently" in caplog.text

    def leave(term: Any, stop: threading.Event) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt), leader(locks.lock("feed")).running(leave) as election:
        until(lambda: not election.contending)
    with pytest.raises(ConfigurationError, match="before its manager was opened"):
        leader(LockManager("redis://localhost").lock("feed")).running(leave).__enter__()


def test_a_manager_that_closes_ends_it(redis_url: str) -> None:
    locks = LockManager(redis_url, request_timeout=0.2).open()
    closer = threading.Thread(target=locks.close)

    def work(term: Any, stop: threading.Event) -> None:
        closer.start()
        assert stop.wait(ENOUGH)
        closer.join(ENOUGH)

    with pytest.raises(LockLost, match="closed"):
        leader(locks.lock("feed")).run(work)


# Guarded writes.


def test_guarded_writes(locks: LockManager, others: LockManager, redis_url: str) -> None:
    """Each command, by a blocking client; and none after a loss. Kept by `_InThread`."""
    with redis.Redis.from_url(redis_url) as client:
        with locks.lock(NAME) as lease:
            orders = guard(lease, client)
            orders.set("a", "1", ttl=60.0)
            assert orders.incrby("a", 2) == 3
            assert not orders.set("a", "2", nx=True)
            assert orders.hset("b", {"paid": 1}) == 1
            assert orders.hset("b", "sent", 1, mapping={"by": "m"}) == 2
            assert orders.lpush("c", "x", "y") == 2
            assert "-" in orders.xadd("d", {"e": "f"})
            assert orders.expire("b", 60.0)
            assert orders.write(("INCRBY", "a", 1), ("DEL", "c")) == [4, 1]
            assert orders.run("return redis.call('GET', KEYS[1])", ["a"]) == b"4"
            assert orders.delete("a") == 1
        lease = locks.lock(NAME).acquire()
        orders = guard(lease, client)
        client.delete(f"aiolock:lock:{{{NAME}}}")
        with others.lock(NAME), pytest.raises(LockLost):
            orders.set("a", "stale")
        assert client.get("a") is None
        with pytest.raises(LockLost):
            lease.release()


def test_who_cannot_guard(locks: LockManager, redis_url: str) -> None:
    wrong: list[Any] = [redis.asyncio.Redis.from_url(redis_url), redis.Redis.from_url(redis_url).pipeline(), 7]
    with locks.lock(NAME) as lease, locks.semaphore(NAME, 2) as shared:
        for client in wrong:
            with pytest.raises(ConfigurationError, match="needs a blocking client"):
                guard(lease, client)
        client = redis.Redis.from_url(redis_url)
        with pytest.raises(ConfigurationError, match="shares the lock"):
            guard(shared, client)
        with pytest.raises(ConfigurationError, match="needs the lease"):
            guard(lease._core, client)  # type: ignore[arg-type]
        with pytest.raises(ConfigurationError, match="database 5"):
            guard(lease, redis.Redis.from_url(f"{redis_url.rsplit('/', 1)[0]}/5"))


# A job from enqueue to its end.


def test_a_reservation_from_enqueue_to_end(locks: LockManager, others: LockManager) -> None:
    """Over a retry, with the same ticket; the job runs in the thread that calls it. Kept by `reserved.call`."""
    errors: list[Exception] = [OSError("try again"), NotRun(NAME, "another decorator did not run it")]
    threads: list[str] = []

    @reserved(others, within=60.0, retry=OSError)
    def ship(order: str, *, ticket: str) -> str:
        threads.append(threading.current_thread().name)
        if errors:
            raise errors.pop()
        return f"shipped {order}"

    ticket = reserve(locks, NAME, within=60.0)
    assert ticket is not None
    for error in (NotRun, OSError):
        with pytest.raises(error):
            ship("42", ticket=ticket)
        assert reserve(others, NAME, within=60.0) is None
    assert ship("42", ticket=ticket) == "shipped 42"
    with pytest.raises(NotOwned):
        ship("42", ticket=ticket)
    assert threads == [threading.current_thread().name] * 3
    second = reserve(locks, NAME, within=60.0)
    assert second is not None
    assert unreserve(others, second)
    assert not unreserve(others, second)


def test_a_job_that_fails_for_good_ends_its_reservation(locks: LockManager) -> None:
    @reserved(lambda *_: locks, within=60.0)
    def ship(ticket: str) -> None:
        raise OSError

    ticket = reserve(locks, NAME, within=60.0)
    assert ticket is not None
    with pytest.raises(OSError):  # noqa: PT011
        ship(ticket)
    assert not locks.lock(NAME).is_locked()


def test_a_reservation_shorter_than_the_managers_ttl(locks: LockManager) -> None:
    """Kept by the policy in `reserve()`."""
    assert reserve(locks, NAME, within=10.0) is not None
    info = locks.lock(NAME).info()
    assert info is not None
    assert info.ttl <= 10.0


def test_a_thread_that_never_sees_its_ticket(memory: LockManager, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C came between. Kept by `unclaimed` in `reserve`."""
    unclaimed: list[Callable[[Any], object]] = []
    call = memory._portal.call

    def spy(name: str, work: Any, take_back: Any = None, certain: bool = False) -> Any:
        if take_back is not None:
            unclaimed.append(take_back)
        return call(name, work, take_back, certain)

    monkeypatch.setattr(memory._portal, "call", spy)
    ticket = reserve(memory, NAME, within=60.0)
    assert memory.lock(NAME).is_locked()

    async def interrupted() -> None:
        unclaimed[0](ticket)

    call("", interrupted)
    assert not memory.lock(NAME).is_locked()
    unclaimed[0](None)


def test_a_reserved_function_that_cannot_be(locks: LockManager) -> None:
    async def work(ticket: str) -> None: ...

    with pytest.raises(TypeError, match=r"reserved\(\) for threads decorates functions without async"):
        reserved(locks, within=60.0)(work)
    with pytest.raises(ConfigurationError, match="needs a LockManager"):
        reserved(locks._core, within=60.0)  # type: ignore[arg-type]


def test_what_a_thread_lost_and_took_again(locks: LockManager, others: LockManager) -> None:
    """Kept by `follows()` for threads."""
    lock = locks.lock(NAME)
    with lock as lease:
        old = lease.fence
    with lock as again:
        assert follows(again, old)
    with others.lock(NAME):
        pass
    with lock as again:
        assert not follows(again, old)
        with pytest.raises(ConfigurationError, match="the lease that acquire"):
            follows(again._core, old)  # type: ignore[arg-type]
