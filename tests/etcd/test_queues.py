"""What is in etcd, and who else is in the same queues."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable

import aiosqlite
import pytest

from aiolock import ConfigurationError, LockLost, LockManager, LossReason, NotOwned, fenced
from aiolock.recipes import etcd_place
from aiolock.recipes.fenced import FENCES_TABLE
from aiolock.testing import MemoryBackend
from tests.support.etcd import Etcd, text64

QUEUE = "aiolock/lock/a/"


async def until(check: Callable[[], object], seconds: float = 10.0) -> None:
    async with asyncio.timeout(seconds):
        while not await asyncio.to_thread(check):  # noqa: ASYNC110 - the server tells nobody here
            await asyncio.sleep(0.01)


async def test_a_place(server: Etcd, locks: LockManager) -> None:
    """A key under a lease, whose create-revision is the fence: as etcd's recipe has it."""
    async with locks.lock("a", metadata="invoice") as lease, locks.lock("a"):
        (pair,) = server.pairs(QUEUE, "aiolock/lock/a0")
        weight, capacity, depth, note = json.loads(pair["value"])
        assert (weight, capacity, depth) == (1, 1, 2)
        assert note.endswith("\ninvoice")
        assert int(pair["create_revision"]) == lease.fence
        assert int(pair["lease"])
        (last,) = server.pairs("aiolock/lock/a#last")
        assert last["value"] == "held"
    assert server.pairs("aiolock/lock/", "aiolock/lock0") == []


@pytest.mark.parametrize("name", ["a/b", "a#last", "..", "%2F", "\x00\x1f", "💥 é", "a" * 512, "{x}"])
async def test_names(server: Etcd, locks: LockManager, others: LockManager, name: str) -> None:
    """Each has a queue of its own, and comes back as it was. Kept by `Paths`."""
    async with locks.lock(name), locks.lock("a"):
        assert await others.lock(name).try_acquire() is None
        for near in ("a/b/c", "b", f"{name[:500]}/x", "%252F"):
            async with others.lock(near).try_acquire() as lease:
                assert lease is not None
        keys = [pair["key"] for pair in server.pairs("aiolock/", "aiolock0")]
        assert all(key.count("/") in (2, 3) for key in keys)
        waiting = asyncio.create_task(others.lock(name).acquire())  # type: ignore[arg-type]
        await until(lambda: sum(key["key"].count("/") == 3 for key in server.pairs("aiolock/", "aiolock0")) == 3)
    async with asyncio.timeout(5):
        await (await waiting).release()


async def test_another_program_waits(server: Etcd, locks: LockManager) -> None:
    """One that takes a key of its own below the same prefix, as Go's `concurrency.Mutex` and `etcdctl lock` do."""
    async with locks.lock("a"):
        grant = server.ask("lease/grant", {"TTL": 60})["ID"]
        server.ask("kv/put", {"key": text64(f"{QUEUE}{int(grant):x}"), "lease": grant})
        async with locks.lock("a").try_acquire() as nested:
            assert nested is not None
    attempt = locks.lock("a").try_acquire()
    assert await attempt is None
    assert attempt.holder is not None
    assert attempt.holder.process == "another program"
    waiting = asyncio.create_task(locks.lock("a").acquire())  # type: ignore[arg-type]
    await until(lambda: len(server.pairs(QUEUE, "aiolock/lock/a0")) == 2)
    assert not waiting.done()
    server.ask("lease/revoke", {"ID": grant})
    async with asyncio.timeout(5):
        await (await waiting).release()


@pytest.mark.parametrize("side", ["read", "write"])
async def test_another_program_has_a_read_write_lock(server: Etcd, locks: LockManager, side: str) -> None:
    """It takes all of it, so readers wait, too."""
    server.put("aiolock/rw/a/1234", "", 60)
    rw = locks.rw_lock("a")
    assert await (rw.read if side == "read" else rw.write).try_acquire() is None
    assert (await rw.info()) is not None


async def test_a_holder_that_vanished(server: Etcd, locks: LockManager, others: LockManager) -> None:
    """The next one is told, and the one after it no more. Kept by `_note`."""
    lease = await locks.lock("a").acquire()
    (pair,) = server.pairs(QUEUE, "aiolock/lock/a0")
    server.ask("lease/revoke", {"ID": pair["lease"]})
    async with others.lock("a") as after:
        assert after.abandoned
        assert after.fence > lease.fence
        lease._hold.verify()
        async with asyncio.timeout(5):
            assert await lease.wait_lost() is LossReason.TAKEN_OVER
        with pytest.raises(LockLost):
            await lease.release()
    async with others.lock("a") as later:
        assert not later.abandoned


async def test_the_fence_guards_a_write_to_etcd(server: Etcd, locks: LockManager) -> None:
    """As the page says: a transaction that compares the place's create-revision is refused once it is gone."""
    lease = await locks.lock("a").acquire()
    place = etcd_place(lease)
    compare = {"key": text64(place.key), "target": "CREATE", "create_revision": place.revision}
    body = {"compare": [compare], "success": [{"request_put": {"key": text64("mine"), "value": text64("1")}}]}
    assert server.ask("kv/txn", body).get("succeeded")
    await lease.release()
    assert not server.ask("kv/txn", body).get("succeeded")
    with pytest.raises(NotOwned):
        etcd_place(lease)


@pytest.mark.parametrize("kind", ["lock", "fair_lock", "rw_lock"])
async def test_fenced_transactions(locks: LockManager, kind: str) -> None:
    """Of another database: the revision is a fence like any other. Kept by `CoordinatorCalls.names`."""
    lock = locks.rw_lock("a").write if kind == "rw_lock" else getattr(locks, kind)("a")
    async with aiosqlite.connect(":memory:", isolation_level=None) as connection:
        await connection.execute(FENCES_TABLE)
        await connection.execute("CREATE TABLE t (x)")
        for number in range(2):
            async with lock as lease, fenced(lease, connection):
                await connection.execute("INSERT INTO t VALUES (?)", (number,))
        rows = await (await connection.execute("SELECT x FROM t")).fetchall()
        assert [*rows] == [(0,), (1,)]
        fences = await (await connection.execute("SELECT fence FROM aiolock_fences")).fetchall()
        assert [*fences] == [(lease.fence,)]
        await connection.execute("UPDATE aiolock_fences SET fence = fence + 1000000")  # as a later holder does
        async with lock as late:
            with pytest.raises(LockLost, match="a later holder has begun"):
                async with fenced(late, connection):
                    pytest.fail("it began")


async def test_whose_place_has_no_fence(locks: LockManager) -> None:
    """Kept by `etcd_place`."""
    rw = locks.rw_lock("a")
    async with rw.read as lease:
        with pytest.raises(ConfigurationError, match="is a reader's, whose fence is the last writer's"):
            etcd_place(lease)
    async with rw.write as lease:
        assert etcd_place(lease).revision == lease.fence
    async with LockManager(MemoryBackend()) as elsewhere, elsewhere.lock("a") as lease:
        with pytest.raises(ConfigurationError, match="needs a lease in etcd, and 'a' is kept elsewhere"):
            etcd_place(lease)
    with pytest.raises(ConfigurationError, match="needs the lease that acquire"):
        etcd_place("a")  # type: ignore[arg-type]


async def test_a_longer_ttl(server: Etcd, locks: LockManager) -> None:
    """The place moves to another lease. Kept by `EtcdStore._move`."""
    lock = locks.lock("a", ttl=5.0, renew=False)
    async with lock as lease:
        (before,) = server.pairs(QUEUE, "aiolock/lock/a0")
        await lease.renew(60.0)
        (after,) = server.pairs(QUEUE, "aiolock/lock/a0")
        assert after["lease"] != before["lease"]
        assert after["create_revision"] == before["create_revision"]
        assert 50 < lease.remaining() <= 60


def leases(server: Etcd) -> set[str]:
    return {lease["ID"] for lease in server.ask("lease/leases").get("leases", [])}


async def test_leases_are_used_again(server: Etcd) -> None:
    """So a pair costs two requests. None is left when the manager closes."""
    before = leases(server)
    async with LockManager(server.url, ttl=6.0) as made:
        for _ in range(5):
            async with made.lock("a"):
                pass
        assert len(leases(server) - before) == 1
    assert leases(server) <= before


async def test_readers_share_a_fence(locks: LockManager, others: LockManager) -> None:
    """That of the last write; where nobody has written, that of the first reader. A downgrade ended cleanly."""
    async with locks.rw_lock("a").read as first, others.rw_lock("a").read as second:
        assert first.fence == second.fence
    async with locks.rw_lock("a").write as writing:
        assert writing.fence > first.fence
        reading = await locks.rw_lock("a").read.acquire()
        await writing.release()
        async with others.rw_lock("a").read as third:
            assert third.fence == writing.fence == reading.fence
            assert not third.abandoned
        await reading.release()
