"""Clusters and Sentinels that speak only TLS, and know users: each node is reached with what the first one was."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import redis.asyncio
from redis.asyncio.sentinel import Sentinel

from aiolock import BackendError, ConfigurationError, LockManager
from tests.support.access import Access
from tests.support.cluster import Cluster, start_cluster
from tests.support.sentinels import SentinelSet, start_sentinels

from .conftest import StartLoad
from .test_cluster_load import names_on, nothing_left
from .verdict import WINDOW, judge

pytestmark = pytest.mark.takes_long

LOCKER = ("reset", "on", ">hers", "~aiolock:*", "resetchannels", "&aiolock:*", "&__sentinel__:hello", "+@all")
WATCHER = ("reset", "on", ">his", "allchannels", "+@all")
ENOUGH = 20.0


@pytest.fixture
def encrypted_cluster(certificate: Path) -> Iterator[Cluster]:
    """Its default user has a password, and the user `locker` another."""
    with start_cluster(access=Access("opens", certificate)) as cluster:
        for node in cluster.nodes:
            node.ask("ACL", "SETUSER", "locker", *LOCKER)
        yield cluster


@pytest.mark.parametrize("made", ["urls", "client"])
async def test_a_cluster(encrypted_cluster: Cluster, certificate: Path, made: str) -> None:
    first = encrypted_cluster.nodes[0]
    authority = str(certificate / "authority.pem")
    if made == "urls":
        locks = LockManager.cluster([first.url.replace(":opens@", "locker:hers@")], ttl=3.0)
    else:
        host, port = first.address
        client = redis.asyncio.RedisCluster(
            host=host, port=port, username="locker", password="hers", ssl=True, ssl_ca_certs=authority
        )
        locks = LockManager(client, ttl=3.0)
    names = [encrypted_cluster.names_on(master)[0] for master in encrypted_cluster.masters]
    async with asyncio.timeout(ENOUGH), locks:
        async with locks.multi_lock(*names):
            pass
        async with locks.lock(names[0]) as lease:
            old = encrypted_cluster.masters[0]
            await encrypted_cluster.failed_over(old, encrypted_cluster.failover(old))
            await lease.renew()
            assert not lease.lost
    await encrypted_cluster.until(lambda: encrypted_cluster.clients() == 0)


async def test_a_cluster_that_is_not_trusted(encrypted_cluster: Cluster) -> None:
    """The error says why, that no waiting helps, and no password."""
    url = encrypted_cluster.nodes[0].url
    for wrong, why in (
        (url.partition("?")[0], "certificate is not trusted"),
        (url.replace("opens", "closed"), "refused the credentials"),
        (url.partition("?")[0].replace("rediss", "redis"), "speaks TLS.*write rediss://"),
    ):
        with pytest.raises((BackendError, ConfigurationError), match=why) as caught:
            async with LockManager.cluster([wrong]):
                pass
        assert not isinstance(caught.value, BackendError) or not caught.value.transient
        assert "opens" not in str(caught.value)
        assert "closed@" not in str(caught.value)


async def test_a_master_is_killed_under_load(encrypted_cluster: Cluster, load_on: StartLoad) -> None:
    """As without TLS: see test_cluster_load.py."""
    load = load_on(encrypted_cluster, names_on(encrypted_cluster), request_timeout=4.0)
    await load.begin()
    old = encrypted_cluster.masters[0]
    new = encrypted_cluster.replica_of(old)
    old.kill()
    await encrypted_cluster.until(lambda: new.role == "master" and encrypted_cluster.ok())
    healed = time.monotonic()
    await load.flows()
    history = await load.end()
    judge(history, load, [healed], WINDOW)
    assert max(hold.until for hold in history.holds) > healed
    nothing_left(encrypted_cluster)


@pytest.fixture
def encrypted_sentinels(certificate: Path) -> Iterator[SentinelSet]:
    """The user of the servers is `locker`, and that of the Sentinels `watcher`."""
    with start_sentinels(password="opens", sentinel_password="sesame", certificate=certificate) as sentinels:
        for server in sentinels.servers:
            sentinels.link(server).execute_command("ACL", "SETUSER", "locker", *LOCKER)
        for sentinel in sentinels.sentinels:
            sentinels.link(sentinel).execute_command("ACL", "SETUSER", "watcher", *WATCHER)
        yield sentinels


async def test_sentinels(encrypted_sentinels: SentinelSet, certificate: Path) -> None:
    vouched = {"ssl": True, "ssl_ca_certs": str(certificate / "authority.pem")}
    sentinel = Sentinel(
        encrypted_sentinels.addresses,
        sentinel_kwargs={"username": "watcher", "password": "his", **vouched},
        username="locker",
        password="hers",
        **vouched,
    )
    locks = LockManager(sentinel.master_for(encrypted_sentinels.service), ttl=10.0)
    async with asyncio.timeout(ENOUGH), locks, locks.lock("order:42") as lease:
        new = encrypted_sentinels.failover()
        await encrypted_sentinels.failed_over(new)
        async with locks.lock("order:43"):
            assert encrypted_sentinels.clients(new) > 0
        await lease.renew()
