"""Two schedulers with the same jobs, as two processes of a fleet have them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from datetime import timedelta

import pytest
from apscheduler.events import EVENT_JOB_ERROR, EVENT_JOB_EXECUTED, JobExecutionEvent
from apscheduler.schedulers.asyncio import AsyncIOScheduler

from aiolock import LockLost, LockManager
from aiolock.contrib.apscheduler import once_in_fleet
from tests.contrib.conftest import Work

KEY = "tests:report"


class Fleet:
    """Two processes: each has a manager, and a scheduler that runs the job at once."""

    def __init__(self, managers: list[LockManager]) -> None:
        self.managers = managers
        self.ended: asyncio.Queue[JobExecutionEvent] = asyncio.Queue()
        self.schedulers = [AsyncIOScheduler() for _ in managers]

    def run(self, work: Work, repeat: str = "interrupted") -> None:
        for manager, scheduler in zip(self.managers, self.schedulers, strict=True):

            @once_in_fleet(manager, window=timedelta(hours=1), key=KEY, repeat=repeat)
            async def report(name: str) -> str:
                await work()
                return name

            scheduler.add_job(report, args=["done"])
            scheduler.add_listener(self.ended.put_nowait, EVENT_JOB_EXECUTED | EVENT_JOB_ERROR)
            scheduler.start()

    async def results(self) -> list[object]:
        events = [await asyncio.wait_for(self.ended.get(), 10) for _ in self.schedulers]
        return sorted((event.exception or event.retval for event in events), key=repr)


@pytest.fixture
async def fleet(redis_url: str) -> AsyncIterator[Fleet]:
    """The processes; their schedulers are not started yet."""
    async with AsyncExitStack() as stack:
        managers = [await stack.enter_async_context(LockManager(redis_url)) for _ in range(2)]
        fleet = Fleet(managers)
        yield fleet
        for scheduler in fleet.schedulers:
            if scheduler.running:
                scheduler.shutdown()


async def test_one_process_runs_the_job(fleet: Fleet, work: Work) -> None:
    work.go_on.set()
    fleet.run(work)
    assert await fleet.results() == ["done", None]


async def test_a_loss_is_an_error_of_the_job(fleet: Fleet, work: Work) -> None:
    """APScheduler reports it; the other process did not run it."""
    fleet.run(work)
    await work.begun.wait()
    await fleet.managers[0].lock(KEY).force_release()
    lost, not_run = await fleet.results()
    assert isinstance(lost, LockLost)
    assert (not_run, work.cancelled) == (None, 1)


async def test_shutdown_ends_the_job(fleet: Fleet, work: Work) -> None:
    """APScheduler cancels it; its lock is free."""
    fleet.run(work)
    await work.begun.wait()
    for scheduler in fleet.schedulers:
        scheduler.shutdown()
    async with fleet.managers[0].lock(KEY).acquire(timeout=5.0) as lease:
        assert not lease.abandoned
    assert work.cancelled == 1


async def test_its_name_and_its_function(redis_url: str) -> None:
    @once_in_fleet(LockManager(redis_url), window=60.0)
    async def report() -> None: ...

    assert report.__name__ == "report"
    with pytest.raises(TypeError, match="coroutine functions"):
        once_in_fleet(LockManager(redis_url), window=60.0)(print)  # type: ignore[arg-type]
