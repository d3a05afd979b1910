"""A grant from a queue on the server: a message announces it, and it counts only once replicas know of it."""

from __future__ import annotations

import asyncio

import pytest

from aiolock import AcquireTimeout, FairLock, LockManager, RWLockSide, Semaphore
from aiolock.scripts.queue import REFRESH, SCRIPTS
from tests.faults.scene import ENOUGH, NAME, Opener, until
from tests.support.replication import Pair

from .conftest import HASTY


@pytest.mark.parametrize("kind", ["fair", "write", "semaphore"])
async def test_a_turn_counts_once_it_is_acknowledged(
    opened: Opener, others: LockManager, replicated: Pair, kind: str
) -> None:
    """Kept by QueueEntry.told: `checked`, and QueueEntry.judged: its own request is repeated."""
    patient = await opened()
    async with asyncio.timeout(ENOUGH):
        lease = await made(others, kind).acquire()
        waiting = asyncio.ensure_future(made(patient, kind).acquire())
        await until(lambda: any(entry.waiter for entry in patient._runtime.queue_entries.values()))
        replicated.replica.freeze()
        await lease.release()
        await replicated.waited_for()
        assert not waiting.done()
        replicated.replica.thaw()
        lease = await waiting
        assert lease.remaining() > 10
        await lease.release()


async def test_an_unacknowledged_turn_is_undone(opened: Opener, others: LockManager, replicated: Pair) -> None:
    """A waiter that gave up does not keep the lock."""
    hasty = await opened(**HASTY)
    async with asyncio.timeout(ENOUGH):
        lease = await others.fair_lock(NAME).acquire()
        waiting = asyncio.ensure_future(hasty.fair_lock(NAME).acquire(timeout=2.5))
        await until(lambda: hasty._runtime.queue_entries)
        replicated.replica.freeze()
        await lease.release()
        with pytest.raises(AcquireTimeout, match="acknowledged by 0 of 1 replicas"):
            await waiting
        await (await others.fair_lock(NAME).acquire()).release()


def test_grants_are_checked() -> None:
    """A refresh is not: its order with an undo is that of one connection, and `QueueEntry` asks again."""
    assert {script.name for script in SCRIPTS if script.unacknowledged} == {"acquire", "transfer", "renew"}
    assert REFRESH.unacknowledged is None


def made(locks: LockManager, kind: str) -> FairLock | RWLockSide | Semaphore:
    if kind == "fair":
        return locks.fair_lock(NAME)
    return locks.rw_lock(NAME).write if kind == "write" else locks.semaphore(NAME, 1)
