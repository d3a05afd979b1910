"""When a waiter in a queue on the server asks by itself, besides its heartbeats."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from aiolock import AcquireTimeout, BackendError, LockManager, LossReason
from aiolock.scripts.base import Call
from aiolock.scripts.outcomes import Failed
from aiolock.testing import MemoryBackend

from .world import BEAT, LIVENESS, Crew, Deaf, expect_loss, inside, queue_up, runtime_of, settle

KINDS: dict[str, Callable[..., Any]] = {
    "lock": lambda manager, **options: manager.lock("a", **options),
    "fair": lambda manager, **options: manager.fair_lock("a", **options),
    "write": lambda manager, **options: manager.rw_lock("a", **options).write,
    "semaphore": lambda manager, **options: manager.semaphore("a", 1, **options),
}


REFUSALS = {
    "all are denied": BackendError("", "NOPERM no permissions to run 'evalsha'"),
    "the server loads": BackendError("", "LOADING the dataset in memory", transient=True),
    "a command is denied": Failed("NOPERM no permissions to run 'pexpire'"),
    "out of memory": Failed("OOM command not allowed"),
}


class Refusing(Deaf):
    """Answers so to all that refreshes, and to all that acquires if it is `strict`."""

    refusal: BackendError | Failed | None = None
    strict = False

    def _execute(self, call: Call[Any]) -> Any:
        refresh = not call.name and call.script.name != "renew"
        if self.refusal is None or not (refresh or (self.strict and call.script.name == "acquire")):
            return super()._execute(call)
        call.writes, call.sent_at = call.writes + 1, self.clock.now()
        return [self.refusal] if isinstance(self.refusal, Failed) else self.refusal


@pytest.fixture
def backend() -> Refusing:
    return Refusing()


@pytest.fixture(params=KINDS)
def make(request: pytest.FixtureRequest) -> Callable[..., Any]:
    return KINDS[request.param]


async def test_the_first_in_line_asks_when_the_holder_expires(
    locks: LockManager, peer: LockManager, backend: Deaf, crew: Crew, make: Callable[..., Any]
) -> None:
    """The holder died, and its lease is fixed. Kept by Wait.queued: `free_at`."""
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
    """The next heartbeat comes before they would expire."""
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
    """The message of its grant was lost. Kept by Waiter.on_due: `self._queue.refresh(self)`."""
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


@pytest.mark.parametrize("refusal", REFUSALS.values(), ids=REFUSALS)
async def test_a_refused_refresh_keeps_the_place(
    locks: LockManager,
    peer: LockManager,
    backend: Refusing,
    crew: Crew,
    make: Callable[..., Any],
    refusal: BackendError | Failed,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """It tries again, before it counts as dead, and says once why. Kept by `QueueEntry.unknown`."""
    lease = await make(peer).acquire()
    (waiter,), (other,) = [await queue_up(crew, make(one), 1, backend) for one in (locks, peer)]
    (owner,) = runtime_of(locks).queue_entries
    backend.refusal = refusal
    await backend.clock.advance(2 * BEAT)
    backend.refusal = None
    await backend.clock.advance(BEAT)
    (record,) = [record for record in caplog.records if record.name == "aiolock.queue"]
    assert (refusal.error if isinstance(refusal, Failed) else str(refusal)) in record.getMessage()
    assert list(runtime_of(locks).queue_entries) == [owner]
    await lease.release()
    await settle(backend)
    assert inside([waiter, other]) == [True, False]
    for holder in (waiter, other):
        await holder.end()


async def test_who_is_refused_for_longer_than_it_counts_as_alive_is_told(
    locks: LockManager, peer: LockManager, backend: Refusing, crew: Crew, make: Callable[..., Any]
) -> None:
    """Its place is gone by then, and it asks for another. Kept by `QueueEntry.unknown`: `error.transient`. All others
    of its process are told at the same time: kept by `LocalQueue.failed`, `self._all()`.
    """
    lease = await make(peer).acquire()
    waiters = await queue_up(crew, make(locks), 5, backend)
    backend.refusal, backend.strict = BackendError("a", "NOPERM no permissions"), True
    await backend.clock.advance(LIVENESS - 0.01)
    assert not any(waiter.task.done() for waiter in waiters)
    await backend.clock.advance(BEAT)
    told = [waiter.task.exception() for waiter in waiters if waiter.task.done()]
    assert [str(error) for error in told] == ["NOPERM no permissions"] * 5
    assert len(set(map(id, told))) == 5
    backend.refusal = None
    await lease.release()


async def test_a_frozen_first_in_line_costs_its_liveness(
    peer: LockManager, backend: Deaf, crew: Crew, make: Callable[..., Any]
) -> None:
    """It was told, and does not act: its grant is not for its ttl. Kept by settle.lua: `tonumber(known)`, and turn.lua:
    `alive - NOW`.
    """
    frozen = Deaf(backend)
    async with LockManager(frozen) as stopped:
        lease = await make(peer).acquire()
        (first,) = await queue_up(crew, make(stopped), 1, backend)
        (behind,) = await queue_up(crew, make(peer), 1, backend)
        with frozen.outage():
            frozen.deaf = True
            await lease.release()
            await backend.clock.advance(LIVENESS + BEAT)
            assert inside([first, behind]) == [False, True]
            frozen.deaf = False
        await behind.end()
        await settle(backend)
        await first.end()
