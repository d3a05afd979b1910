"""A task that others can interrupt, but only its owner can end."""

from __future__ import annotations

import asyncio
import logging

import pytest

from aiolock.backends import worker
from aiolock.backends.worker import Worker


class Job:
    """Counts its starts; each ends as it is told."""

    def __init__(self) -> None:
        self.begun = 0
        self.results: list[str] = []
        self.changed = asyncio.Event()
        self.ends: list[BaseException] = []

    async def work(self) -> str:
        self.begun += 1
        self.changed.set()
        if self.ends:
            raise self.ends.pop(0)
        await asyncio.sleep(60)
        return "done"

    async def beginnings(self, count: int) -> None:
        async with asyncio.timeout(5):
            while self.begun < count:
                self.changed.clear()
                await self.changed.wait()


def task_of(job: Worker[str]) -> asyncio.Task[str]:
    return job._task


async def test_its_result_is_delivered() -> None:
    told: asyncio.Future[int] = asyncio.get_running_loop().create_future()
    job = Worker(lambda: asyncio.sleep(0, 42), told.set_result, "job")
    assert await told == 42
    await job.stopped()


async def test_another_task_cancels_it_for_a_moment() -> None:
    """There is a moment without a task, of many turns of the loop: a shutdown that cancels until none is left comes to
    an end. Kept by Worker._ended: `PAUSE`.
    """
    job, loop = Job(), asyncio.get_running_loop()
    hands = Worker(job.work, job.results.append, "job")
    for count in range(1, 4):
        await job.beginnings(count)
        task, before = task_of(hands), loop.time()
        task.cancel()
        await asyncio.wait((task,))
        assert asyncio.all_tasks() == {asyncio.current_task()}
        assert hands._timer is not None
        assert hands._timer.when() > before + worker.PAUSE / 2  # uvloop's clock has whole milliseconds
    await job.beginnings(4)
    hands.stop()
    await hands.stopped()
    assert job.results == []


async def test_stopped_between_two_starts() -> None:
    job = Job()
    hands = Worker(job.work, job.results.append, "job")
    await job.beginnings(1)
    task = task_of(hands)
    task.cancel()
    await asyncio.wait((task,))
    hands.stop()
    await hands.stopped()
    await asyncio.sleep(3 * worker.PAUSE)
    assert job.begun == 1


async def test_an_error_is_logged_and_it_continues(caplog: pytest.LogCaptureFixture) -> None:
    job = Job()
    job.ends = [ValueError("a bug")]
    hands = Worker(job.work, job.results.append, "job")
    with caplog.at_level(logging.ERROR):
        await job.beginnings(2)
    assert "job continues after an internal error" in caplog.text
    assert "a bug" in caplog.text
    hands.stop()
    await hands.stopped()


def test_a_signal_strikes_in_it() -> None:
    """`sys.exit()` ends the loop's run, and it continues in the next one."""
    job: Job
    hands: Worker[str]

    async def begin() -> None:
        nonlocal job, hands
        job = Job()
        job.ends = [SystemExit(3)]
        hands = Worker(job.work, job.results.append, "job")
        await asyncio.sleep(60)

    async def see() -> None:
        await job.beginnings(2)
        hands.stop()
        await hands.stopped()

    with asyncio.Runner() as runner:
        loop = runner.get_loop()
        main = loop.create_task(begin())
        with pytest.raises(SystemExit):
            loop.run_until_complete(main)
        main.cancel()
        loop.run_until_complete(see())
