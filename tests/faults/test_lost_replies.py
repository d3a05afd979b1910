"""A request or its reply is lost: nothing is done twice, nothing is left, and no caller gets a wrong answer."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest

from aiolock import BackendError, Lease, Lock, LockLost, LockManager
from aiolock.scripts import queue
from aiolock.scripts.lock import ACQUIRE, NEST, RELEASE, RENEW, TRANSFER
from tests.support import locks
from tests.support.proxy import FaultProxy

from .scene import ENOUGH, NAME, Opener, Server, enter, key_of, renewed, until

ACQUIRES = ACQUIRE.sha.encode()
NESTS = NEST.sha.encode()
RELEASES = RELEASE.sha.encode()
TRANSFERS = TRANSFER.sha.encode()
RENEWS = RENEW.sha.encode()


# Acquire.


async def test_the_reply_of_acquire_is_lost(here: Lock, proxy: FaultProxy, server: Server) -> None:
    """It is repeated and reads its own grant. Kept by acquire.lua: `mine`, and QueueEntry.unanswered."""
    cut = proxy.cut(matching=ACQUIRES)
    async with asyncio.timeout(ENOUGH), here as lease:
        assert len(cut.frames) == 1
        assert server.depth() == 1
        assert not lease.abandoned
        assert server.state().fence == lease.fence
    assert not server.held()
    assert server.tombstones() == 1  # the lost copy could still come


async def test_a_replay_reads_abandoned_as_it_was(here: Lock, there: Lock, proxy: FaultProxy, server: Server) -> None:
    """H3 (1): its own dirty mark is not another's crash, and another's crash is not forgotten."""
    gone: Lease | None = None
    for crashed in (False, True):
        if crashed:
            gone = await there.acquire()
            locks.let_expire(server)
        proxy.cut(matching=ACQUIRES)
        async with asyncio.timeout(ENOUGH), here as lease:
            assert lease.abandoned is crashed
    assert gone is not None
    with pytest.raises(LockLost):
        await gone.release()


async def test_the_request_of_acquire_is_lost_with_its_connection(
    here: Lock, proxy: FaultProxy, server: Server
) -> None:
    held = proxy.hold("requests", times=1, matching=ACQUIRES)
    task = asyncio.create_task(enter(here))
    await held.hit()
    proxy.reset()
    async with asyncio.timeout(ENOUGH):
        await task
    assert not server.held()


async def test_the_request_of_a_first_acquire_is_swallowed(proxy: FaultProxy, opened: Opener, server: Server) -> None:
    """A first attempt does not wait longer than request_timeout. Kept by Waiter.overdue."""
    locks = await opened(proxy.url, request_timeout=0.5)
    proxy.drop("requests", matching=ACQUIRES)
    with pytest.raises(BackendError, match=NAME) as caught:
        async with asyncio.timeout(ENOUGH):
            await locks.lock(NAME).acquire()
    assert caught.value.transient
    assert await enter(locks.lock(NAME))
    assert not server.held()


async def test_the_requests_of_a_waiter_are_swallowed(
    proxy: FaultProxy, opened: Opener, others: LockManager, server: Server
) -> None:
    """A waiting task survives: the deadline of the PING finds the dead connection. Kept by Heartbeat._on_tick."""
    locks = await opened(proxy.url, request_timeout=0.5)
    lease = await others.lock(NAME).acquire()
    waiter = asyncio.create_task(enter(locks.lock(NAME)))
    await until(lambda: server.waiting())
    hole = proxy.blackhole("requests")
    await lease.release()
    await hole.hit()
    await proxy.connected(2)
    proxy.heal()
    async with asyncio.timeout(ENOUGH):
        assert await waiter > lease.fence
    await until(lambda: not server.held())


async def test_a_grant_that_comes_after_its_own_deadline_is_undone(
    proxy: FaultProxy, opened: Opener, server: Server
) -> None:
    """H5. Kept by `admit`: `now >= entry.deadline`."""
    locks = await opened(proxy.url, ttl=0.5, request_timeout=3.0)
    held = proxy.hold("replies", times=1, matching=b"granted")
    task = asyncio.create_task(_hold(locks.lock(NAME)))
    await held.hit()
    await until(lambda: not server.locked())
    first = server.state().fence
    held.lift()
    async with asyncio.timeout(ENOUGH):
        lease = await task
    assert lease[0] > first
    assert lease[1] > 0.2


async def _hold(lock: Lock) -> tuple[int, float]:
    async with lock as lease:
        return lease.fence, lease.remaining()


async def test_the_deadline_counts_from_the_request(proxy: FaultProxy, opened: Opener) -> None:
    """A slow reply shortens what is guaranteed. Kept by Hold.extend: `sent_at + pttl`."""
    locks = await opened(proxy.url)
    held = proxy.hold("replies", times=1, matching=b"granted")
    task = asyncio.create_task(_hold(locks.lock(NAME)))
    await held.hit()
    await asyncio.sleep(0.5)
    held.lift()
    _, remaining = await task
    assert remaining <= 60.0 - 3.0 - 0.5


# Release.


async def test_the_reply_of_release_is_lost(
    here: Lock, proxy: FaultProxy, server: Server, caplog: pytest.LogCaptureFixture
) -> None:
    """The repetition learns that it was done, not that another owner took the lock. Kept by Release.settle:
    `resent`.
    """
    cut = proxy.cut(matching=RELEASES)
    async with asyncio.timeout(ENOUGH):
        await enter(here)
    assert len(cut.frames) == 1
    assert not server.held()
    assert not [record for record in caplog.records if record.levelno >= logging.ERROR]


@pytest.mark.parametrize("kind", ["lock", "rw_lock"])
async def test_the_reply_of_a_release_that_keeps_the_name_is_lost(
    locks: LockManager, proxy: FaultProxy, kind: str
) -> None:
    """The repetition takes nothing more of its time. Kept by `'0' and 0` in both release.lua."""
    lock: Any = locks.lock(NAME, hold_at_least=20.0)
    if kind == "rw_lock":
        lock = locks.rw_lock(NAME, hold_at_least=20.0).write
    cut = proxy.cut(matching=RELEASES if kind == "lock" else queue.RELEASE.sha.encode())
    async with asyncio.timeout(ENOUGH), lock:
        pass
    assert len(cut.frames) == 1
    info = await lock.info()
    assert 10.0 < info.ttl <= 20.1


async def test_the_reply_of_release_is_lost_and_another_enters_meanwhile(
    here: Lock, there: Lock, proxy: FaultProxy, server: Server
) -> None:
    """Its repetition does not free the other's lock. Kept by release.lua: `name.owner ~= owner`, and
    Release.settle: `resent` proves no loss.
    """
    proxy.cut(matching=RELEASES)
    lease = await here.acquire()
    released = asyncio.ensure_future(_await(lease.release()))
    await until(lambda: not server.locked())
    proxy.refuse()
    async with there:
        proxy.heal()
        async with asyncio.timeout(ENOUGH):
            await released
        assert server.locked()


async def _await(awaitable: object) -> None:
    await awaitable  # type: ignore[misc]


async def test_the_request_of_release_is_lost(here: Lock, there: Lock, proxy: FaultProxy) -> None:
    held = proxy.hold("requests", times=1, matching=RELEASES)
    lease = await here.acquire()
    lease.release()
    await held.hit()
    proxy.reset()
    async with asyncio.timeout(ENOUGH):
        assert await enter(there) > lease.fence


async def test_the_reply_of_a_nested_release_is_lost(here: Lock, proxy: FaultProxy, server: Server) -> None:
    """C4: a repetition does not count down again. Kept by release.lua: `left < tonumber(name.depth)`."""
    async with asyncio.timeout(ENOUGH), here:
        async with here:
            async with here:
                proxy.cut(matching=RELEASES)
            assert server.depth() == 2
        assert server.depth() == 1
    assert not server.held()


async def test_the_reply_of_a_nested_acquire_is_lost(here: Lock, proxy: FaultProxy, server: Server) -> None:
    """Redisson #7367: it counts once. Kept by nest.lua: the depth is absolute."""
    async with asyncio.timeout(ENOUGH), here as lease:
        proxy.cut(matching=NESTS)
        async with here:
            assert server.depth() == 2
            assert lease.depth == 2
        assert server.depth() == 1
    assert not server.held()


# Hand-off.


async def test_the_reply_of_a_transfer_is_lost(here: Lock, proxy: FaultProxy, server: Server) -> None:
    """H2 (a): a copy reads its own grant.

    Kept by transfer.lua: `name.owner == next`.
    """
    inside = 0
    fences: list[int] = []

    async def work() -> None:
        nonlocal inside
        async with here as lease:
            inside += 1
            assert inside == 1
            assert server.depth() == 1
            fences.append(lease.fence)
            await asyncio.sleep(0.01)
            inside -= 1

    cut = proxy.cut(times=2, matching=TRANSFERS)
    async with asyncio.timeout(ENOUGH):
        await asyncio.gather(*(work() for _ in range(5)))
    assert len(cut.frames) == 2
    assert fences == sorted(set(fences))
    assert not server.held()


@pytest.mark.parametrize("early", [False, True], ids=["cancelled late", "cancelled early"])
@pytest.mark.parametrize("third", [False, True], ids=["alone", "with another behind"])
@pytest.mark.parametrize("executed", [False, True], ids=["request lost", "reply lost"])
async def test_a_transfer_is_lost_and_its_successor_is_cancelled(
    here: Lock, there: Lock, proxy: FaultProxy, server: Server, executed: bool, third: bool, early: bool
) -> None:
    """H2 (b, c): neither keeps it. Kept by QueueEntry.end, and _Transfer._settle: Release."""
    rule = proxy.cut(matching=TRANSFERS) if executed else proxy.hold("requests", 1, TRANSFERS)
    lease = await here.acquire()
    successor = asyncio.create_task(enter(here))
    await asyncio.sleep(0)
    behind = asyncio.create_task(enter(here)) if third else None
    await asyncio.sleep(0)
    lease.release()
    await rule.hit()
    if executed:
        await until(lambda: server.state().fence != lease.fence)
    if early:  # before the loss is noticed
        successor.cancel()
    proxy.refuse()
    proxy.reset()
    rule.lift()
    await proxy.connected(2)
    successor.cancel()
    with pytest.raises(asyncio.CancelledError):
        await successor
    proxy.heal()
    async with asyncio.timeout(ENOUGH):
        if behind is not None:
            assert await behind > lease.fence
        assert await enter(there) > lease.fence
    await until(lambda: not server.held())


async def test_the_successor_is_cancelled_while_the_transfer_is_on_its_way(
    here: Lock, there: Lock, proxy: FaultProxy, server: Server
) -> None:
    """Kept by QueueEntry.end."""
    held = proxy.hold("requests", 1, TRANSFERS)
    lease = await here.acquire()
    successor = asyncio.create_task(enter(here))
    await asyncio.sleep(0)
    lease.release()
    await held.hit()
    successor.cancel()
    with pytest.raises(asyncio.CancelledError):
        await successor
    held.lift()
    async with asyncio.timeout(ENOUGH):
        assert await enter(there) > lease.fence
    await until(lambda: not server.held())


async def test_a_transfer_of_what_is_gone_leaves_the_successor_in_front(here: Lock, server: Server) -> None:
    """H2 (d). Kept by _Transfer._settle: Missing, and the successor asks under another id."""
    lease = await here.acquire()
    successor = asyncio.create_task(enter(here))
    await asyncio.sleep(0)
    server.link.delete(key_of())
    with pytest.raises(Exception, match="DELETED"):
        await lease.release()
    async with asyncio.timeout(ENOUGH):
        assert await successor > lease.fence
    assert not server.held()


# Cancelled, and the reply lost.


@pytest.mark.parametrize("executed", [False, True], ids=["request lost", "reply lost"])
async def test_a_cancelled_acquire_whose_line_dies_is_undone(
    here: Lock, there: Lock, proxy: FaultProxy, server: Server, executed: bool
) -> None:
    """Invariant 3. Kept by QueueEntry.end, and Release: it is repeated."""
    held = proxy.hold("replies" if executed else "requests", 1, b"granted" if executed else ACQUIRES)
    task = asyncio.create_task(enter(here))
    await held.hit()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await asyncio.sleep(0.01)
    proxy.reset()
    async with asyncio.timeout(ENOUGH):
        assert await enter(there)
    await until(lambda: not server.held())


# Renewal.


async def test_lost_renewals_are_repeated(proxy: FaultProxy, opened: Opener, server: Server) -> None:
    """Kept by Hold.unknown: it tries until its deadline; or by Hold.verify, after the reconnect."""
    locks = await opened(proxy.url, request_timeout=0.5)
    async with locks.lock(NAME) as lease:
        cut, expiry = proxy.cut(times=2, matching=RENEWS), lease._hold.expiry
        lease._hold.verify()  # its renewal is due
        async with asyncio.timeout(ENOUGH):
            await cut.hit(2)
        await renewed(lease, expiry)
        assert not lease.lost
    assert not server.held()


async def test_replies_fail_for_a_while_and_the_lease_survives(
    proxy: FaultProxy, opened: Opener, server: Server
) -> None:
    """Kept by Hold.verify on reconnect, and by renewals being rebuilt."""
    locks = await opened(proxy.url, request_timeout=0.5)
    async with locks.lock(NAME) as lease:
        fence, expiry = lease.fence, lease._hold.expiry
        hole = proxy.blackhole("replies")
        lease._hold.verify()  # its renewal is due
        await hole.hit()
        await proxy.connected(3)  # given up, and so was another one
        assert lease._hold.expiry == expiry
        proxy.heal()
        await renewed(lease, expiry)
        assert not lease.lost
        assert lease.fence == fence
    assert not server.held()
