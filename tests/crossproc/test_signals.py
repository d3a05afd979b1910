"""A holder is killed, or stopped past its ttl and continued."""

from __future__ import annotations

import asyncio
import os
import signal
import time

from aiolock import LockManager

from .conftest import LATE, Crew, queued
from .resource import Resource
from .worker import NAME, TTL

PATIENT = 3.0
"""Seconds for which a waiting process counts as alive, by default."""


async def remaining(locks: LockManager) -> float:
    """Seconds that the holder has left; 0 if there is none."""
    info = await locks.lock(NAME).info()
    return 0.0 if info is None else info.ttl


async def test_a_killed_holder_is_succeeded_about_a_ttl_later(crew: Crew) -> None:
    """Kept by state.lua: `vacate`, and QueueEntry.queued: it asks at the holder's expiry."""
    async with LockManager(crew.url, ttl=TTL, recheck=60.0) as locks:
        victim = crew.start("hold")
        await crew.until(lambda: crew.events("inside"))
        waiter = asyncio.ensure_future(locks.lock(NAME).acquire())
        low = TTL
        async with asyncio.timeout(TTL + LATE):
            while (left := await remaining(locks)) <= low:  # until it renewed
                low = left
                await asyncio.sleep(0.01)
        assert not waiter.done()
        victim.kill()
        victim.wait()
        killed = time.monotonic()
        left = await remaining(locks)
        assert 0 < left <= TTL
        async with asyncio.timeout(TTL + 5):
            lease = await waiter
        elapsed = time.monotonic() - killed
        assert left - 0.05 < elapsed < left + LATE
        assert lease.abandoned
        (inside,) = crew.events("inside")
        assert lease.fence > int(str(inside["fence"]))
        assert Resource(str(crew.folder / "resource")).write(lease.fence)
        await lease.release()
        async with locks.lock(NAME) as after:
            assert not after.abandoned


async def test_a_stopped_holder_is_cancelled_and_its_late_write_refused(crew: Crew) -> None:
    """SIGSTOP past the ttl, SIGCONT. Kept by Scheduler.lateness, Hold.check and, at the resource, by the fence."""
    holder = crew.start("hold")
    await crew.until(lambda: crew.events("inside"))
    crew.stop(holder)
    stopped = time.monotonic()
    resource = Resource(str(crew.folder / "resource"))
    async with LockManager(crew.url, ttl=30.0) as locks:
        async with asyncio.timeout(TTL + 5), locks.lock(NAME) as lease:
            assert lease.abandoned
            assert resource.write(lease.fence)
            before = len(crew.events("write"))
            os.kill(holder.pid, signal.SIGCONT)
            await crew.done(holder)
            # Both were alive: whatever the old one began after it continued was refused.
            late = [event for event in crew.events("write") if float(str(event["at"])) > stopped]
            assert not any(event["accepted"] for event in late)
            (lost,) = crew.events("lost")
            assert lost["reason"] == "LOOP_BLOCKED"
            assert "for at least" in str(lost["text"])
            assert lost["late_write_accepted"] is False
            assert not lease.lost
            info = await locks.lock(NAME).info()
            assert info is not None
            assert info.fence == lease.fence  # its release freed nothing of ours
        assert len(crew.events("write")) - before <= 2


async def test_a_stopped_waiter_does_not_keep_others_out(crew: Crew) -> None:
    """The waiter in another process is stopped; the lock passes it over."""
    async with LockManager(crew.url, ttl=30.0) as locks:
        async with locks.lock(NAME):
            waiter = crew.start("hold", 0.5)
            await queued(locks.fair_lock(NAME), 1)
            crew.stop(waiter)
        for _ in range(5):
            async with asyncio.timeout(PATIENT + LATE), locks.lock(NAME) as lease:
                assert not crew.events("inside")
        os.kill(waiter.pid, signal.SIGCONT)
        await crew.until(lambda: crew.events("inside"))
        assert int(str(crew.events("inside")[0]["fence"])) > lease.fence
