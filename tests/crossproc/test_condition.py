"""Processes wait for jobs; one is killed after it was notified, and another gets its job."""

from __future__ import annotations

import subprocess

import redis.asyncio

from aiolock import LockManager

from .condition_worker import NAME
from .conftest import Crew


def start(crew: Crew, *jobs: str) -> subprocess.Popen[bytes]:
    return crew.run("-W", "error", "-m", "tests.crossproc.condition_worker", *jobs)


async def test_every_job_is_taken_once(crew: Crew) -> None:
    consumers = [start(crew) for _ in range(3)]
    await crew.until(lambda: len(crew.events("waiting")) >= 3)
    jobs = [f"job {number}" for number in range(12)]
    await crew.done(start(crew, *jobs[:6]), start(crew, *jobs[6:]))
    await crew.until(lambda: len(crew.events("took")) == 12)
    await crew.done(*(start(crew, "end") for _ in consumers), *consumers)
    took = crew.events("took")
    assert sorted(event["job"] for event in took) == sorted([*jobs, *["end"] * 3])
    fences = [event["fence"] for event in took]
    assert fences == sorted(fences)
    assert len({event["pid"] for event in took}) == 3


async def test_the_notification_of_a_killed_process_is_passed_on(crew: Crew) -> None:
    """It dies before it has the lock again. Kept by line.lua: `passed`."""
    victim = start(crew)
    await crew.until(lambda: len(crew.events("waiting")) == 1)
    survivor = start(crew)
    await crew.until(lambda: len(crew.events("waiting")) == 2)
    async with LockManager(crew.url) as locks, redis.asyncio.from_url(crew.url) as client:
        lock = locks.lock(NAME)
        async with lock:
            await client.rpush(NAME, "end")
            assert await locks.condition(lock).notify() == 1
            victim.kill()
            victim.wait()
    await crew.done(survivor)
    (took,) = crew.events("took")
    assert (took["job"], took["pid"]) == ("end", survivor.pid)
