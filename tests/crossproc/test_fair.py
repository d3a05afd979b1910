"""The fair lock across processes: its queue survives processes that are killed or stopped in it, and keeps its
order.
"""

from __future__ import annotations

import asyncio
import os
import signal
import time

import pytest

from aiolock import FairLock, LockManager
from aiolock.testing.server import RedisServer
from tests.histories.attempt import NEVER
from tests.support import redis_cli

from .conftest import LATE, LIVENESS, Crew, queued
from .worker import HERD, LONG, NAME, TTL, take

PATIENT = 3.0
"""The liveness of a process that comes back: two of its refreshes may be missed while the machine stands still."""


async def passed(lock: FairLock, liveness: float = LIVENESS) -> None:
    """Wait until the process that was just killed or stopped is past its liveness; the server has executed its last
    requests.
    """
    await lock.info()
    await asyncio.sleep(liveness + 0.05)


async def test_a_killed_holder_is_succeeded_about_a_ttl_later(crew: Crew) -> None:
    """Kept by QueueEntry.queued: it asks at the holder's expiry; and refresh.lua, which settles."""
    async with LockManager(crew.url, acquire_timeout=20.0) as locks:
        lock = locks.fair_lock(NAME)
        victim = crew.start("stand", "fair", TTL, LIVENESS)
        await crew.until(lambda: crew.events("inside"))
        waiter = asyncio.ensure_future(lock.acquire())
        await queued(lock, 1)
        victim.kill()
        victim.wait()
        began = time.monotonic()
        info = await lock.info()
        left = 0.0 if info is None else info.ttl
        assert left <= TTL
        lease = await waiter
        assert left - 0.05 < time.monotonic() - began < left + 1 + LATE
        assert lease.abandoned
        assert lease.fence > int(str(crew.events("inside")[0]["fence"]))
        await lease.release()
        async with lock as after:
            assert not after.abandoned


async def test_a_killed_waiter_is_skipped(crew: Crew) -> None:
    """It is first in line and dead for longer than its liveness: a release passes it over at no cost."""
    async with LockManager(crew.url, acquire_timeout=20.0) as locks:
        lock = locks.fair_lock(NAME)
        async with lock as lease:
            victim = crew.start("stand", "fair", TTL, LIVENESS)
            await queued(lock, 1)
            waiter = asyncio.ensure_future(lock.acquire())
            await queued(lock, 2)
            victim.kill()
            victim.wait()
            await passed(lock)
        following = await waiter
        assert not following.abandoned  # it was never granted the lock
        assert following.fence > lease.fence
        await following.release()
        assert await lock.info() is None


@pytest.mark.parametrize("what", ["lock", "fair"])
async def test_the_first_in_line_is_killed(crew: Crew, what: str) -> None:
    """Killed while it waits as the first in line: the same request grants to the next one, whatever the liveness.

    Kept by settle.lua: PUBLISH reaches no one.
    """
    async with LockManager(crew.url, ttl=LONG) as holding, LockManager(crew.url, acquire_timeout=20.0) as locks:
        lock = locks.fair_lock(NAME)
        lease = await take(holding, what)
        victim = crew.start("stand", what, LONG, LONG)
        await queued(lock, 1)
        waiter = asyncio.ensure_future(take(locks, what))
        await queued(lock, 2)
        with redis_cli.client(crew.url) as raw:
            listening = raw.pubsub_channels("aiolock:manager:*")
            victim.kill()
            victim.wait()
            await crew.until(lambda: set(raw.pubsub_channels("aiolock:manager:*")) < set(listening))
        began = time.monotonic()
        await lease.release()
        following = await waiter
        assert time.monotonic() - began < LATE
        assert not following.abandoned  # the one that died never began
        assert following.fence > lease.fence
        assert not crew.events("inside")
        await following.release()


@pytest.mark.slow
@pytest.mark.parametrize("what", ["lock", "fair"])
async def test_a_holder_that_was_granted_from_the_queue_is_killed(crew: Crew, what: str) -> None:
    """It has confirmed its grant: its successor gets in after its ttl, not its liveness, and is told that it was
    abandoned.
    """
    async with LockManager(crew.url, acquire_timeout=20.0) as locks:
        lock = locks.fair_lock(NAME)
        lease = await take(locks, what)
        victim = crew.start("stand", what, TTL, LIVENESS)
        await queued(lock, 1)
        await lease.release()
        await crew.until(lambda: crew.events("inside"))
        waiter = asyncio.ensure_future(take(locks, what))
        await queued(lock, 1)
        victim.kill()
        victim.wait()
        began = time.monotonic()
        info = await lock.info()
        assert info is not None
        assert info.holder.endswith(f":{victim.pid}")
        following = await waiter
        assert info.ttl - 0.05 < time.monotonic() - began < info.ttl + LATE
        assert following.abandoned
        assert following.fence > info.fence > lease.fence
        await following.release()


async def test_a_stopped_waiter_comes_back(crew: Crew) -> None:
    """It is passed over while it is stopped; when it continues, it has its old place again, before later ones."""
    async with LockManager(crew.url, acquire_timeout=20.0) as locks:
        lock = locks.fair_lock(NAME)
        async with lock as first:
            stopped = crew.start("stand", "fair", 10.0, PATIENT, 0.0)
            await queued(lock, 1)
            second, third = [asyncio.ensure_future(lock.acquire()) for _ in range(2)]
            await queued(lock, 3)
            crew.stop(stopped)
            await passed(lock, PATIENT)
        lease = await second
        assert not lease.abandoned
        await queued(lock, 1)
        os.kill(stopped.pid, signal.SIGCONT)
        await queued(lock, 2)
        await lease.release()
        await crew.done(stopped)
        (inside,) = crew.events("inside")
        after = await third
        assert first.fence < lease.fence < int(str(inside["fence"])) < after.fence
        assert not inside["abandoned"]
        assert not after.abandoned
        await after.release()
        assert [event["lost"] for event in crew.events("left")] == [False]


@pytest.mark.slow
async def test_no_one_is_overtaken(crew: Crew) -> None:
    """Twenty waiters in four processes: a waiter that knew its place before another one asked gets in before it.

    Kept by join.lua: `ZADD` with `NX`, and numbers that rise.
    """
    processes, tasks, rounds = 4, 5, 6
    workers = [crew.start("queue", tasks, rounds) for _ in range(processes)]
    await crew.until(lambda: len(crew.events("ready")) == processes)
    (crew.folder / "go").touch()
    await crew.done(*workers)
    seen = crew.judge()
    assert len(seen.attempts) == processes * tasks * rounds
    assert sum(attempt.queued < NEVER for attempt in seen.attempts) > len(seen.attempts) // 2


@pytest.mark.slow
async def test_a_handoff_costs_the_same_however_many_processes_wait(crew: Crew, own_server: RedisServer) -> None:
    """Everything that the server executes between a release and the next entry, with 2, 8 and 32 waiting processes.

    Nothing is refreshed in between, as the liveness is long.
    """
    crew.url = own_server.url
    raw = redis_cli.async_client(own_server.url)
    stats = redis_cli.CommandStats(raw)
    costs = {}
    async with raw, LockManager(crew.url, ttl=2 * LONG, recheck=LONG) as locks:
        leases = [(what, size, await take(locks, what, f"{what}:{size}")) for what in ("fair", "lock") for size in HERD]
        parent = crew.start("herd")
        for what, size, _ in leases:
            await queued(locks.fair_lock(f"{what}:{size}"), size)
        for what, size, lease in leases:
            await stats.reset()
            await lease.release()
            event = {"what": what, "size": size}
            await crew.until(lambda event=event: any(event.items() <= e.items() for e in crew.events("inside")))  # type: ignore[misc]
            async with asyncio.timeout(20):
                while (await stats.counts())["evalsha"] < 2:  # noqa: ASYNC110 - the confirmation was written before
                    await asyncio.sleep(0.01)
            costs[what, size] = await stats.counts()
        parent.terminate()
        await crew.done(parent)
    for cost in costs.values():
        del cost["script|load"], cost["ping"]  # heartbeats of processes that wait for long
    for what in ("fair", "lock"):
        few, some, many = (costs[what, size] for size in HERD)
        assert few == some == many
        assert few["evalsha"] == 2  # the release, which grants, and the confirmation
        assert few["publish"] == 1


@pytest.mark.slow
@pytest.mark.parametrize("what", ["lock", "fair"])
async def test_a_stopped_process_does_not_enter_late_on_its_grant(crew: Crew, what: str) -> None:
    """First in line, stopped, and then granted the lock: it is passed over after its liveness. It continues while
    another is inside, refuses its stale grant, and queues again. Kept by QueueEntry.told.
    """
    async with LockManager(crew.url, ttl=LONG) as holding, LockManager(crew.url, acquire_timeout=20.0) as locks:
        lock = locks.fair_lock(NAME)
        first = await take(holding, what)
        stopped = crew.start("stand", what, TTL, PATIENT, 0.0)
        await queued(lock, 1)
        second = asyncio.ensure_future(take(locks, what))
        await queued(lock, 2)
        crew.stop(stopped)
        await first.release()
        info = await lock.info()
        assert info is not None
        assert info.fence > first.fence
        assert 0 < info.ttl <= PATIENT
        lease = await second
        assert not lease.abandoned  # no block began
        os.kill(stopped.pid, signal.SIGCONT)
        await queued(lock, 1)
        assert not crew.events("inside")
        await lease.release()
        await crew.done(stopped)
        (inside,) = crew.events("inside")
        assert info.fence < lease.fence < int(str(inside["fence"]))
        assert [event["lost"] for event in crew.events("left")] == [False]
