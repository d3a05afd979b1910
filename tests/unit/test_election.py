"""Leader election, on an in-memory server with its clock: every way in which a term can end; nothing sleeps."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing, nullcontext
from itertools import pairwise
from typing import Any, cast

import anyio
import pytest

from aiolock import BackendError, ConfigurationError, Lease, LockLost, LockManager, LossReason, NotAcquired
from aiolock.core import lifecycle
from aiolock.recipes import Election, leader
from aiolock.testing import MemoryBackend

from .world import Crew, expect_loss, settle

NAME = "feed"
KEY = f"aiolock:lock:{{{NAME}}}"
TTL = 30.0
Fn = Callable[[Lease], Awaitable[Any]]


class Feed:
    """A leader's function: runs until it is cancelled, or does what `next` holds."""

    def __init__(self) -> None:
        self.terms: list[Lease] = []
        self.ended: list[str] = []
        self.next: list[Fn] = []

    async def __call__(self, term: Lease) -> object:
        self.terms.append(term)
        try:
            if self.next:
                return await self.next.pop(0)(term)
            return await asyncio.Event().wait()
        except BaseException as error:
            self.ended.append(type(error).__name__)
            raise


@pytest.fixture
def feed() -> Feed:
    return Feed()


@pytest.fixture
def there() -> Feed:
    return Feed()


def election(locks: LockManager, **options: float) -> Election:
    return leader(locks.lock(NAME, ttl=TTL), **options)


async def lead(crew: Crew, locks: LockManager, backend: MemoryBackend, fn: Fn) -> asyncio.Task[Any]:
    """Return a task that contends, and has got as far as it can."""
    task = crew.start(election(locks).run(fn))
    await settle(backend)
    return task


async def fail(term: Lease) -> None:
    raise ZeroDivisionError("of the feed")


def cancelled(then: str) -> Fn:
    """Return a function that runs until it is cancelled, and then ends, returns or fails."""

    async def run(term: Lease) -> str:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            if then == "ends":
                raise
            if then == "fails":
                raise ZeroDivisionError from None
        return "swallowed"

    return run


# Terms.


async def test_one_leads_and_the_other_waits(
    locks: LockManager, peer: LockManager, crew: Crew, backend: MemoryBackend, feed: Feed, there: Feed
) -> None:
    first = await lead(crew, locks, backend, feed)
    await lead(crew, peer, backend, there)
    await backend.clock.advance(10 * TTL)
    assert (len(feed.terms), len(there.terms)) == (1, 0)
    first.cancel()
    with pytest.raises(asyncio.CancelledError):
        await first
    await settle(backend)
    assert len(there.terms) == 1
    assert there.terms[0].fence > feed.terms[0].fence
    assert not there.terms[0].abandoned


@pytest.mark.parametrize(
    ("accident", "passes"),
    [
        (lambda backend: backend.steal(NAME), 10.0),
        (lambda backend: backend.flush(), 10.0),
        (lambda backend: backend.clock.jump(2 * TTL), 0.0),
    ],
    ids=["stolen", "flushed", "frozen"],
)
async def test_a_lost_term_ends_the_function_and_the_process_contends_again(
    locks: LockManager,
    crew: Crew,
    backend: MemoryBackend,
    feed: Feed,
    accident: Callable[[MemoryBackend], object],
    passes: float,
) -> None:
    task = await lead(crew, locks, backend, feed)
    accident(backend)
    await backend.clock.advance(passes)
    assert feed.ended == ["CancelledError"]
    assert feed.terms[0].lost
    backend.give_back(NAME)
    await settle(backend)
    assert len(feed.terms) == 2
    assert not feed.terms[1].lost
    assert not task.done()


@pytest.mark.parametrize("away", [3 * TTL, 600.0])
async def test_an_outage_of_any_length(
    locks: LockManager, crew: Crew, backend: MemoryBackend, feed: Feed, away: float
) -> None:
    """Broken by letting the BackendError of an acquire end the run."""
    task = await lead(crew, locks, backend, feed)
    with backend.outage():
        await backend.clock.advance(away)
        assert feed.ended == ["CancelledError"]
        assert feed.terms[0].reason is LossReason.UNREACHABLE
        assert not task.done()
    await backend.clock.advance(1.0)
    assert len(feed.terms) == 2


async def test_an_outage_at_the_start(
    locks: LockManager, crew: Crew, backend: MemoryBackend, feed: Feed, caplog: pytest.LogCaptureFixture
) -> None:
    with backend.outage():
        task = await lead(crew, locks, backend, feed)
        await backend.clock.advance(60.0)
        assert not task.done()
    await backend.clock.advance(1.0)
    assert len(feed.terms) == 1
    told = [record for record in caplog.records if record.name == "aiolock.leader"]
    assert [record.levelno for record in told if record.levelno > logging.INFO] == [logging.WARNING]


async def test_a_refusal_is_an_error_that_is_told_once(
    locks: LockManager, crew: Crew, backend: MemoryBackend, feed: Feed, caplog: pytest.LogCaptureFixture
) -> None:
    """Rights may come back: it goes on. Its pauses grow to the backoff's cap."""
    backend.store.hset(KEY, {"another": "type"})
    task = await lead(crew, locks, backend, feed)
    await backend.clock.advance(600.0)
    assert not task.done()
    errors = [record.getMessage() for record in caplog.records if record.levelno == logging.ERROR]
    assert len(errors) == 1
    assert "WRONGTYPE" in errors[0]
    assert 10 < backend.calls.count("acquire") < 60
    backend.store.delete(KEY)
    await backend.clock.advance(60.0)
    assert len(feed.terms) == 1


# The function.


async def test_a_function_that_returns_resigns(
    locks: LockManager, peer: LockManager, crew: Crew, backend: MemoryBackend, feed: Feed, there: Feed
) -> None:
    async def migrate(term: Lease) -> str:
        return f"done under {term.fence}"

    feed.next.append(migrate)
    task = await lead(crew, locks, backend, feed)
    assert await task == f"done under {feed.terms[0].fence}"
    assert not await peer.lock(NAME).is_locked()


async def test_a_function_that_fails_lets_another_try(
    locks: LockManager,
    peer: LockManager,
    crew: Crew,
    backend: MemoryBackend,
    feed: Feed,
    there: Feed,
    caplog: pytest.LogCaptureFixture,
) -> None:
    feed.next.append(fail)
    first = await lead(crew, locks, backend, feed)
    await lead(crew, peer, backend, there)
    assert (len(feed.terms), len(there.terms)) == (1, 1)
    assert not first.done()
    (told,) = [record for record in caplog.records if record.levelno == logging.ERROR]
    assert told.exc_info is not None
    assert isinstance(told.exc_info[1], ZeroDivisionError)
    assert told.name == "aiolock.leader"
    await backend.clock.advance(TTL)  # longer than the backoff: it is in the queue again
    peer_info = await locks.fair_lock(NAME).info()
    assert peer_info is not None
    assert peer_info.waiters == 1


async def test_the_backoff_doubles_up_to_its_cap(
    locks: LockManager, crew: Crew, backend: MemoryBackend, feed: Feed
) -> None:
    """Broken by a pause without a cap, or without growth."""
    began: list[float] = []

    async def note(term: Lease) -> None:
        began.append(backend.clock.now())
        raise ZeroDivisionError

    crew.start(election(locks, backoff=1.0, max_backoff=8.0).run(note))
    await backend.clock.advance(60.0)
    pauses = [after - before for before, after in pairwise(began)]
    for pause, longest in zip(pauses, [1.0, 2.0, 4.0, 8.0, 8.0, 8.0], strict=False):
        assert longest / 2 <= pause <= longest
    assert len(pauses) > 6
    assert len({round(pause, 3) for pause in pauses[3:]}) > 1  # jitter


async def test_a_long_term_begins_the_row_of_failures_anew(
    locks: LockManager, crew: Crew, backend: MemoryBackend, feed: Feed
) -> None:
    go_on = asyncio.Event()

    async def fail_late(term: Lease) -> None:
        await go_on.wait()
        raise ZeroDivisionError

    feed.next = [fail, fail, fail, fail_late]
    crew.start(election(locks, backoff=1.0, max_backoff=8.0).run(feed))
    await backend.clock.advance(7.0)
    assert len(feed.terms) == 4
    await backend.clock.advance(8.0)
    go_on.set()
    await backend.clock.advance(1.0)
    assert len(feed.terms) == 5


async def test_a_long_term_that_is_lost_begins_it_anew_too(
    locks: LockManager, crew: Crew, backend: MemoryBackend, feed: Feed
) -> None:
    """Broken by counting the time of terms that failed only."""
    feed.next = [fail, fail, fail, fail, cancelled("ends"), fail]
    crew.start(election(locks, backoff=1.0, max_backoff=8.0).run(feed))
    await backend.clock.advance(1.0 + 2.0 + 4.0 + 8.0)
    assert len(feed.terms) == 5
    await backend.clock.advance(TTL)
    backend.flush()
    await backend.clock.advance(10.0)
    assert feed.terms[4].lost
    await backend.clock.advance(1.0)
    assert len(feed.terms) == 7


@pytest.mark.parametrize("error", [BackendError("", "refused"), NotAcquired("", "of another lock")])
async def test_an_error_of_its_own_locks_is_a_failure(
    locks: LockManager, crew: Crew, backend: MemoryBackend, feed: Feed, error: Exception
) -> None:
    async def use_a_lock(term: Lease) -> None:
        raise error

    feed.next.append(use_a_lock)
    task = await lead(crew, locks, backend, feed)
    await backend.clock.advance(2.0)
    assert len(feed.terms) == 2
    assert not task.done()


async def test_a_loss_of_another_lock_is_a_failure(
    locks: LockManager, crew: Crew, backend: MemoryBackend, feed: Feed, caplog: pytest.LogCaptureFixture
) -> None:
    async def lose_another(term: Lease) -> None:
        raise LockLost("other", "lost", LossReason.CLOSED)

    feed.next.append(lose_another)
    task = await lead(crew, locks, backend, feed)
    assert not task.done()
    assert [record for record in caplog.records if record.exc_info]
    await backend.clock.advance(2.0)
    assert len(feed.terms) == 2


@pytest.mark.parametrize("grouped", [False, True], ids=["alone", "in a task group"])
async def test_a_loss_that_ensure_told_is_no_failure(
    locks: LockManager,
    crew: Crew,
    backend: MemoryBackend,
    feed: Feed,
    caplog: pytest.LogCaptureFixture,
    grouped: bool,
) -> None:
    async def check(term: Lease) -> None:
        backend.clock.jump(2 * TTL)
        term.ensure()

    async def block(term: Lease) -> None:
        if not grouped:
            await check(term)
        async with asyncio.TaskGroup() as group:
            group.create_task(check(term))

    feed.next.append(block)
    await lead(crew, locks, backend, feed)
    assert len(feed.terms) == 2  # without a backoff
    assert not [record for record in caplog.records if record.exc_info]


async def test_something_cancelled_that_it_awaits_is_a_failure(
    locks: LockManager, crew: Crew, backend: MemoryBackend, feed: Feed
) -> None:
    """Broken by letting any CancelledError through: the process would never contend again, without a word."""

    async def await_a_cancelled_task(term: Lease) -> None:
        inner = asyncio.create_task(asyncio.sleep(0))
        inner.cancel()
        await inner

    feed.next.append(await_a_cancelled_task)
    task = await lead(crew, locks, backend, feed)
    await backend.clock.advance(2.0)
    assert not task.done()
    assert len(feed.terms) == 2


@pytest.mark.parametrize("ends", ["lost", "wanted"])
async def test_a_cancellation_of_its_own_after_the_terms_end(
    locks: LockManager, peer: LockManager, crew: Crew, backend: MemoryBackend, feed: Feed, ends: str
) -> None:
    """No scope takes it for ours. Broken by letting it through: the process would never contend again."""

    async def await_a_cancelled_future(term: Lease) -> None:
        done = asyncio.get_running_loop().create_future()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            done.cancel()
        await done

    feed.next.append(await_a_cancelled_future)
    task = await lead(crew, locks, backend, feed)
    if ends == "lost":
        backend.flush()
        await backend.clock.advance(10.0)
    else:
        await peer.lock(NAME).request_release()
        await settle(backend)
    assert feed.ended == ["CancelledError"]
    assert not task.done()
    assert len(feed.terms) == 2


async def test_a_call_that_fails_is_a_failure(
    locks: LockManager, crew: Crew, backend: MemoryBackend, feed: Feed
) -> None:
    """What is called may be a plain function that returns an awaitable. Kept by Tenure._call."""

    def check(term: Lease) -> Awaitable[object]:
        if not feed.terms:
            feed.terms.append(term)
            raise ZeroDivisionError
        return feed(term)

    task = await lead(crew, locks, backend, check)
    await backend.clock.advance(1.0)
    assert not task.done()
    assert len(feed.terms) == 2


async def test_a_function_that_takes_no_term_is_refused_at_once(
    locks: LockManager, crew: Crew, backend: MemoryBackend
) -> None:
    """Not when it leads, hours later. Kept by Election._check."""

    async def forgot() -> None: ...

    backend.steal(NAME)
    task = await lead(crew, locks, backend, cast(Fn, forgot))
    with pytest.raises(TypeError, match="one argument, the term"):
        await task
    with pytest.raises(TypeError, match="one argument, the term"):
        async with election(locks).running(cast(Fn, forgot)):
            raise AssertionError("it has begun")


async def test_a_callable_without_a_signature_may_lead(locks: LockManager, crew: Crew, backend: MemoryBackend) -> None:
    """Kept by check_takes: `except ValueError`."""
    task = await lead(crew, locks, backend, cast(Fn, dict))
    with pytest.raises(TypeError, match="not iterable"):
        await task


@pytest.mark.parametrize("then", ["returns", "fails"])
async def test_a_function_that_swallows_the_loss(
    locks: LockManager, crew: Crew, backend: MemoryBackend, feed: Feed, then: str
) -> None:
    """It has not resigned. Broken by taking its return for its result."""
    feed.next.append(cancelled(then))
    task = await lead(crew, locks, backend, feed)
    backend.steal(NAME)
    await backend.clock.advance(10.0)
    backend.give_back(NAME)
    await backend.clock.advance(2.0)
    assert not task.done()
    assert len(feed.terms) == 2
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task  # what the loss had cancelled is not counted


async def test_a_task_group_that_fails_while_it_is_cancelled(
    locks: LockManager, crew: Crew, backend: MemoryBackend, feed: Feed
) -> None:
    async def clean_up() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            raise ZeroDivisionError

    async def group(term: Lease) -> None:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(clean_up)
            await asyncio.Event().wait()

    feed.next.append(group)
    task = await lead(crew, locks, backend, feed)
    backend.steal(NAME)
    await backend.clock.advance(10.0)
    backend.give_back(NAME)
    await backend.clock.advance(2.0)
    assert not task.done()
    assert len(feed.terms) == 2


async def test_an_error_in_one_group_with_the_cancellation(
    locks: LockManager, crew: Crew, backend: MemoryBackend, feed: Feed, caplog: pytest.LogCaptureFixture
) -> None:
    """The scope takes its cancellation out, and lets the rest through. Kept by `except ExceptionGroup`."""

    async def group(term: Lease) -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError as cancelled:
            raise BaseExceptionGroup("both", [cancelled, ZeroDivisionError()]) from None

    feed.next.append(group)
    task = await lead(crew, locks, backend, feed)
    backend.steal(NAME)
    await backend.clock.advance(10.0)
    backend.give_back(NAME)
    await backend.clock.advance(2.0)
    assert not task.done()
    assert len(feed.terms) == 2
    assert "ZeroDivisionError" in caplog.text


async def test_a_refused_release_does_not_hide_the_result(
    locks: LockManager, crew: Crew, backend: MemoryBackend, feed: Feed, caplog: pytest.LogCaptureFixture
) -> None:
    async def spoil(term: Lease) -> str:
        backend.store.delete(KEY)
        backend.store.hset(KEY, {"another": "type"})
        return "done"

    feed.next.append(spoil)
    assert await (await lead(crew, locks, backend, feed)) == "done"
    assert "lasts until its ttl" in caplog.text
    backend.store.delete(KEY)


async def test_the_locks_acquire_timeout_does_not_matter(
    locks: LockManager, crew: Crew, backend: MemoryBackend, feed: Feed
) -> None:
    backend.steal(NAME)
    task = crew.start(leader(locks.lock(NAME, acquire_timeout=1.0)).run(feed))
    await backend.clock.advance(5.0)
    assert not task.done()


async def test_a_plain_function_is_refused_at_once(locks: LockManager, crew: Crew, backend: MemoryBackend) -> None:
    task = await lead(crew, locks, backend, cast(Fn, lambda term: None))
    with pytest.raises(TypeError, match="coroutine function"):
        await task
    assert not await locks.lock(NAME).is_locked()


# Stopping.


@pytest.mark.parametrize("where", ["leading", "waiting", "backing off", "away"])
async def test_cancelled_anywhere_it_leaves_nothing(
    locks: LockManager, peer: LockManager, crew: Crew, backend: MemoryBackend, feed: Feed, where: str
) -> None:
    if where == "waiting":
        backend.steal(NAME)
    if where == "backing off":
        feed.next.append(fail)
    with backend.outage() if where == "away" else nullcontext():
        task = await lead(crew, locks, backend, feed)
        if where == "away":
            await backend.clock.advance(5.05)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    await settle(backend)
    backend.give_back(NAME)
    assert not await peer.lock(NAME).is_locked()


async def test_a_function_that_fails_when_it_is_cancelled(
    locks: LockManager, crew: Crew, backend: MemoryBackend, feed: Feed
) -> None:
    """As in any task: its error replaces the cancellation. Broken by contending again."""

    async def fail_at_the_end(term: Lease) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            raise ZeroDivisionError

    feed.next.append(fail_at_the_end)
    task = await lead(crew, locks, backend, feed)
    task.cancel()
    with pytest.raises(ZeroDivisionError):
        await task


async def test_cancelled_and_lost_at_once(locks: LockManager, crew: Crew, backend: MemoryBackend, feed: Feed) -> None:
    task = await lead(crew, locks, backend, feed)
    backend.clock.jump(2 * TTL)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert len(feed.terms) == 1


async def test_the_manager_closes_while_it_leads(backend: MemoryBackend, crew: Crew, feed: Feed) -> None:
    async with LockManager(MemoryBackend(backend)) as locks:
        task = await lead(crew, locks, backend, feed)
    with expect_loss(LossReason.CLOSED):
        await task
    assert feed.ended == ["CancelledError"]


async def test_the_manager_closes_while_it_waits(backend: MemoryBackend, crew: Crew, feed: Feed) -> None:
    async with LockManager(MemoryBackend(backend)) as locks:
        backend.steal(NAME)
        task = await lead(crew, locks, backend, feed)
    with pytest.raises(NotAcquired):
        await task


# Beside a service.


async def test_running_beside_a_service(
    locks: LockManager, peer: LockManager, backend: MemoryBackend, feed: Feed
) -> None:
    """Losses and failures do not disturb the block; its end gives leadership up."""
    feed.next = [fail]
    async with election(locks).running(feed) as mine:
        await backend.clock.advance(2.0)
        assert len(feed.terms) == 2
        assert mine.leading
        backend.steal(NAME)
        await backend.clock.advance(10.0)
        assert not mine.leading
        backend.give_back(NAME)
        await settle(backend)
        assert len(feed.terms) == 3
    assert not await peer.lock(NAME).is_locked()


@pytest.mark.parametrize(("error", "raised"), [(None, TypeError), (ZeroDivisionError, ZeroDivisionError)])
async def test_running_says_that_it_has_ended(
    locks: LockManager,
    backend: MemoryBackend,
    caplog: pytest.LogCaptureFixture,
    error: type[Exception] | None,
    raised: type[Exception],
) -> None:
    """At once in the log and for a health check, and with an error at the end of the block, unless that has one of its
    own.
    """

    async def serve() -> None:
        async with election(locks).running(cast(Fn, lambda term: None)) as mine:
            await settle(backend)
            assert "no longer contends" in caplog.text
            assert not mine.contending
            if error is not None:
                raise error

    with pytest.raises(raised):
        await serve()


async def test_running_beside_its_manager_is_refused_at_once(backend: MemoryBackend, feed: Feed) -> None:
    """It would never contend, and the service would not hear of it until its end. Kept by Election._check."""
    locks = LockManager(MemoryBackend(backend))
    with pytest.raises(ConfigurationError, match="before its manager was entered"):
        async with election(locks).running(feed), locks:
            raise AssertionError("it has begun")


class Away(MemoryBackend):
    """Cannot be opened while it is away."""

    away = True

    async def open(self, **options: Any) -> None:
        if self.away:
            raise BackendError("", "away", transient=True)
        await super().open(**options)


async def test_running_beside_a_manager_that_has_not_reached_redis(monkeypatch: pytest.MonkeyPatch, feed: Feed) -> None:
    """It contends, and leads when Redis is back. Kept by Election._check: `suppress(BackendError)`."""
    monkeypatch.setattr(lifecycle, "PAUSE", 0.0)
    locks = LockManager(backend := Away())
    await locks.open(strict=False)
    async with election(locks).running(feed) as mine:
        await backend.clock.advance(1.0)
        assert mine.contending
        assert feed.terms == []
        backend.away = False
        async with asyncio.timeout(60):
            while not feed.terms:
                await backend.clock.advance(1.0)
    await locks.close()


async def test_running_tells_of_a_resignation(
    locks: LockManager, backend: MemoryBackend, feed: Feed, caplog: pytest.LogCaptureFixture
) -> None:
    """Nobody leads any more, though each service runs. Kept by Election._run_aside."""

    async def forgot_to_loop(term: Lease) -> None: ...

    feed.next = [fail, forgot_to_loop]
    async with election(locks).running(feed) as mine:
        assert mine.contending
        await settle(backend)
        assert mine.contending  # it failed, and pauses
        assert repr(mine) == "<Election 'feed' contending>"
        await backend.clock.advance(2.0)
        assert not mine.contending
        told = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
        assert told == ["no longer contends for 'feed': the leader's function returned, which resigns permanently"]


async def test_running_ends_with_its_block_if_that_is_cancelled(
    locks: LockManager, crew: Crew, backend: MemoryBackend, feed: Feed
) -> None:
    async def serve() -> None:
        async with election(locks).running(feed):
            await asyncio.Event().wait()

    task = crew.start(serve())
    await settle(backend)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert feed.ended == ["CancelledError"]
    assert not await locks.lock(NAME).is_locked()


# A single term.


async def test_one_term(locks: LockManager, peer: LockManager, crew: Crew, backend: MemoryBackend) -> None:
    """It begins after an outage, and its end gives leadership up."""
    mine, leave = election(locks), asyncio.Event()

    async def serve() -> None:
        async with mine as term:
            await leave.wait()
            assert not term.lost

    with backend.outage():
        task = crew.start(serve())
        await backend.clock.advance(30.0)
    await backend.clock.advance(1.0)
    assert mine.leading
    leave.set()
    await task
    assert not mine.leading
    assert not await peer.lock(NAME).is_locked()


async def test_the_loss_of_a_single_term_ends_its_block(locks: LockManager, backend: MemoryBackend) -> None:
    mine = election(locks)
    with expect_loss(LossReason.TAKEN_OVER):
        async with mine:
            backend.steal(NAME)
            await backend.clock.advance(10.0)
            await asyncio.Event().wait()
    backend.give_back(NAME)
    async with mine as term:  # again
        assert not term.lost


async def test_one_block_at_a_time(locks: LockManager) -> None:
    mine = election(locks)
    async with mine:
        with pytest.raises(ConfigurationError, match="call leader"):
            await mine.__aenter__()
        assert mine.leading


async def test_a_cancelled_entry_can_be_repeated(locks: LockManager, crew: Crew, backend: MemoryBackend) -> None:
    mine = election(locks)
    backend.steal(NAME)
    waiting = crew.start(mine.__aenter__())
    await settle(backend)
    waiting.cancel()
    await asyncio.wait((waiting,))
    backend.give_back(NAME)
    async with mine:
        assert mine.leading


async def test_a_generator_that_holds_a_term_is_warned_of(locks: LockManager) -> None:
    """As with `async with lock`: the election is no frame of its own."""

    async def terms() -> AsyncIterator[int]:
        async with election(locks) as term:
            yield term.fence

    async def use() -> None:
        async with aclosing(cast(Any, terms())) as fences:
            assert await anext(fences) > 0

    with pytest.warns(RuntimeWarning, match="over a `yield`"):
        await use()


# Who leads.


async def test_who_leads(locks: LockManager, peer: LockManager, crew: Crew, backend: MemoryBackend, feed: Feed) -> None:
    mine, theirs = election(locks), election(peer)
    assert await theirs.current() is None
    crew.start(mine.run(feed))
    await settle(backend)
    now = await theirs.current()
    assert now is not None
    assert now.fence == feed.terms[0].fence
    assert (mine.leading, theirs.leading) == (True, False)
    assert repr(mine) == "<Election 'feed' leading>"
    backend.clock.jump(2 * TTL)
    assert not mine.leading  # by the clock: its loop has not run yet


async def test_changes(locks: LockManager, peer: LockManager, crew: Crew, backend: MemoryBackend, feed: Feed) -> None:
    seen: list[int | None] = []

    async def watch() -> None:
        async for now in election(peer).changes(every=1.0):
            seen.append(None if now is None else now.fence)

    crew.start(watch())
    await settle(backend)
    assert seen == [None]
    task = await lead(crew, locks, backend, feed)
    await backend.clock.advance(5.0)
    assert seen == [None, feed.terms[0].fence]
    task.cancel()
    await backend.clock.advance(5.0)
    assert seen == [None, feed.terms[0].fence, None]


async def test_an_outage_is_no_change(locks: LockManager, crew: Crew, backend: MemoryBackend, feed: Feed) -> None:
    seen: list[object] = []

    async def watch() -> None:
        async for now in election(locks).changes():
            seen.append(now)

    await lead(crew, locks, backend, feed)
    watching = crew.start(watch())
    await backend.clock.advance(2.0)
    with backend.outage():
        await backend.clock.advance(20.0)
    await backend.clock.advance(5.0)
    assert len(seen) == 1
    assert not watching.done()


@pytest.mark.parametrize("options", [{"backoff": 0}, {"backoff": 2, "max_backoff": 1}, {"max_backoff": "x"}])
def test_options_that_cannot_work(locks: LockManager, options: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError):
        leader(locks.lock(NAME), **options)


def test_only_a_lock_elects_one(locks: LockManager) -> None:
    with pytest.raises(ConfigurationError, match="needs a lock"):
        leader(cast(Any, locks.semaphore(NAME, 2)))
    leader(locks.fair_lock(NAME))


def test_a_lock_that_outlives_its_loss_elects_no_one(locks: LockManager) -> None:
    """Two would lead."""
    with pytest.raises(ConfigurationError, match="leave cancel_on_loss=False"):
        leader(locks.lock(NAME, cancel_on_loss=False))


@pytest.mark.parametrize("then", ["ends", "returns", "fails"])
async def test_asked_for_it_steps_down_and_contends_again(
    locks: LockManager, peer: LockManager, crew: Crew, backend: MemoryBackend, feed: Feed, there: Feed, then: str
) -> None:
    """Whatever the function does with its cancellation. Broken by taking its return for its result."""
    feed.next.append(cancelled(then))
    task = await lead(crew, locks, backend, feed)
    await lead(crew, peer, backend, there)
    assert not await peer.lock(NAME).request_release()
    await settle(backend)
    assert len(there.terms) == 1
    assert not feed.terms[0].lost
    await backend.clock.advance(2.0)  # longer than the backoff after a failure
    assert not await locks.lock(NAME).request_release()
    await settle(backend)
    assert len(feed.terms) == 2
    assert not task.done()


async def test_asked_for_its_clean_up_has_its_time(
    locks: LockManager, crew: Crew, backend: MemoryBackend, feed: Feed
) -> None:
    """The term is still valid. Kept by Tenure._until_wanted: broken by a scope, which cancels each await again."""
    steps: list[str] = []

    async def part() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            steps.append("part")

    async def clean_up(term: Lease) -> None:
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(part())
        finally:
            for _ in range(3):
                await asyncio.sleep(0)
            assert not term.lost
            steps.append("whole")

    feed.next.append(clean_up)
    task = await lead(crew, locks, backend, feed)
    assert not await locks.lock(NAME).request_release()
    await settle(backend)
    assert steps == ["part", "whole"]
    assert len(feed.terms) == 2
    assert not task.done()
    assert task.cancelling() == 0


async def test_a_loss_cuts_the_clean_up_of_a_step_down_off(
    locks: LockManager, crew: Crew, backend: MemoryBackend, feed: Feed
) -> None:
    """Another may lead by then. Kept by the scope around Tenure._until_wanted."""
    cut_off: list[str] = []

    async def clean_up(term: Lease) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            for _ in range(2):
                try:
                    await asyncio.Event().wait()
                except asyncio.CancelledError:
                    cut_off.append("" if term.reason is None else term.reason.value)

    feed.next.append(clean_up)
    task = await lead(crew, locks, backend, feed)
    assert not await locks.lock(NAME).request_release()
    await settle(backend)
    assert cut_off == []
    assert await locks.lock(NAME).force_release()
    await settle(backend)
    assert cut_off == ["revoked", "revoked"]
    assert len(feed.terms) == 2
    assert not task.done()
    assert task.cancelling() == 0


async def test_asked_for_in_the_moment_in_which_it_resigns(
    locks: LockManager, crew: Crew, backend: MemoryBackend, feed: Feed
) -> None:
    """It was never cancelled, so what it returned counts. Broken by looking at `term.wanted`, which is true."""
    go = asyncio.Event()

    async def migrate(term: Lease) -> str:
        await go.wait()
        return "done"

    feed.next.append(migrate)
    task = await lead(crew, locks, backend, feed)
    go.set()
    feed.terms[0]._hold.want()
    await settle(backend)
    assert task.done()
    assert await task == "done"


async def test_a_leader_that_waited_for_its_locks_condition_steps_down_too(
    locks: LockManager, peer: LockManager, crew: Crew, backend: MemoryBackend, feed: Feed
) -> None:
    """Kept by Hold.part_with and Hold.take_over: the term that it is asked for began after the wait."""

    async def waits(term: Lease) -> None:
        await locks.condition(locks.lock(NAME)).wait()
        await asyncio.Event().wait()

    feed.next.append(waits)
    await lead(crew, locks, backend, feed)
    async with peer.lock(NAME) as lease:
        await peer.condition(peer.lock(NAME)).notify()
    await settle(backend)
    assert feed.terms[0].fence > lease.fence
    assert not await peer.lock(NAME).request_release()
    await settle(backend)
    assert feed.ended == ["CancelledError"]
    assert len(feed.terms) == 2


async def test_cancelled_while_it_steps_down_it_ends(
    locks: LockManager, crew: Crew, backend: MemoryBackend, feed: Feed
) -> None:
    """The step-down must not swallow the cancellation. Seen to fail with anyio 4.6."""
    task = await lead(crew, locks, backend, feed)
    feed.terms[0]._hold.want()
    await asyncio.sleep(0)  # its function is about to be cancelled
    task.cancel()
    await settle(backend)
    assert task.cancelled()
    assert len(feed.terms) == 1
