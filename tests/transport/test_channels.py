"""Subscriptions on the connection that carries the calls."""

from __future__ import annotations

import asyncio

import pytest
import redis.asyncio

from aiolock.backends.redis import RedisBackend
from aiolock.errors import BackendError
from aiolock.testing.server import RedisServer
from tests.support import acl, redis_cli
from tests.support.proxy import FaultProxy

from .calls import Log, echo, result, until
from .conftest import Connect


async def published(raw: redis.asyncio.Redis, channel: str, payload: str) -> int:
    """How many were told."""
    return int(await raw.publish(channel, payload))


@pytest.mark.any_loop
async def test_confirmed_then_told(backend: RedisBackend, raw: redis.asyncio.Redis) -> None:
    woken = Log()
    future = backend.subscribe("c", woken)
    assert not future.done()
    await future
    assert woken.items == [None]
    for i in range(100):
        assert await published(raw, "c", f"payload {i}") == 1
    assert await woken.has(101) == [None, *(f"payload {i}" for i in range(100))]


async def test_pushes_between_replies(backend: RedisBackend, raw: redis.asyncio.Redis) -> None:
    woken = Log()
    await backend.subscribe("c", woken)
    pipe = raw.pipeline(transaction=False)
    for i in range(2000):
        pipe.publish("c", str(i))
    answers, _ = await asyncio.gather(asyncio.gather(*(backend.run(echo(i)) for i in range(500))), pipe.execute())
    assert answers == [str(i) for i in range(500)]
    assert await woken.has(2001) == [None, *(str(i) for i in range(2000))]


async def test_thousands_of_pushes_in_one_read(backend: RedisBackend, raw: redis.asyncio.Redis) -> None:
    woken = Log()
    await backend.subscribe("c", woken)
    # A parser that calls itself for each push in a row would end in RecursionError.
    await raw.eval("for i = 1, 5000 do redis.call('PUBLISH', 'c', i) end", 0)
    assert len(await woken.has(5001)) == 5001
    assert backend._dialer.opened == 1


async def test_unsubscribed_is_silent_at_once(connect: Connect, proxy: FaultProxy, raw: redis.asyncio.Redis) -> None:
    backend = await connect(proxy.url)
    woken = Log()
    await backend.subscribe("c", woken)
    hold = proxy.hold("replies", matching=b"on its way")
    await raw.publish("c", "on its way")
    await hold.hit()
    backend.unsubscribe("c")
    hold.lift()
    await backend.run(echo("behind it"))
    assert woken.items == [None]
    assert await published(raw, "c", "to nobody") == 0


@pytest.mark.parametrize("turns", range(4))
async def test_the_last_of_many_changes_wins(backend: RedisBackend, raw: redis.asyncio.Redis, turns: int) -> None:
    logs = [Log() for _ in range(4)]
    futures = []
    for i, log in enumerate(logs):
        futures.append(backend.subscribe("c", log))
        for _ in range(turns):
            await asyncio.sleep(0)
        if i < 3:
            backend.unsubscribe("c")
    await asyncio.wait_for(futures[-1], 10)
    assert logs[-1].items == [None]
    assert all(future.done() for future in futures)
    assert await published(raw, "c", "x") == 1
    assert await logs[-1].has(2) == [None, "x"]
    assert not any("x" in log.items for log in logs[:-1])


async def test_confirmed_by_its_own_confirmation(connect: Connect, proxy: FaultProxy) -> None:
    """With an older UNSUBSCRIBE in flight, the older confirmation is not taken for the new one."""
    backend = await connect(proxy.url)
    first, second = Log(), Log()
    await backend.subscribe("c", first)
    hold = proxy.hold("requests", matching=b"$9\r\nSUBSCRIBE")
    backend.unsubscribe("c")
    future = backend.subscribe("c", second)
    await hold.hit()
    assert not future.done()
    assert second.items == []
    hold.lift()
    await asyncio.wait_for(future, 10)
    assert second.items == [None]


async def test_a_wake_that_raises_hurts_no_one(
    backend: RedisBackend, raw: redis.asyncio.Redis, caplog: pytest.LogCaptureFixture
) -> None:
    def wake(payload: str | None) -> None:
        raise RuntimeError("broken")

    await backend.subscribe("c", wake)
    await raw.publish("c", "x")
    assert await backend.run(echo("next")) == "next"
    assert caplog.text.count("RuntimeError: broken") == 2


async def test_a_wake_may_use_the_backend(backend: RedisBackend, raw: redis.asyncio.Redis) -> None:
    answers: list[asyncio.Future[str]] = []

    def wake(payload: str | None) -> None:
        answers.append(backend.run(echo(str(payload))))
        if payload is not None:
            backend.unsubscribe("c")

    await backend.subscribe("c", wake)
    await raw.publish("c", "x")
    await until(lambda: len(answers) == 2)
    assert await asyncio.gather(*answers) == ["None", "x"]
    assert await published(raw, "c", "y") == 0


async def test_odd_names_and_payloads(backend: RedisBackend, raw: redis.asyncio.Redis) -> None:
    woken = Log()
    await backend.subscribe("Kanal ☃ {x}\r\n", woken)
    await raw.publish("Kanal ☃ {x}\r\n", b"\xff\xfe")
    await raw.publish("Kanal ☃ {x}\r\n", "grün")
    assert (await woken.has(3))[2] == "grün"


async def test_resubscribed_and_woken_after_a_reconnect(
    backend: RedisBackend, raw: redis.asyncio.Redis, reconnected: Log
) -> None:
    logs = {f"c{i}": Log() for i in range(20)}
    await asyncio.gather(*(backend.subscribe(channel, log) for channel, log in logs.items()))
    backend.unsubscribe("c0")
    await raw.client_kill_filter(_type="pubsub")
    for channel, log in logs.items():
        if channel != "c0":
            assert await log.has(2) == [None, None]
            assert await published(raw, channel, "x") == 1
    assert reconnected.items == [None]
    assert logs["c0"].items == [None]
    assert await published(raw, "c0", "x") == 0


async def test_subscribing_while_disconnected(own_server: RedisServer, connect: Connect, reconnected: Log) -> None:
    backend = await connect(own_server.url)
    kept, gone = Log(), Log()
    own_server.kill()
    future = backend.subscribe("c", kept)
    dropped = backend.subscribe("gone", gone)
    backend.unsubscribe("gone")
    await until(lambda: "open" in repr(backend))  # it has noticed
    later = backend.subscribe("later", kept)
    own_server.restart()
    await asyncio.wait_for(future, 10)
    await asyncio.wait_for(later, 10)
    assert kept.items == [None, None]
    assert isinstance(await result(dropped), BackendError)
    async with redis.asyncio.Redis.from_url(own_server.url) as raw:
        assert await published(raw, "c", "x") == 1
        assert await published(raw, "gone", "x") == 0


async def test_a_refusal_after_a_reconnect_is_reported(
    connect: Connect, raw: redis.asyncio.Redis, redis_server: RedisServer
) -> None:
    """Kept by Channels.refuse: its owner believed that it was listening. The others continue."""
    rules = ("listener", "reset", "on", ">pw", "~*", "resetchannels", "+@all")
    await raw.execute_command(*acl.setuser(raw, *rules, "&c", "&d"))
    backend = await connect(f"redis://listener:pw@{redis_server.host}:{redis_server.port}")
    refused, kept = Log(), Log()
    await asyncio.gather(backend.subscribe("c", refused), backend.subscribe("d", kept))
    await raw.execute_command(*acl.setuser(raw, *rules, "&d"))  # the server closes the connections that this affects
    _, error = await refused.has(2)
    assert isinstance(error, BackendError)
    assert "ACL" in str(error)
    assert not error.transient
    assert await kept.has(2) == [None, None]
    assert await backend.run(echo("x")) == "x"
    again = Log()
    await raw.execute_command(*acl.setuser(raw, *rules, "&c", "&d"))
    await backend.subscribe("c", again)
    assert again.items == [None]
    assert len(refused.items) == 2
    await raw.acl_deluser("listener")


async def test_a_sharded_channel(backend: RedisBackend, raw: redis.asyncio.Redis, redis_server: RedisServer) -> None:
    """It is another than the classic one of its name; it ends, and begins again, among calls."""
    with redis_cli.client(redis_server.url) as link:
        if redis_cli.version_of(link) < (7, 0):
            pytest.skip("it has no sharded channels")
    for _ in range(3):
        woken = Log()
        await backend.subscribe("c", woken, sharded=True)
        assert await published(raw, "c", "classic") == 0
        assert await raw.execute_command("SPUBLISH", "c", "x") == 1
        assert await woken.has(2) == [None, "x"]
        backend.unsubscribe("c")
        answers = await asyncio.gather(*(backend.run(echo(i)) for i in range(40)))
        assert answers == [str(i) for i in range(40)]
        await until(lambda: not backend._channels.all())
        assert await raw.execute_command("SPUBLISH", "c", "to nobody") == 0
    assert backend._dialer.opened == 1


@pytest.mark.parametrize("how", ["hung up", "silent", "confirmed before"])
async def test_a_connection_lost_under_a_subscription(connect: Connect, proxy: FaultProxy, how: str) -> None:
    """Only of a server that hangs up on the first SUBSCRIBE is it said that it may have no pub/sub. Kept by
    RedisBackend._lost: `unconfirmed`, and disconnected: `TimeoutError`.
    """
    said: list[str] = []
    backend = await connect(proxy.url, tell=lambda _: said.append(str(backend.unreachable)))
    if how == "confirmed before":
        await backend.subscribe("c", Log())
    else:
        swallowed = proxy.drop("requests", 1, matching=b"$9\r\nSUBSCRIBE")
        backend.subscribe("c", Log())
        await swallowed.hit()
    if how == "silent":
        backend.replace(TimeoutError("no answer for 5 s"))
    else:
        proxy.reset()
    await until(lambda: said)
    assert ("waiting=Poll()" in said[0]) == (how == "hung up")
