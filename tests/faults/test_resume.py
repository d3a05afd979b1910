"""Requests and replies of a move are lost, or come late: it moves once, or not at all, and no one stays a holder."""

from __future__ import annotations

import asyncio

import pytest

from aiolock import BackendError, Lock, LockManager
from aiolock.scripts.lock import RENEW, TRANSFER
from tests.support.proxy import FaultProxy

from .scene import ENOUGH, NAME, Opener, Server, until
from .test_held_bytes import arrive

TRANSFERS = TRANSFER.sha.encode()
RENEWS = RENEW.sha.encode()


async def ticket_of(lock: Lock) -> str:
    lease = await lock.acquire()
    return await lease.detach()


async def test_the_reply_of_resume_is_lost(locks: LockManager, there: Lock, proxy: FaultProxy, server: Server) -> None:
    """It is repeated and reads its own grant. Kept by QueueEntry.unanswered, and by transfer.lua."""
    ticket = await ticket_of(there)
    cut = proxy.cut(matching=TRANSFERS)
    async with asyncio.timeout(ENOUGH), locks.resume(ticket) as lease:
        assert len(cut.frames) == 1
        assert server.depth() == 1
        await lease.renew()
    assert not server.held()


async def test_the_reply_of_detach_is_lost(here: Lock, others: LockManager, proxy: FaultProxy, server: Server) -> None:
    """It is asked for again. Kept by Services.ask: `again`."""
    async with here as lease:
        proxy.cut(matching=RENEWS)
        async with asyncio.timeout(ENOUGH):
            ticket = await lease.detach()
    async with others.resume(ticket):
        assert server.depth() == 1
    assert not server.held()


async def test_the_request_of_resume_is_swallowed(
    proxy: FaultProxy, opened: Opener, there: Lock, others: LockManager, server: Server
) -> None:
    """No answer within request_timeout: you get an error, and the ticket is still valid, since the server never saw
    it.
    """
    locks = await opened(proxy.url, request_timeout=0.5)
    ticket = await ticket_of(there)
    proxy.blackhole("requests")
    with pytest.raises(BackendError, match=f"resuming lock '{NAME}'"):
        async with asyncio.timeout(ENOUGH):
            await locks.resume(ticket)
    async with others.resume(ticket):
        assert server.depth() == 1
    proxy.heal()
    assert not server.held()


async def test_a_resume_that_arrives_after_its_undo(
    either: LockManager,
    there: Lock,
    others: LockManager,
    proxy: FaultProxy,
    server: Server,
    request: pytest.FixtureRequest,
) -> None:
    """C4: given up while its bytes were held; they arrive, and do not move the lock to an owner that is gone.

    Kept by CLIENT KILL; where that is denied by Release.taint, and transfer_local.lua: `EXISTS KEYS[5]`.
    """
    ticket = await ticket_of(there)
    held = proxy.hold("requests", 1, TRANSFERS)
    resuming = asyncio.ensure_future(either.resume(ticket))
    await held.hit()
    resuming.cancel()
    with pytest.raises(asyncio.CancelledError):
        await resuming
    await asyncio.sleep(0.005)
    proxy.reset(upstream=False)
    await until(lambda: server.tombstones())  # the undo has arrived
    await arrive(held, server, proxy, kills="allowed" in request.node.callspec.id)
    async with asyncio.timeout(ENOUGH), others.resume(ticket):
        assert server.depth() == 1
    assert not server.held()
