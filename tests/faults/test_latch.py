"""Connections die under latches: nothing is counted twice, and every waiter finds out."""

from __future__ import annotations

import asyncio

import pytest

from aiolock import BackendError, LockManager
from aiolock.scripts.keys import Keys
from aiolock.scripts.latch import COUNT_DOWN, QUERY
from aiolock.testing.server import RedisServer
from tests.support import redis_cli
from tests.support.proxy import FaultProxy

from .scene import ENOUGH, Opener, Server, until

NAME = "import:7"
KEYS = Keys("aiolock").of("latch", NAME)
COUNTS = COUNT_DOWN.sha.encode()
QUERIES = QUERY.sha.encode()


def listeners(server: Server) -> int:
    ((_, count),) = server.link.pubsub_numsub(KEYS.free)  # type: ignore[misc]
    return int(count)


async def test_the_reply_of_count_down_is_lost(locks: LockManager, proxy: FaultProxy) -> None:
    """H16: it is written again, and counts once. Kept by LatchCalls.count_down: `unanswered`."""
    latch = locks.latch(NAME, 3)
    for left in (2, 1):
        cut = proxy.cut(matching=COUNTS)
        async with asyncio.timeout(ENOUGH):
            assert await latch.count_down() == left
        assert len(cut.frames) == 1


async def test_a_copy_comes_late(locks: LockManager, others: LockManager, proxy: FaultProxy) -> None:
    """Bytes are held while the next connection does the work, and arrive when the latch is already open."""
    latch, there = locks.latch(NAME, 2), others.latch(NAME, 2)
    held = proxy.hold("requests", times=1, matching=COUNTS)
    task = asyncio.create_task(latch.count_down())
    await held.hit()
    proxy.reset(upstream=False)
    async with asyncio.timeout(ENOUGH):
        assert await task == 1
    assert await there.count_down() == 0
    held.lift()
    await asyncio.sleep(0.05)
    assert await there.count() == 0


async def test_an_unanswered_count_down_counts_when_the_connection_is_back(
    proxy: FaultProxy, opened: Opener, server: Server
) -> None:
    """Its caller was told that it may. Kept by LatchCalls.count_down: `unanswered` decides alone."""
    locks = await opened(proxy.url, request_timeout=0.5)
    latch = locks.latch(NAME, 2)
    hole = proxy.blackhole("requests")
    with pytest.raises(BackendError, match="no answer") as caught:
        await latch.count_down()
    assert caught.value.transient
    await hole.hit()
    assert not server.link.exists(KEYS.lock)
    await proxy.connected(2)
    proxy.heal()
    await until(lambda: server.link.hget(KEYS.lock, "left") == b"1")


async def test_an_opening_while_the_waiter_is_cut_off(
    locks: LockManager, others: LockManager, proxy: FaultProxy, server: Server
) -> None:
    """It is found at the reconnect; the recheck is far away. Kept by ReleaseListener._on_message: confirmed again,
    ask.
    """
    task = asyncio.create_task(locks.latch(NAME, 1).wait())
    await until(lambda: listeners(server))
    proxy.refuse()
    proxy.reset()
    await until(lambda: not listeners(server))
    await others.latch(NAME, 1).count_down()
    await asyncio.sleep(0.05)
    assert not task.done()
    proxy.heal()
    async with asyncio.timeout(ENOUGH):
        await task


async def test_the_answer_of_a_query_is_lost(locks: LockManager, others: LockManager, proxy: FaultProxy) -> None:
    await others.latch(NAME, 1).count_down()
    cut = proxy.cut(matching=QUERIES)
    async with asyncio.timeout(ENOUGH):
        await locks.latch(NAME, 1).wait()
    assert len(cut.frames) == 1


async def test_a_server_that_forgot_makes_a_fresh_one(own_server: RedisServer, opened: Opener) -> None:
    """Its counts are lost too; waiters keep waiting, and new counts open it."""
    locks = await opened(own_server.url)
    latch = locks.latch(NAME, 2)
    assert await latch.count_down() == 1
    task = asyncio.create_task(latch.wait())
    await asyncio.sleep(0.05)
    own_server.kill()
    own_server.restart()
    with redis_cli.client(own_server.url) as link:
        await until(lambda: link.hget(KEYS.lock, "left") == b"2")
    for left in (1, 0):
        assert await latch.count_down() == left
    async with asyncio.timeout(ENOUGH):
        await task
