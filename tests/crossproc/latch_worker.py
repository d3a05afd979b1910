"""A process that counts shards and waits for all of them: `python -m tests.crossproc.latch_worker <shard> …`."""

from __future__ import annotations

import asyncio
import os
import sys

from aiolock import LockManager
from tests.histories.journal import Journal

NAME = "import:7"
SHARDS = 6


async def main(shards: list[str]) -> None:
    journal = Journal(os.path.join(os.environ["AIOLOCK_FOLDER"], "journal"))
    async with LockManager(os.environ["AIOLOCK_URL"]) as locks:
        latch = locks.latch(NAME, SHARDS)
        for shard in shards:
            if shard == "hang":
                await asyncio.sleep(3600)
            journal.note("counting", shard=shard)
            journal.note("counted", shard=shard, left=await latch.count_down(by=shard))
        await latch.wait(timeout=60.0)
        journal.note("open")


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1:]))
