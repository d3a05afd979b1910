"""Four processes use a fair lock, a read-write lock and a semaphore at once; one is killed, one stopped for a while."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections import Counter
from typing import Any

from .conftest import Crew
from .journal import Stall, Stalls
from .worker import CROWD, PERMITS

PROCESSES, TTL, LIVENESS = 4, 1.5, 1.0
ROOM = {"fair": 1, "rw": 1000, "semaphore": PERMITS}


def share(what: str) -> tuple[str, int]:
    """The name of an entry, and how much room it takes."""
    what, _, number = what.partition(":")
    if what == "permits":
        return "semaphore", int(number)
    if what == "fair":
        return "fair", 1
    return "rw", ROOM["rw"] if what == "write" else 1


def check_crowd(events: list[dict[str, Any]]) -> dict[str, int]:
    """Check that no one is inside without room, and that fences rise if one entry excludes all others. Return entries
    by sort.

    A process that stood still cannot notice a loss, so what it held in that time does not count. If it was stopped
    between the check of its lease and the first line of its block, the block begins with a lease that knows it is lost.
    That is one block at most, because a loop is in one place. A process that was killed is no longer inside.
    """
    stalls = Stalls(events)
    last = {event["pid"]: event["at"] for event in events}
    inside: dict[tuple[int, int], dict[str, Any]] = {}
    highest = {"fair": 0, "rw": 0}
    entries = dict.fromkeys(CROWD, 0)
    doorsteps: set[Stall] = set()
    for event in sorted(events, key=lambda event: event["at"]):
        at = event["at"]
        if event["event"] == "leave":
            inside.pop((event["pid"], event["entry"]), None)
        if event["event"] != "enter":
            continue
        if event.get("lost"):
            stall = stalls.during(event)
            assert stall is not None, event
            assert stall not in doorsteps, event
            doorsteps.add(stall)
            continue
        name, needed = share(event["what"])
        others = [
            other
            for other in inside.values()
            if share(other["what"])[0] == name and last[other["pid"]] >= at and not stalls.during(event, other["pid"])
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
    """Broken by any script of the family that grants without room, or forgets a holder."""
    workers = [crew.start("crowd", TTL, LIVENESS) for _ in range(PROCESSES)]
    await crew.until(lambda: len(crew.events("ready")) == PROCESSES)
    stopped, killed = workers[0], workers[1]
    crew.stop(stopped)
    await asyncio.sleep(0.3)
    killed.kill()
    killed.wait()
    await asyncio.sleep(TTL * 1.2)
    resumed = time.monotonic()
    os.kill(stopped.pid, signal.SIGCONT)

    def enough() -> bool:
        """Check that all got in often, including the stopped process after its stop."""
        entries = [event for event in crew.events("enter") if not event["lost"]]
        often = Counter(event["what"] for event in entries)
        again = any(event["pid"] == stopped.pid and event["at"] > resumed for event in entries)  # type: ignore[operator]
        return again and all(often[what] > 10 for what in CROWD)

    await crew.until(enough, seconds=60.0)
    (crew.folder / "enough").touch()
    await crew.done(stopped, *workers[2:])
    check_crowd(crew.events())
