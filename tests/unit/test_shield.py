"""`lease.shielded()`: a clean-up that the server's expiry cancels never counts as finished."""

from __future__ import annotations

import asyncio
import logging

import pytest

from aiolock import LockLost, LockManager, LossReason
from aiolock.testing import MemoryBackend

from .world import TTL, Crew, lock_keys, settle


class Transaction:
    """Its end takes for ever."""

    def __init__(self) -> None:
        self.committed = False

    async def __aenter__(self) -> Transaction:
        return self

    async def __aexit__(self, kind: object, error: object, trace: object) -> None:
        await asyncio.Event().wait()
        self.committed = True


async def test_a_commit_may_take_as_long_as_the_lease_lives(
    locks: LockManager, backend: MemoryBackend, crew: Crew
) -> None:
    """It is renewed while its block ends. Kept by `_Expiry._check`, which looks at the expiry again."""
    committed = asyncio.Event()

    class Long(Transaction):
        async def __aexit__(self, kind: object, error: object, trace: object) -> None:
            await committed.wait()
            self.committed = True

    transaction = Long()

    async def work() -> None:
        async with locks.lock("a") as lease, lease.shielded(transaction):
            pass

    task = crew.start(work())
    await backend.clock.advance(3 * TTL)
    assert not task.done()
    committed.set()
    await task
    assert transaction.committed


@pytest.mark.parametrize("how", ["plain", "cancel_on_loss=False", "guarded"])
async def test_a_commit_that_is_cancelled_is_no_success(
    locks: LockManager, backend: MemoryBackend, crew: Crew, how: str
) -> None:
    went_on = False

    async def work() -> None:
        nonlocal went_on
        if how == "plain":
            lease = await locks.lock("a", renew=False).acquire()
            try:
                async with lease.shielded(Transaction()):
                    pass
                went_on = True
            finally:
                lease.release()
        else:
            lock = locks.lock("a", renew=False, cancel_on_loss=how == "guarded")
            async with lock as lease:
                async with lease.shielded(Transaction()):
                    pass
                went_on = True

    task = crew.start(work())
    await settle(backend)
    await backend.clock.advance(TTL)
    with pytest.raises(LockLost, match="clean-up under lock 'a' was cancelled") as caught:
        await task
    assert caught.value.reason is LossReason.EXPIRED
    assert not went_on


async def test_the_loss_is_the_leases_own(locks: LockManager, backend: MemoryBackend, crew: Crew) -> None:
    async def work() -> None:
        lease = await locks.lock("a").acquire()
        try:
            async with lease.shielded(Transaction()):
                inside.set()
        finally:
            lease.release()

    inside = asyncio.Event()
    task = crew.start(work())
    await inside.wait()
    backend.steal("a")
    await backend.clock.advance(TTL)
    with pytest.raises(LockLost) as caught:
        await task
    assert caught.value.reason is LossReason.TAKEN_OVER


async def test_an_error_of_the_body_is_not_masked(
    locks: LockManager, backend: MemoryBackend, crew: Crew, caplog: pytest.LogCaptureFixture
) -> None:
    async def work() -> None:
        async with locks.lock("a", renew=False) as lease, lease.shielded(Transaction()):
            raise ValueError("the body's own")

    caplog.set_level(logging.ERROR)
    task = crew.start(work())
    await settle(backend)
    await backend.clock.advance(TTL)
    with pytest.raises(ValueError, match="the body's own") as caught:
        await task
    assert any("was cancelled when" in note for note in caught.value.__notes__)
    assert any("was cancelled when" in record.getMessage() for record in caplog.records)


async def test_a_users_cancellation_is_not_masked(locks: LockManager, backend: MemoryBackend, crew: Crew) -> None:
    async def work() -> None:
        lease = await locks.lock("a", renew=False).acquire()
        try:
            async with lease.shielded(Transaction()):
                await asyncio.Event().wait()
        finally:
            lease.release()

    task = crew.start(work())
    await settle(backend)
    task.cancel()
    await settle(backend)
    await backend.clock.advance(TTL)
    await asyncio.wait({task})
    assert task.cancelled()
    assert lock_keys(backend) == []
