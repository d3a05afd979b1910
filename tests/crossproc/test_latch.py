"""Processes count and wait; one is killed half-way, and another repeats its work."""

from __future__ import annotations

import subprocess

from .conftest import Crew
from .latch_worker import SHARDS


def start(crew: Crew, *shards: object) -> subprocess.Popen[bytes]:
    return crew.run("-W", "error", "-m", "tests.crossproc.latch_worker", *map(str, shards))


async def test_a_killed_process_is_replaced_and_nothing_opens_early(crew: Crew) -> None:
    """What the dead process reported is reported again, and counts once. Kept by count_down.lua: `not latch[3]`."""
    survivors = [start(crew, 3, 4), start(crew, 5), start(crew)]
    victim = start(crew, 0, 1, "hang", 2)
    await crew.until(lambda: len(crew.events("counted")) == SHARDS - 1)
    victim.kill()
    victim.wait()
    assert not crew.events("open")
    replacement = start(crew, 1, 0, 1, 2)
    await crew.done(*survivors, replacement)
    events = [event["event"] for event in crew.events()]
    assert events.count("open") == len(survivors) + 1
    (last,) = [
        index for index, event in enumerate(crew.events()) if event["event"] == "counting" and event["shard"] == "2"
    ]
    assert events.index("open") > last
    again = [event["left"] for event in crew.events("counted")[SHARDS - 1 :]]
    assert again == [1, 1, 1, 0]
