"""What etcd does to those who use it: it forgets old revisions, runs out of space, and counts anew after a restore."""

from __future__ import annotations

import asyncio
import itertools
import urllib.error

import pytest

from aiolock import BackendError, LockManager
from aiolock.backends.coordinator.store import OwnPlace
from aiolock.backends.etcd import EtcdAddress, EtcdCluster, EtcdStore
from tests.support.etcd import Etcd


async def test_a_watch_from_a_revision_that_is_compacted(server: Etcd) -> None:
    """Its place may have missed something, and looks again. Kept by `Watches._receive`."""
    told: asyncio.Queue[tuple[str, bool]] = asyncio.Queue()
    store = EtcdStore(EtcdCluster(EtcdAddress(server.url), "aiolock/#/"))
    await store.open(lambda own, key, gone: told.put_nowait((key, gone)), lambda *_: None, lambda: None)
    try:
        for value in "xyz":
            server.put("before", value)
        server.ask("kv/compaction", {"revision": server.revision(), "physical": True})
        own = OwnPlace("aiolock/lock/a", "me:1", 6000, 1, 1, "", floor=0, shared=False)
        store.watch(own, ["aiolock/lock/a/you:1"], 1)
        async with asyncio.timeout(5):
            assert await told.get() == ("aiolock/lock/a/you:1", False)
        assert not own.watched  # so that it is watched anew
        store.watch(own, ["aiolock/lock/a/you:1"], server.revision())
        server.put("aiolock/lock/a/you:1", "")
        server.delete("aiolock/lock/a/you:1")
        async with asyncio.timeout(5):
            assert await told.get() == ("aiolock/lock/a/you:1", True)
    finally:
        await store.aclose()


async def test_no_space_is_left() -> None:
    """What is held can be renewed and released; what is free says why it cannot be had."""
    with Etcd(1, "--quota-backend-bytes", "1000000") as server:
        async with LockManager(server.url, ttl=6.0) as locks:
            lease = await locks.lock("a").acquire()
            with pytest.raises(urllib.error.HTTPError):  # noqa: PT012 - the one that is too much
                for number in itertools.count():  # it counts what it has written to its file, ten times a second
                    server.put(f"big{number}", "x" * 300_000)
            await lease.renew()
            await lease.release()
            with pytest.raises(BackendError, match="database space exceeded") as caught:
                await locks.lock("a").acquire()
            assert caught.value.transient


async def test_another_cluster_that_counts_anew(server: Etcd) -> None:
    """As after a restore from a backup: a manager that knows a higher fence takes none of its locks."""
    async with LockManager(server.url, ttl=6.0) as locks:
        for _ in range(10):
            async with locks.lock("a") as lease:
                known = lease.fence
    with Etcd() as fresh:
        async with LockManager(fresh.url, ttl=6.0) as later:
            later._runtime.fences.heard(known)
            with pytest.raises(BackendError, match=rf"but gave fence {known} before: it has lost data"):
                await later.lock("a").acquire()
            async with asyncio.timeout(5):
                while fresh.pairs("aiolock/lock/a/", "aiolock/lock/a0"):  # noqa: ASYNC110 - it is undone meanwhile
                    await asyncio.sleep(0.02)
