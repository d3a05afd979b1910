"""A process that takes jobs under a lock, and waits for more: `python -m tests.crossproc.condition_worker`.

With arguments it adds these jobs instead.
"""

from __future__ import annotations

import asyncio
import os
import sys

import redis.asyncio

from aiolock import LockManager
from tests.histories.journal import Journal

NAME = "jobs"
LIVENESS = 1.0


async def main(jobs: list[str]) -> None:
    url, journal = os.environ["AIOLOCK_URL"], Journal(os.path.join(os.environ["AIOLOCK_FOLDER"], "journal"))
    async with LockManager(url, ttl=3.0, liveness=LIVENESS) as locks, redis.asyncio.from_url(url) as client:
        lock = locks.lock(NAME)
        ready = locks.condition(lock)
        if jobs:
            for job in jobs:
                async with lock:
                    await client.rpush(NAME, job)
                    journal.note("added", job=job, notified=await ready.notify())
            return
        while True:
            async with lock as lease:
                while (job := await client.lpop(NAME)) is None:
                    journal.note("waiting", fence=lease.fence)
                    await ready.wait()
                journal.note("took", job=job.decode(), fence=lease.fence)
            if job == b"end":
                return


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1:]))
