"""A process of the tests: `python -m tests.topologies.worker load <place> <folder> <load>`."""

from __future__ import annotations

import asyncio
import json
import os
import random
import sys
import time
from pathlib import Path
from typing import Any

from aiolock import BackendError, LockLost, LockManager
from tests.histories.journal import Journal


def manager(place: dict[str, Any], **options: Any) -> LockManager:
    """Return a manager of some `urls` of a cluster, of the `sentinels` of a `service`, or of one `url`."""
    if "urls" in place:
        return LockManager.cluster(place["urls"], **options)
    if "sentinels" in place:
        addresses = [(host, port) for host, port in place["sentinels"]]
        return LockManager.sentinel(addresses, service=place["service"], **options)
    return LockManager(place["url"], **options)


async def load(place: str, folder: str, load: str) -> None:
    """Tasks enter and leave locks, whatever happens to the servers; they note when, and how each attempt ended.

    `load` is JSON: the `options` of the manager; the `timeout` of each attempt; and `names`, of each how long a hold
    lasts at most, and how many tasks want it.
    """
    given = json.loads(load)
    journal, enough = Journal(f"{folder}/journal"), Path(folder, "enough")
    numbers = iter(range(10**9))

    async def work(locks: LockManager, name: str, stay: float) -> None:
        while not enough.exists():  # noqa: ASYNC240 - another process makes it
            attempt = {"name": name, "attempt": next(numbers)}
            journal.note("ask", **attempt)
            lease = None
            try:
                async with random.choice((locks.lock, locks.fair_lock))(
                    name, acquire_timeout=given["timeout"]
                ) as lease:
                    journal.note("enter", at=time.monotonic(), fence=lease.fence, lost=lease.lost, **attempt)
                    try:
                        await asyncio.sleep(random.uniform(0.0, stay))
                    finally:
                        journal.note("leave", fence=lease.fence, **attempt)
            except LockLost as lost:
                journal.note("lost", reason=lost.reason.name, entered=lease is not None, **attempt)
            except (BackendError, TimeoutError) as error:
                journal.note("missed", error=type(error).__name__, text=str(error), **attempt)
                await asyncio.sleep(0.01)

    async with manager(json.loads(place), **given["options"]) as locks:
        journal.note("ready")
        watching = asyncio.create_task(journal.watch())
        names = given["names"].items()
        await asyncio.gather(*(work(locks, name, stay) for name, (stay, tasks) in names for _ in range(tasks)))
        watching.cancel()


if __name__ == "__main__":
    _, place, folder, arguments = sys.argv[1:]
    asyncio.run(load(place, folder, arguments))
    Path(folder, f"done.{os.getpid()}").touch()
