"""The latch in one process, on an in-memory server: waiting, cancelling, closing, outages; nothing sleeps."""

from __future__ import annotations

import asyncio
import copy
import logging
import pickle
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from aiolock import BackendError, ConfigurationError, Latch, LockManager, NotAcquired, Poll, WaitTimeout
from aiolock.primitives.latch_watcher import LatchWatcher
from aiolock.scripts.commands import COMMANDS
from aiolock.scripts.latch import LatchCalls
from aiolock.testing import MemoryBackend
from tests.cancellation.stepper import Stepper, When

from .world import Crew, SlowBackend, runtime_of, settle

NAME = "import:7"
KEY = f"aiolock:latch:{{{NAME}}}"
FREE = f"{KEY}:free"
RECHECK = 5.0
PATIENCE = 5.0


@pytest.fixture
def latch(locks: LockManager) -> Latch:
    return locks.latch(NAME, 2)


@pytest.fixture
def there(peer: LockManager) -> Latch:
    return peer.latch(NAME, 2)


def queries(backend: MemoryBackend) -> int:
    return backend.calls.count("query")


async def waiting(crew: Crew, backend: MemoryBackend, latch: Latch, **options: Any) -> asyncio.Task[None]:
    """Return a task that waits, and has got as far as it can."""
    task = crew.start(latch.wait(**options))
    await settle(backend)
    return task


# Waiting.


async def test_waits_for_the_last_count(latch: Latch, there: Latch, crew: Crew, backend: MemoryBackend) -> None:
    task = await waiting(crew, backend, latch)
    assert await there.count_down() == 1
    await settle(backend)
    assert not task.done()
    assert await there.count_down() == 0
    await settle(backend)
    assert task.done()
    await task
    assert backend.clock.now() == 1_000.0  # a message woke it, no timer


async def test_an_open_latch_costs_one_query_and_no_subscription(latch: Latch, backend: MemoryBackend) -> None:
    """Kept by LatchWatcher.change: it listens only once a query found it closed."""
    await latch.count_down()
    await latch.count_down()
    backend.calls.clear()
    await latch.wait()
    await latch.wait(timeout=0)
    assert backend.calls == ["query", "query"]
    assert backend.store.numsub(FREE) == 0


async def test_many_waiters_share_two_queries_and_a_subscription(
    latch: Latch, there: Latch, locks: LockManager, crew: Crew, backend: MemoryBackend
) -> None:
    """Kept by LatchWatcher: it asks, its waiters do not."""
    tasks = [crew.start(locks.latch(NAME, 2).wait()) for _ in range(100)]
    await settle(backend)
    tasks += [crew.start(latch.wait()) for _ in range(100)]
    await settle(backend)
    assert backend.calls == ["query", "query"]
    assert backend.store.numsub(FREE) == 1
    for _ in range(2):
        await there.count_down()
    await settle(backend)
    assert all(task.done() for task in tasks)
    assert backend.calls == ["query"] * 3


async def test_an_opening_before_the_subscription_is_seen(
    latch: Latch, there: Latch, crew: Crew, peer_backend: MemoryBackend
) -> None:
    """Kept by ReleaseListener._on_message: a confirmation is a reason to ask, too."""
    await there.count_down()
    task = crew.start(latch.wait())
    await asyncio.sleep(0)
    assert queries(peer_backend) == 0
    opening = crew.start(there.count_down())  # executed after the first query, before the SUBSCRIBE
    await settle(peer_backend)
    assert task.done()
    assert opening.done()


async def test_an_opening_while_a_query_is_on_its_way_is_seen() -> None:
    """Kept by LatchWatcher.signal: `_again`. The query is executed, the latch opens, then comes its answer."""
    backend = SlowBackend()
    async with LockManager(backend) as locks, LockManager(MemoryBackend(backend)) as peer:
        there = peer.latch(NAME, 1)
        task = asyncio.create_task(locks.latch(NAME, 1).wait())
        await settle(backend)
        backend.calls.clear()
        clock = asyncio.create_task(backend.clock.advance(RECHECK))
        while queries(backend) == 0:  # noqa: ASYNC110 - it is executed between two turns
            await asyncio.sleep(0)
        await there.count_down()
        await clock
        await settle(backend)
        assert task.done()
        assert queries(backend) == 2


async def test_a_lost_message_costs_a_recheck(
    latch: Latch, crew: Crew, backend: MemoryBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Kept by LatchWatcher._next_query."""
    monkeypatch.setitem(COMMANDS, "PUBLISH", lambda store, channel, payload: 0)
    task = await waiting(crew, backend, latch)
    backend.store.hset(KEY, {"left": "0"})
    await backend.clock.advance(RECHECK - 0.1)
    assert not task.done()
    await backend.clock.advance(0.1)
    assert task.done()


async def test_its_own_opening_needs_no_message(
    latch: Latch, crew: Crew, backend: MemoryBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    """PUBLISH may be denied. Kept by Latch._counted."""
    monkeypatch.setitem(COMMANDS, "PUBLISH", lambda store, channel, payload: 0)
    task = await waiting(crew, backend, latch)
    for _ in range(2):
        await latch.count_down()
    await settle(backend)
    assert task.done()


async def test_a_timeout_names_what_is_missing(latch: Latch, there: Latch, crew: Crew, backend: MemoryBackend) -> None:
    task = await waiting(crew, backend, latch, timeout=20.0)
    await there.count_down()
    await backend.clock.advance(19.9)
    assert not task.done()
    await backend.clock.advance(0.1)
    with pytest.raises(WaitTimeout, match=r"latch 'import:7' did not open within 20 s: 1 of 2 counts are missing") as e:
        await task
    assert isinstance(e.value, TimeoutError)
    assert e.value.name == NAME
    with pytest.raises(WaitTimeout, match="within 0 s: 1 of 2"):
        await latch.wait(timeout=0)
    assert backend.store.numsub(FREE) == 0


async def test_it_looks_a_last_time(
    latch: Latch, there: Latch, crew: Crew, backend: MemoryBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The message that it is open may be lost, or denied. Kept by LatchWatcher.change: FINAL_REFRESH."""
    monkeypatch.setitem(COMMANDS, "PUBLISH", lambda store, channel, payload: 0)
    patient = await waiting(crew, backend, latch)
    hasty = await waiting(crew, backend, latch, timeout=RECHECK - 1.0)
    backend.calls.clear()
    for _ in range(2):
        await there.count_down()
    await backend.clock.advance(RECHECK - 1.2)
    assert not hasty.done()
    await backend.clock.advance(0.1)
    assert hasty.done()
    assert patient.done()
    await hasty
    assert queries(backend) == 1


async def test_a_timeout_ends_only_one_waiter(
    latch: Latch, there: Latch, locks: LockManager, crew: Crew, backend: MemoryBackend
) -> None:
    short = await waiting(crew, backend, latch, timeout=1.0)
    long = await waiting(crew, backend, latch)
    watcher = runtime_of(locks).gates["latch", NAME]
    assert isinstance(watcher, LatchWatcher)
    assert watcher.occupied()  # closing waits for them
    await backend.clock.advance(1.0)
    assert isinstance(short.exception(), WaitTimeout)
    assert len(watcher._changes) == 1
    for _ in range(2):
        await there.count_down()
    await settle(backend)
    assert long.done()


# Expiry.


async def test_waiting_keeps_it_alive(locks: LockManager, crew: Crew, backend: MemoryBackend) -> None:
    """Kept by LatchWatcher._next_query: a third of a short ttl; and by LatchWatcher.join: the longest ttl."""
    latch = locks.latch(NAME, 2, ttl=3.0)
    task = await waiting(crew, backend, latch)
    assert await latch.count_down() == 1
    await backend.clock.advance(60.0)
    assert await latch.count_down() == 0
    await settle(backend)
    assert task.done()


async def test_a_waiter_with_a_longer_ttl_keeps_it_for_longer(
    locks: LockManager, crew: Crew, backend: MemoryBackend
) -> None:
    """Kept by LatchWatcher.join."""
    await waiting(crew, backend, locks.latch(NAME, 2, ttl=3.0))
    await waiting(crew, backend, locks.latch(NAME, 2, ttl=60.0))
    await backend.clock.advance(RECHECK)
    assert backend.store.pttl(KEY) > 50_000


async def test_unused_it_expires_and_its_name_is_fresh(locks: LockManager, backend: MemoryBackend) -> None:
    latch = locks.latch(NAME, 1, ttl=10.0)
    assert await latch.count_down() == 0
    await backend.clock.advance(9.0)
    assert await latch.count() == 0  # a use
    await backend.clock.advance(9.0)
    assert await latch.count() == 0
    await backend.clock.advance(10.0)
    assert backend.store.keys() == []
    assert await latch.count() == 1


# Outages.


async def test_waiting_survives_an_outage(latch: Latch, there: Latch, crew: Crew, backend: MemoryBackend) -> None:
    task = await waiting(crew, backend, latch)
    with backend.outage():
        for _ in range(2):
            await there.count_down()
        await backend.clock.advance(60.0)
        assert not task.done() or task.result() is None
    await settle(backend)
    assert task.done()
    await task


async def test_a_reconnect_is_a_reason_to_ask(latch: Latch, crew: Crew, backend: MemoryBackend) -> None:
    """A missed message is compensated at once. Kept by ReleaseListener._on_message, which takes confirmations."""
    task = await waiting(crew, backend, latch)
    with backend.outage():
        backend.store.hset(KEY, {"left": "0"})
    await settle(backend)
    assert task.done()


async def test_a_first_query_without_an_answer_raises(latch: Latch, crew: Crew, backend: MemoryBackend) -> None:
    """Also for a second waiter, and even if both have a longer timeout."""
    with backend.outage(silent=True):
        first = await waiting(crew, backend, latch, timeout=60.0)
        await backend.clock.advance(1.0)
        second = await waiting(crew, backend, latch, timeout=60.0)
        await backend.clock.advance(PATIENCE)
        for task in (first, second):
            error = task.exception()
            assert isinstance(error, BackendError)
            assert error.transient
            assert "no answer within 5 s" in str(error)
    await settle(backend)
    assert backend.calls == []  # withdrawn


async def test_a_lost_query_is_written_again(latch: Latch, there: Latch, crew: Crew, backend: MemoryBackend) -> None:
    """Kept by LatchWatcher._query: `unanswered`."""
    backend.fail_next("request")
    task = await waiting(crew, backend, latch)
    for _ in range(2):
        await there.count_down()
    await settle(backend)
    assert task.done()
    await task


async def test_a_temporary_error_is_ignored(
    latch: Latch, crew: Crew, backend: MemoryBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    """LOADING, for example: a waiter tries again. A waiter that never had an answer gets the error."""
    task = await waiting(crew, backend, latch)
    failing = True
    original = backend._execute

    def execute(call: Any) -> Any:
        return BackendError(NAME, "LOADING", transient=True) if failing else original(call)

    monkeypatch.setattr(backend, "_execute", execute)
    await backend.clock.advance(RECHECK)
    assert not task.done()
    failing = False
    backend.store.hset(KEY, {"left": "0"})
    await backend.clock.advance(0.5)
    assert task.done()
    failing = True
    with pytest.raises(BackendError, match="LOADING"):
        await latch.wait()


@pytest.mark.parametrize("lost", ["reply", "request"])
async def test_a_resent_count_down_counts_once(latch: Latch, backend: MemoryBackend, lost: Any) -> None:
    """H16. Kept by LatchCalls.count_down: `unanswered`, and count_down.lua: `not latch[3]`."""
    backend.fail_next(lost)
    assert await latch.count_down() == 1
    assert await latch.count() == 1


async def test_an_unwritten_count_down_is_withdrawn(latch: Latch, crew: Crew, backend: MemoryBackend) -> None:
    """Kept by Services.ask."""
    with backend.outage():
        task = crew.start(latch.count_down())
        await backend.clock.advance(PATIENCE)
        with pytest.raises(BackendError, match="no answer"):
            await task
        task = crew.start(latch.count_down())
        await settle(backend)
        task.cancel()
        await settle(backend)
    await settle(backend)
    assert await latch.count() == 2


async def test_a_wrong_type_is_reported(latch: Latch, backend: MemoryBackend) -> None:
    backend.store.set(KEY, "a string", 60_000)
    for use in (latch.count(), latch.count_down(), latch.wait(), latch.wait(timeout=0)):
        with pytest.raises(BackendError, match="another type") as caught:
            await use
        assert caught.value.name == NAME
    assert backend.store.get(KEY) == "a string"
    assert backend.store.pttl(KEY) == 60_000


async def test_without_subscriptions_it_polls(
    latch: Latch, there: Latch, crew: Crew, backend: MemoryBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Kept by ReleaseListener._on_confirmed and LatchWatcher._next_query."""

    def refuse(channel: str, wake: object) -> asyncio.Future[None]:
        refused: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        refused.set_exception(BackendError("", "NOPERM: see your ACL"))
        return refused

    monkeypatch.setattr(backend, "subscribe", refuse)
    tasks = [await waiting(crew, backend, latch) for _ in range(2)]
    for _ in range(2):
        await there.count_down()
    await backend.clock.advance(Poll().cap)
    assert all(task.done() for task in tasks)
    assert queries(backend) < 20


# Closing.


async def test_closing_ends_the_waits(backend: MemoryBackend, crew: Crew) -> None:
    """At once, and without a BackendError. Kept by LatchWatcher.close and LatchWatcher.change."""
    locks = LockManager(MemoryBackend(backend))
    async with locks:
        latch = locks.latch(NAME, 2)
        tasks = [crew.start(latch.wait()), crew.start(latch.wait(timeout=60.0))]
        await settle(backend)
        tasks.append(crew.start(latch.wait()))  # one that has just begun
        tasks.append(crew.start(locks.latch("other", 2).wait()))
        await asyncio.sleep(0)
    assert all(task.done() for task in tasks)
    for task in tasks:
        error = task.exception()
        assert isinstance(error, NotAcquired)
        assert "manager was closed" in str(error)
    assert backend.clock.now() == 1_000.0
    assert backend.store.numsub(FREE) == 0
    assert runtime_of(locks).gates == {}


async def test_closing_that_is_cancelled_ends_them_too(backend: MemoryBackend, crew: Crew) -> None:
    locks = LockManager(MemoryBackend(backend))
    await locks.__aenter__()
    task = await waiting(crew, backend, locks.latch(NAME, 2))
    closing = crew.start(locks.aclose())
    await asyncio.sleep(0)
    closing.cancel()
    await settle(backend)
    assert isinstance(task.exception(), NotAcquired)
    assert not runtime_of(locks).binding.bound


async def test_outside_of_the_manager(backend: MemoryBackend) -> None:
    locks = LockManager(backend)
    latch = locks.latch(NAME, 1)
    for use in (latch.count(), latch.count_down(), latch.wait(), latch.wait(timeout=0)):
        with pytest.raises(ConfigurationError, match="before its manager was entered"):
            await use
    for _ in range(2):  # a manager that is entered again still has the latch
        async with locks:
            assert await latch.count_down() == 0
            await latch.wait()


# Cancellation.

Scenario = Callable[[LockManager], Coroutine[Any, Any, object]]
MOMENTS: tuple[When, ...] = (-1, 0, 1, 2, 4, "answer")


async def count_and_wait(locks: LockManager) -> None:
    latch = locks.latch(NAME, 2)
    await latch.count_down()
    await latch.wait(timeout=60.0)


async def query(locks: LockManager) -> None:
    latch = locks.latch(NAME, 2)
    await latch.count()
    with pytest.raises(WaitTimeout):
        await latch.wait(timeout=0)


@pytest.mark.parametrize("others_wait", [False, True], ids=["alone", "with others"])
@pytest.mark.parametrize("scenario", [count_and_wait, query])
async def test_a_cancel_at_any_await_leaves_nothing(scenario: Scenario, others_wait: bool) -> None:
    """No subscription, no timer, no memory; and no other waiter is disturbed."""
    suspensions = await run_once(scenario, {}, others_wait)
    assert suspensions >= 2
    for number in range(1, suspensions + 1):
        for moment in MOMENTS:
            await run_once(scenario, {number: moment}, others_wait)


async def run_once(scenario: Scenario, cancels: dict[int, When], others_wait: bool) -> int:
    backend = SlowBackend()
    async with LockManager(backend) as locks, LockManager(MemoryBackend(backend)) as peer:
        runtime = runtime_of(locks)
        others = [asyncio.create_task(locks.latch(NAME, 2).wait())] if others_wait else []
        stepper = Stepper(scenario(locks), cancels)

        async def act() -> None:
            await stepper

        task = asyncio.create_task(act())
        await settle(backend)
        there = peer.latch(NAME, 2)
        if others_wait or not task.done():
            while await there.count_down():
                pass
            await settle(backend)
        assert all(other.done() and not other.exception() for other in others), cancels
        assert task.done()
        assert task.cancelled() or task.exception() is None, cancels
        assert runtime.gates == {}, cancels
        assert backend.store.numsub(FREE) == 0, cancels
        assert [item for due, _, item, _ in runtime.scheduler._heap if item.due == due] == [], cancels
    return stepper.suspensions


async def test_a_cancelled_count_down_that_was_written_counts(latch: Latch, crew: Crew, backend: MemoryBackend) -> None:
    task = crew.start(latch.count_down())
    await asyncio.sleep(0)
    task.cancel()
    await settle(backend)
    assert task.cancelled()
    assert await latch.count() == 1


# Who counts, and how many.


async def test_a_name_counts_once(latch: Latch, there: Latch) -> None:
    """Kept by Latch._counter; a name and the library's own ids never collide."""
    assert await latch.count_down(by="left") == 1
    assert await there.count_down(by="left") == 1
    assert await there.count_down(by="total") == 0


async def test_the_first_count_counts(locks: LockManager, there: Latch, caplog: pytest.LogCaptureFixture) -> None:
    """Others get a warning in the log, once. Kept by Latch._agree."""
    assert await there.count() == 2
    other = locks.latch(NAME, 5)
    with caplog.at_level(logging.WARNING, "aiolock"):
        assert await other.count_down() == 1
        assert await other.count_down() == 0
        await other.wait()
    (record,) = caplog.records
    assert (
        record.getMessage() == "latch 'import:7' was made with count=2, not 5: the first use decides, until it expires"
    )
    caplog.clear()
    await locks.latch(NAME, 7).wait()
    assert len(caplog.records) == 1


@pytest.mark.parametrize("count", [0, -1, 100_001, 1.0, True, "3", None])
def test_bad_counts(count: Any) -> None:
    with pytest.raises(ConfigurationError, match="whole number from 1 to 100000") as caught:
        LockManager(MemoryBackend()).latch(NAME, count)
    assert caught.value.name == NAME


@pytest.mark.parametrize("by", ["", "x" * 513, 7, "\ud800"])
async def test_bad_counter_names(latch: Latch, by: Any) -> None:
    with pytest.raises(ConfigurationError, match=r"by= of latch 'import:7' must be text of 1 to 512 bytes") as caught:
        await latch.count_down(by=by)
    assert caught.value.name == NAME
    assert await latch.count() == 2


def test_other_bad_input() -> None:
    locks = LockManager(MemoryBackend())
    for name in ("", "x" * 513, 7):
        with pytest.raises(ConfigurationError):
            locks.latch(name, 1)  # type: ignore[arg-type]
    for ttl in (0.0, -1.0, float("inf"), "1", 31 * 24 * 3600.0):
        with pytest.raises(ConfigurationError, match="ttl"):
            locks.latch(NAME, 1, ttl=ttl)  # type: ignore[arg-type]


@pytest.mark.parametrize("timeout", [-1.0, float("nan"), "1", True])
async def test_bad_timeouts(latch: Latch, timeout: Any) -> None:
    with pytest.raises(ConfigurationError, match="timeout"):
        await latch.wait(timeout=timeout)


def test_its_repr(locks: LockManager) -> None:
    latch = locks.latch(NAME, 2)
    assert repr(latch) == "<Latch 'import:7' count=2>"
    assert latch.name == NAME
    for leave in (pickle.dumps, copy.deepcopy):
        with pytest.raises(TypeError, match="cannot leave its process"):
            leave(latch)


def test_a_lock_and_a_latch_with_the_same_name_are_independent(locks: LockManager) -> None:
    keys = runtime_of(locks).keys
    assert LatchCalls(keys, NAME, 1, 1).free_channel == FREE != keys.of("lock", NAME).free
