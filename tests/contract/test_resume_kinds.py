"""Leases of every kind move to another manager; the waiters behind them keep waiting, and come next."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from aiolock import ConfigurationError, LockManager, NotOwned

from .places import Place, until

NAME = "order:42"
ENOUGH = 5.0

KINDS: dict[str, Callable[..., Any]] = {
    "lock": lambda locks, **options: locks.lock(NAME, **options).acquire(),
    "fair": lambda locks, **options: locks.fair_lock(NAME, **options).acquire(),
    "read": lambda locks, **options: locks.rw_lock(NAME, **options).read.acquire(),
    "write": lambda locks, **options: locks.rw_lock(NAME, **options).write.acquire(),
    "semaphore": lambda locks, **options: locks.semaphore(NAME, 3, **options).acquire(2),
}
OPTIONS: dict[str, dict[str, Any]] = {
    "plain": {},
    "first": {"priority": 100},
    "brief": {"ttl": 1.5},
    "both": {"priority": 1, "ttl": 1.5},
    "no queue": {"priority": 1, "acquire_timeout": 0},
}
"""All of what an owner's id says of how it waits."""


@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
@pytest.mark.parametrize("kind", KINDS)
async def test_it_moves_and_is_renewed_there(
    kind: str, options: dict[str, Any], locks: LockManager, others: LockManager, place: Place
) -> None:
    """Kept by core/runtime.py, to which each primitive adds itself, `Ticket.weight`, and `is_owner`: a ticket is
    refused if the owner's id has more than that knows.
    """
    lease = await KINDS[kind](locks, **options)
    ticket = await lease.detach(60.0)
    assert not locks._runtime.holds
    moved = await others.resume(ticket, ttl=30.0)
    assert moved.fence > lease.fence or kind == "read"
    assert moved._hold.calls.weight == lease._hold.calls.weight
    assert not moved.abandoned
    assert moved.remaining() > 20
    await moved.renew(60.0)
    assert moved.remaining() > 40
    with pytest.raises(NotOwned):
        await locks.resume(ticket)
    await moved.release()
    async with asyncio.timeout(ENOUGH), KINDS[kind](locks):
        pass


async def test_a_waiter_is_next_after_the_resumed_one(locks: LockManager, others: LockManager) -> None:
    lease = await locks.rw_lock(NAME).write.acquire()
    waiting = asyncio.create_task(others.rw_lock(NAME).read.acquire())
    await until(lambda: others._runtime.queue_entries)
    ticket = await lease.detach()
    async with locks.resume(ticket):
        await asyncio.sleep(0)
        assert not waiting.done()
    async with asyncio.timeout(ENOUGH):
        await (await waiting).release()


async def test_a_resumed_writer_may_read_and_a_resumed_reader_may_not_write(
    locks: LockManager, others: LockManager
) -> None:
    """Kept by `Ticket.weight`: the hold knows how strong it is."""
    rw = others.rw_lock(NAME)
    async with others.resume(await (await locks.rw_lock(NAME).write.acquire()).detach()), rw.read, rw.write:
        pass
    async with others.resume(await (await locks.rw_lock(NAME).read.acquire()).detach()), rw.read:
        with pytest.raises(Exception, match="wait for itself"):
            await rw.write.acquire()


async def test_a_multi_lock_does_not_move(locks: LockManager) -> None:
    async with locks.multi_lock("a", "b") as lease:
        with pytest.raises(ConfigurationError, match="cannot be detached"):
            await lease.detach()
        assert not lease.released
