"""A job that runs at most once per window, on every backend that offers it: two managers are two processes."""

from __future__ import annotations

import asyncio

import pytest

from aiolock import ConfigurationError, Lease, LockManager
from aiolock.recipes import Run, RunStatus, current_lease, once
from tests.support import redis_cli

from .places import Place, keys_of

NAME = "report"
RECORD = keys_of(NAME, "once").lock


async def work(lease: Lease) -> int:
    return lease.fence


async def fail(lease: Lease) -> None:
    raise ZeroDivisionError


async def test_one_run_of_many(locks: LockManager, others: LockManager) -> None:
    """Ten processes' worth of starts at once; the others see whose run it is."""
    jobs = [once(manager, NAME, window=60.0, repeat="both") for manager in (locks, others) * 5]
    runs = await asyncio.gather(*(job.run(work) for job in jobs))
    (mine,) = [run for run in runs if run.ran]
    assert (mine.status, mine.result) == (RunStatus.SUCCEEDED, mine.fence)
    assert {run.status for run in runs if not run.ran} <= {RunStatus.RUNNING, RunStatus.SUCCEEDED}
    late = await jobs[1].run(work)
    assert (late.ran, late.status, late.result, late.fence) == (False, RunStatus.SUCCEEDED, None, mine.fence)
    assert late.by == mine.by
    assert 50.0 < late.left <= 60.0
    assert 0.0 <= late.age < 10.0


async def test_a_decorated_function(locks: LockManager, others: LockManager) -> None:
    """Each key of its arguments has a window. Kept by Once.__call__: `name_of`, `running_under`."""
    seen: list[tuple[str, int]] = []

    @once(locks, "bill:{month}", window=60.0, repeat="never")
    async def bill(month: str, *, cents: int = 1) -> int:
        """Its own text."""
        lease = current_lease()
        assert lease is not None
        seen.append((lease.name, lease.fence))
        return cents

    with pytest.raises(TypeError, match="missing a required argument"):
        await bill()  # type: ignore[call-arg]
    first, second, third = await bill("may", cents=3), await bill("may"), await bill("june")
    assert (first.ran, first.result, second.ran, third.ran, third.result) == (True, 3, False, True, 1)
    assert seen == [("bill:may", first.fence), ("bill:june", third.fence)]
    assert current_lease() is None
    assert (bill.__name__, bill.__doc__) == ("bill", "Its own text.")
    by_name = once(others, "bill:may", window=60.0, repeat="never")
    assert not (await by_name.run(work)).ran
    assert await by_name.forget()
    assert (await bill("may")).ran


async def test_what_cannot_be_decorated(locks: LockManager) -> None:
    """Said on decorating. Kept by Once.__call__."""

    async def report() -> None: ...

    with pytest.raises(ConfigurationError, match="names 'day', but its arguments are"):
        once(locks, "report:{day}", window=60.0, repeat="never")(report)
    with pytest.raises(TypeError, match=r"once\(\) decorates coroutine functions"):
        once(locks, NAME, window=60.0, repeat="never")(print)  # type: ignore[arg-type]


async def test_the_window_ends_by_the_servers_clock(locks: LockManager, others: LockManager, place: Place) -> None:
    here, there = (once(manager, NAME, window=60.0, repeat="never") for manager in (locks, others))
    assert (await here.run(work)).ran
    assert not (await there.run(work)).ran
    place.side.delete(RECORD)  # as its expiry does
    assert await there.last() is None
    assert (await there.run(work)).ran


async def test_its_record_lives_as_long_as_its_window(locks: LockManager, place: Place) -> None:
    await once(locks, NAME, window=60.0, repeat="never").run(work)
    assert 50_000 < place.side.pttl(RECORD) <= 60_000


async def test_a_failed_run(locks: LockManager, others: LockManager) -> None:
    with pytest.raises(ZeroDivisionError):
        await once(locks, NAME, window=60.0, repeat="failed").run(fail)
    for repeat in ("never", "interrupted"):
        run = await once(others, NAME, window=60.0, repeat=repeat).run(work)
        assert (run.ran, run.status) == (False, RunStatus.FAILED)
    assert (await once(others, NAME, window=60.0, repeat="failed").run(work)).ran


async def test_an_interrupted_run(locks: LockManager, others: LockManager) -> None:
    began = asyncio.Event()

    async def hang(lease: Lease) -> None:
        began.set()
        await asyncio.Event().wait()

    task = asyncio.create_task(once(locks, NAME, window=60.0, repeat="never").run(hang))
    await began.wait()
    there = once(others, NAME, window=60.0, repeat="both")
    run = await there.run(work)
    assert (run.ran, run.status) == (False, RunStatus.RUNNING)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    last = await there.last()
    assert last is not None
    assert last.status is RunStatus.INTERRUPTED
    for repeat in ("never", "failed"):
        run = await once(others, NAME, window=60.0, repeat=repeat).run(work)
        assert (run.ran, run.status) == (False, RunStatus.INTERRUPTED)
    assert (await there.run(work)).ran


async def test_it_can_be_forgotten(locks: LockManager, others: LockManager) -> None:
    job = once(locks, NAME, window=60.0, repeat="never")
    assert not await job.forget()
    assert (await job.run(work)).ran
    assert await job.forget()
    assert (await once(others, NAME, window=60.0, repeat="never").run(work)).ran


async def test_what_it_costs(redis_url: str, commandstats: redis_cli.CommandStats) -> None:
    """One round trip for those who come late, five for the one that runs."""
    async with LockManager(redis_url) as locks:
        job = once(locks, NAME, window=60.0, repeat="never")
        await job.run(work)
        await job.forget()
        await commandstats.reset()
        await job.run(work)
        assert (await commandstats.sent())["evalsha"] == 5
        await commandstats.reset()
        assert isinstance(await job.run(work), Run)
        assert (await commandstats.sent())["evalsha"] == 1


def test_a_quorum_cannot(three_urls: list[str]) -> None:
    with pytest.raises(ConfigurationError, match="not offered by a quorum"):
        once(LockManager.quorum(three_urls), NAME, window=60.0, repeat="never")
