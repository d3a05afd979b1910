"""Processes take overlapping sets of names in any order, and one is killed: none is stuck, none overlap."""

from __future__ import annotations

import asyncio
import os
import signal
from typing import Any

import pytest

from aiolock import LockManager
from tests.support import redis_cli
from tests.support.locks import LockState, state

from .conftest import Crew

PROCESSES, TASKS, ROUNDS = 2, 5, 10
TTL, LIVENESS = 30.0, 3.0


def check_names(events: list[dict[str, Any]], killed: int) -> None:
    """Check that each name has one holder at a time, and that its fences rise; the killed process's holds have
    ended.
    """
    live: dict[str, dict[str, Any]] = {}
    highest: dict[str, int] = {}
    orphaned = 0
    for event in events:
        for name in event["names"]:
            if event["event"] == "leave":
                assert live.pop(name)["fence"] == event["fence"]
                continue
            before = live.get(name)
            if before is not None:
                assert before["pid"] == killed, (before, event)
                assert event["abandoned"]
                orphaned += 1
            assert event["fence"] > highest.get(name, 0)
            highest[name] = event["fence"]
            live[name] = event
    assert {event["pid"] for event in live.values()} <= {killed}
    assert orphaned


def inside(events: list[dict[str, Any]], pid: int) -> bool:
    """Whether the process holds several names at once."""
    left = {event["fence"] for event in events if event["event"] == "leave"}
    return any(event["pid"] == pid and event["fence"] not in left and len(event["names"]) > 1 for event in events)


async def test_any_order_any_end(crew: Crew) -> None:
    """Invariants 1 and 2 of each name. Kept by acquire.lua: all or none, in one step."""
    victim = crew.start("overlap", TASKS, 10_000)
    workers = [crew.start("overlap", TASKS, ROUNDS) for _ in range(PROCESSES)]
    await crew.until(lambda: len(crew.events("enter")) > 20)
    while True:
        crew.stop(victim)
        if inside(crew.events(), victim.pid):
            break
        os.kill(victim.pid, signal.SIGCONT)
        await asyncio.sleep(0.003)
    victim.kill()
    victim.wait()
    workers.append(crew.start("overlap", TASKS, ROUNDS))
    await crew.done(*workers)
    events = crew.events()
    check_names(events, victim.pid)
    survivors = {worker.pid for worker in workers}
    entries = [event for event in events if event["event"] == "enter" and event["pid"] in survivors]
    assert len(entries) == len(survivors) * TASKS * ROUNDS


def is_reserved(seen: LockState) -> bool:
    """Whether a multi lock holds it while it waits for others."""
    return ":+" in seen.holder and not seen.depth


@pytest.mark.parametrize("asked", [False, True])
async def test_killed_while_it_gathers(crew: Crew, asked: bool) -> None:
    """What is reserved for it ends with its `liveness`, and leaves nothing dirty: killed before it has heard of that,
    and once it has asked for the rest. Kept by settle.lua: depth 0.
    """
    with redis_cli.client(crew.url) as link:
        async with LockManager(crew.url, ttl=60.0) as locks:
            first, second = await locks.lock("c").acquire(), await locks.lock("d").acquire()
            victim = crew.start("stand", "multi:cd", TTL, LIVENESS)
            await crew.until(lambda: link.zcard("aiolock:lock:{c}:queue"))
            crew.stop(victim)
            await first.release()
            assert is_reserved(state(link, "c"))
            if asked:
                os.kill(victim.pid, signal.SIGCONT)
                await crew.until(lambda: link.zcard("aiolock:lock:{d}:queue"))
            victim.kill()
            victim.wait()
            async with asyncio.timeout(10.0), locks.lock("c") as lease:
                assert not lease.abandoned
            await second.release()
        await crew.done(crew.start("overlap", TASKS, ROUNDS))
