"""Four processes on a fair lock, a read-write lock and a semaphore at once; one is killed, one stopped for a while."""

from __future__ import annotations

import asyncio
import os
import signal
from typing import Any

from .conftest import Crew
from .worker import CROWD, PERMITS

PROCESSES, SECONDS, TTL, LIVENESS = 4, 3.0, 1.5, 1.0
NOTICED = 0.1
"""Seconds in which a process that stood still notices what it lost, and notes that it left."""
ROOM = {"fair": 1, "rw": 1000, "semaphore": PERMITS}


def share(what: str) -> tuple[str, int]:
    """Which name an entry is on, and how much of its room it takes."""
    what, _, number = what.partition(":")
    if what == "permits":
        return "semaphore", int(number)
    if what == "fair":
        return "fair", 1
    return "rw", ROOM["rw"] if what == "write" else 1


def check_crowd(events: list[dict[str, Any]]) -> dict[str, int]:
    """Nobody is inside without room, and fences rise where one excludes all others. Returns entries of each sort.

    A process that stood still cannot notice what it lost meanwhile: what it had does not count while it did. If it was
    stopped on the very doorstep, after its lease was found good and before the block's first line, the block begins
    with a lease that knows it is lost: one at most, because a loop is in one place. One that was killed is no longer
    inside.
    """
    stalls = [
        (event["pid"], event["since"], event["until"] + NOTICED) for event in events if event["event"] == "stalled"
    ]
    last = {event["pid"]: event["at"] for event in events}
    inside: dict[tuple[int, int], dict[str, Any]] = {}
    highest = {"fair": 0, "rw": 0}
    entries = dict.fromkeys(CROWD, 0)
    doorsteps: set[tuple[int, float]] = set()
    for event in sorted(events, key=lambda event: event["at"]):
        at = event["at"]
        if event["event"] == "leave":
            inside.pop((event["pid"], event["entry"]), None)
        if event["event"] != "enter":
            continue
        stall = next((stall for stall in stalls if stall[0] == event["pid"] and stall[1] <= at <= stall[2]), None)
        if event.get("lost"):
            assert stall is not None, event
            assert stall[:2] not in doorsteps, event
            doorsteps.add(stall[:2])
            continue
        name, needed = share(event["what"])
        others = [
            other
            for other in inside.values()
            if share(other["what"])[0] == name
            and last[other["pid"]] >= at
            and not any(pid == other["pid"] and since <= at <= until for pid, since, until in stalls)
        ]
        taken = sum(share(other["what"])[1] for other in others)
        assert taken + needed <= ROOM[name], f"{event} while inside: {others}"
        if needed == ROOM[name]:
            assert event["fence"] > highest[name], event
            highest[name] = event["fence"]
        inside[event["pid"], event["entry"]] = event
        entries[event["what"]] += 1
    return entries


def test_the_checker_finds_what_it_must() -> None:
    def event(what: str, pid: int, on: str, fence: int, at: float, **more: float) -> dict[str, Any]:
        return {"event": what, "pid": pid, "what": on, "entry": fence, "fence": fence, "at": at, **more}

    over = event("leave", 1, "fair", 1, 9.0)
    fair = [event("enter", 1, "fair", 1, 0.0), event("enter", 2, "fair", 2, 1.0), over]
    beside = [event("enter", 1, "read", 1, 0.0), event("enter", 2, "write", 2, 1.0), over]
    crowded = [event("enter", 1, "permits:2", 1, 0.0), event("enter", 2, "permits:2", 2, 1.0), over]
    falling = [event("enter", 1, "fair", 2, 0.0), event("leave", 1, "fair", 2, 0.5), event("enter", 2, "fair", 1, 1.0)]
    check_crowd([event("enter", 1, "read", 1, 0.0), event("enter", 2, "read", 1, 1.0), over])
    check_crowd([*fair, event("stalled", 1, "", 0, 5.0, since=0.5, until=1.5)])
    check_crowd(fair[:2])  # the first one was killed
    late = {**event("enter", 2, "fair", 1, 1.0), "lost": True}
    entered = [event("enter", 1, "fair", 2, 0.5), late, event("leave", 1, "fair", 2, 9.0)]
    stalled = event("stalled", 2, "", 0, 1.1, since=0.0, until=1.1)
    check_crowd([*entered, stalled])
    twice = [*entered, {**late, "entry": 3, "at": 1.05}, stalled]
    for bad in (fair, beside, crowded, falling, entered, twice):
        try:
            check_crowd(bad)
        except AssertionError:
            continue
        raise AssertionError(f"not found: {bad}")


async def test_a_crowd(crew: Crew) -> None:
    """Broken by any script of the family that grants without room, or forgets who holds."""
    workers = [crew.start("crowd", TTL, LIVENESS, SECONDS) for _ in range(PROCESSES)]
    await crew.until(lambda: len(crew.events("ready")) == PROCESSES)
    stopped, killed = workers[0], workers[1]
    os.kill(stopped.pid, signal.SIGSTOP)
    await asyncio.sleep(0.3)
    killed.kill()
    killed.wait()
    await asyncio.sleep(TTL * 1.2)
    os.kill(stopped.pid, signal.SIGCONT)
    await crew.done(stopped, *workers[2:])
    entries = check_crowd(crew.events())
    assert min(entries.values()) > 10, entries
    resumed = [event for event in crew.events("stalled") if event["pid"] == stopped.pid]
    back = max(event["until"] for event in resumed)  # type: ignore[type-var]
    later = [event for event in crew.events("enter") if event["pid"] == stopped.pid and event["at"] > back]  # type: ignore[operator]
    assert later
