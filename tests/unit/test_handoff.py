"""A hand-off whose answer was lost, and which is repeated: what its answer proves."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from aiolock import LockManager, LossReason
from aiolock.testing import MemoryBackend

from .world import LIVENESS, Crew, Holder, SlowBackend, expect_loss, settle, state_of, turns


@pytest.fixture
def backend() -> SlowBackend:
    return SlowBackend()


@pytest.fixture
async def locks(backend: SlowBackend) -> AsyncIterator[LockManager]:
    async with LockManager(backend, handoff_limit=0) as manager:
        yield manager


async def test_the_answer_to_a_copy_does_not_say_that_the_process_lives(
    backend: SlowBackend, locks: LockManager, peer: LockManager, crew: Crew
) -> None:
    """The first request queued it, and counts: the server's grant lasts no longer. Kept by handoff: `_sent_at`.

    Found by simulation.
    """
    holder = Holder(crew, locks.lock("a"))
    await holder.entered
    other = Holder(crew, peer.lock("a"))
    await settle(backend)
    believed: list[tuple[float, float]] = []

    async def next_one() -> None:
        async with locks.lock("a") as lease:
            believed.append((lease.remaining(), state_of(backend, "a").pttl / 1000))

    waiter = crew.start(next_one())
    await settle(backend)
    backend.calls.clear()
    holder.leave.set()
    while "transfer" not in backend.calls:
        await turns(1)
    backend.clock.jump(LIVENESS * 0.8)
    backend.die("reply")
    await other.entered
    while backend.calls.count("transfer") < 2:
        await turns(1)
    await turns(backend.turns + 1)  # its answer is there
    other.leave.set()
    await waiter
    ((counted_on, kept),) = believed
    assert counted_on <= kept
    await other.task
    await holder.task


async def test_after_the_answer_to_a_copy_it_gives_a_sign_of_life(
    backend: SlowBackend, locks: LockManager, peer: LockManager, crew: Crew
) -> None:
    """At once: it counts as alive for the rest of what the first request said. Kept by handoff: `heir.verify()`."""
    holder = Holder(crew, locks.lock("a"))
    await holder.entered
    other = Holder(crew, peer.lock("a"))
    await settle(backend)
    waiter = Holder(crew, locks.lock("a"))
    await settle(backend)
    holder.leave.set()
    while "transfer" not in backend.calls:
        await turns(1)
    backend.clock.jump(LIVENESS * 0.8)
    backend.die("reply")
    backend.calls.clear()
    await backend.clock.advance(0)
    assert backend.calls.count("transfer") == 1
    assert backend.calls[-1] == "refresh"
    await other.end()
    await backend.clock.advance(0)
    await waiter.end()


async def test_a_copy_that_finds_another_holder_proves_no_loss(
    backend: SlowBackend, locks: LockManager, crew: Crew
) -> None:
    """The first request may have ended the hold in time, as it did here. Kept by handoff: `resent=self._copied`."""
    holder = Holder(crew, locks.lock("a"))
    await holder.entered
    waiter = Holder(crew, locks.lock("a"))
    await settle(backend)
    backend.calls.clear()
    holder.leave.set()
    while "transfer" not in backend.calls:
        await turns(1)
    backend.die("reply")
    backend.steal("a")
    backend.calls.clear()
    await holder.task
    assert backend.calls.count("transfer") == 1
    backend.give_back("a")
    await backend.clock.advance(LIVENESS)
    await waiter.end()


async def test_a_copy_of_the_acquire_excuses_no_loss(crew: Crew) -> None:
    """The hold's own acquire went unanswered once; when it ends, another has the lock, and the first request says so.
    Kept by handoff: `resent=self._copied`.
    """
    backend, waiting = MemoryBackend(), list[Holder]()
    backend.fail_next("reply")
    async with LockManager(backend) as locks:

        async def block() -> None:
            with expect_loss(LossReason.TAKEN_OVER):
                async with locks.lock("a") as lease:
                    assert lease._hold.tainted
                    waiting.append(Holder(crew, locks.lock("a")))
                    await settle(backend)
                    backend.steal("a")

        await crew.start(block())
        backend.give_back("a")
        await backend.clock.advance(LIVENESS)
        await waiting[0].end()
