"""Two connections: a wait on one delays nothing on the other, calls keep their order, either may die."""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import AsyncIterator

import pytest
import redis.asyncio

from aiolock import Lock, LockLost, LockManager, LossReason
from aiolock.scripts.lock import ACQUIRE, RELEASE, RENEW, TRANSFER
from tests.faults.scene import ENOUGH, NAME, Opener, Server, enter, enter_eventually, until
from tests.support import redis_cli
from tests.support.proxy import FaultProxy
from tests.support.replication import Pair


@contextlib.asynccontextmanager
async def asking(pair: Pair) -> AsyncIterator[redis.asyncio.Redis]:
    """A client beside."""
    client = redis_cli.async_client(pair.url)
    yield client
    await client.aclose()


async def test_nothing_else_waits_for_the_replica(patient: LockManager, replicated: Pair, server: Server) -> None:
    """H12. Kept by ReplicatedBackend.run: only what grants or extends runs on the checked side."""
    one, two = await patient.lock("one").acquire(), await patient.lock("two").acquire()
    replicated.replica.freeze()
    acquiring = asyncio.ensure_future(patient.lock(NAME).acquire())
    await replicated.waited_for()
    async with asyncio.timeout(ENOUGH):
        await one.release()
        assert not await patient.lock("one").is_locked()
        info = await patient.lock("two").info()
        assert info is not None
        assert info.fence == two.fence
        assert await patient.lock("two").force_release()
        assert await two.wait_lost() is LossReason.REVOKED  # told by a message
        with pytest.raises(LockLost):
            await two.release()
    assert not acquiring.done()
    replicated.replica.thaw()
    await (await acquiring).release()


async def test_what_is_called_meanwhile_leaves_together(patient: LockManager, replicated: Pair) -> None:
    """One WAIT at a time, and one for everything that came in the meantime. Kept by Session.flush:
    `self._pending and self._assurance is not None`.
    """
    await enter(patient.lock(NAME))
    async with asking(replicated) as raw:
        stats = redis_cli.CommandStats(raw)
        await stats.reset()
        replicated.replica.freeze()
        first = asyncio.ensure_future(patient.lock("first").acquire())
        await replicated.waited_for()
        others = []
        for i in range(50):
            others.append(asyncio.ensure_future(patient.lock(f"n{i}").acquire()))
            await asyncio.sleep(0)
        replicated.replica.thaw()
        leases = await asyncio.gather(first, *others)
        assert await asked(stats) == Counter(evalsha=51, wait=2)
        await asyncio.gather(*(lease.release() for lease in leases))


async def test_what_is_called_in_one_turn_leaves_together(patient: LockManager, replicated: Pair) -> None:
    """Otherwise 50 grants that come in one read would cause a WAIT for the first and one for all others."""
    await enter(patient.lock(NAME))
    async with asking(replicated) as raw:
        stats = redis_cli.CommandStats(raw)
        await stats.reset()
        leases = await asyncio.gather(*(patient.lock(f"n{i}").acquire() for i in range(50)))
        assert await asked(stats) == Counter(evalsha=50, wait=1)
        await asyncio.gather(*(lease.release() for lease in leases))


async def asked(stats: redis_cli.CommandStats) -> Counter[str]:
    sent = await stats.sent()
    return Counter({name: sent[name] for name in ("evalsha", "wait")})


async def test_what_a_lock_costs(patient: LockManager, replicated: Pair) -> None:
    lock = patient.lock(NAME)
    await enter(lock)
    async with asking(replicated) as raw:
        stats = redis_cli.CommandStats(raw)
        await stats.reset()
        for _ in range(20):
            await enter(lock)
        assert await asked(stats) == Counter(evalsha=40, wait=20)
        counts = await stats.counts()
        assert counts["publish"] == 20  # before each WAIT
        await stats.reset()
        async with lock as lease:
            await lease.renew()
        assert await asked(stats) == Counter(evalsha=3, wait=2)


async def test_two_connections_whatever_it_holds(opened: Opener, replicated: Pair) -> None:
    """Invariant 7."""
    async with asking(replicated) as raw:
        before = {client["id"] for client in await raw.client_list()}
        locks = await opened()
        leases = await asyncio.gather(*(locks.lock(f"n{i}").acquire() for i in range(100)))
        waiting = [asyncio.ensure_future(enter(locks.lock(f"n{i}"))) for i in range(20)]
        now = {client["id"] for client in await raw.client_list()}
        assert len(now - before) == 2
        await asyncio.gather(*(lease.release() for lease in leases), *waiting)
        await locks.aclose()
        assert {client["id"] for client in await raw.client_list()} == before


# Order.


async def test_an_undo_waits_for_what_it_undoes(patient: LockManager, replicated: Pair, server: Server) -> None:
    """C4, with two healthy connections: cancelled while WAIT is pending. Kept by Lane."""
    replicated.replica.freeze()
    acquiring = asyncio.ensure_future(patient.lock(NAME).acquire())
    await replicated.waited_for()
    ran = server.scripts_run()
    acquiring.cancel()
    async with asyncio.timeout(ENOUGH):
        with pytest.raises(asyncio.CancelledError):
            await acquiring
    await patient.lock("other").info()  # the undo would have been written before
    assert server.scripts_run() == ran + 1
    assert server.locked()
    replicated.replica.thaw()
    await until(lambda: not server.locked())
    assert server.tombstones() == 0


async def test_cancelled_before_it_was_written(patient: LockManager, replicated: Pair, server: Server) -> None:
    """You can still take back a call behind a pending WAIT."""
    replicated.replica.freeze()
    first = asyncio.ensure_future(patient.lock("first").acquire())
    await replicated.waited_for()
    second = asyncio.ensure_future(patient.lock(NAME).acquire())
    await asyncio.sleep(0)
    ran = server.scripts_run()
    second.cancel()
    await asyncio.wait({second})
    replicated.replica.thaw()
    await (await first).release()
    assert server.scripts_run() == ran + 1  # the release of the first


async def test_the_next_acquire_waits_for_the_release(proxy: FaultProxy, opened: Opener) -> None:
    """Otherwise the lease that this process gave back would refuse it, and no message would follow. Kept by Lane."""
    locks = await opened(proxy.url)
    lock = locks.lock(NAME)
    lease = await lock.acquire()
    held = proxy.hold_matching(RELEASE.sha.encode())
    lease.release()
    await held.hit()
    acquiring = asyncio.ensure_future(lock.acquire())
    other = await locks.lock("other").acquire()  # on the checked connection, after it
    held.lift()
    await other.release()
    async with asyncio.timeout(ENOUGH):
        second = await acquiring
    assert second.fence > lease.fence
    await second.release()


async def test_an_inner_release_comes_before_the_hand_over(proxy: FaultProxy, opened: Opener) -> None:
    """Otherwise it would find another's lock, and report a loss."""
    locks = await opened(proxy.url)
    lock = locks.lock(NAME)
    outer = await lock.acquire()
    inner = await lock.acquire()
    held = proxy.hold_matching(RELEASE.sha.encode())
    ended = inner.release()
    await held.hit()
    waiting = asyncio.ensure_future(enter(lock))
    await asyncio.sleep(0)
    outer.release()
    other = await locks.lock("other").acquire()
    held.lift()
    await other.release()
    async with asyncio.timeout(ENOUGH):
        await ended
        assert await waiting > outer.fence


# A connection dies.


async def kill_waiting(pair: Pair) -> None:
    """End the connection that waits for the replica."""
    (waiting,) = [client for client in pair.link.client_list() if client["cmd"] == "wait"]
    pair.link.client_kill_filter(_id=waiting["id"])


async def test_a_copy_that_reads_its_own_grant_asks_again(
    patient: LockManager, replicated: Pair, server: Server
) -> None:
    """The copy writes nothing, and WAIT on a new connection accepts that. Kept by Replicas.question."""
    lock = patient.lock(NAME)
    lease = await lock.acquire()
    waiting = asyncio.ensure_future(lock.acquire())
    await asyncio.sleep(0)
    replicated.replica.freeze()
    lease.release()  # becomes a transfer: unlike an acquire, it extends nothing when it comes again
    await replicated.waited_for()
    ran = server.scripts_run()
    await kill_waiting(replicated)
    await server.ran(1, ran)
    await replicated.waited_for()
    assert not waiting.done()
    replicated.replica.thaw()
    await (await waiting).release()


async def test_cancelled_and_then_the_connection_dies(patient: LockManager, replicated: Pair, server: Server) -> None:
    replicated.replica.freeze()
    acquiring = asyncio.ensure_future(patient.lock(NAME).acquire())
    await replicated.waited_for()
    acquiring.cancel()
    await asyncio.wait({acquiring})
    await kill_waiting(replicated)
    await until(lambda: not server.locked())
    assert server.tombstones() == 1  # no late copy of it can take the lock
    replicated.replica.thaw()
    async with asyncio.timeout(ENOUGH):
        await enter(patient.lock(NAME))


@pytest.mark.parametrize("fault", ["executed", "never arrived", "arrives late"])
@pytest.mark.parametrize(
    "word",
    [ACQUIRE.sha.encode(), TRANSFER.sha.encode(), RENEW.sha.encode(), RELEASE.sha.encode(), b"WAIT"],
    ids=["acquire", "transfer", "renew", "release", "wait"],
)
async def test_either_dies_at_any_moment(
    word: bytes, fault: str, proxy: FaultProxy, opened: Opener, server: Server, there: Lock
) -> None:
    """Its reply is lost with its connection, or it is lost with both: nothing stays held, nothing is stuck."""
    locks = await opened(proxy.url)
    lock = locks.lock(NAME)
    async with lock as lease:  # the scripts are loaded
        await lease.renew()
        waiting = asyncio.ensure_future(enter(lock))
        await asyncio.sleep(0)
    await waiting
    rule = proxy.cut(matching=word) if fault == "executed" else proxy.hold("requests", 1, word)

    async def use() -> None:
        async with lock, lock as lease:
            await lease.renew()
            others.append(asyncio.ensure_future(enter(lock)))
            await asyncio.sleep(0)

    others: list[asyncio.Future[int]] = []
    using = asyncio.ensure_future(use())
    await rule.hit()
    if fault != "executed":
        proxy.reset(upstream=fault == "never arrived")
    async with asyncio.timeout(ENOUGH):
        await asyncio.gather(using, return_exceptions=True)
        await asyncio.gather(*others, return_exceptions=True)
        await enter_eventually(lock)
        await enter(there)
        rule.lift()
        await enter(lock)
        await enter(there)
    await until(lambda: not server.held())
    assert not locks._runtime.holds


async def test_closing_while_a_grant_is_pending(opened: Opener, replicated: Pair, server: Server) -> None:
    locks = await opened(min_replicas=1, replica_timeout=0.3)
    replicated.replica.freeze()
    acquiring = asyncio.ensure_future(locks.lock(NAME).acquire())
    await replicated.waited_for()
    acquiring.cancel()
    await locks.aclose()
    assert not server.locked()
    await asyncio.wait({acquiring})


async def test_closing_cancelled_while_a_grant_is_pending(opened: Opener, replicated: Pair, server: Server) -> None:
    locks = await opened()
    replicated.replica.freeze()
    acquiring = asyncio.ensure_future(locks.lock(NAME).acquire())
    await replicated.waited_for()
    acquiring.cancel()
    await asyncio.wait({acquiring})
    closing = asyncio.ensure_future(locks.aclose())
    await asyncio.sleep(0.05)
    closing.cancel()
    async with asyncio.timeout(ENOUGH):
        with pytest.raises(asyncio.CancelledError):
            await closing
    await until(lambda: not server.locked())


async def test_closing_with_a_frozen_master(opened: Opener, replicated: Pair, server: Server) -> None:
    """The last writes on either connection run when the master continues, in any order. Kept by the tombstone."""
    locks = await opened()
    await enter(locks.lock(NAME))
    replicated.master.freeze()
    try:
        acquiring = asyncio.ensure_future(locks.lock(NAME).acquire())
        await asyncio.sleep(0.05)
        acquiring.cancel()
        await asyncio.wait({acquiring})
        closing = asyncio.ensure_future(locks.aclose())
        await asyncio.sleep(0.05)
        closing.cancel()  # as at the end of its patience, only sooner
        await asyncio.wait({closing})
    finally:
        replicated.master.thaw()
    await until(lambda: server.tombstones() == 1)
    await until(lambda: replicated.blocked() == 0)
    assert not server.locked()
