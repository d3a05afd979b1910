"""The rules of acl.md suffice, feature by feature, and allow nothing that is not used."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import pytest
import redis

from aiolock import Lock, LockLost, LockManager, LossReason, recipes
from aiolock.redisson import Redisson
from aiolock.scripts import condition, latch, lock, multi, once, outcome, queue
from aiolock.scripts.base import Script
from aiolock.scripts.inspections import INSPECTED_KINDS, inspection_of
from aiolock.scripts.keys import Keys
from aiolock.testing.server import RedisServer
from tests.support import redis_cli, redisson_wire
from tests.support.cluster import Cluster
from tests.support.replication import Pair
from tests.support.sentinels import SentinelSet

from .blocks import blocks

SECTIONS = (
    "connection",
    "locks",
    "queues",
    "latches",
    "once",
    "joined",
    "redisson",
    "quorum",
    "replicas",
    "cluster",
    "sentinel",
    "sentinels",
    "database",
    "viewers",
)
CONNECTION = {
    "client|info",
    "client|kill",
    "client|setinfo",
    "client|setname",
    "evalsha",
    "info",
    "ping",
    "publish",
    "pubsub|numsub",
    "role",
    "script|load",
    "subscribe",
    "unsubscribe",
}
OF_VIEWERS = {
    command[0].lower()
    for kind in INSPECTED_KINDS
    for command in inspection_of(Keys("aiolock"), kind, "a", now_ms=1, deep=True).commands
}
OF_SENTINELS = {"sentinel|get-master-addr-by-name", "sentinel|master"}
USER = "locks"


def rules() -> dict[str, list[str]]:
    """The rules as you would type them, by the section of the page."""
    return {name: block.text.split() for name, block in zip(SECTIONS, blocks("acl"), strict=True)}


def allowed(rule: list[str]) -> set[str]:
    return {word[1:] for word in rule if word.startswith("+")}


def used(*scripts: Script[Any]) -> set[str]:
    calls = re.findall(r"redis\.p?call\('(\w+)'(?:, '([A-Z]+)')?", "".join(script.lua for script in scripts))
    names = {f"{name}|{sub}".lower() if name == "PUBSUB" else name.lower() for name, sub in calls}
    return names - CONNECTION


def test_the_rules_allow_what_is_used() -> None:
    """Broken by a command in a script that its rule does not name, or one in the rule that nothing uses."""
    assert {name: allowed(rule) for name, rule in rules().items()} == {
        "connection": CONNECTION,
        "locks": used(*lock.SCRIPTS, *multi.SCRIPTS, *condition.SCRIPTS),
        "queues": used(*queue.SCRIPTS),
        "latches": used(*latch.SCRIPTS),
        "once": used(*once.SCRIPTS),
        "joined": used(*outcome.SCRIPTS),
        "redisson": used(*redisson_wire.SCRIPTS),
        "quorum": set(),
        "replicas": {"wait"},
        "cluster": {
            *("cluster|slots", "cluster|nodes", "asking", "eval"),
            *("ssubscribe", "sunsubscribe", "spublish", "pubsub|shardnumsub"),
        },
        "sentinel": {"wait"},
        "sentinels": (CONNECTION & allowed(rules()["sentinels"])) | OF_SENTINELS,
        "database": {"select"},
        "viewers": OF_VIEWERS | {"scan", "time", "client|setinfo"},
    }


class Limited:
    """A server with a user who has the rights of some sections.

    Args:
        url: of the server.
        link: a client of it that may do everything.
        sections: of the page.
    """

    def __init__(self, url: str, link: redis.Redis, *sections: str) -> None:
        self.link = link
        self.url = url.replace("redis://", f"redis://{USER}:secret@")
        for section in ("connection", *sections):
            link.execute_command(*(word.replace(">password", ">secret") for word in rules()[section]))
        link.acl_log_reset()

    def check(self) -> None:
        """The server denied nothing; then forget the user."""
        denied = self.link.acl_log()
        self.link.acl_deluser(USER)
        assert denied == []


@pytest.fixture
def link(redis_url: str) -> Iterator[redis.Redis]:
    with redis_cli.client(redis_url) as link:
        yield link


async def take_turns(one: Any, other: Any) -> None:
    """Everything that two managers do with a lock."""
    async with one as lease:
        if isinstance(one, Lock):
            async with one:
                pass
        await lease.renew()
        assert await one.info()
        if hasattr(one, "holders"):
            assert len(await other.holders()) == 1
            if one._runtime.backend.abilities.queues:
                assert await other.waiters() == []
        waiting = [asyncio.create_task(each.acquire()) for each in (one, other, other)]
        await asyncio.sleep(0.05)  # longer than a heartbeat
    for entered in asyncio.as_completed(waiting):
        await (await entered).release()
    if hasattr(one, "force_release"):
        lease = await one.acquire()
        assert await other.force_release()
        assert await lease.wait_lost() is LossReason.REVOKED
        with pytest.raises(LockLost):
            await lease.release()


async def locks_of_a_name(one: LockManager, other: LockManager) -> None:
    await take_turns(one.lock("a"), other.lock("a"))
    await take_turns(one.fair_lock("a"), other.fair_lock("a"))
    await take_turns(one.multi_lock("a", "b"), other.multi_lock("b", "a"))
    await conditions(one, other)
    ticket = await (await one.lock("a").acquire()).detach()
    async with other.resume(ticket):
        pass


async def conditions(one: LockManager, other: LockManager) -> None:
    async def wait() -> None:
        async with one.lock("a"):
            began.set()
            await one.condition(one.lock("a")).wait()

    began = asyncio.Event()
    waiting = asyncio.create_task(wait())
    await began.wait()
    async with other.lock("a"):
        assert len(await other.condition(other.lock("a")).waiters()) == 1
        await other.condition(other.lock("a")).notify_all()
    await waiting


async def queues(one: LockManager, other: LockManager) -> None:
    await take_turns(one.rw_lock("a").write, other.rw_lock("a").write)
    assert await one.rw_lock("a").holders() == []
    await take_turns(one.semaphore("a", 1), other.semaphore("a", 1))
    async with one.rw_lock("a").read, other.rw_lock("a").read:
        pass
    await one.semaphore("a", 1).set_permits(2)


async def latches(one: LockManager, other: LockManager) -> None:
    waiting = asyncio.create_task(other.latch("a", 2).wait())
    assert await one.latch("a", 2).count_down() == 1
    assert await other.latch("a", 2).count() == 1
    await asyncio.sleep(0.05)
    assert await one.latch("a", 2).count_down() == 0
    await waiting
    assert await one.latch("a", 2).delete()


async def runs(one: LockManager, other: LockManager) -> None:
    async def work(lease: object) -> None: ...

    here, there = (recipes.once(manager, "a", window=60.0, repeat="both") for manager in (one, other))
    assert (await here.run(work)).ran
    assert not (await there.run(work)).ran
    assert await there.forget()


async def joined(one: LockManager, other: LockManager) -> None:
    begun = asyncio.Event()

    async def work() -> int:
        begun.set()
        await asyncio.sleep(0.05)
        return 7

    here, there = (recipes.exclusive(manager, key=lambda: "a", busy="join")(work) for manager in (one, other))
    task = asyncio.create_task(here())
    await begun.wait()
    assert await there() == await task == 7


async def on_redisson(one: LockManager, other: LockManager) -> None:
    here, there = Redisson(one), Redisson(other)
    for make in (Redisson.fenced_lock, Redisson.fair_lock):
        await both_enter(make(here, "orders"), make(there, "orders"))
    await both_enter(here.rw_lock("orders:rw").write, there.rw_lock("orders:rw").read)
    await here.permit_expirable_semaphore("orders:sem").try_set_permits(1)
    await both_enter(*(java.permit_expirable_semaphore("orders:sem") for java in (here, there)))
    await here.count_down_latch("orders:latch").try_set_count(2)
    waiting = asyncio.create_task(there.count_down_latch("orders:latch").wait())
    for java in (here, there):
        await java.count_down_latch("orders:latch").count_down()
    await waiting
    lease = await here.lock("orders").acquire()
    assert await there.lock("orders").force_release()
    assert await lease.wait_lost() is LossReason.DELETED


async def both_enter(one: Any, other: Any) -> None:
    async with one as lease:
        await lease.renew()
        assert await one.info()
        waiting = asyncio.create_task(other.acquire())
        await asyncio.sleep(0.05)  # longer than a heartbeat
    await (await waiting).release()


Scene = Callable[[LockManager, LockManager], Awaitable[None]]


@pytest.mark.parametrize(
    ("section", "scene"),
    [
        ("locks", locks_of_a_name),
        ("queues", queues),
        ("latches", latches),
        ("once", runs),
        ("joined", joined),
        ("redisson", on_redisson),
    ],
)
async def test_each_section_suffices(redis_url: str, link: redis.Redis, section: str, scene: Scene) -> None:
    limited = Limited(redis_url, link, *(("locks", section) if section in ("once", "joined") else (section,)))
    async with LockManager(limited.url) as one, LockManager(limited.url, liveness=0.1, recheck=0.03) as other:
        async with asyncio.timeout(20):
            await scene(one, other)
    limited.check()


async def test_another_database(redis_url: str, link: redis.Redis) -> None:
    limited = Limited(redis_url, link, "locks", "database")
    url = limited.url.removesuffix("/0") + "/3"
    async with LockManager(url) as one, LockManager(url, liveness=0.1) as other:
        await take_turns(one.lock("a"), other.lock("a"))
    limited.check()


async def test_a_quorum(three_urls: list[str]) -> None:
    with (
        redis_cli.client(three_urls[0]) as a,
        redis_cli.client(three_urls[1]) as b,
        redis_cli.client(three_urls[2]) as c,
    ):
        servers = [Limited(url, link, "locks", "quorum") for url, link in zip(three_urls, (a, b, c), strict=True)]
        urls = [server.url for server in servers]
        async with LockManager.quorum(urls) as one, LockManager.quorum(urls) as other:
            await take_turns(one.lock("a"), other.lock("a"))
        for server in servers:
            server.check()


async def test_replicas(replicated: Pair) -> None:
    limited = Limited(replicated.url, replicated.link, "locks", "replicas")
    async with LockManager(limited.url, min_replicas=1, replica_timeout=2.0) as locks, locks.lock("a") as lease:
        await lease.renew()
    limited.check()


async def test_sentinels(sentinels: SentinelSet) -> None:
    """Before a failover and after it."""
    servers = [Limited(server.url, sentinels.link(server), "locks", "sentinel") for server in sentinels.servers]
    for sentinel in sentinels.sentinels:
        link = sentinels.link(sentinel)
        link.execute_command(*(word.replace(">password", ">secret") for word in rules()["sentinels"]))
        link.acl_log_reset()
    urls = [sentinel.url.replace("redis://", f"redis://{USER}:secret@") for sentinel in sentinels.sentinels]
    options: dict[str, Any] = {"service": sentinels.service, "username": USER, "password": "secret"}
    async with (
        LockManager.sentinel(urls, **options) as one,
        LockManager.sentinel(urls, liveness=0.1, **options) as other,
    ):
        await take_turns(one.lock("a"), other.lock("a"))
        await sentinels.failed_over(sentinels.failover())
        async with asyncio.timeout(20), one.lock("b"):
            pass
    for sentinel in sentinels.sentinels:
        denied = sentinels.link(sentinel).acl_log()
        sentinels.link(sentinel).acl_deluser(USER)
        assert denied == []
    for server in servers:
        server.check()


async def test_a_cluster(masters_only: Cluster) -> None:
    """Names on several nodes, one of which is being moved: a node says ASK, and scripts go as text. And channels that
    are heard both ways.
    """
    sections = ("locks", "latches", "redisson", "cluster")
    servers = [Limited(node.url, node.link, *sections) for node in masters_only.nodes]
    names = [masters_only.names_on(node)[0] for node in masters_only.nodes]
    new = masters_only.names_on(masters_only.nodes[0], 2)[1]
    target = masters_only.nodes[1]
    urls = [server.url for server in servers]
    async with LockManager.cluster(urls) as one, LockManager.cluster(urls, liveness=0.1) as other:
        await take_turns(one.multi_lock(*names), other.multi_lock(*names))
        await latches(one, other)
        await on_redisson(one, other)
        for step in masters_only.moving(masters_only.slot(new), target):
            if step == "migrating":
                waiting = asyncio.ensure_future(one.lock(new).acquire())
                async with asyncio.timeout(10):
                    while "cmdstat_asking" not in target.text("INFO", "commandstats"):  # noqa: ASYNC110 - not announced
                        await asyncio.sleep(0.005)
        await (await waiting).release()
    for server in servers:
        server.check()


async def test_a_lost_connection(own_server: RedisServer) -> None:
    """And one that is idle for longer than its `request_timeout`: PING, on the new connection."""
    with redis_cli.client(own_server.url) as admin:
        limited = Limited(own_server.url, admin, "locks")
        async with LockManager(limited.url, request_timeout=0.5) as locks, locks.lock("a") as lease:
            admin.client_kill_filter(_type="normal", skipme=True)
            pings = pings_of(admin)
            async with asyncio.timeout(20):
                while pings_of(admin) == pings:  # noqa: ASYNC110 - the server does not announce it
                    await asyncio.sleep(0.02)
            assert not lease.lost
        limited.check()


def pings_of(admin: redis.Redis) -> int:
    """Return the number of heartbeats."""
    return int(admin.info("commandstats").get("cmdstat_ping", {"calls": 0})["calls"])  # type: ignore[union-attr]
