"""Guarded writes, on a real server: what a user writes, who is refused, and that nothing is written twice."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import redis.asyncio
import redis.exceptions
import valkey.asyncio
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff

import aiolock.sync
from aiolock import ConfigurationError, Lease, LockLost, LockManager, LossReason, NotOwned, WaitTimeout
from aiolock.backends.cluster.slots import slot_of
from aiolock.recipes import GuardedWrites, guard
from aiolock.recipes.guard import MOST_WORDS, _turns
from aiolock.testing import MemoryBackend
from aiolock.testing.server import RedisServer
from tests.support.proxy import FaultProxy

ROOT = Path(__file__).resolve().parents[2]
KEY = "aiolock:lock:{order:42}"
Client = Any
"""Either library's; their methods have different types."""


@pytest.fixture
async def locks(redis_url: str) -> AsyncIterator[LockManager]:
    async with LockManager(redis_url) as manager:
        yield manager


@pytest.fixture
async def others(redis_url: str) -> AsyncIterator[LockManager]:
    """Another process's manager."""
    async with LockManager(redis_url) as manager:
        yield manager


@pytest.fixture
async def lease(locks: LockManager) -> AsyncIterator[Lease]:
    lease = await locks.lock("order:42", cancel_on_loss=False).acquire()
    yield lease
    with suppress(LockLost):
        await lease.release()


async def steal(client: redis.asyncio.Redis, others: LockManager) -> Lease:
    """Let another process have the lock, unnoticed."""
    await client.delete(KEY)
    return await others.lock("order:42").acquire()


@pytest.mark.parametrize("decodes", [False, True])
@pytest.mark.parametrize("library", [redis.asyncio.Redis, valkey.asyncio.Valkey])
async def test_each_write(lease: Lease, redis_url: str, library: Any, decodes: bool) -> None:
    async with library.from_url(redis_url, decode_responses=decodes) as client:
        writes = guard(lease, client)
        await writes.set("a", "x", ttl=30)
        assert await client.pttl("a") > 20_000
        assert await writes.hset("h", {"one": 1, "two": b"2"}) == 2
        assert await writes.hset("h", "one", 3) == 0
        assert await writes.hset("h", mapping={"three": 3}) == 1
        assert await client.hlen("h") == 3
        assert await writes.incrby("n", 5) == 5
        assert await writes.incrby(b"n") == 6
        assert await writes.lpush("l", "x", "y") == 2
        entry = await writes.xadd("s", {"sku": "7"})
        assert isinstance(entry, str)
        assert await client.xlen("s") == 1
        assert await writes.expire("n", 30)
        assert not await writes.expire("none", 30)
        assert await client.pttl("n") > 20_000
        assert await writes.delete("a", "h", "none") == 2
        assert await writes.delete() == 0
        assert await writes.write(("INCRBY", "n", 1), ("LPUSH", "l", "z")) == [7, 3]
        assert await writes.run("return { KEYS[1], ARGV[1] }", ["k"], ["v"]) == (
            ["k", "v"] if decodes else [b"k", b"v"]
        )


async def test_redis_refuses_after_a_loss(lease: Lease, raw: redis.asyncio.Redis, others: LockManager) -> None:
    """The holder has not noticed; the refusal is how it does."""
    thief = await steal(raw, others)
    assert not lease.lost
    with pytest.raises(LockLost) as refused:
        await guard(lease, raw).set("a", 1)
    assert refused.value.reason is LossReason.TAKEN_OVER
    assert "nothing was written" in "".join(refused.value.__notes__)
    assert lease.lost
    assert not await raw.exists("a")
    with pytest.raises(LockLost):
        await guard(lease, raw).set("a", 1)  # known here by now
    await thief.release()


async def test_a_block_is_cancelled_by_the_refusal(
    locks: LockManager, raw: redis.asyncio.Redis, others: LockManager
) -> None:
    """Even if it takes the error for one of the client's."""
    went_on: list[str] = []

    async def pay() -> None:
        async with locks.lock("order:42") as lease:
            thieves.append(await steal(raw, others))
            with suppress(LockLost):
                await guard(lease, raw).set("a", 1)
            await asyncio.sleep(0)
            went_on.append("the block")

    thieves: list[Lease] = []
    with pytest.raises(LockLost):
        await pay()
    assert not went_on
    await thieves[0].release()


async def test_after_the_release(locks: LockManager, raw: redis.asyncio.Redis) -> None:
    async with locks.lock("order:42") as lease:
        writes = guard(lease, raw)
    with pytest.raises(NotOwned):
        await writes.set("a", 1)


async def test_after_a_wait_for_a_condition(locks: LockManager, raw: redis.asyncio.Redis) -> None:
    """The lease continues under a new fence, and so do its writes; but not one that was called before."""
    lock = locks.lock("order:42")
    async with lock as lease:
        writes = guard(lease, raw)
        assert await writes.incrby("n") == 1
        async with _turns[lease._hold]:
            late = asyncio.create_task(writes.set("a", 1))
            await asyncio.sleep(0)
            with pytest.raises(WaitTimeout):
                await locks.condition(lock).wait(timeout=0.01)
        with pytest.raises(NotOwned, match="nothing was written"):
            await late
        assert await writes.incrby("n") == 2
    assert not await raw.exists("a")


async def test_a_nested_lease_writes_as_its_owner(locks: LockManager, raw: redis.asyncio.Redis) -> None:
    async with locks.lock("order:42") as outer, locks.lock("order:42") as inner:
        assert [await guard(each, raw).incrby("n") for each in (outer, inner)] == [1, 2]


async def test_fair_and_multi_locks_and_writers(locks: LockManager, raw: redis.asyncio.Redis) -> None:
    rw = locks.rw_lock("order:42")
    for lock in (locks.fair_lock("order:42"), locks.multi_lock("order:42", "order:43"), rw.write):
        async with lock as lease:
            await guard(lease, raw).incrby("n")
    async with rw.write as writing, rw.read:
        await guard(writing, raw).incrby("n")
    assert await raw.get("n") == b"4"


async def test_a_writer_that_lost_is_refused(locks: LockManager, raw: redis.asyncio.Redis) -> None:
    rw = locks.rw_lock("order:42", cancel_on_loss=False)
    lease = await rw.write.acquire()
    await raw.delete("aiolock:rw:{order:42}:state", "aiolock:rw:{order:42}:order")
    with pytest.raises(LockLost):
        await guard(lease, raw).set("a", 1)
    assert not await raw.exists("a")
    with suppress(LockLost):
        await lease.release()


async def test_leases_that_exclude_no_one(locks: LockManager, raw: redis.asyncio.Redis) -> None:
    rw = locks.rw_lock("order:42")
    async with locks.semaphore("order:42", 1) as permit, rw.write, rw.read as reading:
        for lease in (permit, reading):
            with pytest.raises(ConfigurationError, match="write side"):
                guard(lease, raw)


async def test_a_quorum_is_refused(three_urls: list[str], raw: redis.asyncio.Redis) -> None:
    async with LockManager.quorum(three_urls) as locks, locks.lock("order:42") as lease:
        with pytest.raises(ConfigurationError, match="quorum"):
            guard(lease, raw)


async def test_a_client_that_cannot_work(lease: Lease, redis_url: str, raw: redis.asyncio.Redis) -> None:
    with pytest.raises(ConfigurationError, match="Pipeline"):
        guard(lease, raw.pipeline())
    blocking: Any = redis.Redis.from_url(redis_url)
    with pytest.raises(ConfigurationError, match="asyncio"):
        guard(lease, blocking)
    elsewhere = redis.asyncio.Redis.from_url(redis_url.rpartition("/")[0] + "/3")
    with pytest.raises(ConfigurationError, match="database 3"):
        guard(lease, elsewhere)


async def test_another_server(lease: Lease, own_server: RedisServer) -> None:
    """The lease is fine: it is the client that is wrong."""
    async with redis.asyncio.Redis.from_url(own_server.url) as client:
        with pytest.raises(ConfigurationError, match="same server"):
            await guard(lease, client).set("a", 1)
        assert not await client.exists("a")
    assert not lease.lost


@pytest.mark.parametrize("decodes", [False, True])
async def test_a_key_that_is_there_or_not(lease: Lease, redis_url: str, decodes: bool) -> None:
    """In the words of redis-py; and a copy of a refused one is refused, too. Kept by `set`."""
    async with redis.asyncio.Redis.from_url(redis_url, decode_responses=decodes) as client:
        writes = guard(lease, client)
        assert not await writes.set("a", "x", xx=True)
        assert await writes.set("a", "x", nx=True, ex=30)
        assert 20_000 < await client.pttl("a") <= 30_000
        assert not await writes.set("a", "y", nx=True)
        assert await writes.set("a", "z", xx=True, px=60_000)
        assert 30_000 < await client.pttl("a") <= 60_000
        assert await client.get("a") == ("z" if decodes else b"z")
        assert await writes.write(("SET", "a", "y", "NX"), ("INCRBY", "n", 1)) == [None, 1]


@pytest.mark.parametrize(
    "options", [{"ttl": 1.0, "ex": 1}, {"ex": 1, "px": 1}, {"nx": True, "xx": True}, {"px": 0}], ids=str
)
async def test_a_set_that_cannot_be(lease: Lease, raw: redis.asyncio.Redis, options: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError):
        await guard(lease, raw).set("a", "x", **options)
    assert not await raw.exists("a")


async def test_a_field_that_cannot_be(lease: Lease, raw: redis.asyncio.Redis) -> None:
    with pytest.raises(ConfigurationError, match="takes a mapping"):
        await guard(lease, raw).hset("h", "field")
    with pytest.raises(ConfigurationError, match="takes a mapping"):
        await guard(lease, raw).hset("h", {"field": 1}, 2)


async def test_more_names_than_one_script_reads(locks: LockManager, raw: redis.asyncio.Redis) -> None:
    async with locks.multi_lock(*(f"n{i}" for i in range(65))) as lease:
        with pytest.raises(ConfigurationError, match="64 names at most"):
            guard(lease, raw)


async def test_what_guard_cannot_write(lease: Lease, raw: redis.asyncio.Redis) -> None:
    with pytest.raises(ConfigurationError, match="FLUSHALL"):
        await guard(lease, raw).write(("SET", "a", 1), ("FLUSHALL", "x"))
    await raw.set("text", "x")
    with pytest.raises(redis.exceptions.ResponseError, match="not an integer"):
        await guard(lease, raw).incrby("text")


async def test_a_sum_that_lua_would_round(lease: Lease, raw: redis.asyncio.Redis) -> None:
    """Lua counts exactly below 2**53. Kept by commands.lua: GET."""
    writes = guard(lease, raw)
    for start in (2**53 + 1, -(2**53) - 3, 2**62):
        await raw.set("n", start)
        assert await writes.incrby("n", 2) == start + 2
    assert await writes.write(("LPUSH", "l", "x"), ("INCRBY", "n", 1)) == [1, b"%d" % (2**62 + 3)]


async def test_more_than_luas_stack_takes(lease: Lease, raw: redis.asyncio.Redis) -> None:
    """Refused before anything is sent; several commands of one write have room."""
    writes = guard(lease, raw)
    with pytest.raises(ConfigurationError, match="7000 arguments"):
        await writes.lpush("l", *range(MOST_WORDS))
    words = range(MOST_WORDS - 1)
    assert await writes.write(("LPUSH", "l", *words), ("LPUSH", "l", *words)) == [len(words), 2 * len(words)]


@pytest.fixture
async def behind(redis_server: RedisServer, redis_url: str) -> AsyncIterator[tuple[FaultProxy, Client]]:
    """A client that repeats what was not answered, and the network to its server."""
    async with FaultProxy(redis_server.host, redis_server.port) as proxy:
        client = redis.asyncio.Redis.from_url(proxy.url, retry=Retry(NoBackoff(), 3), socket_timeout=10.0)
        yield proxy, client
        await client.aclose()


async def test_a_lost_reply_writes_once(lease: Lease, behind: tuple[FaultProxy, Client], raw: Client) -> None:
    """The client repeats the request, and gets the first one's reply. Kept by write.lua: the last write."""
    proxy, client = behind
    writes = guard(lease, client)
    await writes.incrby("n", 5)
    cut = proxy.cut(matching=b"INCRBY")
    assert await writes.incrby("n", 5) == 10
    assert len(cut.frames) == 1
    assert await raw.get("n") == b"10"


async def test_a_lost_reply_of_a_lost_lease(lease: Lease, behind: tuple[FaultProxy, Client], raw: Client) -> None:
    """What was written while it held is reported as written."""
    proxy, client = behind
    writes = guard(lease, client)
    await writes.incrby("n", 5)
    proxy.hold("replies", times=1)
    writing = asyncio.create_task(writes.incrby("n", 5))
    await proxy.wait_held()
    await raw.delete(KEY)
    proxy.reset()
    assert await writing == 10
    assert await raw.get("n") == b"10"


async def test_a_cancelled_write_never_comes_after_a_later_one(
    lease: Lease, behind: tuple[FaultProxy, Client], raw: Client
) -> None:
    """Its bytes are on their way, and arrive when the next write is done. Kept by the number of a write."""
    proxy, client = behind
    await raw.script_flush()
    await guard(lease, raw).set("a", "zero")  # the server knows the script
    held = proxy.hold("requests", times=1, matching=b"EVALSHA")
    slow = asyncio.create_task(guard(lease, client).set("a", "first"))
    await held.hit()
    slow.cancel()
    await asyncio.wait((slow,))
    await guard(lease, raw).set("a", "second")
    calls = (await raw.info("commandstats"))["cmdstat_evalsha"]["calls"]
    held.lift()
    async with asyncio.timeout(10):
        while (await raw.info("commandstats"))["cmdstat_evalsha"]["calls"] == calls:  # noqa: ASYNC110
            await asyncio.sleep(0.005)
    assert await raw.get("a") == b"second"


async def test_writes_of_one_owner_go_one_after_another(
    lease: Lease, behind: tuple[FaultProxy, Client], raw: Client
) -> None:
    """Even through different connections: otherwise the slower one would count as overtaken. Kept by `_turns`."""
    proxy, client = behind
    await guard(lease, raw).lpush("l", "zero")
    held = proxy.hold("requests", times=1, matching=b"EVALSHA")
    first = asyncio.create_task(guard(lease, client).lpush("l", "first"))
    await held.hit()
    second = asyncio.create_task(guard(lease, raw).lpush("l", "second"))
    for _ in range(20):
        await raw.ping()
    assert not second.done()
    held.lift()
    assert [await first, await second] == [2, 3]


async def test_an_acl_for_the_client(locks: LockManager, redis_url: str, raw: redis.asyncio.Redis) -> None:
    """The rights that the page names, beside the user's own, are enough."""
    page = (ROOT / "docs/how-to/protect-data.md").read_text(encoding="utf-8")
    rights = [right for span in re.findall(r"`(\+[^`]+ ~aiolock:[^`]+)`", page) for right in span.split()]
    assert rights
    await raw.execute_command("ACL", "SETUSER", "shop", "on", ">secret", "-@all", "~shop:*", "+incrby", *rights)
    url = redis_url.replace("redis://", "redis://shop:secret@")
    async with (
        redis.asyncio.Redis.from_url(url) as client,
        locks.lock("order:42") as lease,
        locks.rw_lock("order:42").write as writer,
    ):
        assert [await guard(each, client).incrby("shop:n") for each in (lease, writer)] == [1, 2]
    await raw.execute_command("ACL", "DELUSER", "shop")


async def test_keys_in_another_slot() -> None:
    """Refused before anything is sent; the message says how to name them."""
    backend, client = MemoryBackend(), Recorder()
    async with LockManager(backend) as locks, locks.lock("a}b") as lease, locks.multi_lock("c", "d") as several:
        backend.slot = slot_of  # type: ignore[method-assign]
        writes = guard(lease, client)
        await writes.set("{a%7Db}:state", "paid")
        for key in ("elsewhere", b"elsewhere", b"\xff"):
            with pytest.raises(ConfigurationError, match=r"begin it with '\{a%7Db\}'"):
                await writes.delete("{a%7Db}:state", key)
        with pytest.raises(ConfigurationError, match="slot"):
            await guard(several, client).set("{c}", 1)
        del backend.slot
    assert len(client.sent) == 1


class Recorder:
    """A client of a user's unit test: it notes what it is asked."""

    def __init__(self) -> None:
        self.sent: list[tuple[object, ...]] = []

    async def execute_command(self, *args: object) -> object:
        self.sent.append(args)
        return len(self.sent)

    async def aclose(self) -> None:
        pass


async def test_with_the_memory_backend() -> None:
    """The lock is not in Redis: the write is checked where the lock is, and then sent as it is."""
    backend, client = MemoryBackend(), Recorder()
    async with LockManager(backend) as locks:
        lease = await locks.lock("order:42", cancel_on_loss=False).acquire()
        writes: GuardedWrites = guard(lease, client)
        assert await writes.incrby("n") == 1
        assert await writes.run("return 7", ["k"], [1]) == 2
        assert client.sent == [("INCRBY", "n", 1), ("EVAL", "return 7", 1, "k", 1)]
        backend.steal("order:42")
        with pytest.raises(LockLost):
            await writes.incrby("n")
        backend.calls.clear()
        with pytest.raises(LockLost):
            await writes.incrby("n")
        assert backend.calls == []  # known here by now
        assert len(client.sent) == 2


@pytest.mark.parametrize("ttl", [0, -1, 0.0001, float("nan"), float("inf"), "5", True], ids=str)
async def test_a_ttl_that_cannot_be(lease: Lease, raw: redis.asyncio.Redis, ttl: Any) -> None:
    """One of 0 would delete the key. Kept by `check_duration` in guard.py."""
    writes = guard(lease, raw)
    await writes.set("key", "old")
    for call in (writes.set("key", "new", ttl=ttl), writes.expire("key", ttl)):
        with pytest.raises(ConfigurationError, match=r"guard\(\)'s ttl"):
            await call
    assert await raw.get("key") in (b"old", "old")


@pytest.mark.parametrize("what", ["lock", "sync", None])
async def test_only_a_lease_guards(locks: LockManager, raw: redis.asyncio.Redis, what: Any) -> None:
    leases: dict[Any, Any] = {
        "lock": locks.lock("order:42"),
        "sync": aiolock.sync.LockManager(MemoryBackend()).lock("x"),
    }
    with pytest.raises(ConfigurationError, match="needs the lease"):
        guard(leases.get(what), raw)


@pytest.mark.parametrize("version", ["0.2", "0.4"])
async def test_a_lock_of_another_version(lease: Lease, raw: redis.asyncio.Redis, version: str) -> None:
    await raw.delete(KEY)
    if version == "0.2":
        await raw.set(KEY, "m1:1 1795423502547494 0 1 0 1795423532547 vm:26967", px=100_000)
    else:
        await raw.hset(KEY, mapping={"version": version})
    with pytest.raises(redis.exceptions.ResponseError, match=f"WRONGVERSION {version} {re.escape(KEY)}"):
        await guard(lease, raw).set("a", "x")
    assert not await raw.exists("a")
    await raw.delete(KEY)
