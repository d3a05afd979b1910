"""What locks cost a server: commands, connections, keys."""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest
import redis.asyncio

from aiolock import Lock, LockManager
from aiolock.core.watchdog import CHUNK
from aiolock.scripts.lock import GRACE_MS, RELEASE
from tests.support.proxy import FaultProxy
from tests.support.redis_cli import CommandStats

from .places import TTL_MS, RedisPlace, keys_of, renewed, steal, until

PING = "ping"
ENOUGH = 5.0


@pytest.fixture
def place(redis_place: RedisPlace) -> RedisPlace:
    """Costs are a server's."""
    return redis_place


async def connections(raw: redis.asyncio.Redis) -> set[str]:
    return {client["id"] for client in await raw.client_list()}


async def test_an_uncontended_pair_costs_two_commands(here: Lock, commandstats: CommandStats) -> None:
    async with here:
        pass  # the scripts are loaded
    await commandstats.reset()
    for _ in range(50):
        async with here:
            pass
    sent = await commandstats.sent()
    del sent[PING]
    assert sent == Counter(evalsha=100)


async def test_nesting_costs_two_more(here: Lock, commandstats: CommandStats) -> None:
    async with here:
        pass
    await commandstats.reset()
    async with here, here:
        pass
    sent = await commandstats.sent()
    del sent[PING]
    assert sent == Counter(evalsha=4)


async def test_two_hundred_waiters_cost_five_commands(
    place: RedisPlace, others: LockManager, raw: redis.asyncio.Redis, commandstats: CommandStats
) -> None:
    """H14. 200 tasks of one process wait for a lock of another.

    Kept by acquisition.obtain: `at_once = gate.open`, and Gate._promote: only contenders talk to Redis.
    """
    async with others.lock("warm"):
        pass
    steal(place, "busy", ttl_ms=60_000)
    before = await connections(raw)
    await commandstats.reset()
    waiters = [asyncio.create_task(_enter(others.lock("busy"))) for _ in range(200)]
    await asyncio.sleep(0.5)
    sent = await commandstats.sent()
    assert sent.pop(PING, 0) <= 2
    assert sent == Counter(subscribe=1, evalsha=2)
    assert await connections(raw) == before
    for waiter in waiters:
        waiter.cancel()
    await asyncio.gather(*waiters, return_exceptions=True)
    assert place.side.hash(keys_of("busy").lock) == {"thief:1": "1"}
    await until(lambda: not place.listeners("busy"))


async def test_waiting_behind_a_task_of_the_own_process_costs_nothing(
    locks: LockManager, commandstats: CommandStats
) -> None:
    """And each hand-off is one command. Kept by Handoff.start."""
    lock = locks.lock("busy", ttl=30.0)
    async with locks.lock("warm"):
        pass
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
    assert sent["evalsha"] <= 110, sent
    assert not sent["subscribe"]


async def _enter(lock: Lock) -> None:
    async with lock:
        pass


async def test_connections_are_constant(locks: LockManager, place: RedisPlace, raw: redis.asyncio.Redis) -> None:
    """Invariant 7: 100 leases, 100 waiters on 20 channels. Kept by there being one RedisBackend a manager."""
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
    """Kept by Watchdog._ask_due, which collects what is due, and `CHUNK`."""
    number = 1000
    async with place.manager(ttl=60.0) as locks:
        leases = await asyncio.gather(*(locks.lock(f"n{i}").acquire() for i in range(number)))
        await commandstats.reset()
        await renewed(*leases)
        sent = await commandstats.sent()
        assert number / CHUNK <= sent["evalsha"] <= number / CHUNK + 4, sent
        assert all(place.side.pttl(keys_of(f"n{i}").lock) > 30_000 for i in range(number))
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
    assert not runtime.subscriptions._listeners.keys() - {runtime.keys.manager(runtime.id)}
    keys = place.keys()
    assert keys == {keys_of(f"n{i}").state for i in range(500)}
    assert all(0 < place.side.pttl(key) <= TTL_MS + GRACE_MS for key in keys)


async def test_a_tainted_owner_leaves_a_tombstone_that_expires(place: RedisPlace) -> None:
    host, port = place.url.removeprefix("redis://").split("/")[0].split(":")
    async with FaultProxy(host, int(port)) as proxy, LockManager(proxy.url, ttl=2.0) as locks:
        async with locks.lock("n"):
            proxy.cut(matching=RELEASE.sha.encode())
        (dead,) = place.keys() - {keys_of("n").state}
        assert dead.startswith(f"{keys_of('n').lock}:dead:")
        assert 2_000 < place.side.pttl(dead) <= 62_000
