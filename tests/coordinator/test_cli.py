"""The command line on stores with queues: it shows what is there, and changes nothing but what you tell it to."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator

import pytest

from aiolock import LockLost, LockManager
from aiolock.backends.coordinator.reader import CoordinatorReader
from aiolock.backends.etcd.reader import EtcdReader
from aiolock.backends.zookeeper.names import HELD, nodes_in
from aiolock.backends.zookeeper.reader import ZooKeeperReader
from tests.cli import stores
from tests.cli.conftest import CommandLine
from tests.support.etcd import Etcd

from .conftest import Server

aiolock = stores.aiolock
test_force_release = stores.test_force_release
test_ls_and_info = stores.test_ls_and_info
test_run = stores.test_run


def reader_of(server: Server) -> CoordinatorReader:
    return EtcdReader(server.url) if isinstance(server, Etcd) else ZooKeeperReader(server.url)


def end(server: Server, name: str) -> None:
    """End the places in a lock's queue, as if their processes had died."""
    if isinstance(server, Etcd):
        for pair in server.pairs(f"aiolock/lock/{name}/", f"aiolock/lock/{name}0"):
            server.delete(pair["key"])
    else:
        for node in nodes_in(server.children(f"/aiolock/lock/{name}")):
            server.client.delete(f"/aiolock/lock/{name}/{node.name}")


def noted(server: Server, name: str) -> None:
    """Wait until it is noted that the lock is held: on ZooKeeper nobody waits for that."""
    until = time.monotonic() + 10
    while not isinstance(server, Etcd) and HELD not in server.children(f"/aiolock/lock/{name}"):
        assert time.monotonic() < until
        time.sleep(0.01)


async def test_a_vanished_holder(server: Server, locks: LockManager, aiolock: CommandLine) -> None:
    lease = await locks.lock("a").acquire()
    await asyncio.to_thread(noted, server, "a")
    await asyncio.to_thread(end, server, "a")
    told = await asyncio.to_thread(aiolock, "info", "a")
    assert "lock a: abandoned" in told.output
    with pytest.raises(LockLost):
        await lease.release()
    nothing = await asyncio.to_thread(aiolock, "info", "b")
    assert nothing.exit_code == 1


async def test_many_names(server: Server, aiolock: CommandLine) -> None:
    """etcd has them in pages. Kept by `Store.paths`."""
    async with LockManager(server.url) as locks:
        held = [await locks.lock(f"n/{number}").acquire() for number in range(30)]
        reader = reader_of(server)
        found = [key async for keys in reader.scan("aiolock:*:{n/*}*", most=7) for key in keys]
        await reader.close()
        assert set(found) == {f"aiolock:lock:{{n/{number}}}" for number in range(30)}
        for lease in held:
            await lease.release()


@pytest.fixture
async def locks(server: Server) -> AsyncIterator[LockManager]:
    async with LockManager(server.url, ttl=6.0) as made:
        yield made
