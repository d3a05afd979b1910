"""Nodes of a real cluster die, hand over, or stop serving: who waits gets in, and who has lost its lock is told."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import Counter
from collections.abc import Iterator

import pytest

from aiolock import BackendError, LockLost, LockManager, LossReason
from tests.support.cluster import Cluster, start_cluster

from .test_cluster_locks import ENOUGH, Crowd, managers

TTL = 1.5
"""Seconds. Whoever waits for a lock that is lost with its master waits for that long."""
LONG_TTL = 6.0
"""Longer than this process stands still while other tests run."""


@pytest.mark.parametrize(
    "how", ["", *(pytest.param(how, marks=pytest.mark.takes_long) for how in ("FORCE", "TAKEOVER"))]
)
async def test_a_failover_under_load(cluster: Cluster, how: str) -> None:
    """Every waiter gets in; a graceful one loses no lock. Those of an asynchronous one may be lost, and are told."""
    names = [cluster.names_on(master)[0] for master in cluster.masters]
    async with managers(cluster, 2, ttl=TTL if how else LONG_TTL) as both:
        crowd = Crowd(both, names, lossy=how != "")
        await crowd.more(5)
        for name in names:
            old = cluster.master_of(name)
            new = cluster.failover(old, how)  # type: ignore[arg-type]
            await cluster.failed_over(old, new)
            await crowd.more(5)
        await crowd.end()
        assert how or crowd.lost == 0


@pytest.mark.parametrize("tasks", [1, 3])
@pytest.mark.parametrize("how", ["FORCE", "TAKEOVER"])
async def test_what_an_old_master_released_is_free_on_the_new_one(cluster: Cluster, how: str, tasks: int) -> None:
    """It answers until it hears of the other, which has what was held then. Several tasks of a process hand the name
    on. Kept by Releases.repeat, and `ends` of TRANSFER.
    """
    old = cluster.masters[0]
    names = cluster.names_on(old, 12)
    counts, done = Counter[str](), False
    async with managers(cluster, 1, ttl=60.0) as (locks,):

        async def work(name: str) -> None:
            while not done:
                with contextlib.suppress(LockLost):
                    async with locks.lock(name):
                        await asyncio.sleep(0.002)
                    counts[name] += 1

        workers = [asyncio.ensure_future(work(name)) for name in names * tasks]
        async with asyncio.timeout(ENOUGH):
            for _ in range(3):
                new = cluster.failover(old, how)  # type: ignore[arg-type]
                await cluster.failed_over(old, new)
                before, old = counts.copy(), new
                await cluster.until(lambda: all(counts[name] > before[name] + 2 for name in names))  # noqa: B023
            done = True
            await asyncio.gather(*workers)


async def test_a_killed_master(own_cluster: Cluster) -> None:
    names = [own_cluster.names_on(master)[0] for master in own_cluster.masters]
    async with managers(own_cluster, 2, ttl=TTL) as both:
        crowd = Crowd(both, names, lossy=True)
        await crowd.more(5)
        old = own_cluster.masters[0]
        new = own_cluster.replica_of(old)
        old.kill()
        await crowd.more(5, names[1:])  # the others go on
        await own_cluster.until(lambda: new.role == "master")
        await crowd.more(5)
        own_cluster.calm()
        await crowd.more(5)
        await crowd.end()


async def test_a_seed_that_is_down(own_cluster: Cluster) -> None:
    own_cluster.masters[0].kill()
    first = own_cluster.nodes[0].url
    async with LockManager.cluster([first, own_cluster.nodes[1].url]) as locks:
        (name,) = own_cluster.names_on(own_cluster.nodes[1])
        async with locks.lock(name) as lease:
            assert lease.fence > 0


async def test_a_lost_lock_is_noticed_at_once(cluster: Cluster) -> None:
    """Not at the next renewal, which is 10 s away. Kept by Router: it verifies the holds."""
    async with LockManager.cluster(cluster.urls, ttl=30) as locks:
        old = cluster.masters[0]
        (name,) = cluster.names_on(old)
        replica = cluster.replica_of(old)
        lease = await locks.lock(name).acquire()
        replica.ask("CONFIG", "SET", "replica-read-only", "no")
        replica.ask("FLUSHALL")  # it never got the lock
        replica.ask("CONFIG", "SET", "replica-read-only", "yes")
        cluster.failover(old, "TAKEOVER")
        await cluster.until(lambda: replica.role == "master")
        began = time.monotonic()
        async with asyncio.timeout(ENOUGH):
            await lease.wait_lost()
        assert time.monotonic() - began < 5
        with pytest.raises(LockLost, match="DELETED"):
            await lease.release()


async def test_absent_keys_of_a_slot_that_moves(masters_only: Cluster) -> None:
    """No node runs the script until the slot has arrived: TRYAGAIN at both."""
    async with LockManager.cluster(masters_only.urls) as locks:
        one, two, _ = masters_only.masters
        (name,) = masters_only.names_on(one)
        async with locks.lock(name):
            pass
        one.ask("FLUSHALL")
        steps = masters_only.moving(masters_only.slot(name), two)
        assert [next(steps), next(steps)] == ["importing", "migrating"]
        waiting = asyncio.ensure_future(locks.lock(name).acquire())
        async with asyncio.timeout(ENOUGH):
            while locks._runtime.away(name) is None:  # noqa: ASYNC110 - a server's answer sets no event here
                await asyncio.sleep(0.002)
        with pytest.raises(BackendError, match="TRYAGAIN"):
            await locks.lock(name).acquire(timeout=0.2)
        assert not waiting.done()
        list(steps)
        async with asyncio.timeout(ENOUGH):
            await (await waiting).release()


async def test_a_held_lock_is_renewed_while_its_slot_moves(masters_only: Cluster) -> None:
    """At the node where its key is. Kept by Router.refused: ASK."""
    async with LockManager.cluster(masters_only.urls, ttl=0.9) as locks:
        one, two, _ = masters_only.masters
        (name,) = masters_only.names_on(one)
        async with locks.lock(name) as lease:
            for step in masters_only.moving(masters_only.slot(name), two):
                if step not in ("importing", "known"):
                    await asyncio.sleep(1.0)
                    lease.ensure()
            assert not lease.lost


@pytest.fixture
def own_masters() -> Iterator[Cluster]:
    with start_cluster(replicas=0, node_timeout=1.0) as cluster:
        yield cluster


@pytest.mark.takes_long
async def test_a_cluster_that_is_down_and_comes_back(own_masters: Cluster) -> None:
    """A master without a replica is gone: all others refuse everything."""
    gone, other, _ = own_masters.masters
    (name,), (away,) = own_masters.names_on(other), own_masters.names_on(gone)
    async with LockManager.cluster(own_masters.urls, request_timeout=1) as locks:
        async with locks.lock(name), locks.lock(away):
            pass
        gone.kill()
        await own_masters.until(lambda: "cluster_state:fail" in other.text("CLUSTER", "INFO"))
        with pytest.raises(Exception, match="CLUSTERDOWN"):
            await locks.lock(name).acquire()
        held = await asyncio.gather(locks.lock(name).acquire(timeout=0.5), return_exceptions=True)
        assert "CLUSTERDOWN" in str(held[0])
        gone.resume()
        await own_masters.until(own_masters.ok)
        async with asyncio.timeout(ENOUGH):
            for each in (name, away):
                async with locks.lock(each):
                    pass


@pytest.mark.takes_long
@pytest.mark.parametrize("known", [False, True])
async def test_closing_with_a_lock_in_a_slot_that_no_one_serves(own_masters: Cluster, known: bool) -> None:
    """Its master says so when the lock is to be released, whether a map has said it before or not. Kept by
    Router.refused: UNSERVED.
    """
    master = own_masters.masters[0]
    (name,) = own_masters.names_on(master)
    async with asyncio.timeout(ENOUGH):
        async with LockManager.cluster(own_masters.urls, request_timeout=2 * ENOUGH) as locks:
            lease = await locks.lock(name).acquire()
            for node in own_masters.masters if known else [master]:
                node.text("CLUSTER", "DELSLOTS", own_masters.slot(name))
        assert lease.reason is LossReason.CLOSED
