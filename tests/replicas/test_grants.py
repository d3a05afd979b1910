"""What counts and what does not: grants, renewals, refusals, losses."""

# ruff: noqa: PT012 - what raises is the whole guarded block

from __future__ import annotations

import asyncio

import pytest

from aiolock import AcquireTimeout, BackendError, Lock, LockLost, LockManager, LossReason
from tests.faults.scene import ENOUGH, NAME, STILL, Opener, Server, enter, renewed, until
from tests.support.replication import Pair

from .conftest import HASTY


async def test_a_grant_counts_once_it_is_acknowledged(patient: LockManager, replicated: Pair, server: Server) -> None:
    """Kept by Acknowledgement: answers are delivered together with WAIT's."""
    replicated.replica.freeze()
    acquiring = asyncio.ensure_future(patient.lock(NAME).acquire())
    await replicated.waited_for()
    assert server.locked()
    assert not acquiring.done()
    replicated.replica.thaw()
    async with asyncio.timeout(ENOUGH):
        lease = await acquiring
    await lease.release()
    assert not server.locked()


async def test_an_unacknowledged_grant_is_undone_and_the_error_says_why(
    hasty: LockManager, replicated: Pair, server: Server
) -> None:
    replicated.replica.freeze()
    with pytest.raises(BackendError, match=rf"{NAME}.* acknowledged by 0 of 1 replicas within 0.15 s") as caught:
        await hasty.lock(NAME).acquire()
    assert caught.value.transient
    assert caught.value.name == NAME
    await until(lambda: not server.locked())
    replicated.replica.thaw()
    await until(replicated.acknowledged)
    async with hasty.lock(NAME) as lease:
        assert not lease.abandoned


async def test_without_replicas_the_manager_opens_and_no_lock_is_granted(
    redis_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with LockManager(redis_url, **HASTY) as locks:
        (record,) = [record for record in caplog.records if "replicas" in record.getMessage()]
        assert "only 0 replicas are connected" in record.getMessage()
        with pytest.raises(BackendError, match="by 0 of 1 replicas"):
            await locks.lock(NAME).acquire()
        await until_free(locks.lock(NAME))


async def until_free(lock: Lock) -> None:
    async with asyncio.timeout(ENOUGH):
        while await lock.is_locked():  # noqa: ASYNC110 - an undo is announced only to waiters
            await asyncio.sleep(0.002)


async def test_more_than_there_are(opened: Opener) -> None:
    locks = await opened(**{**HASTY, "min_replicas": 2})
    with pytest.raises(BackendError, match="by 1 of 2 replicas"):
        await locks.lock(NAME).acquire()
    await until_free(locks.lock(NAME))


async def test_a_refusal_does_not_concern_the_replicas(hasty: LockManager, there: Lock, replicated: Pair) -> None:
    """Contention stays contention. Kept by outcomes.no_grant."""
    async with there:
        replicated.replica.freeze()
        assert await hasty.lock(NAME).try_acquire() is None
        with pytest.raises(AcquireTimeout, match="held by"):
            await hasty.lock(NAME).acquire(timeout=2.0)


async def test_a_waiter_survives_it(hasty: LockManager, there: Lock, replicated: Pair, server: Server) -> None:
    held = await there.acquire()
    waiting = asyncio.ensure_future(enter(hasty.lock(NAME)))
    await until(lambda: len(server.waiting()) == 1)
    replicated.replica.freeze()
    ran = server.scripts_run()
    await held.release()
    await server.ran(1 + 2 * 2, ran)  # the release, two attempts, and their undoes
    assert not waiting.done()
    replicated.replica.thaw()
    async with asyncio.timeout(ENOUGH):
        assert await waiting > held.fence


async def test_a_waiter_that_gives_up_is_told_why(
    hasty: LockManager, there: Lock, replicated: Pair, server: Server
) -> None:
    held = await there.acquire()
    waiting = asyncio.ensure_future(hasty.lock(NAME).acquire(timeout=1.5))
    await until(lambda: len(server.waiting()) == 1)
    replicated.replica.freeze()
    await held.release()
    with pytest.raises(
        AcquireTimeout, match=r"within 1.5 s: held by .*; since then acquire of lock .* acknowledged by 0 of 1 replicas"
    ):
        await waiting
    await until(lambda: not server.locked())


async def test_unacknowledged_renewals_end_the_lease_before_the_server_does(
    opened: Opener, replicated: Pair, server: Server
) -> None:
    """Kept by outcomes.no_renewal: the deadline stays where the last acknowledged renewal put it."""
    locks = await opened(**HASTY, ttl=6.8, margin=STILL)
    left = 0
    with pytest.raises(LockLost) as caught:
        async with locks.lock(NAME):
            replicated.replica.freeze()
            try:
                await asyncio.sleep(10)
            except asyncio.CancelledError:
                left = server.state().pttl
                raise
    assert caught.value.reason is LossReason.UNREACHABLE
    assert left > 0
    cause = caught.value.__cause__
    assert isinstance(cause, BackendError)
    assert "acknowledged by 0 of 1 replicas" in str(cause)


async def test_a_replica_that_comes_back_in_time_saves_the_lease(
    opened: Opener, replicated: Pair, caplog: pytest.LogCaptureFixture
) -> None:
    locks = await opened(**HASTY)
    async with locks.lock(NAME) as lease:
        expiry = lease._hold.expiry
        replicated.replica.freeze()
        lease._hold.verify()  # its renewal is due
        await until(lambda: "by 0 of 1 replicas" in caplog.text)
        assert lease._hold.expiry == expiry
        replicated.replica.thaw()
        await renewed(lease, expiry)
        assert not lease.lost


async def test_renewing_by_hand(hasty: LockManager, replicated: Pair) -> None:
    async with hasty.lock(NAME, renew=False) as lease:
        replicated.replica.freeze()
        before = lease.remaining()
        with pytest.raises(BackendError, match="by 0 of 1 replicas") as caught:
            await lease.renew()
        assert caught.value.transient
        assert lease.remaining() <= before
        replicated.replica.thaw()
        await until(replicated.acknowledged)
        await lease.renew()


async def test_a_lock_that_is_gone_is_lost_without_the_replica(
    hasty: LockManager, replicated: Pair, server: Server
) -> None:
    """Only what extends needs an acknowledgement; a verdict of loss does not."""
    with pytest.raises(LockLost) as caught:
        async with hasty.lock(NAME) as lease:
            replicated.replica.freeze()
            server.link.flushall()
            await lease.renew()
    assert caught.value.reason is LossReason.DELETED


async def test_nesting_and_handing_on_are_checked(hasty: LockManager, replicated: Pair, server: Server) -> None:
    lock = hasty.lock(NAME)
    lease = await lock.acquire()
    waiting = asyncio.ensure_future(enter(lock))
    await asyncio.sleep(0)
    replicated.replica.freeze()
    with pytest.raises(BackendError, match="by 0 of 1 replicas"):
        await lock.acquire()
    assert not lease.lost
    await lease.release()  # becomes a transfer
    ran = server.scripts_run()
    await server.ran(2, ran)
    assert not waiting.done()
    replicated.replica.thaw()
    async with asyncio.timeout(ENOUGH):
        assert await waiting > lease.fence
    await until(lambda: not server.locked())
