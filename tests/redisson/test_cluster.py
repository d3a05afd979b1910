"""A JVM and a process of ours on a cluster, whose slots move and whose masters are replaced."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, wait

import pytest

from tests.support.cluster import Cluster
from tests.support.scripting import wait_until

from .peer import PATIENCE, Peer, start_java, start_python
from .test_exclusion import entered, stays_out
from .test_sentinel import KINDS

TTL, TTL_MS = 10.0, 10_000
"""A JVM needs seconds until it has found a new master."""
SOON = TTL / 5
"""Seconds: before any renewal, and any ttl is over, so it was a message."""


def url_of(cluster: Cluster) -> str:
    return "cluster://" + ",".join(f"{host}:{port}" for host, port in (node.address for node in cluster.nodes))


@pytest.fixture(scope="module", params=["AUTO", "OFF"])
def how(request: pytest.FixtureRequest) -> str:
    """Whether a JVM tells by sharded pub/sub if there is any, or never."""
    return str(request.param)


@pytest.fixture(scope="module")
def java(version: str, how: str, shared_cluster: Cluster) -> Iterator[Peer]:
    with start_java(version, url_of(shared_cluster), TTL_MS, how) as peer:
        yield peer


@pytest.fixture(scope="module")
def python(shared_cluster: Cluster) -> Iterator[Peer]:
    with start_python(url_of(shared_cluster), TTL_MS) as peer:
        yield peer


@pytest.fixture(params=["java first", "python first"])
def pair(request: pytest.FixtureRequest, java: Peer, python: Peer, cluster: Cluster) -> Iterator[tuple[Peer, Peer]]:
    yield (java, python) if request.param == "java first" else (python, java)
    left = {key for key in cluster.keys() if "{" in key}  # noqa: SIM118
    assert {key for key in left if not key.startswith(("redisson_unlock_latch", "redisson_lock_token"))} == set()


def names(cluster: Cluster) -> list[str]:
    """One on each master."""
    return [name for master in cluster.masters for name in cluster.names_on(master)]


@pytest.mark.parametrize("kind", KINDS)
def test_each_keeps_the_other_out_and_wakes_it(pair: tuple[Peer, Peer], cluster: Cluster, kind: str) -> None:
    """Also if both sides wait at once. But of several that wait for a read-write lock Redisson's own may miss a
    release, also where there are only JVMs. Kept by Subscription._listen_nearby, and by sharded.lua.
    """
    first, second = pair
    for name in names(cluster):
        what = f"{kind}:{name}"
        if kind == "permits":
            first.do("t", "trySetPermits", what, 1)
        first.do("t", "lock", what)
        assert second.do("t", "tryLock", what) == "false"
        crowd = [(second, "u")] if kind == "write" else [(side, task) for task in "uv" for side in (second, first)]
        waiting = {(side, task): side.ask(task, "lock", what) for side, task in crowd}
        for one in waiting.values():
            stays_out(one)
        holder, task = first, "t"
        while waiting:
            freed = time.time()
            holder.do(task, "unlock", what)
            (one, *_), _ = wait(waiting.values(), SOON, FIRST_COMPLETED)
            assert entered(one) - freed < SOON
            ((holder, task),) = [side for side, other in waiting.items() if other is one]
            del waiting[holder, task]
        holder.do(task, "unlock", what)


def test_each_opens_a_latch_for_the_other(pair: tuple[Peer, Peer], cluster: Cluster) -> None:
    first, second = pair
    for name in names(cluster):
        what = f"latch:{name}"
        first.do("t", "trySetCount", what, 2)
        waiting = [side.ask("w", "await", what) for side in pair]
        second.do("t", "countDown", what)
        for one in waiting:
            stays_out(one)
        opened = time.time()
        first.do("t", "countDown", what)
        for one in waiting:
            assert entered(one) - opened < SOON


@pytest.mark.parametrize("kind", ["lock", "fenced", "write"])
def test_an_end_by_force_ends_our_hold(pair: tuple[Peer, Peer], python: Peer, cluster: Cluster, kind: str) -> None:
    for name in names(cluster):
        what = f"{kind}:{name}"
        python.do("t", "lock", what)
        lost = python.ask("t", "lost", what)
        stays_out(lost)
        forced = time.time()
        assert pair[0].do("f", "forceUnlock", what) == "true"
        assert entered(lost) - forced < SOON


def test_it_is_told_as_the_jvm_decides(java: Peer, how: str, cluster: Cluster) -> None:
    (name,) = cluster.names_on(cluster.masters[0])
    java.do("t", "lock", f"lock:{name}")
    waiting = java.ask("w", "lock", f"lock:{name}")
    channel = f"redisson_lock__channel:{{{name}}}"
    heard = {"AUTO": "SHARDCHANNELS", "OFF": "CHANNELS"}[how]
    wait_until(lambda: channel in cluster.master_of(name).text("PUBSUB", heard, "redisson*").split("\n"), PATIENCE)
    java.do("t", "unlock", f"lock:{name}")
    entered(waiting)
    java.do("w", "unlock", f"lock:{name}")


@pytest.fixture
def lasting(version: str, cluster: Cluster) -> Iterator[tuple[Peer, Peer]]:
    """For a cluster that is changed."""
    url = url_of(cluster)
    with start_java(version, url, TTL_MS) as java, start_python(url, TTL_MS) as python:
        yield java, python


async def test_slots_move(lasting: tuple[Peer, Peer], cluster: Cluster) -> None:
    """What is held stays held and is renewed; whoever waits is let in by a release at the new master, but Redisson
    itself is deaf from then on until a ttl is over. Kept by Subscription.move.
    """
    (name,) = cluster.names_on(cluster.masters[0])

    async def change() -> None:
        here = cluster.master_of(name)
        cluster.move_slot(cluster.slot(name), next(master for master in cluster.masters if master is not here))

    await all_goes_on(lasting, name, change, deaf=lasting[0])


async def test_a_master_is_replaced(lasting: tuple[Peer, Peer], cluster: Cluster) -> None:
    (name,) = cluster.names_on(cluster.masters[0])

    async def change() -> None:
        await asyncio.sleep(0.5)  # a replica has it by now
        old = cluster.master_of(name)
        await cluster.failed_over(old, cluster.failover(old))

    await all_goes_on(lasting, name, change)


async def all_goes_on(
    peers: tuple[Peer, Peer], name: str, change: Callable[[], Awaitable[None]], deaf: Peer | None = None
) -> None:
    for first, second in (peers, peers[::-1]):
        holds = [f"{kind}:{{{name}}}{kind}" for kind in KINDS]
        first.do("t", "trySetPermits", holds[-1], 1)
        for what in holds:
            first.do("t", "lock", what)
        waiting = {what: second.ask(what, "lock", what) for what in holds}
        for one in waiting.values():
            stays_out(one, 0.1)
        await change()
        await asyncio.sleep(1.3 * TTL)
        assert [what for what, one in waiting.items() if one.done()] == []
        for what, one in waiting.items():
            freed = time.time()
            first.do("t", "unlock", what)
            assert entered(one) - freed < SOON or second is deaf, what
            second.do(what, "unlock", what)
