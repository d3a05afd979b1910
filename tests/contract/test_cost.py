"""What locks cost a server: commands, connections, keys."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack

import pytest
import redis.asyncio

from aiolock import Lock, LockManager
from aiolock.core.renewals import CHUNK
from aiolock.scripts.keys import GRACE_MS
from aiolock.scripts.lock import RELEASE
from tests.support.locks import tombstones
from tests.support.proxy import FaultProxy
from tests.support.redis_cli import CommandStats

from .places import TTL_MS, RedisPlace, keys_of, renewed, steal, until

PING = "ping"
ENOUGH = 5.0


@pytest.fixture
def place(redis_place: RedisPlace) -> RedisPlace:
    """These costs arise on a server."""
    return redis_place


@pytest.fixture
async def calm(place: RedisPlace) -> AsyncIterator[LockManager]:
    """A manager whose waiters say so rarely that they are alive that no test sees it."""
    async with place.manager(ttl=60.0, liveness=60.0) as manager:
        yield manager


async def connections(raw: redis.asyncio.Redis) -> set[str]:
    return {client["id"] for client in await raw.client_list()}


async def ran(stats: CommandStats) -> int:
    """Commands that the server ran, those in scripts included, without heartbeats."""
    counts = await stats.counts()
    del counts[PING]
    return counts.total()


@pytest.mark.parametrize("make", [LockManager.lock, LockManager.fair_lock])
async def test_an_uncontended_pair_costs_two_requests_and_eleven_commands(
    locks: LockManager, commandstats: CommandStats, make: Callable[[LockManager, str], Lock]
) -> None:
    """For a lock and for a fair lock. Kept by acquire_free.lua and release_free.lua."""
    lock = make(locks, "order:42")
    async with lock:
        pass  # the scripts are loaded
    await commandstats.reset()
    for _ in range(50):
        async with lock:
            pass
    sent = await commandstats.sent()
    del sent[PING]
    assert sent == Counter(evalsha=100)
    assert await ran(commandstats) == 50 * 11


async def test_nesting_costs_two_more(here: Lock, commandstats: CommandStats) -> None:
    for _ in range(2):  # the scripts are loaded in the first round
        await commandstats.reset()
        async with here, here:
            pass
    sent = await commandstats.sent()
    del sent[PING]
    assert sent == Counter(evalsha=4)


async def test_two_hundred_waiters_cost_one_request(
    place: RedisPlace, raw: redis.asyncio.Redis, commandstats: CommandStats, calm: LockManager
) -> None:
    """H14. 200 tasks of one process wait for a lock of another: their process has one entry in its queue.

    Kept by Gate._line_up: `self.common is None`.
    """
    others = calm
    async with others.lock("warm"):
        pass
    steal(place, "busy", ttl_ms=60_000)
    before = await connections(raw)
    await commandstats.reset()
    waiters = [asyncio.create_task(_enter(others.lock("busy"))) for _ in range(200)]
    await until(lambda: place.listeners("busy"))
    await asyncio.sleep(0.2)  # time for requests that should not be sent
    sent = await commandstats.sent()
    del sent[PING]
    assert sent == Counter(evalsha=1)
    assert await connections(raw) == before
    assert len(place.waiting("busy")) == 1
    for waiter in waiters:
        waiter.cancel()
    await asyncio.gather(*waiters, return_exceptions=True)
    assert place.state("busy").holder == "thief:1"
    await until(lambda: not place.listeners("busy"))


async def test_two_hundred_waiters_on_a_fair_lock_have_one_heartbeat(
    place: RedisPlace, commandstats: CommandStats
) -> None:
    """One request for each to queue, of ten commands on the server at most; then one for all, however many there are.

    Kept by LocalQueue.schedule_refresh: the first speaks for all.
    """
    beats = 5
    async with place.manager(ttl=60.0, liveness=0.75) as locks:
        async with locks.fair_lock("warm"):
            pass
        steal(place, "busy", ttl_ms=60_000)
        await commandstats.reset()
        waiters = [asyncio.create_task(_enter(locks.fair_lock("busy"))) for _ in range(200)]
        await asyncio.sleep(beats * 0.25)
        counts = await commandstats.counts()
        assert counts["zadd"] == 200
        assert 200 <= counts["evalsha"] <= 200 + beats
        assert counts.total() <= 2_000, counts
        assert len(place.waiting("busy")) == 200
        for waiter in waiters:
            waiter.cancel()
        await asyncio.gather(*waiters, return_exceptions=True)
        await until(lambda: not place.waiting("busy"))


async def test_a_hand_off_between_processes_costs_three_requests(place: RedisPlace, commandstats: CommandStats) -> None:
    """However many wait: one to queue, one that confirms the grant, one to release. No one else is woken.

    Kept by settle.lua: it returns with the first that hears.
    """
    turns = 10
    for processes in (2, 8):
        async with AsyncExitStack() as stack:
            managers = [
                await stack.enter_async_context(place.manager(ttl=60.0, liveness=30.0)) for _ in range(processes)
            ]
            for manager in managers:
                await _enter(manager.lock("warm"))

            async def work(lock: Lock) -> None:
                for _ in range(turns):
                    async with lock:
                        await asyncio.sleep(0.001)

            await asyncio.gather(*(work(manager.lock("warm")) for manager in managers))  # the scripts are loaded
            await commandstats.reset()
            await asyncio.gather(*(work(manager.lock("busy")) for manager in managers))
            counts = await commandstats.counts()
        entries = turns * processes
        assert 2 * entries <= counts["evalsha"] <= 3 * entries, counts
        assert counts["publish"] <= entries
        assert counts["subscribe"] == 0
        assert counts.total() / entries <= 26, counts


async def test_waiting_behind_a_task_of_the_same_process_costs_nothing(
    locks: LockManager, commandstats: CommandStats
) -> None:
    """Each hand-off is one request, of six commands on the server. Kept by hand_on(), and transfer_local.lua."""
    lock = locks.lock("busy", ttl=30.0)
    await asyncio.gather(*(_enter(locks.lock("warm")) for _ in range(3)))
    async with lock:
        await commandstats.reset()
        waiters = [asyncio.create_task(_enter(lock)) for _ in range(100)]
        for _ in range(5):
            await asyncio.sleep(0)
        sent = await commandstats.sent()
        del sent[PING]
        assert not sent
    await asyncio.gather(*waiters)
    sent = await commandstats.sent()
    del sent[PING]
    assert sent == Counter(evalsha=101)
    assert await ran(commandstats) == 100 * 7 + 5


async def _enter(lock: Lock) -> None:
    async with lock:
        pass


async def test_connections_are_constant(locks: LockManager, place: RedisPlace, raw: redis.asyncio.Redis) -> None:
    """Invariant 7: 100 leases, 100 waiters in 20 queues. Kept by there being one RedisBackend per manager."""
    names = [f"busy{i}" for i in range(20)]
    for name in names:
        steal(place, name)
    before = await connections(raw)
    waiters = [asyncio.create_task(_enter(locks.lock(name))) for name in names for _ in range(5)]
    leases = await asyncio.gather(*(locks.lock(f"n{i}").acquire() for i in range(100)))
    await until(lambda: all(place.listeners(name) for name in names))
    assert await connections(raw) == before
    for waiter in waiters:
        waiter.cancel()
    await asyncio.gather(*waiters, *(lease.release() for lease in leases), return_exceptions=True)


async def test_a_thousand_leases_are_renewed_in_a_few_commands(place: RedisPlace, commandstats: CommandStats) -> None:
    """Kept by Scheduler._call_due, which collects what is due, and `CHUNK`."""
    number = 1000
    async with place.manager(ttl=60.0) as locks:
        leases = await asyncio.gather(*(locks.lock(f"n{i}").acquire() for i in range(number)))
        await commandstats.reset()
        await renewed(*leases)
        sent = await commandstats.sent()
        assert number / CHUNK <= sent["evalsha"] <= number / CHUNK + 4, sent
        assert all(place.state(f"n{i}").pttl > 30_000 for i in range(0, number, 7))
        await asyncio.gather(*(lease.release() for lease in leases))


async def test_calls_of_one_turn_leave_in_one_write(place: RedisPlace) -> None:
    host, port = place.url.removeprefix("redis://").split("/")[0].split(":")
    async with FaultProxy(host, int(port)) as proxy, LockManager(proxy.url) as locks:
        async with locks.lock("warm"):
            pass
        chunks, requests = proxy.chunks, proxy.requests
        leases = await asyncio.gather(*(locks.lock(f"n{i}").acquire() for i in range(100)))
        assert proxy.requests - requests == 100
        assert proxy.chunks - chunks < 5
        await asyncio.gather(*(lease.release() for lease in leases))


async def test_memory_of_many_names_goes_away(locks: LockManager, place: RedisPlace) -> None:
    """Invariant 8. Kept by Gate.settle_down: `del self.runtime.gates[self._key]`."""
    await asyncio.gather(*(_enter(locks.lock(f"n{i}")) for i in range(500)))
    runtime = locks._runtime
    assert not runtime.gates
    assert not runtime.holds
    keys = place.keys()
    assert keys == {keys_of(f"n{i}").lock for i in range(500)}
    assert all(0 < place.side.pttl(key) <= TTL_MS + GRACE_MS for key in keys)


async def test_a_tainted_owner_leaves_a_tombstone_that_expires(place: RedisPlace) -> None:
    host, port = place.url.removeprefix("redis://").split("/")[0].split(":")
    async with FaultProxy(host, int(port)) as proxy, LockManager(proxy.url, ttl=2.0) as locks:
        async with locks.lock("n"):
            proxy.cut(matching=RELEASE.sha.encode())
        (dead,) = tombstones(place.link)
        assert dead.startswith(f"{keys_of('n').lock}:dead:")
        assert 2_000 < place.side.pttl(dead) <= 62_000
