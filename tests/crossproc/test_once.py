"""A job that every process of a fleet starts: it runs once, also if the process that runs it is killed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from .conftest import Crew
from .test_leader import TTL


@pytest.fixture
def fleet(redis_url: str, tmp_path: Path) -> Iterator[Crew]:
    """Starts processes on the shared server."""
    crew = Crew(redis_url, tmp_path, "tests.crossproc.recipe_worker")
    yield crew
    crew.close()


@pytest.mark.slow
async def test_a_killed_run_is_repeated_once(fleet: Crew) -> None:
    """About a ttl later, by one of the others. Kept by begin.lua."""
    victim = fleet.start("report", TTL, "interrupted", "no")
    await fleet.until(lambda: fleet.events("runs"))
    others = [fleet.start("report", TTL, "interrupted", "yes") for _ in range(2)]
    await fleet.until(lambda: len({event["pid"] for event in fleet.events("told")}) == 2)
    assert {event["status"] for event in fleet.events("told")} == {"running"}
    fleet.kill(victim)
    await fleet.done(*others)
    first, second = fleet.events("runs")
    assert (first["pid"], second["pid"] != victim.pid) == (victim.pid, True)
    assert sorted(bool(event["ran"]) for event in fleet.events("told") if event["status"] == "succeeded") == [
        False,
        True,
    ]
