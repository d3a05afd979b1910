"""Calls that join one that runs, in its process and in another: two managers are two processes."""

from __future__ import annotations

import asyncio
import traceback
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from aiolock import ConfigurationError, LockLost, LockManager
from aiolock.core import gate
from aiolock.core.holding.release import Release
from aiolock.recipes import Busy, JoinFailed, NotRun, Unavailable, current_lease, exclusive, joining, sharing
from aiolock.recipes.joining import LARGEST, Joining
from aiolock.scripts.outcome import Seen
from aiolock.testing import MemoryBackend

from .places import Place, keys_of, until

NAME = "report"
OUTCOME = keys_of(NAME, "outcome").lock
Call = Callable[[], Coroutine[Any, Any, Any]]
answered: list[object] = []
"""The runtimes of managers that have joined a call."""


class Work:
    """A function that several processes have, and that goes on when it is told to."""

    def __init__(self) -> None:
        self.fences: list[int] = []
        self.begun = asyncio.Event()
        self.go = asyncio.Event()
        self.result: Any = {"rows": [1, "é"]}
        self.error: Exception | None = None

    def of(self, locks: LockManager, **options: Any) -> Call:
        @exclusive(locks, key=lambda: NAME, busy="join", **options)
        async def work() -> Any:
            lease = current_lease()
            assert lease is not None
            self.fences.append(lease.fence)
            self.begun.set()
            await self.go.wait()
            if self.error is not None:
                raise self.error
            return self.result

        return work


@pytest.fixture
def work() -> Work:
    return Work()


@pytest.fixture(autouse=True)
def asked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Note who knows whose call runs."""
    ask = Joining._ask
    answered.clear()

    async def noted(self: Joining, fence: int) -> Seen:
        seen = await ask(self, fence)
        if fence:
            answered.append(self._runtime)
        return seen

    monkeypatch.setattr(Joining, "_ask", noted)


async def joined(manager: LockManager) -> None:
    """A call of this process knows which one it has joined."""
    await until(lambda: manager._runtime in answered)


async def test_one_runs_for_all(locks: LockManager, others: LockManager, work: Work) -> None:
    """Kept by `share` and `Joining.follow`."""
    tasks = [asyncio.create_task(work.of(locks)()) for _ in range(5)]
    await work.begun.wait()
    tasks += [asyncio.create_task(work.of(others)()) for _ in range(5)]
    await joined(others)
    work.go.set()
    results = await asyncio.gather(*tasks)
    assert results == [work.result] * 10
    assert len(work.fences) == 1
    assert all(result is work.result for result in results[:5])
    assert await work.of(others)() == work.result
    assert len(work.fences) == 2  # what ended before it came is not its call
    assert not await locks.lock(NAME).is_locked()
    assert not sharing._running[locks._runtime]


async def test_a_call_that_begins_after_the_end(
    locks: LockManager, others: LockManager, work: Work, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It runs by itself, though one of its process has not yet seen that end. Kept by share: `seen_at`."""
    monkeypatch.setattr(joining, "FIRST", 0.3)  # seconds until that one looks again
    first = asyncio.create_task(work.of(others)())
    await work.begun.wait()
    second = asyncio.create_task(work.of(locks)())
    await joined(locks)
    work.go.set()
    assert await first == work.result
    work.result = "anew"
    assert await work.of(locks)() == "anew"
    assert await second == {"rows": [1, "é"]}
    assert len(work.fences) == 2


async def test_a_call_that_begins_while_the_release_is_on_its_way(locks: LockManager) -> None:
    """Breaks if `share` gives it the result of a call that has ended here, or `Joining.follow` that of the same one."""
    ran: list[int] = []
    ends = asyncio.Event()

    @exclusive(locks, key=lambda: NAME, busy="join")
    async def work() -> int:
        ran.append(1)
        return len(ran)

    class Stuck(Release):
        def write(self, left: int = 0) -> None:
            asyncio.get_running_loop().create_task(self.later(left))

        async def later(self, left: int) -> None:
            await ends.wait()
            super().write(left)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(gate, "Release", Stuck)
        first = asyncio.create_task(work())
        await until(lambda: locks._runtime.holds == {} and ran)
    second, third = (asyncio.create_task(work()) for _ in range(2))
    await joined(locks)
    assert not second.done()
    ends.set()
    assert await asyncio.gather(first, second, third) == [1, 2, 2]


@pytest.mark.parametrize("here", [True, False])
async def test_a_name_that_stays_taken_has_no_call_that_runs(
    here: bool, locks: LockManager, others: LockManager, work: Work
) -> None:
    """It runs when the name is free. Breaks if `Joining.follow` gives it what had ended; who came in time has that."""
    calls = [work.of(manager, hold_at_least=0.5) for manager in (locks, others)]
    first = asyncio.create_task(calls[0]())
    await work.begun.wait()
    second = asyncio.create_task(calls[1]())
    await joined(others)
    work.go.set()
    assert await asyncio.gather(first, second) == [work.result] * 2
    work.result = "anew"
    assert await calls[not here]() == "anew"
    assert len(work.fences) == 2


async def test_a_process_that_was_cut_off_when_its_call_ended(
    locks: LockManager, others: LockManager, work: Work, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its call had ended before the other one began. Breaks if `Joining.follow` goes by when it hears of that."""
    tell, told = Joining.tell, asyncio.Event()

    def late(self: Joining, fence: int, ended_at: float, result: object = None, error: Any = None) -> None:
        tell(self, fence, ended_at - 60.0, result, error)
        told.set()

    monkeypatch.setattr(Joining, "tell", late)
    first = asyncio.create_task(work.of(locks)())
    await work.begun.wait()
    second = asyncio.create_task(work.of(others)())
    await joined(others)
    work.go.set()
    await first
    assert await second == work.result
    assert len(work.fences) == 2


async def test_an_error_is_that_of_all(locks: LockManager, others: LockManager, work: Work) -> None:
    """In one process with its type and its text. Kept by `_fail`, and by `Joining.tell`."""
    work.error = ZeroDivisionError("by zero")
    first = [asyncio.create_task(work.of(locks)()) for _ in range(2)]
    await work.begun.wait()
    second = asyncio.create_task(work.of(others)())
    await joined(others)
    work.go.set()
    errors = await asyncio.gather(*first, second, return_exceptions=True)
    assert errors[0] is work.error
    assert repr(errors[1]) == repr(work.error)
    assert isinstance(errors[2], JoinFailed)
    assert not isinstance(errors[2], NotRun)
    assert (errors[2].error, errors[2].name) == ("ZeroDivisionError", NAME)
    assert "ZeroDivisionError: by zero" in errors[2].message
    assert len(work.fences) == 1


class OddError(Exception):
    """An error that cannot say what it is."""

    def __str__(self) -> str:
        raise ZeroDivisionError


class Coded(Exception):
    """An error whose class makes its text: to make one of its args would make that twice."""

    def __init__(self, code: str) -> None:
        super().__init__(f"failed with {code}")
        self.code = code


@pytest.mark.parametrize("error", [ValueError, Coded, OddError])
async def test_each_has_an_error_of_its_size(locks: LockManager, work: Work, error: type[Exception]) -> None:
    """Breaks if `_fail` raises what another has raised, with all the frames that this added."""
    work.error = error() if error is OddError else error("x")
    sizes: list[int] = []

    async def call() -> None:
        with pytest.raises(error) as caught:
            await work.of(locks)()
        assert vars(caught.value) == vars(work.error)
        sizes.append(len(traceback.extract_tb(caught.value.__traceback__)))

    tasks = [asyncio.create_task(call()) for _ in range(20)]
    await work.begun.wait()
    work.go.set()
    await asyncio.gather(*tasks)
    assert max(sizes) < 3 * min(sizes)


class Odd(dict[str, int]):
    """A result that has no JSON, and says so in its own way."""

    def items(self) -> Any:
        raise ZeroDivisionError


@pytest.mark.parametrize(
    ("result", "why"),
    [
        (object(), "not JSON serializable"),
        ("x" * LARGEST, "are allowed"),
        (Odd(a=1), "on: ZeroDivisionError without a text;"),
    ],
)
async def test_what_cannot_be_passed_on(
    locks: LockManager, others: LockManager, work: Work, result: object, why: str
) -> None:
    """The one who ran it has it. Kept by `_result`."""
    work.result = result
    first = asyncio.create_task(work.of(locks)())
    await work.begun.wait()
    second = asyncio.create_task(work.of(others)())
    await joined(others)
    work.go.set()
    assert await first is result
    with pytest.raises(JoinFailed, match=why) as caught:
        await second
    assert caught.value.error is None


async def test_an_error_without_a_text(locks: LockManager, others: LockManager, work: Work) -> None:
    """It is the one that is raised, and the others do not run the function again. Kept by `_text`."""
    work.error = OddError()
    calls = [asyncio.create_task(work.of(locks)())]
    await work.begun.wait()
    calls += [asyncio.create_task(work.of(manager)()) for manager in (locks, others)]
    await joined(others)
    work.go.set()
    first, second, third = await asyncio.gather(*calls, return_exceptions=True)
    assert first is second is work.error  # there is no copy of it
    assert isinstance(third, JoinFailed)
    assert (third.error, len(work.fences)) == ("OddError", 1)


async def test_a_call_that_does_not_come_to_its_end(locks: LockManager, others: LockManager, work: Work) -> None:
    """It is cancelled: one of those that joined it runs for the rest. Kept by `running.set_result(None)`, and by
    `Joining.follow`: None.
    """
    first, second = (asyncio.create_task(work.of(locks)()) for _ in range(2))
    await work.begun.wait()
    third = asyncio.create_task(work.of(others)())
    await joined(others)
    first.cancel()
    work.go.set()
    assert await asyncio.gather(second, third) == [work.result] * 2
    assert first.cancelled()
    assert 2 <= len(work.fences) <= 3


async def test_a_joiner_that_is_cancelled(locks: LockManager, work: Work) -> None:
    """The call goes on. Kept by `_end_of`: a future of its own."""
    first, second, third = (asyncio.create_task(work.of(locks)()) for _ in range(3))
    await work.begun.wait()
    second.cancel()
    await asyncio.wait([second])
    work.go.set()
    assert await asyncio.gather(first, third) == [work.result] * 2
    assert len(work.fences) == 1


async def test_a_joiner_that_leads_others_is_cancelled(locks: LockManager, others: LockManager, work: Work) -> None:
    first = asyncio.create_task(work.of(locks)())
    await work.begun.wait()
    second, third = (asyncio.create_task(work.of(others)()) for _ in range(2))
    await joined(others)
    second.cancel()
    await asyncio.wait([second])
    work.go.set()
    assert await asyncio.gather(first, third) == [work.result] * 2


async def test_the_time_to_wait(locks: LockManager, others: LockManager, work: Work) -> None:
    """Here and elsewhere. Kept by `until`."""
    first = asyncio.create_task(work.of(locks)())
    await work.begun.wait()
    for manager in (locks, others):
        with pytest.raises(Busy, match="still runs"):
            await work.of(manager, timeout=0.05)()
    work.go.set()
    await first
    assert len(work.fences) == 1


async def test_a_function_that_calls_itself(locks: LockManager) -> None:
    """It would wait for itself. Kept by `lock.owned()`."""

    @exclusive(locks, key=lambda *_: NAME, busy="join")
    async def work(depth: int) -> int:
        return depth if depth == 2 else await work(depth + 1)

    assert await asyncio.wait_for(work(0), 10) == 2


async def test_a_lock_that_is_held_for_something_else(locks: LockManager, others: LockManager, work: Work) -> None:
    """There is nothing to join, so it runs then. Kept by `Joining.follow`: None."""
    work.go.set()
    lease = await others.lock(NAME).acquire()
    task = asyncio.create_task(work.of(locks)())
    await joined(locks)
    await lease.release()
    assert await asyncio.wait_for(task, 20) == work.result


async def test_a_call_that_lost_its_lock_tells_nothing(place: Place, locks: LockManager, others: LockManager) -> None:
    """Another has begun by then, and its outcome counts. Kept by `held.lost`, and by keep.lua."""
    begun = asyncio.Event()

    @exclusive(locks, key=lambda: NAME, busy="join")
    async def stubborn() -> str:
        begun.set()
        try:
            await asyncio.sleep(60)
        finally:
            return "stale"  # noqa: B012

    task = asyncio.create_task(stubborn())
    await begun.wait()
    assert await others.lock(NAME).force_release()
    with pytest.raises(LockLost):
        await asyncio.wait_for(task, 20)
    assert OUTCOME not in {*place.keys()}


async def test_the_outcome_is_forgotten(place: Place, locks: LockManager, work: Work) -> None:
    work.go.set()
    await work.of(locks)()
    await until(lambda: OUTCOME in {*place.keys()})
    assert 0 < place.side.pttl(OUTCOME) <= 60_000


async def test_without_a_server() -> None:
    """All that wait for the same call are told at once. Kept by `except Unavailable`."""
    backend = MemoryBackend()
    ran: list[int] = []
    async with LockManager(backend, request_timeout=1.0) as locks:

        @exclusive(locks, key=lambda: NAME, busy="join")
        async def guarded() -> None:
            ran.append(1)

        @exclusive(locks, key=lambda: NAME, busy="join", outage="run")
        async def careless() -> int:
            return len(ran)

        with backend.outage():
            tasks = [asyncio.create_task(guarded()) for _ in range(3)]
            tasks += [asyncio.create_task(careless()) for _ in range(2)]  # type: ignore[arg-type]
            await backend.clock.advance(1.5)
            results = await asyncio.gather(*tasks, return_exceptions=True)
    assert [type(result) for result in results] == [Unavailable] * 3 + [int] * 2
    assert ran == []


async def test_where_there_is_none(three_urls: list[str]) -> None:
    locks = LockManager.quorum(three_urls)
    with pytest.raises(ConfigurationError, match="not offered by a quorum"):
        exclusive(locks, key=NAME, busy="join")


async def test_what_the_first_is_refused_is_told_all(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not one after the other, each after its own patience. Kept by `except Unavailable`."""
    asked: list[int] = []
    silence = asyncio.Event()

    async def take(*_: object) -> None:
        asked.append(1)
        await silence.wait()
        raise Unavailable(NAME, "no answer")

    monkeypatch.setattr(sharing, "take", take)
    async with LockManager(MemoryBackend()) as locks:

        @exclusive(locks, key=lambda: NAME, busy="join")
        async def work() -> None: ...

        tasks = [asyncio.create_task(work()) for _ in range(3)]
        await until(lambda: asked)
        silence.set()
        results = await asyncio.gather(*tasks, return_exceptions=True)
    assert [type(result) for result in results] == [Unavailable] * 3
    assert asked == [1]


async def test_an_outage_within_the_call_is_its_own(locks: LockManager) -> None:
    """It does not run once more, without the lock. Kept by `begun`."""
    ran: list[int] = []

    @exclusive(locks, key=lambda: NAME, busy="join", outage="run")
    async def work() -> None:
        ran.append(1)
        raise Unavailable("another", "no answer")

    with pytest.raises(Unavailable, match="no answer"):
        await work()
    assert ran == [1]
