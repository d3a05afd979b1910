"""Moving a lease, on every backend: two managers that share a store are two processes."""

# ruff: noqa: PT012 - what raises is the whole guarded block

from __future__ import annotations

import asyncio

import pytest

from aiolock import ConfigurationError, Lock, LockLost, LockManager, LossReason, NotOwned
from tests.support.locks import let_expire
from tests.support.redis_cli import CommandStats

from .places import TTL, TTL_MS, Place, RedisPlace, steal, until

NAME = "order:42"
ENOUGH = 5.0


async def test_no_one_gets_in_between(here: Lock, there: Lock, others: LockManager, place: Place) -> None:
    """Invariants 1 and 2. Kept by transfer.lua: one script takes it from one and gives it to the other."""
    async with here as lease:
        waiter = asyncio.ensure_future(there.acquire())
        await until(lambda: waiter.done() or place.listeners(NAME))
        ticket = await lease.detach()
        assert not waiter.done()
    async with place.manager(ttl=TTL) as third, third.resume(ticket) as resumed:
        assert resumed.fence > lease.fence
        assert await here.try_acquire() is None
        info = await there.info()
        assert info is not None
        assert info.fence == resumed.fence
        assert not waiter.done()
    async with asyncio.timeout(ENOUGH):
        last = await waiter
    assert last.fence > resumed.fence
    assert not last.abandoned
    await last.release()
    assert place.gone(NAME)
    assert not place.waiting(NAME)


async def test_a_ticket_of_a_manager_that_was_closed(place: Place, there: Lock, others: LockManager) -> None:
    async with place.manager(ttl=TTL) as first:
        lease = await first.lock(NAME).acquire()
        ticket = await lease.detach(60.0)
    assert 50_000 < place.state(NAME).pttl <= 60_000
    assert await there.try_acquire() is None
    async with others.resume(ticket, ttl=20.0) as resumed:
        assert TTL_MS < place.state(NAME).pttl <= 20_000
        assert resumed.remaining() > TTL


async def test_twice(here: Lock, others: LockManager) -> None:
    lease = await here.acquire()
    ticket = await lease.detach()
    async with others.resume(ticket) as resumed:
        with pytest.raises(NotOwned, match="already resumed"):
            await others.resume(ticket)
        resumed.ensure()
    with pytest.raises(NotOwned, match="resumed and released"):
        await others.resume(ticket)


async def test_late(locks: LockManager, others: LockManager, place: Place) -> None:
    lease = await locks.lock(NAME).acquire()
    ticket = await lease.detach()
    assert 0 < place.state(NAME).pttl <= TTL_MS
    let_expire(place.side, NAME)
    with pytest.raises(NotOwned, match="after its ttl"):
        await others.resume(ticket)
    fence = steal(place, NAME)
    with pytest.raises(NotOwned, match="another owner holds"):
        await others.resume(ticket)
    assert place.state(NAME).holder == "thief:1"
    assert fence > lease.fence


async def test_a_taken_lease_is_not_moved(here: Lock, place: Place) -> None:
    with pytest.raises(LockLost):
        async with here as lease:
            steal(place, NAME)
            with pytest.raises(LockLost) as caught:
                await lease.detach()
            assert caught.value.reason is LossReason.TAKEN_OVER


async def test_other_namespaces_and_databases(redis_place: RedisPlace) -> None:
    """A ticket is valid only for managers with the same keys."""
    async with redis_place.manager() as locks:
        lease = await locks.lock(NAME).acquire()
        ticket = await lease.detach()
        for stranger in (
            LockManager(redis_place.url, namespace="shop"),
            LockManager(redis_place.url.replace("/0", "/1")),
        ):
            with pytest.raises(ConfigurationError, match="is of namespace 'aiolock' and database 0"):
                stranger.resume(ticket)
        async with locks.resume(ticket):
            pass


async def test_what_it_costs(redis_place: RedisPlace, commandstats: CommandStats) -> None:
    """One round trip each. Broken by any request more than the renewal and the transfer."""
    async with redis_place.manager() as locks, redis_place.manager() as others:
        for counted in (False, True):  # the scripts are loaded in the first round
            lease = await locks.lock(NAME).acquire()
            await commandstats.reset()
            ticket = await lease.detach()
            if counted:
                assert await sent(commandstats) == {"evalsha": 1}
            resumed = await others.resume(ticket)
            if counted:
                assert await sent(commandstats) == {"evalsha": 2}
            await resumed.release()


async def sent(stats: CommandStats) -> dict[str, int]:
    """Return what was sent, without heartbeats."""
    counted = await stats.sent()
    return {name: count for name, count in counted.items() if name != "ping"}
