"""A job that runs at most once per window, on an in-memory server: losses, outages, cancellations; nothing sleeps."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any, cast

import pytest

import aiolock.sync
from aiolock import AcquireTimeout, BackendError, ConfigurationError, Lease, LockLost, LockManager, LossReason
from aiolock.recipes import Once, RunStatus, Unavailable, once
from aiolock.testing import MemoryBackend

from .world import Crew, SlowBackend, expect_loss, settle

NAME = "report"
WINDOW = 100.0
TTL = 30.0


class Work:
    def __init__(self) -> None:
        self.begun = 0
        self.go = asyncio.Event()
        self.go.set()

    async def __call__(self, lease: Lease) -> str:
        self.begun += 1
        await self.go.wait()
        return "done"


@pytest.fixture
def work() -> Work:
    return Work()


def job(locks: LockManager, repeat: Any = "never", **options: Any) -> Once:
    return once(locks, NAME, window=WINDOW, repeat=repeat, ttl=TTL, **options)


async def status(locks: LockManager) -> str | None:
    last = await job(locks).last()
    return None if last is None else last.status.value


async def test_the_window_passes(locks: LockManager, peer: LockManager, backend: MemoryBackend, work: Work) -> None:
    assert (await job(locks).run(work)).ran
    await backend.clock.advance(WINDOW - 1)
    late = await job(peer).run(work)
    assert (late.ran, late.status, round(late.age), round(late.left)) == (False, RunStatus.SUCCEEDED, 99, 1)
    await backend.clock.advance(1)
    assert (await job(peer).run(work)).ran


async def test_a_run_that_is_longer_than_its_window_stays_alone(
    locks: LockManager, peer: LockManager, crew: Crew, backend: MemoryBackend, work: Work
) -> None:
    """Kept by last_run and `HELD`: its record is gone, but not its lock."""
    fences: list[int] = []

    async def note(lease: Lease) -> str:
        fences.append(lease.fence)
        return await work(lease)

    work.go.clear()
    task = crew.start(job(locks).run(note))
    await backend.clock.advance(2 * WINDOW)
    run, last = await job(peer).run(work), await job(peer).last()
    assert run == last
    assert (run.ran, run.status, run.left) == (False, RunStatus.RUNNING, 0.0)
    assert run.fence == fences[0]
    assert round(run.age) == 2 * WINDOW
    assert run.by
    work.go.set()
    await backend.clock.advance(0)
    mine = await task
    assert (mine.ran, mine.left) == (True, 0.0)
    assert round(mine.age) == 2 * WINDOW


@pytest.mark.parametrize("repeat", ["never", "failed", "interrupted", "both"])
async def test_a_process_that_dies(
    locks: LockManager, peer: LockManager, backend: MemoryBackend, crew: Crew, work: Work, repeat: str
) -> None:
    """Its lock runs out, and says so. Whether another run follows is a choice."""
    work.go.clear()
    task = crew.start(job(locks).run(work))
    await settle(backend)
    backend.expire(NAME)
    assert await status(peer) == "interrupted"
    again = Work()
    run = await job(peer, repeat).run(again)
    assert run.ran == (repeat in ("interrupted", "both"))
    assert again.begun == run.ran
    await backend.clock.advance(10.0)
    with pytest.raises(LockLost):
        await task
    assert await status(peer) == ("succeeded" if run.ran else "interrupted")


async def test_a_lost_run_that_returns_all_the_same_counts_unless_another_began(
    locks: LockManager, peer: LockManager, backend: MemoryBackend, work: Work
) -> None:
    async def block(lease: Lease) -> None:
        backend.clock.jump(2 * TTL)
        await asyncio.sleep(0)

    async def ignore(lease: Lease) -> None:
        backend.clock.jump(2 * TTL)

    with expect_loss(LossReason.LOOP_BLOCKED):
        await job(locks).run(ignore)
    await settle(backend)
    assert await status(peer) == "succeeded"
    await job(locks).forget()
    with pytest.raises(LockLost):
        await job(locks).run(block)
    await settle(backend)
    assert await status(peer) == "interrupted"


@pytest.mark.parametrize("grouped", [False, True], ids=["alone", "in a task group"])
async def test_ensure_tells_an_interruption_not_a_failure(
    locks: LockManager, peer: LockManager, backend: MemoryBackend, grouped: bool
) -> None:
    async def check(lease: Lease) -> None:
        backend.clock.jump(2 * TTL)
        lease.ensure()

    async def block(lease: Lease) -> None:
        if not grouped:
            await check(lease)
        async with asyncio.TaskGroup() as group:
            group.create_task(check(lease))

    with pytest.raises(ExceptionGroup if grouped else LockLost):
        await job(locks).run(block)
    await settle(backend)
    assert await status(peer) == "interrupted"


async def test_a_driver_that_hides_the_loss_hides_no_interruption(
    locks: LockManager, peer: LockManager, crew: Crew, backend: MemoryBackend
) -> None:
    """Kept by `not lease.lost` in Once._call: some drivers make an error of their own of a cancellation."""

    async def query(lease: Lease) -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            raise ConnectionError("closed in the middle of operation") from None

    task = crew.start(job(locks).run(query))
    await settle(backend)
    backend.steal(NAME)
    await backend.clock.advance(10.0)
    with pytest.raises(ConnectionError):
        await task
    await settle(backend)
    assert await status(peer) == "interrupted"


@pytest.mark.parametrize("error", [ZeroDivisionError(), BackendError("", "refused"), AcquireTimeout("", "of another")])
async def test_an_error_of_the_function_is_its_failure(
    locks: LockManager, peer: LockManager, backend: MemoryBackend, error: Exception
) -> None:
    async def fail(lease: Lease) -> None:
        raise error

    with pytest.raises(type(error)) as caught:
        await job(locks).run(fail)
    assert caught.value is error
    assert await status(peer) == "failed"


async def test_a_plain_function_is_refused(locks: LockManager) -> None:
    with pytest.raises(TypeError, match="coroutine function"):
        await job(locks).run(cast(Any, lambda lease: None))


async def test_a_function_without_a_parameter_keeps_no_window(locks: LockManager, backend: MemoryBackend) -> None:
    """Kept by check_takes: a mistake that shows at two o'clock would cost the night's run."""
    with pytest.raises(TypeError, match="one argument, the lease"):
        await job(locks).run(cast(Any, lambda: None))
    assert backend.calls == []


@pytest.mark.parametrize("thief", [False, True], ids=["has run", "runs"])
async def test_another_one_was_faster(locks: LockManager, backend: MemoryBackend, work: Work, thief: bool) -> None:
    """It began after this process had looked. Broken by taking the lock for the right to run."""
    post = backend.post

    def posts(call: Any) -> Any:
        if call.script.name == "acquire":
            kept = {"version": "0.3", "fence": "7", "started": "1", "status": "succeeded", "process": "web-3:4711"}
            backend.store.hset(f"aiolock:once:{{{NAME}}}", kept)
            backend.store.pexpire(f"aiolock:once:{{{NAME}}}", 1000)
            if thief:
                backend.steal(NAME)
        return post(call)

    cast(Any, backend).post = posts
    found = await job(locks, "both").run(work)
    cast(Any, backend).post = post
    assert (found.ran, found.status, found.fence, found.by) == (False, RunStatus.SUCCEEDED, 7, "web-3:4711")
    assert work.begun == 0


# Outages.


@pytest.mark.parametrize("lost", ["request", "reply"])
@pytest.mark.parametrize("call", range(5))
async def test_a_connection_that_dies_at_any_call(
    locks: LockManager, peer: LockManager, backend: MemoryBackend, work: Work, lost: Any, call: int
) -> None:
    """Nothing runs twice. Broken by a request that means another run when it is written again."""
    post, dying = backend.post, iter(range(5))

    def posts(request: Any) -> Any:
        if next(dying, None) == call:
            backend.fail_next(lost)
        return post(request)

    cast(Any, backend).post = posts
    assert (await job(locks).run(work)).ran
    cast(Any, backend).post = post
    await settle(backend)
    assert await status(peer) == "succeeded"
    assert not (await job(peer, "both").run(work)).ran
    assert work.begun == 1


@pytest.mark.parametrize("script", ["last_run", "acquire", "begin", "finish", "release"])
async def test_an_outage_says_whether_the_function_ran(
    locks: LockManager, backend: MemoryBackend, work: Work, script: str
) -> None:
    """An `Unavailable` says that it did not. Kept by `before_it_runs`."""
    post = backend.post

    def posts(request: Any) -> Any:
        if request.script.name == script:
            key = (
                f"aiolock:once:{{{NAME}}}" if script in ("last_run", "begin", "finish") else f"aiolock:lock:{{{NAME}}}"
            )
            backend.store.delete(key)
            backend.store.hset(key, {"another": "type"}) if key.startswith("aiolock:lock") else backend.store.set(
                key, "a string", 1000
            )
        return post(request)

    cast(Any, backend).post = posts
    if script == "finish":  # the success may not be recorded, which a WARNING says
        assert (await job(locks).run(work)).ran
    else:
        with pytest.raises(BackendError) as caught:
            await job(locks).run(work)
        assert isinstance(caught.value, Unavailable) == (work.begun == 0)
    assert work.begun == (script in ("finish", "release"))


async def test_away_at_the_start(
    locks: LockManager, peer: LockManager, backend: MemoryBackend, crew: Crew, work: Work
) -> None:
    with backend.outage():
        task = crew.start(job(locks).run(work))
        await backend.clock.advance(6.0)
        with pytest.raises(Unavailable):
            await task
    assert (await job(peer).run(work)).ran


@pytest.mark.parametrize("away", [20.0, 300.0])
async def test_away_at_the_end_the_success_is_kept(
    locks: LockManager,
    peer: LockManager,
    backend: MemoryBackend,
    crew: Crew,
    work: Work,
    away: float,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Also in an outage that is longer than the ttl. Broken by taking the request back after its timeout."""
    work.go.clear()
    task = crew.start(once(locks, NAME, window=1000.0, repeat="both", ttl=TTL).run(work))
    await settle(backend)
    with backend.outage():
        work.go.set()
        await backend.clock.advance(away)
        run = await task
        assert (run.ran, run.result) == (True, "done")
        assert "may not be recorded" in caplog.text
    await settle(backend)
    assert await status(peer) == "succeeded"


async def test_a_refused_end_does_not_hide_the_result(
    locks: LockManager, backend: MemoryBackend, caplog: pytest.LogCaptureFixture
) -> None:
    async def spoil(lease: Lease) -> str:
        backend.store.delete(f"aiolock:once:{{{NAME}}}")
        backend.store.set(f"aiolock:once:{{{NAME}}}", "a string", 1000)
        return "done"

    assert (await job(locks).run(spoil)).result == "done"
    assert "WRONGTYPE" in caplog.text


# Cancellations.


async def test_cancelled_at_each_step_it_burns_no_window(work: Work) -> None:
    """Unless its function has begun: then it was interrupted. Broken by a beginning that is not undone."""
    seen = set()
    for turns in range(1, 60):
        backend = SlowBackend()
        async with LockManager(backend) as locks, LockManager(MemoryBackend(backend)) as peer:
            before = work.begun
            task = asyncio.create_task(job(locks).run(work))
            for _ in range(turns):
                await asyncio.sleep(0)
            task.cancel()
            await asyncio.wait((task,))
            await settle(backend)
            found = await status(peer)
            seen.add((work.begun > before, found))
            assert not await peer.lock(NAME).is_locked()
            if not task.cancelled():
                break
    assert seen == {(False, None), (True, "succeeded")}


async def test_an_unanswered_beginning_is_undone(
    locks: LockManager, peer: LockManager, backend: MemoryBackend, crew: Crew, work: Work
) -> None:
    post = backend.post
    away = backend.outage()

    def posts(call: Any) -> Any:
        if call.script.name == "begin":
            backend.fail_next("reply")
            answer = post(call)
            away.__enter__()
            return answer
        return post(call)

    cast(Any, backend).post = posts
    task = crew.start(job(locks).run(work))
    await backend.clock.advance(6.0)
    cast(Any, backend).post = post
    away.__exit__(None, None, None)
    with pytest.raises(BackendError):
        await task
    await settle(backend)
    assert work.begun == 0
    assert await status(peer) is None


async def test_cancelled_at_each_step_it_forgets_no_failure(work: Work) -> None:
    """The run that it would have replaced is the last one again."""
    for turns in range(1, 60):
        backend = SlowBackend()
        async with LockManager(backend) as locks, LockManager(MemoryBackend(backend)) as peer:
            with pytest.raises(ZeroDivisionError):
                await job(peer, "failed").run(fail)
            before = work.begun
            task = asyncio.create_task(job(locks, "failed").run(work))
            for _ in range(turns):
                await asyncio.sleep(0)
            task.cancel()
            await asyncio.wait((task,))
            await settle(backend)
            assert await status(peer) == ("succeeded" if work.begun > before else "failed")
            if not task.cancelled():
                return
    raise AssertionError("it never ran to its end")


async def fail(lease: Lease) -> None:
    raise ZeroDivisionError


@pytest.mark.parametrize("leaves", ["waits", "waits for", "detaches"])
async def test_it_keeps_its_lock(locks: LockManager, peer: LockManager, leaves: str) -> None:
    """Or it would count as interrupted while it runs, and another could begin. Kept by Level._check_may_leave."""

    async def work(lease: Lease) -> str:
        ready = locks.condition(locks.lock(NAME))
        leave: dict[str, Callable[[], Awaitable[object]]] = {
            "waits": ready.wait,
            "waits for": lambda: ready.wait_for(lambda: False),
            "detaches": lease.detach,
        }
        with pytest.raises(ConfigurationError, match="run of once"):
            await leave[leaves]()
        assert not (await job(peer, "both").run(Work())).ran
        assert await status(peer) == "running"
        return "done"

    assert (await job(locks, "both").run(work)).result == "done"


async def test_who_has_the_lock_already_keeps_it_too(locks: LockManager) -> None:
    """The run nests in a block that might wait."""

    async def work(lease: Lease) -> None:
        await locks.condition(locks.lock(NAME)).wait(1.0)

    async with locks.lock(NAME):
        with pytest.raises(ConfigurationError, match=r"a run of once\(\) has it"):
            await job(locks).run(work)


# Options.


@pytest.mark.parametrize("options", [{"window": 0.0, "repeat": "never"}, {"window": 1.0, "repeat": "always"}], ids=str)
def test_options_that_cannot_work(locks: LockManager, options: Any) -> None:
    with pytest.raises(ConfigurationError):
        once(locks, NAME, **options)


@pytest.mark.parametrize("what", ["redis://localhost:6379/0", None, aiolock.sync.LockManager(MemoryBackend())], ids=str)
def test_only_a_manager_makes_one(what: Any) -> None:
    with pytest.raises(ConfigurationError, match=r"needs an aiolock\.LockManager"):
        job(what)


def test_the_choice_must_be_made(locks: LockManager) -> None:
    make: Callable[..., Awaitable[object]] = cast(Any, once)
    with pytest.raises(TypeError, match="repeat"):
        make(locks, NAME, window=timedelta(hours=1))


async def test_in_a_task_that_has_the_lock(locks: LockManager, work: Work) -> None:
    """It nests, and still runs once."""
    async with locks.lock(NAME):
        assert (await job(locks, "both").run(work)).ran
        assert not (await job(locks, "both").run(work)).ran
    assert work.begun == 1
