"""What a manager leaves in ZooKeeper, and what else may be there."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from kazoo.client import KazooClient
from kazoo.recipe.lock import Lock as KazooLock

from aiolock import BackendError, LockLost, LockManager
from aiolock.backends.zookeeper.names import HELD, nodes_in
from tests.support.zookeeper import ZooKeeper, word

QUEUE = "/aiolock/lock/a"


@pytest.fixture
async def locks(server: ZooKeeper) -> AsyncIterator[LockManager]:
    """One process's manager."""
    async with LockManager(server.url, ttl=6.0) as made:
        yield made


@pytest.fixture
async def others(server: ZooKeeper) -> AsyncIterator[LockManager]:
    """Another's."""
    async with LockManager(server.url, ttl=6.0) as made:
        yield made


async def until(check: Callable[[], Any]) -> None:
    async with asyncio.timeout(20):
        while not await asyncio.to_thread(check):  # noqa: ASYNC110 - nothing here sets an event
            await asyncio.sleep(0.01)


async def test_what_is_there_while_a_lock_is_held(server: ZooKeeper, locks: LockManager) -> None:
    """The fence is the transaction that made the place. Nothing is left but the name, which ZooKeeper takes away."""
    async with locks.lock("a") as lease:
        await until(lambda: HELD in server.children(QUEUE))
        (node,) = nodes_in(server.children(QUEUE))
        assert node.owner == lease._hold.owner
        assert server.client.exists(f"{QUEUE}/{node.name}").czxid == lease.fence
        assert server.client.get(f"{QUEUE}/{HELD}")[0] == b"%d" % lease.fence
    assert server.children(QUEUE) == []


async def test_who_vanishes_leaves_a_note(server: ZooKeeper, locks: LockManager, others: LockManager) -> None:
    """It stays as long as nobody has the lock, and ZooKeeper lets the name stay with it."""
    vanished = await locks.lock("a").acquire()
    await until(lambda: HELD in server.children(QUEUE))
    (node,) = nodes_in(server.children(QUEUE))
    server.client.delete(f"{QUEUE}/{node.name}")
    async with others.lock("a") as lease:
        assert lease.abandoned
    assert server.children(QUEUE) == []
    with pytest.raises(LockLost):
        await vanished.release()


async def test_semaphores_leave_no_note(server: ZooKeeper, locks: LockManager) -> None:
    async with locks.semaphore("a", 3), locks.semaphore("a", 3).acquire(2):
        pass
    assert server.children("/aiolock/semaphore/a") == []


async def test_one_connection(server: ZooKeeper) -> None:
    """However many locks there are; ttls that are about the same share a session. Kept by `_length`."""

    def connections() -> int:
        lines = word(server.members[0], "cons").splitlines()
        return sum("sid=" in line for line in lines)

    before = connections()
    async with LockManager(server.url) as locks:
        leases = [await locks.lock(f"n{number}").acquire() for number in range(5)]
        assert connections() == before + 1
        leases += [await locks.lock(f"ttl{ttl}", ttl=ttl).acquire() for ttl in (5.0, 5.1, 5.2, 5.3)]
        assert connections() == before + 2
        for lease in leases:
            await lease.release()


async def test_tasks_enter_in_their_order(server: ZooKeeper, locks: LockManager, others: LockManager) -> None:
    """Also while there is no node for the name, so that the first of them makes it. Kept by `ZooKeeperStore.enter`."""
    order: list[int] = []

    async def take(number: int, of: LockManager) -> None:
        async with of.fair_lock("a"):
            order.append(number)

    for _ in range(3):
        order.clear()
        await asyncio.to_thread(server.flush)
        racing = [asyncio.create_task(take(-1, others))]
        await asyncio.gather(*(take(number, locks) for number in range(10)), *racing)
        order.remove(-1)
        assert order == list(range(10))


async def test_a_fixed_lease_ends_though_the_session_lives(locks: LockManager, others: LockManager) -> None:
    """We end it ourselves. Kept by `ZooKeeperStore._sweep`."""
    lock = locks.lock("a", ttl=1.5, renew=False, cancel_on_loss=False)
    async with locks.lock("b"):
        lease = await lock.acquire()
        async with asyncio.timeout(4), others.lock("a") as second:
            assert second.abandoned
            assert lease.lost
        with pytest.raises(LockLost):
            await lease.release()


async def test_a_closed_manager_leaves_what_runs_on(server: ZooKeeper) -> None:
    """A block that does not end keeps its lock until its time is over. Kept by `Session.aclose`: `end`."""
    locks = LockManager(server.url, ttl=2.0, request_timeout=0.2)
    await locks.open()
    lease = await locks.lock("a").acquire()
    backend: Any = locks._runtime.backend
    await backend.aclose()
    assert nodes_in(server.children(QUEUE))
    await until(lambda: not nodes_in(server.children(QUEUE)))
    with pytest.raises(LockLost):
        await lease.release()
    await locks.aclose()


async def test_a_mailbox_that_is_deleted(server: ZooKeeper, locks: LockManager, others: LockManager) -> None:
    """It is made again. Kept by `Mailbox.read`: `gone`."""
    lease = await locks.lock("a").acquire()
    await until(lambda: server.children("/aiolock/#"))
    for name in server.children("/aiolock/#"):
        server.client.delete(f"/aiolock/#/{name}")
    await until(lambda: server.children("/aiolock/#"))
    assert await others.lock("a").force_release()
    async with asyncio.timeout(1.5):  # long before a renewal says so
        await lease.wait_lost()
    with pytest.raises(LockLost):
        await lease.release()


async def test_kazoo_waits_in_the_same_queue(server: ZooKeeper, locks: LockManager) -> None:
    """It must know our names; ours takes every node with a number for a place. Kept by `_PLACE`."""
    client = KazooClient(server.hosts)
    await asyncio.to_thread(client.start, 20)
    try:
        theirs = KazooLock(client, QUEUE, extra_lock_patterns=["-lock-"])
        async with locks.lock("a"):
            assert not await asyncio.to_thread(theirs.acquire, False)
            waiting = asyncio.create_task(asyncio.to_thread(theirs.acquire))
            await until(lambda: len(nodes_in(server.children(QUEUE))) == 2)
            assert not waiting.done()
        assert await waiting
        assert await locks.lock("a").is_locked()
        assert await locks.lock("a").try_acquire() is None
        ours = asyncio.create_task(locks.lock("a").acquire())  # type: ignore[arg-type]
        await until(lambda: len(nodes_in(server.children(QUEUE))) == 2)
        assert not ours.done()
        await asyncio.to_thread(theirs.release)
        async with asyncio.timeout(10):
            await (await ours).release()
    finally:
        await asyncio.to_thread(client.stop)
        client.close()


async def test_a_folder(server: ZooKeeper) -> None:
    """Of the URL: it is made. Whatever is below others is not seen."""
    name, root = "a/b ☃", LockManager(server.url)
    async with LockManager(f"{server.url}/team/locks") as locks, root as others, locks.lock(name), others.lock(name):
        assert server.children("/team/locks/aiolock/lock") == ["a%2Fb%20%E2%98%83"]


async def test_a_user(server: ZooKeeper) -> None:
    """What it makes is its own."""
    mine = server.url.replace("//", "//me:secret@") + "/mine"
    async with LockManager(mine) as locks, locks.lock("a"), locks.rw_lock("b").write:
        pass
    async with LockManager(mine) as locks, locks.lock("a"):
        pass
    async with LockManager(f"{server.url}/mine") as others:
        with pytest.raises(BackendError, match="the user has no right to its nodes"):
            await others.lock("a").acquire()
