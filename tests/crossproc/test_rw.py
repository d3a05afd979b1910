"""The read-write lock across processes: a killed process delays others no longer than promised."""

from __future__ import annotations

import asyncio
import time

from aiolock import LockManager

from .conftest import LATE, LIVENESS, Crew, queued
from .worker import LONG, NAME, TTL


async def test_a_killed_reader_delays_a_writer_by_its_own_ttl(crew: Crew) -> None:
    """And not by the ttl of other readers, which is longer. Kept by an expiry for each holder."""
    async with LockManager(crew.url, ttl=LONG, acquire_timeout=20.0) as locks:
        rw = locks.rw_lock(NAME)
        reader = await rw.read.acquire()
        victim = crew.start("stand", "read", TTL, LIVENESS)
        await crew.until(lambda: crew.events("inside"))
        writer = asyncio.ensure_future(rw.write.acquire())
        await queued(rw, 1)
        victim.kill()
        victim.wait()
        killed = time.monotonic()
        await reader.release()
        lease = await writer
        assert time.monotonic() - killed < TTL + 1 + LATE
        assert not lease.abandoned  # a reader leaves nothing half-done
        await lease.release()


async def test_a_killed_writer_in_the_queue_frees_the_readers_behind_it(crew: Crew) -> None:
    """Within its liveness, without a release: others read all the time. Kept by the refresh of the waiters behind
    it.
    """
    async with LockManager(crew.url, acquire_timeout=20.0) as locks:
        rw = locks.rw_lock(NAME)
        async with rw.read as inside:
            victim = crew.start("stand", "write", LONG, LIVENESS)
            await queued(rw, 1)
            reader = asyncio.ensure_future(rw.read.acquire())
            await queued(rw, 2)
            assert not reader.done()
            victim.kill()
            victim.wait()
            killed = time.monotonic()
            lease = await reader
            assert time.monotonic() - killed < LIVENESS + 1 + LATE
            assert not inside.lost
            assert not lease.abandoned
            await lease.release()
        assert not crew.events("inside")


async def test_a_killed_writer_is_noticed_by_the_next_holders(crew: Crew) -> None:
    """Every reader sees `abandoned`, and so does the first writer, who clears it. The next waits as long as its ttl."""
    async with LockManager(crew.url, acquire_timeout=20.0) as locks:
        rw = locks.rw_lock(NAME)
        victim = crew.start("stand", "write", TTL, LIVENESS)
        await crew.until(lambda: crew.events("inside"))
        readers = [asyncio.ensure_future(rw.read.acquire()) for _ in range(2)]
        await queued(rw, 2)
        victim.kill()
        victim.wait()
        killed = time.monotonic()
        leases = await asyncio.gather(*readers)
        assert time.monotonic() - killed < TTL + 1 + LATE
        (written,) = crew.events("inside")
        for lease in leases:
            assert lease.abandoned
            assert lease.fence == written["fence"]
            await lease.release()
        async with rw.write as first:
            assert first.abandoned
            assert first.fence > lease.fence
        async with rw.write as second:
            assert not second.abandoned
