"""An address whose server is demoted, and which then leads to the promoted one: what holders and waiters see."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from aiolock import LockLost, LockManager, LossReason
from tests.support import redis_cli
from tests.support.proxy import FaultProxy
from tests.support.replication import Pair

from .scene import ENOUGH, NAME, Opener, Server, key_of, renewed, until


@pytest.fixture
async def proxy(own_pair: Pair) -> AsyncIterator[FaultProxy]:
    """An address that leads to the master, until it moves."""
    async with FaultProxy(own_pair.master.host, own_pair.master.port) as proxy:
        yield proxy
        proxy.heal()


@pytest.fixture
async def locks(proxy: FaultProxy, opened: Opener) -> LockManager:
    """The manager behind the address; it renews soon, and no ttl helps it."""
    return await opened(proxy.url, ttl=6.0)


def move(pair: Pair, proxy: FaultProxy) -> None:
    proxy.move(pair.replica.host, pair.replica.port)


async def test_a_holder_goes_on(own_pair: Pair, proxy: FaultProxy, locks: LockManager) -> None:
    """Its renewal, one of a batch, is refused by the old server, and counts on the new one. Kept by `PartRefused`."""
    async with asyncio.timeout(ENOUGH), locks.lock(NAME) as lease:
        own_pair.follow()
        own_pair.swap()
        move(own_pair, proxy)
        before = lease._hold.expiry
        await renewed(lease, before)
        assert not lease.lost
        with redis_cli.client(own_pair.replica.url) as link:
            assert Server(link).locked()


async def test_a_holder_whose_lock_did_not_survive(own_pair: Pair, proxy: FaultProxy, locks: LockManager) -> None:
    """It knows as soon as its connection is replaced."""
    own_pair.leave()  # the replica hears nothing of the grant
    lease = await locks.lock(NAME).acquire()
    own_pair.link.replicaof(own_pair.replica.host, str(own_pair.replica.port))
    move(own_pair, proxy)
    async with asyncio.timeout(ENOUGH):
        async with locks.lock("other"):
            pass  # the request that is refused
        assert await lease.wait_lost() is LossReason.DELETED
    with pytest.raises(LockLost):
        await lease.release()


@pytest.mark.parametrize("kind", ["lock", "fair_lock", "rw_lock", "semaphore"])
async def test_a_release_and_an_acquire(kind: str, own_pair: Pair, proxy: FaultProxy, locks: LockManager) -> None:
    """No replica says that a lock was released, and none grants one."""
    made = {
        "lock": lambda: locks.lock(NAME),
        "fair_lock": lambda: locks.fair_lock(NAME),
        "rw_lock": lambda: locks.rw_lock(NAME).write,
        "semaphore": lambda: locks.semaphore(NAME, 1),
    }[kind]()
    lease = await made.acquire()
    own_pair.follow()
    own_pair.swap()
    releasing = asyncio.ensure_future(lease.release())
    entering = asyncio.ensure_future(made.acquire(timeout=ENOUGH))
    backend = locks._runtime.backend
    await until(lambda: backend.unreachable is not None and "replica" in str(backend.unreachable))
    assert not releasing.done()
    assert not entering.done()
    move(own_pair, proxy)
    await releasing
    again = await entering
    assert again.fence > lease.fence
    await again.release()


async def test_a_waiter_gets_in(own_pair: Pair, proxy: FaultProxy, locks: LockManager, opened: Opener) -> None:
    """It waits in the queue of the promoted server for one who never talked to the old one."""
    holder = await locks.lock(NAME).acquire()
    waiting = await opened(proxy.url)
    entering = asyncio.ensure_future(waiting.lock(NAME).acquire(timeout=ENOUGH))
    with redis_cli.client(own_pair.master.url) as link:
        await until(lambda: Server(link).link.exists(f"{key_of()}:queue"))
    own_pair.follow()
    own_pair.swap()
    move(own_pair, proxy)
    await holder.release()
    lease = await entering
    assert lease.fence > holder.fence
    await lease.release()
