"""Three instances of a service, of which one leads; it is killed, and frozen past its ttl."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from aiolock import LockManager

from .conftest import LATE, Crew, queued
from .recipe_worker import NAME

TTL = 3.6
"""A noisy machine stands still for two seconds now and then: that must not lose a term that is renewed."""


@pytest.fixture
def service(redis_url: str, tmp_path: Path) -> Iterator[Crew]:
    """Starts instances on the shared server."""
    crew = Crew(redis_url, tmp_path, "tests.crossproc.recipe_worker")
    yield crew
    crew.close()


async def leading(service: Crew, processes: list[subprocess.Popen[bytes]], term: int) -> subprocess.Popen[bytes]:
    """Wait for the beginning of this term, from 1; return who leads."""
    await service.until(lambda: len(service.events("leads")) >= term, TTL + LATE + 20)
    pid = service.events("leads")[term - 1]["pid"]
    return next(process for process in processes if process.pid == pid)


@pytest.mark.slow
async def test_another_leads_after_a_leader_is_killed_or_frozen(service: Crew) -> None:
    """Nobody touches a configuration, and the frozen one stops when it wakes. Kept by Election.run."""
    processes = [service.start("lead", TTL) for _ in range(3)]
    first = await leading(service, processes, 1)
    await service.until(lambda: len(service.events("ready")) == 3)
    service.kill(first)
    killed = time.monotonic()
    second = await leading(service, processes, 2)
    (_, taken) = service.events("leads")
    assert float(str(taken["at"])) - killed < TTL + LATE
    assert taken["abandoned"]

    service.stop(second)
    stopped = time.monotonic()
    third = await leading(service, processes, 3)
    (*_, taken) = service.events("leads")
    assert float(str(taken["at"])) - stopped < TTL + LATE
    await service.until(lambda: service.events("write")[-1]["pid"] == third.pid)
    os.kill(second.pid, signal.SIGCONT)
    await service.until(lambda: service.events("ended"))
    (ended,) = service.events("ended")
    assert (ended["pid"], ended["reason"]) == (second.pid, "loop_blocked")
    late = [
        event for event in service.events("write") if event["pid"] == second.pid and float(str(event["at"])) > stopped
    ]
    assert not any(event["accepted"] for event in late)

    async with LockManager(service.url) as locks:
        await queued(locks.fair_lock(NAME), 1)  # it contends again
        assert not await locks.lock(NAME).request_release()  # as a deploy does that hands leadership over
        assert await leading(service, processes, 4) is second
    (*_, given) = service.events("leads")
    assert not given["abandoned"]
    assert service.events("ended")[1]["pid"] == third.pid
    fences = [int(str(event["fence"])) for event in service.events("leads")]
    assert fences == sorted(set(fences))
