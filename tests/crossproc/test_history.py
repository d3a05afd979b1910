"""Several processes, faults, and a checker of their notes: no two live holds overlap, fences rise with entries."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import time
from typing import Any

import pytest

from aiolock.testing.server import RedisServer
from tests.support import locks, redis_cli
from tests.support.proxy import FaultProxy

from .conftest import Crew
from .journal import Stalls

PROCESSES, TASKS, SECONDS, TTL = 4, 5, 4.0, 1.0
KINDS = (("lock",), ("lock", "fair"))
"""What the tasks of each process use by turns; both are one lock."""


def check_history(events: list[dict[str, Any]]) -> int:
    """Check the invariants over all processes. A process that stood still cannot notice a loss: that is what fences are
    for.

    Args:
        events: in the order in which they were written.

    Returns:
        How many holds there were.
    """
    stalls = Stalls(events)
    live: dict[int, dict[str, Any]] = {}
    highest = holds = 0
    for event in events:
        if event["event"] == "enter":
            if event.get("lost") and stalls.during(event):
                continue  # stopped just before its first line, and it knows that
            for other in live.values():
                assert stalls.during(event, other["pid"]), f"{event} while inside: {other}"
            assert event["fence"] > highest, f"{event} after fence {highest}"
            highest = event["fence"]
            live[event["fence"]] = event
            holds += 1
        elif event["event"] == "leave":
            live.pop(event["fence"], None)
            if event["fence"] == highest and not live:
                assert event["accepted"], event
    return holds


def test_the_checker_finds_what_it_must() -> None:
    def event(what: str, pid: int, fence: int, at: float, **more: float) -> dict[str, Any]:
        return {"event": what, "pid": pid, "fence": fence, "at": at, "accepted": True, **more}

    good = [event("enter", 1, 1, 0.0), event("leave", 1, 1, 1.0), event("enter", 2, 2, 1.1)]
    assert check_history(good) == 2
    overlapping = [event("enter", 1, 1, 0.0), event("enter", 2, 2, 1.0)]
    falling = [event("enter", 1, 2, 0.0), event("leave", 1, 2, 0.5), event("enter", 2, 1, 1.0)]
    stalled = event("stalled", 1, 0, 5.0, since=0.5, until=1.5)
    assert check_history([*overlapping, stalled]) == 2
    elsewhen = {**stalled, "until": 0.6}
    for bad in (overlapping, falling, [*overlapping, elsewhen], [*overlapping, {**stalled, "pid": 2}]):
        try:
            check_history(bad)
        except AssertionError:
            continue
        raise AssertionError(f"not found: {bad}")


@pytest.mark.parametrize("kinds", KINDS, ids=" ".join)
async def test_four_processes_on_a_bad_line(crew: Crew, own_server: RedisServer, kinds: tuple[str, ...]) -> None:
    """Connections die, bytes are held and released late, scripts are forgotten, clients killed and paused: nothing
    overlaps.

    Two of the processes go through a proxy.
    """
    dice = random.Random()
    async with FaultProxy(own_server.host, own_server.port) as proxy:
        workers = [
            crew.start("history", TASKS, TTL, *kinds, url=proxy.url if number % 2 else own_server.url)
            for number in range(PROCESSES)
        ]
        await crew.until(lambda: len(crew.events("ready")) == PROCESSES)
        with redis_cli.client(own_server.url) as link:

            def kill() -> None:
                own = str(link.client_id())
                victims = [client["id"] for client in link.client_list() if client["id"] != own]
                for victim in dice.sample(victims, min(2, len(victims))):
                    link.client_kill_filter(_id=victim)

            faults = [
                proxy.reset,
                lambda: proxy.reset(upstream=False),
                lambda: proxy.hold("requests", 1),
                lambda: proxy.hold("replies", 1),
                lambda: proxy.cut(times=3),
                lambda: proxy.drop("replies"),
                lambda: proxy.drop("requests"),
                lambda: proxy.delay("replies", 0.01),
                link.script_flush,
                lambda: link.client_pause(dice.randrange(10, 100)),
                kill,
            ]
            began = time.monotonic()
            while time.monotonic() - began < SECONDS or len(crew.events("enter")) < 150:
                assert time.monotonic() - began < 60.0, crew.errors()
                dice.choice(faults)()
                await asyncio.sleep(dice.uniform(0, 0.15))
                proxy.heal()
                await asyncio.sleep(dice.uniform(0, 0.1))
            proxy.reset()  # a connection that lost a frame is silent for good: its process would not get rid of a hold
            healed = time.monotonic()
            await crew.until(
                lambda: {e["pid"] for e in crew.events("enter") if e["at"] > healed} == {w.pid for w in workers}
            )
            (crew.folder / "enough").touch()
            await crew.done(*workers)
            assert check_history(crew.events()) > 100
            assert locks.nothing_held(link)


@pytest.mark.parametrize("kinds", KINDS, ids=" ".join)
async def test_processes_that_are_stopped_and_killed(crew: Crew, kinds: tuple[str, ...]) -> None:
    """SIGSTOP for longer than the ttl, SIGKILL: only stopped processes can overlap, and the resource refuses their
    writes.
    """
    workers = [crew.start("history", 2, TTL, *kinds) for _ in range(PROCESSES)]
    await crew.until(lambda: len(crew.events("ready")) == PROCESSES)
    stopped, killed = workers[0], workers[1]
    crew.stop(stopped)
    await asyncio.sleep(0.3)
    killed.kill()
    killed.wait()
    await asyncio.sleep(TTL * 1.3)
    resumed = time.monotonic()
    os.kill(stopped.pid, signal.SIGCONT)
    await crew.until(lambda: any(e["pid"] == stopped.pid and e["at"] > resumed for e in crew.events("enter")))  # type: ignore[operator]
    await crew.until(lambda: len(crew.events("enter")) > 50)
    (crew.folder / "enough").touch()
    await crew.done(stopped, *workers[2:])
    events = crew.events()
    dead_at = max(event["at"] for event in events if event["pid"] == killed.pid)
    dead = [event for event in events if event["event"] == "enter" and event["pid"] == killed.pid]
    for entry in dead:  # its hold ended with its ttl, without a release
        events.append(
            {"event": "leave", "pid": killed.pid, "fence": entry["fence"], "at": dead_at + 0.001, "accepted": True}
        )
    events.sort(key=lambda event: event["at"])  # type: ignore[arg-type, return-value]
    assert check_history(events) > 20
    stalls = Stalls(events)
    assert any(stall.pid == stopped.pid and stall.until - stall.since > TTL for stall in stalls)
    assert all(stalls.during(event) for event in events if event.get("accepted") is False)
