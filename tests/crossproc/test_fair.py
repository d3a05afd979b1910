"""The fair lock across processes: its queue outlives whoever is killed or stopped in it, and keeps its order."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from itertools import pairwise

from aiolock import FairLock, LockManager
from aiolock.testing.server import RedisServer
from tests.support import redis_cli

from .conftest import LATE, LIVENESS, Crew, queued
from .test_history import check_history
from .worker import HERD, LONG, NAME, TTL, take

PATIENT = 3.0
"""The liveness of who comes back: two beats of it may be missed while the machine stands still."""


async def passed(lock: FairLock, liveness: float = LIVENESS) -> None:
    """Wait until whoever was just killed or stopped is over its liveness; what it sent before that was executed."""
    await lock.info()
    await asyncio.sleep(liveness + 0.05)


async def test_a_killed_holder_is_succeeded_about_a_ttl_later(crew: Crew) -> None:
    """Kept by settle in turn.lua, which looks after the dead, and a waiter's refresh, which settles."""
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
    """First in line and dead for longer than its liveness: a release goes past it, and it costs nothing."""
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
        assert not following.abandoned  # it was never granted
        assert following.fence > lease.fence
        await following.release()
        assert await lock.info() is None


async def test_a_grant_to_a_killed_waiter_is_provisional(crew: Crew) -> None:
    """Nobody hears of it any more: the next one is in within the liveness, not the ttl."""
    async with LockManager(crew.url, acquire_timeout=20.0) as locks:
        lock = locks.fair_lock(NAME)
        async with lock as lease:
            victim = crew.start("stand", "fair", LONG, LIVENESS)
            await queued(lock, 1)
            waiter = asyncio.ensure_future(lock.acquire())
            await queued(lock, 2)
            with redis_cli.client(crew.url) as raw:
                listening = raw.pubsub_channels("aiolock:manager:*")
                victim.kill()
                victim.wait()
                await crew.until(lambda: set(raw.pubsub_channels("aiolock:manager:*")) < set(listening))
        began = time.monotonic()
        info = await lock.info()
        assert info is not None
        assert info.holder.endswith(f":{victim.pid}")
        assert info.ttl <= LIVENESS
        following = await waiter
        assert time.monotonic() - began < LIVENESS + 1 + LATE
        assert following.abandoned
        assert following.fence > info.fence > lease.fence
        assert not crew.events("inside")
        await following.release()


async def test_a_stopped_waiter_comes_back_to_its_place(crew: Crew) -> None:
    """Skipped while it is stopped; when it goes on, it is before those that came after it. Kept by its old number."""
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
        after = await third
        (inside,) = crew.events("inside")
        assert first.fence < lease.fence < int(str(inside["fence"])) < after.fence
        assert not inside["abandoned"]
        assert not after.abandoned
        await after.release()
        await crew.done(stopped)
        assert [event["lost"] for event in crew.events("left")] == [False]


async def test_nobody_is_overtaken(crew: Crew) -> None:
    """Twenty waiters in four processes: they enter in the order of their queue numbers.

    And, without a look at the numbers: whoever knew of its place before another one asked is in before it.
    Kept by join in queue.lua, which leaves a number as it is, and by `state.waiters == 0` in ask.lua.
    """
    processes, tasks, rounds = 4, 5, 6
    workers = [crew.start("queue", tasks, rounds) for _ in range(processes)]
    await crew.until(lambda: len(crew.events("ready")) == processes)
    (crew.folder / "go").touch()
    await crew.done(*workers)
    assert check_history(crew.events()) == processes * tasks * rounds
    entries = crew.events("enter")
    assert sum(bool(entry["waited"]) for entry in entries) > len(entries) // 2
    for entry, following in pairwise(entries):
        assert entry["number"] < following["number"], (entry, following)  # type: ignore[operator]
    for number, entry in enumerate(entries):
        overtaken = [later for later in entries[number + 1 :] if later["queued"] < entry["asked"]]  # type: ignore[operator]
        assert not overtaken, (entry, overtaken)


async def test_a_handoff_costs_the_same_however_many_processes_wait(crew: Crew, own_server: RedisServer) -> None:
    """Everything that the server executes between a release and the next entry, with 2, 8 and 32 processes waiting.

    Nothing is refreshed meanwhile, as the liveness is long. The plain lock shows that the count would tell: all of its
    waiters try when they hear of a release.
    """
    crew.url = own_server.url
    raw = redis_cli.async_client(own_server.url)
    stats = redis_cli.CommandStats(raw)
    costs = {}
    async with raw, LockManager(crew.url, ttl=2 * LONG, recheck=LONG) as locks:
        leases = [(what, size, await take(locks, what, f"{what}:{size}")) for what in ("fair", "lock") for size in HERD]
        parent = crew.start("herd")
        for size in HERD:
            await queued(locks.fair_lock(f"fair:{size}"), size)
        for what, size, lease in leases:
            await stats.reset()
            await lease.release()
            event = {"what": what, "size": size}
            await crew.until(lambda event=event: any(event.items() <= e.items() for e in crew.events("inside")))  # type: ignore[misc]
            if what == "lock":
                async with asyncio.timeout(20):
                    while (await stats.counts())["evalsha"] < 1 + size:  # noqa: ASYNC110 - those that are refused
                        await asyncio.sleep(0.01)
            costs[what, size] = await stats.counts()
        parent.terminate()
        await crew.done(parent)
    for cost in costs.values():
        del cost["script|load"], cost["ping"]  # heartbeats of those that wait for long
    few, some, many = (costs["fair", size] for size in HERD)
    assert few == some == many
    assert few["evalsha"] == 1  # the release, which grants
    assert few["publish"] == 1
    assert [costs["lock", size]["evalsha"] for size in HERD] == [1 + size for size in HERD]


async def test_a_stopped_grantee_does_not_enter_late(crew: Crew) -> None:
    """Granted while it is stopped, and continued when others are in: its grant is void, its place is not."""
    async with LockManager(crew.url, acquire_timeout=20.0) as locks:
        lock = locks.fair_lock(NAME)
        async with lock:
            stopped = crew.start("stand", "fair", TTL, PATIENT, 0.0)
            await queued(lock, 1)
            second, third = [asyncio.ensure_future(lock.acquire()) for _ in range(2)]
            await queued(lock, 3)
            crew.stop(stopped)
        lease = await second
        assert lease.abandoned
        os.kill(stopped.pid, signal.SIGCONT)
        await queued(lock, 2)
        assert not crew.events("inside")
        await lease.release()
        after = await third
        (inside,) = crew.events("inside")
        assert lease.fence < int(str(inside["fence"])) < after.fence
        await after.release()
        await crew.done(stopped)
        assert [event["lost"] for event in crew.events("left")] == [False]
