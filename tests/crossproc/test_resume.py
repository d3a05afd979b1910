"""A lease goes through a pipe from one process to another; the first is killed, and a third never gets in between."""

from __future__ import annotations

import asyncio
import os
import time

from aiolock import LockManager

from .conftest import Crew
from .worker import NAME, TTL


async def test_a_lease_outlives_its_process(crew: Crew) -> None:
    """Invariants 1, 2 and 9. Kept by Gate.detach, which ends the hold without a release, and resume.resume."""
    os.mkfifo(crew.folder / "pipe")
    heir = crew.start("resume")
    await crew.until(lambda: crew.events("ready"))
    first = crew.start("detach")
    await crew.until(lambda: crew.events("acquired"))
    async with LockManager(crew.url, ttl=TTL) as locks:
        third = asyncio.ensure_future(locks.lock(NAME).acquire())
        await crew.until(lambda: crew.events("detached"))
        first.kill()
        first.wait()
        await asyncio.sleep(0.1)
        assert not third.done()
        (crew.folder / "killed").touch()
        async with asyncio.timeout(30):
            lease = await third
        entered = time.monotonic()
        assert not lease.abandoned
        await lease.release()
    await crew.done(heir)
    ((acquired,), (resumed,), (leaves,)) = (crew.events(event) for event in ("acquired", "resumed", "leaves"))
    assert acquired["fence"] < resumed["fence"] < lease.fence  # type: ignore[operator]
    assert float(str(leaves["at"])) < entered
    assert crew.events("not twice")
