"""The second half of row G: bytes of each idle lock, waiter and lease."""

from __future__ import annotations

import asyncio
import gc
import tracemalloc
from typing import Any

from aiolock import LockManager

from ..figure import Figure, Findings
from ..stage import Stage

NUMBER = 500
LIMIT = 2_048


async def bytes_each(**given: object) -> dict[str, object]:
    """Allocations that Python traces; those of hiredis and the sockets are not included."""
    stage = Stage(**given)  # type: ignore[arg-type]
    async with LockManager(stage.url) as locks, LockManager(stage.url) as elsewhere, elsewhere.lock("kept"):
        await _fill(locks, "warm")
        tracemalloc.start()
        idle = await _idle(locks)
        lease = await _lease(locks)
        one_task = await _leases_of_one_task(locks)
        waiter = await _waiter(locks) - await _bare_task()
        tracemalloc.stop()
    told = f"tracemalloc, mean of {NUMBER:,}"
    return Findings(
        [
            Figure("G", "bytes of an idle lock, used once", idle, "B", LIMIT, None, False, told),
            Figure("G", "bytes of a waiter, net of its task", waiter, "B", LIMIT, None, False, told),
            Figure("G", "bytes of a lease", lease, "B", LIMIT, None, False, f"{told}, acquired by as many tasks"),
            Figure(
                "G", "bytes of a lease, one task", one_task, "B", LIMIT, None, False, f"{told}, acquired by one task"
            ),
        ]
    ).as_json()


def _traced() -> int:
    gc.collect()
    return tracemalloc.get_traced_memory()[0]


async def _fill(locks: LockManager, prefix: str) -> list[Any]:
    made = [locks.lock(f"{prefix}:{one}") for one in range(NUMBER)]
    for lock in made:
        async with lock:
            pass
    return made


async def _idle(locks: LockManager) -> float:
    before = _traced()
    made = await _fill(locks, "idle")
    return (_traced() - before) / len(made)


async def _lease(locks: LockManager) -> float:
    before = _traced()
    leases = await asyncio.gather(*(locks.lock(f"lease:{one}").acquire() for one in range(NUMBER)))
    await asyncio.sleep(0)  # until then the loop keeps the tasks
    size = (_traced() - before) / NUMBER
    await asyncio.gather(*(lease.release() for lease in leases))
    await asyncio.sleep(0)  # until then the loop keeps the tasks
    return size


async def _leases_of_one_task(locks: LockManager) -> float:
    before = _traced()
    leases = [await locks.lock(f"lease:{one}").acquire() for one in range(NUMBER)]
    size = (_traced() - before) / NUMBER
    await asyncio.gather(*(lease.release() for lease in leases))
    await asyncio.sleep(0)  # until then the loop keeps the tasks
    return size


async def _waiter(locks: LockManager) -> float:
    lock = locks.lock("kept")

    async def wait() -> None:
        await lock.acquire()

    return await _tasks(wait)


async def _bare_task() -> float:
    loop = asyncio.get_running_loop()

    async def wait() -> None:
        await loop.create_future()

    return await _tasks(wait)


async def _tasks(wait: Any) -> float:
    before = _traced()
    tasks = [asyncio.create_task(wait()) for _ in range(NUMBER)]
    await asyncio.sleep(0.5)
    size = (_traced() - before) / NUMBER
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks)
    return size
