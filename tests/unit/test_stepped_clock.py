"""The server's wall clock is set back or forward while a lock is held: what the lease believes of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from aiolock import LockManager, LossReason
from aiolock.testing import MemoryBackend

from .world import DEADLINE, TTL, expect_loss, settle, step_wall

KINDS: dict[str, Callable[..., Any]] = {
    "lock": lambda manager, **options: manager.lock("a", **options),
    "fair": lambda manager, **options: manager.fair_lock("a", **options),
    "write": lambda manager, **options: manager.rw_lock("a", **options).write,
    "semaphore": lambda manager, **options: manager.semaphore("a", 2, **options),
    "multi": lambda manager, **options: manager.multi_lock("a", "b", **options),
}
HOUR = 3600.0


@pytest.fixture(params=KINDS)
def make(request: pytest.FixtureRequest) -> Callable[..., Any]:
    return KINDS[request.param]


async def test_no_lease_lasts_longer_than_its_ttl(
    locks: LockManager, backend: MemoryBackend, make: Callable[..., Any]
) -> None:
    """Set back by an hour, the server says that it keeps the key for that much longer; but the clock may be corrected
    again.

    Kept by Hold.extend: `min(pttl, self.ttl_ms)`.
    """
    async with make(locks) as lease:
        step_wall(backend, -HOUR)
        await lease.renew()
        assert lease.remaining() <= DEADLINE
        await backend.clock.advance(3 * TTL)
        assert 0 < lease.remaining() <= DEADLINE
        async with make(locks) as nested:
            assert nested.remaining() <= DEADLINE


async def test_a_longer_ttl_by_hand_counts(locks: LockManager, backend: MemoryBackend) -> None:
    async with locks.lock("a", renew=False) as lease:
        await lease.renew(4 * TTL)
        assert lease.remaining() > 3 * TTL
        await backend.clock.advance(3 * TTL)
        assert not lease.lost


async def test_a_fixed_lease_ends_in_its_own_time(
    locks: LockManager, backend: MemoryBackend, make: Callable[..., Any]
) -> None:
    with expect_loss(LossReason.EXPIRED):
        async with make(locks, renew=False) as lease:
            step_wall(backend, -HOUR)
            await lease.renew()
            await backend.clock.advance(DEADLINE - 0.1)
            assert not lease.lost
            await backend.clock.advance(0.2)


async def test_fences_rise_over_a_step_back(
    locks: LockManager, peer: LockManager, backend: MemoryBackend, make: Callable[..., Any]
) -> None:
    """On the name by the stored fence, on others by the floor."""
    fences = []
    for step in (HOUR, -2 * HOUR, 0.0):
        step_wall(backend, step)
        for manager in (locks, peer):
            async with make(manager) as lease:
                fences.append(lease.fence)
            await settle(backend)
    assert fences == sorted(set(fences))
