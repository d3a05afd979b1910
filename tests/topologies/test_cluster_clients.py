"""What a cluster's manager is made of: URLs and clients, good and bad ones; and its connections."""

from __future__ import annotations

import asyncio
import gc
import random
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import redis.asyncio
import valkey.asyncio

from aiolock import BackendError, ConfigurationError, LockManager, Poll
from aiolock.backends.cluster import router
from aiolock.backends.redis import is_cluster
from aiolock.backends.redis.seeds import Address, Seeds
from aiolock.scripts.bid import Bid
from aiolock.scripts.keys import Keys
from aiolock.scripts.lock import LockCalls
from aiolock.scripts.outcomes import Granted
from aiolock.testing.server import RedisServer
from tests.support import acl
from tests.support.cluster import Cluster
from tests.support.cluster_node import ClusterNode
from tests.support.scripting import wait_until
from tests.transport.test_credentials import Streaming, Token

from .test_cluster_locks import ENOUGH

URL = "redis://localhost:1"


async def use(cluster: Cluster, locks: LockManager) -> None:
    """Take a name on each master."""
    async with locks:
        for master in cluster.masters:
            async with locks.lock(*cluster.names_on(master)):
                pass


@pytest.fixture
def user(cluster: Cluster) -> Iterator[tuple[str, str]]:
    rules = ("reset", "on", ">secret", "~aiolock:*", "resetchannels", "&aiolock:*", "+@all")
    for node in cluster.nodes:
        node.ask(*acl.setuser(node.link, "locker", *rules))
    yield "locker", "secret"
    for node in cluster.nodes:
        node.ask("ACL", "DELUSER", "locker")


async def test_credentials_of_the_url(cluster: Cluster, user: tuple[str, str]) -> None:
    """All nodes are reached with those of the first."""
    urls = [node.url.replace("//", "//locker:secret@") for node in cluster.masters]
    await use(cluster, LockManager.cluster(urls[:1]))
    await use(cluster, LockManager.cluster(urls))
    with pytest.raises(BackendError, match="credentials"):
        await use(cluster, LockManager.cluster([urls[0].replace("secret", "wrong")]))


@pytest.mark.parametrize("kind", [redis.asyncio.RedisCluster, valkey.asyncio.ValkeyCluster])
async def test_a_clients_settings(cluster: Cluster, user: tuple[str, str], kind: Callable[..., Any]) -> None:
    """It is not used itself, so that it need not be open. Kept by Seeds."""
    host, port = cluster.nodes[-1].address
    client = kind(host=host, port=int(port), username=user[0], password=user[1])
    await use(cluster, LockManager(client))
    await use(cluster, LockManager(client, min_replicas=1, replica_timeout=1))
    client = kind(host=host, port=int(port), username=user[0], password="wrong")
    with pytest.raises(BackendError, match="credentials"):
        await use(cluster, LockManager(client))


async def test_credentials_that_are_renewed(cluster: Cluster, user: tuple[str, str]) -> None:
    """On each open connection, and on those that are opened later. Kept by Credentials.listen."""
    for node in cluster.nodes:
        node.ask(*acl.setuser(node.link, "later", *acl.EVERYTHING))
    host, port = cluster.nodes[0].address
    provider = Streaming(*user)
    client = redis.asyncio.RedisCluster(host=host, port=int(port), credential_provider=provider)
    names = [cluster.names_on(master)[0] for master in cluster.masters]
    async with LockManager(client) as locks:
        for name in names[:2]:
            async with locks.lock(name):
                pass
        before = [connections(master, "locker") for master in cluster.masters[:2]]
        assert [len(each) for each in before] == [1, 1]
        provider.token = Token("later", "secret")
        provider.next(provider.token)
        await asyncio.sleep(0)  # it is told in the next turn
        for name in names:
            async with locks.lock(name):
                pass
        after = [connections(master, "later") for master in cluster.masters]
        assert after[:2] == before
        assert len(after[2]) == 1
    for node in cluster.nodes:
        node.ask("ACL", "DELUSER", "later")


def connections(node: ClusterNode, user: str) -> set[str]:
    """The ids of a user's connections to a node."""
    lines = node.text("CLIENT", "LIST").splitlines()
    return {line.split()[0] for line in lines if f" user={user} " in line}


async def test_announced_addresses_are_translated(cluster: Cluster) -> None:
    asked: list[tuple[str, int]] = []

    def remap(address: tuple[str, int]) -> tuple[str, int]:
        asked.append(address)
        return "localhost", address[1]

    host, port = cluster.nodes[0].address
    locks = LockManager(redis.asyncio.RedisCluster(host=host, port=int(port), address_remap=remap))
    await use(cluster, locks)
    assert ("127.0.0.1", int(port)) in asked


async def test_min_replicas(cluster: Cluster) -> None:
    """On each master. Two connections to each, and its messages are heard."""
    locks = LockManager.cluster(cluster.urls, min_replicas=1, replica_timeout=0.1, request_timeout=2)
    async with locks, LockManager.cluster(cluster.urls) as others:
        for master in cluster.masters:
            (name,) = cluster.names_on(master)
            held = await others.lock(name).acquire()
            waiting = asyncio.ensure_future(locks.lock(name).acquire(timeout=ENOUGH))
            await cluster.until(lambda: bool(locks._runtime.queue_entries))
            await held.release()
            await (await waiting).release()
        master, other, _ = cluster.masters
        replica = cluster.replica_of(master)
        (away,) = cluster.names_on(other)
        replica.server.freeze()
        try:
            with pytest.raises(BackendError, match="acknowledged by 0 of 1"):
                await locks.lock(*cluster.names_on(master)).acquire()
            async with locks.lock(away):
                pass
        finally:
            replica.server.thaw()


async def test_min_replicas_of_a_grant_that_a_lost_copy_has_written(cluster: Cluster) -> None:
    """A copy of an acquire only reads its grant, and WAIT looks at what its own connection wrote. Kept by
    replicated.lua.
    """
    master = cluster.masters[0]
    (name,) = cluster.names_on(master)
    replica = cluster.replica_of(master)
    calls = LockCalls(Keys("aiolock"), name, 3000)
    async with (
        LockManager.cluster(cluster.urls, min_replicas=1, replica_timeout=0.1, request_timeout=2) as locks,
        LockManager.cluster(cluster.urls) as others,
    ):
        async with locks.lock(name):
            pass  # the connection has written something that is acknowledged
        replica.server.freeze()
        try:
            await others._runtime.backend.run(calls.acquire(Bid("m:1", 30_000, 0, "")))
            with pytest.raises(BackendError, match="acknowledged by 0 of 1"):
                await locks._runtime.backend.run(calls.acquire(Bid("m:1", 30_000, 0, "")))
        finally:
            replica.server.thaw()
        assert isinstance(await locks._runtime.backend.run(calls.acquire(Bid("m:1", 30_000, 0, ""))), Granted)


async def test_polling(cluster: Cluster) -> None:
    await use(cluster, LockManager.cluster(cluster.urls, waiting=Poll()))


async def test_the_connection_to_a_node_without_slots_is_closed(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Kept by Router: KEEP."""
    monkeypatch.setattr(router, "KEEP", 0.2)
    old = cluster.masters[0]
    (name,) = cluster.names_on(old)
    async with LockManager.cluster([old.url]) as locks:
        for times in range(2):
            async with locks.lock(name):
                pass
            await cluster.until(lambda: cluster.clients() == 1)
            if times == 0:
                new = cluster.failover(old)
                await cluster.failed_over(old, new)
    assert cluster.clients() == 0


async def test_closing_while_a_master_is_silent(cluster: Cluster) -> None:
    """Cancelled, it waits for no answer. Kept by ClusterBackend.aclose: `at_once`."""
    (name,) = cluster.names_on(cluster.masters[0])
    async with LockManager.cluster(cluster.urls, request_timeout=60, ttl=1) as locks:
        await locks.lock(name).acquire()
        cluster.masters[0].freeze()
        closing = asyncio.ensure_future(locks.close())
        await asyncio.sleep(0.05)
        closing.cancel()
        ended, _ = await asyncio.wait((closing,), timeout=5)
        assert ended == {closing}
    cluster.calm()


@pytest.mark.parametrize("how", ["kill", "freeze"])
async def test_opening_while_a_master_is_dead(own_cluster: Cluster, how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whichever node it turns to first. Kept by ClusterBackend._try_homes."""
    dead, alive, _ = own_cluster.masters
    replica = own_cluster.replica_of(alive)
    (name,) = own_cluster.names_on(alive)
    dead.kill() if how == "kill" else dead.freeze()
    first = Address(dead.address[0], int(dead.address[1]))
    monkeypatch.setattr(random, "shuffle", lambda found: found.sort(key=lambda one: one != first))
    async with asyncio.timeout(ENOUGH), LockManager.cluster([replica.url], request_timeout=5) as locks:
        async with locks.lock(name) as lease:
            assert lease.fence > 0
        assert locks._runtime.backend._homes[0] == first  # type: ignore[attr-defined]


def test_opening_again_after_its_loop_was_closed(cluster: Cluster) -> None:
    """Python warns about the connections, as about any others."""
    locks = LockManager.cluster(cluster.urls)
    loop = asyncio.new_event_loop()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        loop.run_until_complete(locks.open())
        loop.close()
        asyncio.run(use(cluster, locks))
        gc.collect()
    wait_until(lambda: cluster.clients() == 0)
    assert repr(locks).endswith("closed>")


# What cannot work.


async def test_a_plain_server_is_no_node(redis_server: RedisServer) -> None:
    with pytest.raises(ConfigurationError, match=r"not part of a cluster: use LockManager\(url\)"):
        async with LockManager.cluster([redis_server.url]):
            pass


async def test_a_node_is_no_plain_server(cluster: Cluster) -> None:
    with pytest.raises(ConfigurationError, match=r"use LockManager\.cluster\(\[url"):
        async with LockManager(cluster.urls[0]):
            pass


async def test_nodes_of_a_cluster_are_no_quorum(cluster: Cluster) -> None:
    with pytest.raises(ConfigurationError, match=r"use LockManager\.cluster\(\[url"):
        async with LockManager.quorum(cluster.urls[:3]):
            pass


@pytest.mark.parametrize(
    ("urls", "why"),
    [
        ([], "a list of URLs"),
        (URL, "a list of URLs"),
        ([f"{URL}/2"], "only database 0"),
        (["unix:///tmp/s"], "redis:// or rediss://"),
        (["memory://"], "redis:// or rediss://"),
        ([1], "redis:// or rediss://"),
        (["http://a"], "http:// is not supported"),
        ([URL, "redis://user:secret@b"], "the same user"),
        ([URL, "rediss://b"], "the same user"),
    ],
)
def test_bad_urls(urls: Any, why: str) -> None:
    with pytest.raises(ConfigurationError, match=why) as raised:
        LockManager.cluster(urls)
    assert "secret" not in str(raised.value)


async def test_no_node_answers() -> None:
    with pytest.raises(BackendError, match=r"no node of the cluster answers: localhost:1: .*cannot be reached"):
        async with LockManager.cluster([URL]):
            pass


def test_a_cluster_is_no_node_of_a_quorum() -> None:
    cluster = redis.asyncio.RedisCluster(host="localhost", port=1)
    with pytest.raises(ConfigurationError, match="a cluster cannot be a node of a quorum"):
        LockManager.quorum([cluster, URL, "redis://localhost:2"])  # type: ignore[list-item]


def test_encryption_is_that_of_the_url_or_client() -> None:
    """As is what it verifies. Kept by Seeds.connector."""
    client = redis.asyncio.RedisCluster(host="a", port=1, ssl=True, ssl_check_hostname=True, ssl_ca_certs="ca.pem")
    assert is_cluster(client)
    made = [Seeds(client), Seeds(["rediss://a:1?ssl_check_hostname=true&ssl_ca_certs=ca.pem"])]
    for seeds in made:
        connector = seeds.connector(Address("b", 2), True)
        assert connector._class is redis.asyncio.SSLConnection
        assert connector._options["ssl_ca_certs"] == "ca.pem"
        assert connector._options["ssl_check_hostname"] in (True, "true")
        assert (connector.address, list(seeds.addresses)) == ("b:2", [("a", 1)])
