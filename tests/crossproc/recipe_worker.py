"""A process of the tests: `python -m tests.crossproc.recipe_worker <what> <redis url> <folder> [<argument> …]`."""

from __future__ import annotations

import asyncio
import sys
import time
from typing import Any, cast

from aiolock import Lease, LockManager
from aiolock.recipes import leader, once
from tests.crossproc.resource import Resource
from tests.histories.journal import Journal

NAME = "feed"


async def lead(url: str, folder: str, ttl: str) -> None:
    """Contend, and write to the resource while leading."""
    journal, resource = Journal(f"{folder}/journal"), Resource(f"{folder}/resource")

    async def fetch(term: Lease) -> None:
        journal.note("leads", fence=term.fence, abandoned=term.abandoned)
        try:
            while True:
                began = time.monotonic()
                journal.note("write", at=began, fence=term.fence, accepted=resource.write(term.fence))
                await asyncio.sleep(0.005)
        finally:
            journal.note("ended", fence=term.fence, reason=str(term.reason))

    async with LockManager(url, ttl=float(ttl)) as locks:
        journal.note("ready")
        await leader(locks.lock(NAME)).run(fetch)


async def report(url: str, folder: str, ttl: str, repeat: str, ends: str) -> None:
    """Start the same job as all others, over and over; it runs on for ever unless it `ends`."""
    journal = Journal(f"{folder}/journal")

    async def work(lease: Lease) -> None:
        journal.note("runs", fence=lease.fence)
        if ends != "yes":
            await asyncio.Event().wait()

    async with LockManager(url, ttl=float(ttl)) as locks:
        job = once(locks, "report", window=3600.0, repeat=cast(Any, repeat))
        journal.note("ready")
        while True:
            run = await job.run(work)
            journal.note("told", ran=run.ran, status=run.status)
            if run.status == "succeeded":
                break
            await asyncio.sleep(0.05)


if __name__ == "__main__":
    what, url, folder, *arguments = sys.argv[1:]
    asyncio.run({"lead": lead, "report": report}[what](url, folder, *arguments))
