"""The lost-increment test: what a lock is for. Processes are killed in between, and every increment is accounted
for.
"""

from __future__ import annotations

import asyncio
import os
import signal
from itertools import pairwise
from typing import Any

from .conftest import Crew
from .counter import Counter
from .worker import TTL

PROCESSES, TASKS, ROUNDS, KILLS = 4, 5, 15, 3


def account(events: list[dict[str, Any]], total: int) -> None:
    """Check that each increment saw what the one before it left, and that the last one left `total`.

    A process that was killed before it noted that it left may have written or not: the next entry's `seen` tells.
    Fences are the order of entries.
    """
    entries = [event for event in events if event["event"] == "enter"]
    left = {event["fence"] for event in events if event["event"] == "leave"}
    assert [entry["fence"] for entry in entries] == sorted({entry["fence"] for entry in entries})
    increments = 0
    for entry, seen_next in zip(entries, [*(entry["seen"] for entry in entries[1:]), total], strict=True):
        assert entry["seen"] == increments
        wrote = seen_next == entry["seen"] + 1
        assert wrote or (entry["fence"] not in left and seen_next == entry["seen"]), (entry, seen_next)
        increments += wrote
    assert increments == total


def inside(events: list[dict[str, Any]], pid: int) -> bool:
    """Whether the process entered, and has not left."""
    left = {event["fence"] for event in events if event["event"] == "leave"}
    return any(event["event"] == "enter" and event["pid"] == pid and event["fence"] not in left for event in events)


async def test_no_increment_is_lost(crew: Crew) -> None:
    """Invariants 1 and 2 across processes. Kept by acquire.lua: it refuses a lock that another owner holds."""
    workers = [crew.start("increment", TASKS, ROUNDS, 30.0) for _ in range(PROCESSES)]
    await crew.done(*workers)
    total = Counter(str(crew.folder / "counter")).read()
    assert total == PROCESSES * TASKS * ROUNDS
    events = crew.events()
    account(events, total)
    assert not [event for event in events if event.get("abandoned")]


async def test_no_increment_is_lost_when_processes_are_killed(crew: Crew) -> None:
    """SIGKILL in between: the total matches the journal, and no value was seen twice."""
    workers = [crew.start("increment", TASKS, ROUNDS, TTL) for _ in range(PROCESSES)]
    for number, victim in enumerate(workers[:KILLS]):
        seen = len(crew.events("enter"))
        await crew.until(lambda seen=seen: len(crew.events("enter")) > seen + 10)  # type: ignore[misc]
        # The first one always dies inside; the others die wherever they are.
        while number == 0:
            crew.stop(victim)
            if inside(crew.events(), victim.pid):
                break
            os.kill(victim.pid, signal.SIGCONT)
            await asyncio.sleep(0.003)
        victim.kill()
        victim.wait()
        workers.append(crew.start("increment", TASKS, ROUNDS, TTL))
    await crew.done(*workers[KILLS:])
    total = Counter(str(crew.folder / "counter")).read()
    events = crew.events()
    account(events, total)
    survivors = {worker.pid for worker in workers[KILLS:]}
    counted = sum(event["event"] == "leave" and event["pid"] in survivors for event in events)
    assert counted == len(survivors) * TASKS * ROUNDS
    killed = {worker.pid for worker in workers[:KILLS]}
    entries = [event for event in events if event["event"] == "enter"]
    left = {event["fence"] for event in events if event["event"] == "leave"}
    for entry, following in pairwise(entries):
        if entry["fence"] not in left:
            assert entry["pid"] in killed
            assert following["abandoned"]
    # A process killed between the server's grant and its entry, or between leaving and the release, counts too.
    assert 1 <= sum(entry["abandoned"] for entry in entries) <= KILLS
