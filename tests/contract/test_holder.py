"""Who holds a lock, as data, after a refusal: for every kind, on every backend."""

from __future__ import annotations

import os
import socket
from typing import Any

import pytest

from aiolock import AcquireTimeout, Holder, LockManager
from tests.support.redis_cli import CommandStats

NAME = "order:42"
AFTER = "order:43"
"""Taken after NAME: also on a cluster, where the slots decide."""
KINDS = {
    "lock": lambda locks, **options: locks.lock(NAME, **options),
    "fair_lock": lambda locks, **options: locks.fair_lock(NAME, **options),
    "read": lambda locks, **options: locks.rw_lock(NAME, **options).read,
    "write": lambda locks, **options: locks.rw_lock(NAME, **options).write,
    "semaphore": lambda locks, **options: locks.semaphore(NAME, 1, **options),
    "multi_lock": lambda locks, **options: locks.multi_lock(NAME, AFTER, **options),
}
no_multi = pytest.mark.not_in_queues("there are no multi locks")
THIS = Holder(NAME, f"{socket.gethostname()}:{os.getpid()}", "invoice run")


@pytest.mark.parametrize(
    "kind", [pytest.param(kind, marks=[no_multi] if kind == "multi_lock" else []) for kind in KINDS]
)
async def test_who_holds_it(locks: LockManager, others: LockManager, kind: str) -> None:
    """The error names the holder; so does the attempt that got None. Kept by `Refusal.holder`."""
    wanted: Any = KINDS[kind](locks)
    async with KINDS["write" if kind == "read" else kind](others, metadata="invoice run"):
        attempt = wanted.try_acquire()
        async with attempt as lease:
            assert lease is None
            assert attempt.holder == THIS
        for timeout in (0, 0.05):
            with pytest.raises(AcquireTimeout) as caught:
                await wanted.acquire(timeout=timeout)
            assert caught.value.holder == THIS
            assert caught.value.__cause__ is None


@no_multi
async def test_one_of_several_names(locks: LockManager, others: LockManager) -> None:
    """Its own name, not that of all. Kept by `_said`: `part`."""
    async with others.lock(AFTER, metadata="invoice run"):
        attempt = locks.multi_lock(NAME, AFTER).try_acquire()
        assert await attempt is None
        assert attempt.holder == Holder(AFTER, THIS.process, "invoice run")


@pytest.mark.parametrize("place", ["redis"], indirect=True)
async def test_it_costs_nothing(locks: LockManager, others: LockManager, commandstats: CommandStats) -> None:
    """The refusal itself carries it."""
    async with others.lock(NAME):
        await locks.lock(NAME).try_acquire()  # the script is loaded
        await commandstats.reset()
        attempt = locks.lock(NAME).try_acquire()
        assert await attempt is None
        assert attempt.holder is not None
        assert (await commandstats.sent())["evalsha"] == 1
