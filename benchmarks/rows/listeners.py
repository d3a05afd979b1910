"""Rows PL and ML: two processes that hand a lock to each other, while many managers listen in the same database."""

from __future__ import annotations

import asyncio
from contextlib import AbstractContextManager, AsyncExitStack
from statistics import median

from aiolock import LockManager

from ..contest import OURS, Team
from ..crew import crew
from ..databases import Absent, Database, mariadb, postgres
from ..figure import Figure, Findings, percentile
from ..stage import Stage

NUMBERS = (0, 50, 200)
QUICK = (0, 50)


async def in_postgres(**given: object) -> dict[str, object]:
    """A message wakes each session that listens, whatever to."""
    return await _beside("PL", postgres("max_connections = 500"), Stage(**given))  # type: ignore[arg-type]


async def in_mysql(**given: object) -> dict[str, object]:
    """A message ends the waiting of its receiver alone."""
    return await _beside("ML", mariadb(), Stage(**given))  # type: ignore[arg-type]


async def _beside(row: str, server: AbstractContextManager[Database], stage: Stage) -> dict[str, object]:
    found = Findings()
    try:
        with server as database, crew(2, stage.python, stage.loop) as workers:
            team = Team.even(workers, OURS, database.url, tasks=1)
            for number in QUICK if stage.quick else NUMBERS:
                async with AsyncExitStack() as stack:
                    await _listen(stack, database.url, number)
                    seen = [await asyncio.to_thread(team.contend, stage.scale.handoffs) for _ in range(3)]
                times = [median(crowd.handoffs) * 1e3 for crowd in seen]
                waits = [percentile(crowd.waits, 0.99) * 1e3 for crowd in seen]
                found.figures += [
                    Figure.median(row, f"hand-off p50, {number} managers wait for other names", times, "ms"),
                    Figure.median(row, f"wait p99, {number} managers wait for other names", waits, "ms"),
                ]
    except Absent as error:
        found.figures.append(Figure(row, "beside many that listen", None, note=str(error)))
    return found.as_json()


async def _listen(stack: AsyncExitStack, url: str, number: int) -> None:
    """Let this many managers wait, each for a name of its own, until the end of the stack."""
    holder = await stack.enter_async_context(LockManager(url, request_timeout=60.0))
    for at in range(number):
        locks = await stack.enter_async_context(LockManager(url, request_timeout=60.0))
        stack.push_async_callback((await holder.lock(f"idle:{at}").acquire()).release)
        waiting = asyncio.create_task(locks.lock(f"idle:{at}").acquire())
        stack.push_async_callback(asyncio.gather, waiting, return_exceptions=True)
        stack.callback(waiting.cancel)
        while (seen := await holder.fair_lock(f"idle:{at}").info()) is None or not seen.waiters:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
