"""A lock around a counter in a file, as java/Counter.java: URL NAME FILE LOG TOTAL TTL."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
from pathlib import Path

from aiolock import AiolockError, LockManager


async def count(url: str, name: str, file: Path, log: Path, total: int, ttl: float) -> None:
    """Count on until the total is reached."""
    made = file.with_suffix(f".{os.getpid()}")
    async with LockManager(url, ttl=ttl) as locks:
        lock = locks.lock(name)
        while True:
            with contextlib.suppress(AiolockError):
                async with lock as lease:
                    value = int(file.read_text())  # noqa: ASYNC240 - nothing else runs here
                    if value >= total:
                        return
                    await asyncio.sleep(0.001)
                    lease.ensure()
                    made.write_text(str(value + 1))
                    made.replace(file)
                    with log.open("a") as lines:
                        lines.write(f"{value + 1}\n")


if __name__ == "__main__":
    url, name, file, log, total, ttl = sys.argv[1:]
    asyncio.run(count(url, name, Path(file), Path(log), int(total), float(ttl)))
