"""How a manager of a cluster hears that it is its turn, and what that costs the other nodes."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from collections.abc import AsyncIterator, Callable

import pytest
import redis

from aiolock import LockManager, LossReason
from aiolock.backends.cluster import sharded
from aiolock.redisson import Redisson
from tests.support import acl, redis_cli
from tests.support.cluster import Cluster
from tests.support.cluster_node import ClusterNode

from .test_cluster_locks import ENOUGH

pytestmark = pytest.mark.slow

LIVENESS = 300.0
"""Seconds after a third of which a waiter that hears nothing asks again: too late for these tests."""
USER = "hearer"


@pytest.fixture(autouse=True)
def since_redis_7(cluster: Cluster) -> None:
    if redis_cli.version_of(cluster.masters[0].link) < (7, 0):
        pytest.skip("it has no sharded channels")


def broadcasts(cluster: Cluster) -> int:
    """How many messages of pub/sub nodes have sent to all others."""
    lines = [line for node in cluster.nodes for line in node.text("CLUSTER", "INFO").splitlines()]
    sent = [line.partition(":")[2] for line in lines if line.startswith("cluster_stats_messages_publish_sent:")]
    return sum(map(int, sent))


@pytest.fixture
def counted(cluster: Cluster) -> None:
    """Valkey 8.0 counts only what nodes receive of such messages, at some time afterwards."""
    before = broadcasts(cluster)
    cluster.masters[0].ask("PUBLISH", "counted", "")
    if broadcasts(cluster) == before:
        pytest.skip("it does not count what it sends to other nodes")


@contextlib.asynccontextmanager
async def two(cluster: Cluster, user: str = "") -> AsyncIterator[tuple[LockManager, LockManager]]:
    urls = [node.url.replace("//", f"//{user}:secret@") if user else node.url for node in cluster.masters[:1]]
    async with (
        LockManager.cluster(urls, liveness=LIVENESS, recheck=LIVENESS) as one,
        LockManager.cluster(urls, liveness=LIVENESS, recheck=LIVENESS) as other,
    ):
        yield one, other


TakeOnce = Callable[[LockManager], contextlib.AbstractAsyncContextManager[object]]


async def take_turns(managers: tuple[LockManager, LockManager], take: TakeOnce, times: int) -> int:
    """Each of the two enters so often, and most entries are hand-offs from the other; return how many are."""
    entered: list[LockManager] = []

    async def run(manager: LockManager) -> None:
        for _ in range(times):
            async with take(manager):
                entered.append(manager)
                await asyncio.sleep(0.001)

    async with asyncio.timeout(ENOUGH):
        await asyncio.gather(*map(run, managers))
    handed = sum(one is not other for one, other in itertools.pairwise(entered))
    assert handed > times
    return handed


@pytest.mark.usefixtures("counted")
@pytest.mark.parametrize("kind", ["fair_lock", "semaphore", "writer", "multi_lock"])
async def test_a_hand_off_tells_one_node_only(cluster: Cluster, kind: str) -> None:
    """From the second on: the first may come before the subscription. Kept by sharded.lua, and awaits()."""
    names = cluster.names_on(cluster.masters[1], 2)

    def take(manager: LockManager) -> contextlib.AbstractAsyncContextManager[object]:
        match kind:
            case "fair_lock":
                return manager.fair_lock(names[0]).acquire()
            case "semaphore":
                return manager.semaphore(names[0], 1).acquire()
            case "writer":
                return manager.rw_lock(names[0]).write.acquire()
            case _:
                return manager.multi_lock(*names).acquire()

    async with two(cluster) as managers:
        await take_turns(managers, take, 3)
        before = broadcasts(cluster)
        await take_turns(managers, take, 10)
        assert broadcasts(cluster) == before
    assert not [key for key in cluster.keys() if key.endswith(":order")]  # noqa: SIM118


@pytest.mark.usefixtures("counted")
@pytest.mark.parametrize("denied", ["ssubscribe", "pubsub|shardnumsub", "spublish"])
async def test_without_the_right_all_nodes_are_told(cluster: Cluster, denied: str) -> None:
    for node in cluster.nodes:
        node.ask(*acl.setuser(node.link, USER, *acl.EVERYTHING, f"-{denied}"))
    (name,) = cluster.names_on(cluster.masters[1])
    try:
        async with two(cluster, USER) as managers:
            before = broadcasts(cluster)
            await take_turns(managers, lambda manager: manager.fair_lock(name).acquire(), 3)
            assert broadcasts(cluster) > before
    finally:
        for node in cluster.nodes:
            node.ask("ACL", "DELUSER", USER)


async def test_a_holder_that_never_waited_hears_of_force(cluster: Cluster) -> None:
    """Whatever node says it. Kept by sharded.lua: `heard`."""
    (name,) = cluster.names_on(cluster.masters[1])
    async with two(cluster) as (one, other):
        lease = await one.lock(name, ttl=3 * LIVENESS).acquire()
        await other.lock(name).force_release()
        async with asyncio.timeout(ENOUGH):
            await lease.wait_lost()
        assert lease.reason is LossReason.REVOKED


async def test_the_slot_moves_while_it_waits(masters_only: Cluster) -> None:
    """The old node ends the subscription, so the waiter asks again, and is told by the new one."""
    source, target = masters_only.masters[:2]
    (name,), (away,) = masters_only.names_on(source), masters_only.names_on(target)
    async with two(masters_only) as (one, other):
        async with one.lock(away):  # a new connection asks whether it may publish
            pass
        held = await one.fair_lock(name, ttl=3 * LIVENESS).acquire()
        waiting = asyncio.ensure_future(other.fair_lock(name).acquire())
        await masters_only.until(lambda: bool(managers_on(source)))
        masters_only.move_slot(masters_only.slot(name), target)
        await masters_only.until(lambda: not managers_on(source) and bool(managers_on(target)))
        before = broadcasts(masters_only)
        await held.release()
        async with asyncio.timeout(ENOUGH):
            await (await waiting).release()
        assert broadcasts(masters_only) == before


JAVA = "6b1c9a54-7c0e-4f3b-9c55-0d6f3b1f8a11:51"


def asked(node: ClusterNode) -> int:
    """How many scripts it has run."""
    (line,) = (line for line in node.text("INFO", "commandstats").splitlines() if line.startswith("cmdstat_evalsha:"))
    return int(line.partition("calls=")[2].partition(",")[0])


@pytest.mark.parametrize("how", ["SPUBLISH", "PUBLISH"])
async def test_who_shares_its_channel_is_heard_either_way(cluster: Cluster, how: str) -> None:
    """Redisson tells by the first if there is one. Kept by Subscription.join."""
    (name,) = cluster.names_on(cluster.masters[1])
    node, channel = cluster.master_of(name), f"redisson_lock__channel:{{{name}}}"
    node.ask("HSET", name, JAVA, 1)
    async with two(cluster) as (one, _):
        waiting = asyncio.ensure_future(Redisson(one).lock(name).acquire())
        for listed in ("CHANNELS", "SHARDCHANNELS"):
            await cluster.until(lambda listed=listed: channel in node.text("PUBSUB", listed))  # type: ignore[misc]
        for _ in range(4):  # its confirmations count as messages, which are fewer
            before = asked(node)
            node.ask(how, channel, "0")
            await cluster.until(lambda before=before: asked(node) > before)  # type: ignore[misc]
        node.ask("DEL", name)
        node.ask(how, channel, "0")
        async with asyncio.timeout(ENOUGH):
            await (await waiting).release()


@pytest.mark.usefixtures("counted")
@pytest.mark.parametrize("waits", [False, True])
@pytest.mark.parametrize("how", ["ssubscribe", "subscribe"])
async def test_who_shares_our_channel_is_told_as_it_hears(cluster: Cluster, how: str, waits: bool) -> None:
    """Whether one of ours waits, too; and all nodes are told only if it hears no other way. Kept by sharded.lua."""
    (name,) = cluster.names_on(cluster.masters[1])
    node, channel = cluster.master_of(name), f"redisson_lock__channel:{{{name}}}"
    async with two(cluster) as (one, other):
        lease = await Redisson(one).lock(name).acquire()
        with node.link.pubsub() as hearing:
            getattr(hearing, how)(channel)
            assert await heard(hearing) == "confirmed"
            waiting = asyncio.ensure_future(Redisson(other).lock(name).acquire()) if waits else None
            count = "PUBSUB", {"subscribe": "NUMSUB", "ssubscribe": "SHARDNUMSUB"}[how], channel
            await cluster.until(lambda: node.ask(*count)[1] == 1 + waits)
            before = broadcasts(cluster)
            await lease.release()
            assert await heard(hearing) == "0"
            assert (broadcasts(cluster) > before) == (how == "subscribe")
            if waiting is not None:
                async with asyncio.timeout(ENOUGH):
                    await (await waiting).release()


async def heard(hearing: redis.client.PubSub) -> str:
    """The next message, or that it hears."""
    message = await asyncio.to_thread(hearing.get_message, timeout=ENOUGH)
    assert message is not None
    return message["data"].decode() if isinstance(message["data"], bytes) else "confirmed"


def managers_on(node: ClusterNode) -> list[str]:
    """The managers' sharded channels on this node."""
    channels = node.text("PUBSUB", "SHARDCHANNELS", "aiolock:manager:*").split("\n")
    return [channel for channel in channels if channel and ":watch:" not in channel]


async def test_it_is_left_when_idle(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """And no request gets another's answer; the next hand-off is heard nevertheless. Kept by Departure."""
    monkeypatch.setattr(sharded, "KEEP", 0.05)
    master = cluster.masters[1]
    (name,) = cluster.names_on(master)
    async with two(cluster) as managers:
        for _ in range(3):
            assert await take_turns(managers, lambda manager: manager.fair_lock(name).acquire(), 3) > 3
            await cluster.until(lambda: not managers_on(master))
