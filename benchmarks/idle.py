"""Tasks that wait for a lock that is never released."""

from __future__ import annotations

import asyncio
import time
from dataclasses import asdict, dataclass
from typing import Any

from .ending import end
from .orphan import orphan
from .peers.adapter import Adapter, opened
from .server_stats import ServerStats

TTL = 120.0
"""The ttl of the lock that is kept: it must not need a renewal while you watch."""
FIRST = 1.0
"""Seconds in which the tasks arrive; after that they only wait."""


@dataclass(frozen=True, slots=True)
class Idle:
    """What waiting cost.

    Attributes:
        seconds: how long they waited.
        commands: sent by clients, the arrival included.
        executed: run by the server, those in scripts included.
        arriving: sent in the first second.
        executed_arriving: run in the first second.
        connections: of the library, in this process.
        cpu: share of one core, the arrival included.
    """

    seconds: float
    commands: int
    executed: int
    arriving: int
    executed_arriving: int
    connections: int
    cpu: float

    @property
    def commands_in_30_s(self) -> float:
        """The commands, as counted if the tasks waited that long; otherwise the arrival, and the rest at its rate."""
        if self.seconds >= 29.5:
            return float(self.commands)
        return self.arriving + (self.commands - self.arriving) / (self.seconds - FIRST) * (30 - FIRST)


async def wait_idly(url: str, adapter: str, waiters: int, seconds: float) -> Idle:
    """Let this many tasks of this process wait for a lock whose holder was killed, so that the holder sends nothing."""
    name = f"kept:{time.monotonic_ns()}"
    await orphan(url, adapter, name, TTL)
    async with ServerStats(url) as aside, opened(adapter, url) as library:
        async with library.lock("warm", TTL):
            pass
        async with ServerStats(url, library.scripted) as stats:
            began, used = time.monotonic(), time.process_time()
            tasks = [asyncio.create_task(_wait(library, name)) for _ in range(waiters)]
            await asyncio.sleep(FIRST)
            arriving, executed_arriving = await stats.commands(), await stats.executed()
            await asyncio.sleep(seconds - FIRST)
            commands, executed = await stats.commands(), await stats.executed()
            spent, cpu = time.monotonic() - began, time.process_time() - used
            connections = await aside.connections() - 1  # `stats` has one itself
            await end(tasks)
            for task in tasks:
                if not task.cancelled() and (error := task.exception()) is not None:
                    raise error
    return Idle(spent, commands, executed, arriving, executed_arriving, connections, cpu / spent)


async def _wait(library: Adapter, name: str) -> None:
    async with library.lock(name, TTL):
        raise RuntimeError("the lock was not kept")


async def measured(url: str, adapter: str, waiters: int, seconds: float) -> dict[str, Any]:
    """Run `wait_idly` in a worker."""
    idle = await wait_idly(url, adapter, waiters, seconds)
    return {**asdict(idle), "commands_in_30_s": idle.commands_in_30_s}
