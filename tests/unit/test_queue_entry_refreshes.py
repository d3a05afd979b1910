"""When a waiter in a queue on the server asks by itself, besides its signs of life."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from aiolock import AcquireTimeout, LockManager, LossReason
from aiolock.testing import MemoryBackend

from .world import Crew, Deaf, expect_loss, queue_up, settle

KINDS: dict[str, Callable[..., Any]] = {
    "fair": lambda manager, **options: manager.fair_lock("a", **options),
    "write": lambda manager, **options: manager.rw_lock("a", **options).write,
    "semaphore": lambda manager, **options: manager.semaphore("a", 1, **options),
}


@pytest.fixture
def backend() -> Deaf:
    return Deaf()


@pytest.fixture(params=KINDS)
def make(request: pytest.FixtureRequest) -> Callable[..., Any]:
    return KINDS[request.param]


async def test_the_first_in_line_asks_when_the_holder_expires(
    locks: LockManager, peer: LockManager, backend: Deaf, crew: Crew, make: Callable[..., Any]
) -> None:
    """The holder died, and its lease is fixed. Kept by QueueEntry.queued: `_free_at`."""
    lease = await make(peer, ttl=0.7, renew=False).acquire()
    waiter, other = await queue_up(crew, make(locks), 2, backend, timeout=30.0)
    await backend.clock.advance(0.69)
    assert not waiter.entered.done()
    await backend.clock.advance(0.02)
    assert waiter.entered.result().abandoned
    assert not other.entered.done()
    for holder in (waiter, other):
        await holder.end()
    with expect_loss(LossReason.EXPIRED):
        await lease.release()


async def test_it_asks_again_if_the_holder_was_renewed(
    locks: LockManager, peer: LockManager, backend: Deaf, crew: Crew
) -> None:
    """One request at each expiry that it knows of, and no more."""
    lease = await peer.fair_lock("a", ttl=0.7, renew=False).acquire()
    (waiter,) = await queue_up(crew, locks.fair_lock("a"), 1, backend)
    backend.calls.clear()
    await backend.clock.advance(0.4)
    await lease.renew()
    await backend.clock.advance(0.68)
    assert backend.calls.count("refresh") <= 2
    assert not waiter.entered.done()
    await backend.clock.advance(0.03)
    assert waiter.entered.done()
    await waiter.end()
    with expect_loss(LossReason.EXPIRED):
        await lease.release()


async def test_holders_that_are_renewed_cause_no_looks(
    locks: LockManager, peer: LockManager, backend: Deaf, crew: Crew
) -> None:
    """The next sign of life comes before they would expire."""
    lease = await peer.fair_lock("a", ttl=6.0).acquire()
    (waiter,) = await queue_up(crew, locks.fair_lock("a"), 1, backend)
    backend.calls.clear()
    await backend.clock.advance(20.0)
    assert 19 <= backend.calls.count("refresh") == len(backend.calls) <= 21
    await lease.release()
    await settle(backend)
    await waiter.end()


async def test_it_asks_once_more_before_it_gives_up(
    locks: LockManager, peer: LockManager, backend: Deaf, crew: Crew, make: Callable[..., Any]
) -> None:
    """The message of its grant was lost. Kept by `obtain`: `final_refresh`."""
    lease = await make(peer).acquire()
    (waiter,) = await queue_up(crew, make(locks), 1, backend, timeout=0.5)
    backend.deaf = True
    await lease.release()
    await backend.clock.advance(0.39)
    assert not waiter.entered.done()
    await backend.clock.advance(0.02)
    assert waiter.entered.done()
    await waiter.end()


async def test_giving_up_costs_one_refresh(
    locks: LockManager, peer: LockManager, backend: MemoryBackend, crew: Crew
) -> None:
    lease = await peer.fair_lock("a").acquire()
    (waiter,) = await queue_up(crew, locks.fair_lock("a"), 1, backend, timeout=0.04)
    await backend.clock.advance(0.029)
    assert backend.calls == ["acquire"]
    await backend.clock.advance(0.01)
    assert backend.calls == ["acquire", "refresh"]
    await backend.clock.advance(0.01)
    with pytest.raises(AcquireTimeout, match="number 1 in the queue"):
        await waiter.task
    assert backend.calls == ["acquire", "refresh", "release"]
    await lease.release()
