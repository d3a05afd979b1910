"""The server becomes a replica: nothing ran there, and what was asked of it runs on the master, once, in order."""

from __future__ import annotations

import asyncio
from contextlib import closing
from pathlib import Path

import pytest
import redis.asyncio

from aiolock.backends.redis import Handshake, RedisBackend
from aiolock.backends.redis.handshake import Identity
from aiolock.backends.redis.server_info import ServerInfo
from aiolock.errors import AiolockError, BackendError, ConfigurationError
from aiolock.testing.server import RedisServer
from tests.support import redis_cli
from tests.support.cluster_node import ClusterNode
from tests.support.proxy import FaultProxy
from tests.support.replication import Pair

from .calls import Log, append, echo, result, until
from .conftest import Connect


@pytest.fixture
async def proxy(own_pair: Pair) -> FaultProxy:
    """An address that leads to the master, until it moves."""
    async with FaultProxy(own_pair.master.host, own_pair.master.port) as proxy:
        yield proxy


def seen(pair: Pair) -> list[str]:
    """What the promoted replica has executed."""
    with redis_cli.client(pair.replica.url) as link:
        return [value.decode() for value in link.lrange("seen", 0, -1)]  # type: ignore[union-attr]


def says_replica(error: AiolockError | None) -> bool:
    return error is not None and "is a replica" in str(error)


async def test_an_address_that_moves_while_the_old_connection_lives(
    own_pair: Pair, proxy: FaultProxy, connect: Connect, reconnected: Log
) -> None:
    """What was written to the demoted server is written again, whatever its maker says of lost connections, since it
    did not run. Kept by Refusals.judge: `NOT_THE_MASTER`.
    """
    backend = await connect(proxy.url)
    assert await backend.run(append("before")) == 1
    own_pair.follow()
    own_pair.swap()
    proxy.move(own_pair.replica.host, own_pair.replica.port)
    calls = [append(number) for number in range(5)]
    assert [await result(backend.run(call)) for call in calls[:1]] == [2]
    assert await asyncio.gather(*(backend.run(call) for call in calls[1:])) == [3, 4, 5, 6]
    await reconnected.has(1)
    assert seen(own_pair) == ["before", "0", "1", "2", "3", "4"]
    assert calls[0].writes == 1  # the server that has it saw it once
    assert backend._dialer.opened == 2


async def test_a_batch_keeps_its_order(own_pair: Pair, proxy: FaultProxy, connect: Connect) -> None:
    backend = await connect(proxy.url)
    await backend.run(append("before"))
    own_pair.follow()
    own_pair.swap()
    proxy.move(own_pair.replica.host, own_pair.replica.port)
    futures = [backend.run(append(number, lambda: True)) for number in range(40)]
    assert [await result(future) for future in futures] == list(range(2, 42))
    assert seen(own_pair)[1:] == [str(number) for number in range(40)]


async def test_waits_until_the_address_has_moved(own_pair: Pair, proxy: FaultProxy, connect: Connect) -> None:
    """A replica is greeted, named and left again, as often as necessary. Kept by Handshake.greet: `_judge_kind`."""
    backend = await connect(proxy.url)
    await backend.run(append("before"))
    own_pair.follow()
    own_pair.swap()
    future = backend.run(append("after"))
    await until(lambda: says_replica(backend.unreachable))
    await proxy.connected(4)
    assert not future.done()
    proxy.move(own_pair.replica.host, own_pair.replica.port)
    assert await result(future) == 2
    assert backend.unreachable is None


async def test_withdrawn_after_the_refusal(own_pair: Pair, proxy: FaultProxy, connect: Connect) -> None:
    """No server has run it, so its maker can still take it back. Kept by Refusals.judge: `writes -= 1`."""
    backend = await connect(proxy.url)
    own_pair.swap()
    call = append("gone")
    future = backend.run(call)
    await until(lambda: says_replica(backend.unreachable))
    assert call.withdraw()
    proxy.move(own_pair.replica.host, own_pair.replica.port)
    assert isinstance(await result(future), BackendError)
    assert await backend.run(append("kept")) == 1


async def test_a_master_that_always_says_readonly(backend: RedisBackend, raw: redis.asyncio.Redis) -> None:
    """Does a proxy spread requests? The maker of the request is told. Kept by Refusals.judge: `_MISSES`."""
    await raw.execute_command("REPLICAOF", "127.0.0.1", "1")
    opened = backend._dialer.opened
    greet = backend._handshake._judge_kind
    backend._handshake._judge_kind = lambda server: greet(ServerInfo({}))  # type: ignore[method-assign]
    try:
        error = await result(backend.run(append(1)))
    finally:
        await raw.execute_command("REPLICAOF", "NO", "ONE")
    assert isinstance(error, BackendError)
    assert error.transient
    assert "READONLY" in str(error)
    assert backend._dialer.opened - opened == 3


async def test_opened_at_a_replica(own_pair: Pair) -> None:
    backend = RedisBackend(own_pair.replica.url)
    with pytest.raises(ConfigurationError, match=r"replica.*master's address"):
        await backend.open(timeout=2.0, reconnected=lambda: None)
    await backend.aclose()


async def test_opened_at_a_replica_that_is_promoted(own_pair: Pair) -> None:
    backend = RedisBackend(own_pair.replica.url)
    opening = asyncio.ensure_future(backend.open(timeout=10, reconnected=lambda: None))
    with redis_cli.client(own_pair.replica.url) as link:
        await until(lambda: link.info("stats")["total_commands_processed"] and "role" in str(link.info("commandstats")))
    own_pair.leave()
    await opening
    assert await backend.run(append(1)) == 1
    await backend.aclose()


async def test_a_node_of_a_cluster(tmp_path: Path) -> None:
    with closing(ClusterNode(tmp_path)) as node:
        backend = RedisBackend(node.url)
        with pytest.raises(ConfigurationError, match=r"LockManager\.cluster"):
            await backend.open(timeout=5, reconnected=lambda: None)
        member = RedisBackend(node.url, handshake=Handshake(mode="cluster"))
        await member.open(timeout=5, reconnected=lambda: None)
        await member.aclose()


async def test_a_plain_server_where_a_node_is_needed(redis_url: str) -> None:
    backend = RedisBackend(redis_url, handshake=Handshake(mode="cluster"))
    with pytest.raises(ConfigurationError, match=r"LockManager\(url\)"):
        await backend.open(timeout=5, reconnected=lambda: None)


@pytest.mark.parametrize("same", [True, False])
async def test_no_stranger_is_killed(
    same: bool, backend: RedisBackend, raw: redis.asyncio.Redis, reconnected: Log
) -> None:
    """Another server gives the same numbers to other clients. Kept by Handshake.greet: `run_id`."""
    stranger = redis_cli.async_client(f"redis://127.0.0.1:{raw.connection_pool.connection_kwargs['port']}")
    number = await stranger.client_id()
    addr = next(client["addr"] for client in await raw.client_list() if int(client["id"]) == number)
    run_id = backend.run_id if same else "of another server"
    backend._handshake._previous = Identity(str(number).encode(), addr.encode(), run_id)
    backend.replace(ConnectionError("the test wants another connection"))
    await reconnected.has(1)
    alive = [int(client["id"]) for client in await raw.client_list()]
    assert (number in alive) is not same
    await stranger.aclose()


async def test_started_before_the_server(own_server: RedisServer, reconnected: Log) -> None:
    """Kept by RedisBackend.start; the first connection replaces none."""
    own_server.kill()
    told = Log()
    backend = RedisBackend(own_server.url, disconnected=told)
    backend.start(reconnected=reconnected)
    futures = [backend.run(append(number)) for number in range(3)]
    woken = Log()
    listening = backend.subscribe("c", woken)
    await told.has(2)
    assert backend.unreachable is not None
    own_server.restart()
    assert await asyncio.gather(*futures) == [1, 2, 3]
    await listening
    assert reconnected.items == []
    await backend.aclose()
    assert isinstance(await result(backend.run(echo("x"))), BackendError)


async def test_requests_move_to_another_backend(
    connect: Connect, redis_url: str, redis_server: RedisServer, raw: redis.asyncio.Redis
) -> None:
    """What is unsent, and what may run twice, in order. Kept by Outbox.take_back."""
    told = Log()
    async with FaultProxy(redis_server.host, redis_server.port) as proxy:
        gone = await connect(proxy.url, disconnected=told)
        hole = proxy.blackhole("requests")
        futures = [gone.run(append(number, lambda number=number: number != 1)) for number in range(3)]
        await hole.hit(3)
        proxy.refuse()
        proxy.reset()
        await told.has(1)
        futures += [gone.run(append(number)) for number in (3, 4)]
        chosen = gone.give_back(lambda request: request.args != (3,))
        assert [request.args for request in chosen] == [(0,), (2,), (4,)]
        heir = await connect(redis_url)
        for request in chosen:
            heir.take_over(request)
        assert [await result(futures[number]) for number in (0, 2, 4)] == [1, 2, 3]
        assert await raw.lrange("seen", 0, -1) == [b"0", b"2", b"4"]
        await gone.aclose()
        assert isinstance(await result(futures[1]), BackendError)
        assert isinstance(await result(futures[3]), BackendError)
