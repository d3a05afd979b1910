"""The fault proxy does what it says; otherwise the fault tests prove nothing."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator

import pytest
import redis.asyncio
import redis.exceptions

from aiolock.testing.server import RedisServer
from tests.support import redis_cli
from tests.support.proxy import Direction, FaultProxy
from tests.support.resp import Framer

pytestmark = pytest.mark.any_loop
LOST = (redis.exceptions.ConnectionError, ConnectionError)


@pytest.fixture
async def proxy(redis_server: RedisServer) -> AsyncIterator[FaultProxy]:
    async with FaultProxy(redis_server.host, redis_server.port) as proxy:
        yield proxy


@pytest.fixture
async def link(proxy: FaultProxy) -> AsyncIterator[redis.asyncio.Redis]:
    client = redis_cli.async_client(proxy.url)
    await client.ping()
    yield client
    await client.aclose()


def test_frames_survive_any_cut() -> None:
    frames = [
        b"*2\r\n$3\r\nGET\r\n$2\r\n\r\n\r\n",
        b"+OK\r\n",
        b"$-1\r\n",
        b"%1\r\n+a\r\n*1\r\n:1\r\n",
        b">2\r\n$1\r\na\r\n_\r\n",
        b"|1\r\n+ttl\r\n:1\r\n:5\r\n",
        b"=7\r\ntxt:abc\r\n",
    ]
    stream = b"".join(frames)
    for size in (1, 2, 3, 7, len(stream)):
        framer = Framer()
        assert [f for i in range(0, len(stream), size) for f in framer.feed(stream[i : i + size])] == frames


async def test_forwards_and_counts(proxy: FaultProxy, link: redis.asyncio.Redis, raw: redis.asyncio.Redis) -> None:
    seen, chunks = proxy.requests, proxy.chunks
    async with link.pipeline(transaction=False) as batch:
        for i in range(50):
            batch.set(f"k{i}", "v" * i)
        await batch.execute()
    assert (proxy.requests - seen, proxy.connections, proxy.open) == (50, 1, 1)
    assert 1 <= proxy.chunks - chunks <= 5
    assert await raw.get("k49") == b"v" * 49


async def test_dropped_request_is_never_executed(
    proxy: FaultProxy, link: redis.asyncio.Redis, raw: redis.asyncio.Redis
) -> None:
    rule = proxy.drop("requests", matching=b"lost")
    task = asyncio.create_task(link.set("lost", 1))
    await rule.hit()
    proxy.reset()
    with pytest.raises(LOST):
        await task
    assert not await raw.exists("lost")


@pytest.mark.parametrize("fault", ["drop", "lose"])
async def test_dropped_reply_was_executed(
    fault: str, proxy: FaultProxy, link: redis.asyncio.Redis, raw: redis.asyncio.Redis
) -> None:
    rule = proxy.drop("replies") if fault == "drop" else proxy.lose_reply(matching=b"done")
    task = asyncio.create_task(link.set("done", 1))
    await rule.hit()
    while not await raw.exists("done"):
        pass
    assert not task.done()
    proxy.reset()
    with pytest.raises(LOST):
        await task


@pytest.mark.parametrize("fault", ["request", "reply", "answer"])
async def test_nothing_follows_what_was_lost(fault: str, proxy: FaultProxy, raw: redis.asyncio.Redis) -> None:
    """TCP has no gaps: otherwise the next answer would be taken for the one that was lost."""
    reader, writer = await asyncio.open_connection("127.0.0.1", proxy.port)
    rule = {
        "request": lambda: proxy.drop("requests"),
        "reply": lambda: proxy.drop("replies"),
        "answer": proxy.lose_reply,
    }[fault]()
    writer.write(b"PING\r\n")
    await rule.hit()
    proxy.heal()
    writer.write(b"PING\r\nSET later 1\r\n")
    while fault != "request" and not await raw.exists("later"):
        pass
    await raw.client_kill_filter(_type="normal", skipme=True)
    assert await reader.read() == b""
    assert await raw.exists("later") == (fault != "request")
    writer.close()


async def test_cut_executes_and_resets(proxy: FaultProxy, link: redis.asyncio.Redis, raw: redis.asyncio.Redis) -> None:
    proxy.cut(matching=b"INCR")
    async with link.pipeline(transaction=False) as batch:
        batch.set("before", 1)
        batch.incr("n")
        with pytest.raises(LOST):
            await batch.execute()
    assert await raw.mget("before", "n") == [b"1", b"1"]
    assert await link.incr("n") == 2
    assert proxy.connections == 2


async def test_held_request_arrives_after_its_client_gave_up(
    proxy: FaultProxy, link: redis.asyncio.Redis, raw: redis.asyncio.Redis
) -> None:
    rule = proxy.hold_matching(b"late")
    task = asyncio.create_task(link.set("late", 1))
    await proxy.wait_held()
    proxy.reset(upstream=False)
    with pytest.raises(LOST):
        await task
    assert not await raw.exists("late")
    await link.set("early", 1)
    assert len(rule.frames) == 1
    proxy.heal()
    while not await raw.exists("late"):
        pass
    assert await raw.exists("early")


async def test_held_reply_comes_when_lifted(
    proxy: FaultProxy, link: redis.asyncio.Redis, raw: redis.asyncio.Redis
) -> None:
    rule = proxy.hold("replies")
    task = asyncio.create_task(link.incr("n"))
    await rule.hit()
    assert await raw.get("n") == b"1"
    assert not task.done()
    rule.lift()
    assert await task == 1


async def test_blackhole_swallows_until_lifted(proxy: FaultProxy, link: redis.asyncio.Redis) -> None:
    rule = proxy.blackhole("replies")
    task = asyncio.create_task(link.ping())
    await rule.hit()
    rule.lift()
    assert not task.done()
    proxy.reset()
    with pytest.raises(LOST):
        await task
    assert await link.ping()


async def test_refused_connections_count(proxy: FaultProxy) -> None:
    proxy.refuse()
    client = redis_cli.async_client(proxy.url)
    with pytest.raises(LOST):
        await client.ping()
    await proxy.connected(1)
    proxy.heal()
    assert await client.ping()
    await client.aclose()


@pytest.mark.parametrize("direction", ["requests", "replies"])
async def test_delay(direction: Direction, proxy: FaultProxy, link: redis.asyncio.Redis) -> None:
    await link.set("k", 1)
    proxy.delay(direction, 0.1)
    begin = time.monotonic()
    assert await link.get("k") == b"1"
    assert time.monotonic() - begin >= 0.09  # uvloop's clock counts whole milliseconds
