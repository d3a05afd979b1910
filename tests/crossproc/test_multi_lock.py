"""Processes take overlapping sets of names in any order, and one is killed: none is stuck, none overlap."""

from __future__ import annotations

import asyncio
import os
import signal
from typing import Any

import pytest

from aiolock import LockManager
from tests.histories.history import History
from tests.support import redis_cli
from tests.support.locks import LockState, state

from .conftest import Crew

PROCESSES, TASKS, ROUNDS = 2, 5, 10
TTL, LIVENESS = 30.0, 3.0


def inside(events: list[dict[str, Any]], pid: int) -> bool:
    """Whether the process holds several names at once."""
    attempts = History(event for event in events if event["pid"] == pid).attempts
    return any(len(attempt.names) > 1 and attempt.events[-1]["event"] == "granted" for attempt in attempts)


async def test_any_order_any_end(crew: Crew) -> None:
    """Invariants 1 and 2 of each name. Kept by acquire.lua: all or none, in one step."""
    victim = crew.start("overlap", TASKS, 10_000)
    workers = [crew.start("overlap", TASKS, ROUNDS) for _ in range(PROCESSES)]
    await crew.until(lambda: len(crew.events("granted")) > 20)
    while True:
        crew.stop(victim)
        if inside(crew.events(), victim.pid):
            break
        os.kill(victim.pid, signal.SIGCONT)
        await asyncio.sleep(0.003)
    crew.kill(victim)
    workers.append(crew.start("overlap", TASKS, ROUNDS))
    await crew.done(*workers)
    ended = [attempt for attempt in crew.judge().attempts if attempt.how == "done" and attempt.pid != victim.pid]
    assert len(ended) == len(workers) * TASKS * ROUNDS
    assert any(event["abandoned"] for event in crew.events("granted"))


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
