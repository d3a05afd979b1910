"""The ACL of redis.md suffices, and allows nothing that is not used."""

from __future__ import annotations

import asyncio
import re

import pytest
import redis

from aiolock import FairLock, Lock, LockLost, LockManager, LossReason
from aiolock.scripts import latch, lock, multi, queue
from aiolock.testing.server import RedisServer
from tests.support import redis_cli

from .blocks import blocks

OF_THE_CLIENT = {
    "role",
    "client|info",
    "client|kill",
    "client|setinfo",
    "evalsha",
    "info",
    "ping",
    "script|load",
    "subscribe",
    "unsubscribe",
    "wait",
}
SCRIPTS = (*lock.SCRIPTS, *multi.SCRIPTS, *queue.SCRIPTS, *latch.SCRIPTS)


def rule() -> list[str]:
    """The rule as you would type it."""
    (block,) = blocks("acl")
    return block.text.split()


def test_the_rule_allows_what_is_used() -> None:
    """Broken by a command in a script that the rule does not name, or one in the rule that nothing uses."""
    calls = re.findall(r"redis\.p?call\('(\w+)'(?:, '([A-Z]+)')?", "".join(script.lua for script in SCRIPTS))
    in_scripts = {f"{name}|{sub}".lower() if name == "PUBSUB" else name.lower() for name, sub in calls}
    assert {word[1:] for word in rule() if word.startswith("+")} == in_scripts | OF_THE_CLIENT


async def test_the_rule_suffices(own_server: RedisServer) -> None:
    """Every path with that user, a lost connection included: the server denies nothing."""
    with redis_cli.client(own_server.url) as admin:
        admin.execute_command(*(word.replace(">password", ">secret") for word in rule()))
        url = own_server.url.replace("redis://", "redis://locks:secret@")
        async with LockManager(url, request_timeout=1.5) as one, LockManager(url, liveness=0.15) as other:
            await everything(one, other, admin)
        assert admin.acl_log() == []


async def everything(one: LockManager, other: LockManager, admin: redis.Redis) -> None:
    lock = one.lock("order:42")
    async with lock as lease:
        async with lock:
            await lease.renew()
        info = await lock.info()
        assert info is not None
        assert info.depth == 1
        here = asyncio.create_task(enter(one))
        elsewhere = asyncio.create_task(enter(other))
        await asyncio.sleep(0.1)
    await asyncio.gather(here, elsewhere)

    for kind in (one.fair_lock("a"), one.rw_lock("a").write, one.semaphore("a", 1), one.multi_lock("a", "b")):
        async with kind as lease:
            await lease.renew()
            assert await kind.info()
    for kind in (one.fair_lock("b"), one.semaphore("b", 1)):  # a queue of tasks, on the server
        others = other.fair_lock("b") if isinstance(kind, FairLock) else other.semaphore("b", 1)
        async with kind:
            waiting = [asyncio.create_task(others.acquire()) for _ in range(2)]
            await asyncio.sleep(0.1)
        for lease in asyncio.as_completed(waiting):
            await (await lease).release()
    await one.semaphore("a", 1).set_permits(2)
    assert not await one.fair_lock("a").force_release()
    assert await one.latch("a", 1).count_down() == 0
    await other.latch("a", 1).wait()

    async with lock as lease:
        admin.client_kill_filter(_type="normal", skipme=True)
        pings = pings_of(admin)
        async with asyncio.timeout(20):  # idle for longer than its request_timeout: PING, on the new connection
            while pings_of(admin) == pings:  # noqa: ASYNC110 - the server does not announce it
                await asyncio.sleep(0.02)
        assert not lease.lost
    with pytest.raises(LockLost) as caught:
        await revoked(lock, other)
    assert caught.value.reason is LossReason.REVOKED


def pings_of(admin: redis.Redis) -> int:
    """Return the number of heartbeats."""
    return int(admin.info("commandstats").get("cmdstat_ping", {"calls": 0})["calls"])  # type: ignore[union-attr]


async def revoked(lock: Lock, other: LockManager) -> None:
    async with lock:
        assert await other.lock(lock.name).force_release()
        await asyncio.sleep(5.0)


async def enter(locks: LockManager) -> None:
    async with locks.lock("order:42"):
        pass
