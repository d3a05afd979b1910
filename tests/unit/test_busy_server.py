"""A server that answers, but runs no script: who is next stays so, and who gives up leaves no place behind."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from aiolock import AcquireTimeout, BackendError, LockManager
from aiolock.scripts.base import Call
from aiolock.testing import MemoryBackend
from tests.support.locks import waiting

from .world import LIVENESS, TTL, Crew, inside, queue_up, runtime_of, settle

KINDS = ("lock", "fair_lock")


@contextmanager
def busy(backend: MemoryBackend) -> Iterator[None]:
    """The server refuses every script of this process, as Redis does while one runs for too long."""
    execute = backend._execute

    def refuse(call: Call[Any]) -> BackendError:
        call.sent_at = backend.clock.now()
        return BackendError(call.name, "BUSY", transient=True)

    backend._execute = refuse  # type: ignore[assignment, method-assign]
    try:
        yield
    finally:
        backend._execute = execute  # type: ignore[method-assign]


def tell_granted(manager: LockManager, backend: MemoryBackend) -> None:
    """A message says that the first of the queue was granted."""
    runtime = runtime_of(manager)
    message = f"granted {waiting(backend, 'a')[0]} 1 0 aiolock:lock:{{a}}"
    backend.store.publish(runtime.keys.manager(runtime.binding.id), message)


@pytest.mark.parametrize("kind", KINDS)
async def test_who_is_next_stays_next(
    locks: LockManager, peer: LockManager, backend: MemoryBackend, crew: Crew, kind: str
) -> None:
    """It is granted while it cannot ask: it asks again with the same id. Kept by `LocalQueue.failed`."""
    lease = await getattr(peer, kind)("a").acquire()
    (first,) = await queue_up(crew, getattr(locks, kind)("a"), 1, backend)
    (second,) = await queue_up(crew, getattr(peer, kind)("a"), 1, backend)
    with busy(backend):
        await lease.release()
        await backend.clock.advance(LIVENESS / 2)
        assert not first.entered.done()
        backend.calls.clear()
    await backend.clock.advance(1.1)
    assert inside([first, second]) == [True, False]
    assert "release" not in backend.calls  # no id to undo for each time it was refused
    await first.end()
    await settle(backend)
    await second.end()


@pytest.mark.parametrize("kind", KINDS)
async def test_a_grant_between_two_attempts_is_taken_at_once(
    locks: LockManager, peer: LockManager, backend: MemoryBackend, crew: Crew, kind: str
) -> None:
    """Kept by `QueueEntry.told`."""
    lease = await getattr(peer, kind)("a").acquire()
    (waiter,) = await queue_up(crew, getattr(locks, kind)("a"), 1, backend)
    with busy(backend):
        tell_granted(locks, backend)  # so that it asks, and waits for its next attempt
        await settle(backend)
    await lease.release()
    await settle(backend)
    assert waiter.entered.done()
    await waiter.end()


async def test_undos_do_not_pile_up_where_ids_change(
    locks: LockManager, peer: LockManager, backend: MemoryBackend, crew: Crew
) -> None:
    """A multi lock gives back what some servers may have granted: for a ttl. Kept by `QueueEntry.rename`."""
    lease = await peer.lock("a").acquire()
    (waiter,) = await queue_up(crew, locks.multi_lock("a", "b"), 1, backend)
    with busy(backend):
        tell_granted(locks, backend)
        await backend.clock.advance(5 * TTL)
        backend.calls.clear()
    await backend.clock.advance(1.5)
    assert backend.calls.count("release") < 2 * TTL
    await lease.release()
    await backend.clock.advance(LIVENESS)
    await waiter.end()


async def test_who_gives_up_leaves_no_place(
    locks: LockManager, peer: LockManager, backend: MemoryBackend, crew: Crew
) -> None:
    """A place lasts for as long as its process waits, and so does its undo. Kept by `Release.lasting`."""
    lease = await peer.fair_lock("a").acquire()
    (waiter,) = await queue_up(crew, locks.fair_lock("a"), 1, backend, timeout=1.0)
    (stays,) = await queue_up(crew, locks.fair_lock("a"), 1, backend)
    (other,) = await queue_up(crew, peer.fair_lock("a"), 1, backend)
    with busy(backend):
        await backend.clock.advance(2 * TTL)
        with pytest.raises(AcquireTimeout):
            await waiter.task
    await backend.clock.advance(1.5)
    assert len(waiting(backend, "a")) == 2
    await lease.release()
    for holder in (stays, other):  # it came back with its number
        await settle(backend)
        assert holder.entered.done()
        await holder.end()
