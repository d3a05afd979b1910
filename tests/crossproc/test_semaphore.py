"""The semaphore across processes: permits of killed processes come back, and the queue passes them over."""

from __future__ import annotations

import asyncio
import time

from aiolock import LockManager

from .conftest import LATE, LIVENESS, Crew, queued
from .worker import LONG, NAME, PERMITS, TTL


async def test_permits_of_a_killed_holder_come_back(crew: Crew) -> None:
    """All of them go, after its ttl, to the waiters in their order; the others' leases stay."""
    async with LockManager(crew.url, acquire_timeout=20.0) as locks:
        semaphore = locks.semaphore(NAME, PERMITS)
        kept = await semaphore.acquire(1)
        victim = crew.start("stand", f"permits:{PERMITS - 1}", TTL, LIVENESS)
        await crew.until(lambda: crew.events("inside"))
        assert await semaphore.available() == 0
        entered: list[int] = []

        async def enter(number: int) -> None:
            async with semaphore.acquire(1):
                entered.append(number)

        waiters = []
        for number in range(3):
            waiters.append(asyncio.ensure_future(enter(number)))
            await queued(semaphore, number + 1)
        victim.kill()
        victim.wait()
        killed = time.monotonic()
        await asyncio.gather(*waiters)
        assert time.monotonic() - killed < TTL + 1 + LATE
        assert sorted(entered) == [0, 1, 2]
        assert entered[2] == 2  # the first two at once
        assert not kept.lost
        await kept.release()
        assert await semaphore.available() == PERMITS


async def test_a_killed_request_at_the_head_is_skipped(crew: Crew) -> None:
    """It asked for all permits, so those behind it wait for it; they get in within its liveness."""
    async with LockManager(crew.url, acquire_timeout=20.0) as locks:
        semaphore = locks.semaphore(NAME, PERMITS)
        async with semaphore.acquire(1):
            victim = crew.start("stand", f"permits:{PERMITS}", LONG, LIVENESS)
            await queued(semaphore, 1)
            waiters = [asyncio.ensure_future(semaphore.acquire(1)) for _ in range(2)]
            await queued(semaphore, 3)
            assert await semaphore.available() == 2
            victim.kill()
            victim.wait()
            killed = time.monotonic()
            leases = await asyncio.gather(*waiters)
            assert time.monotonic() - killed < LIVENESS + 1 + LATE
            for lease in leases:
                await lease.release()
        assert not crew.events("inside")
        assert await semaphore.available() == PERMITS
