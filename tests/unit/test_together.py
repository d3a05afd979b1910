"""Fair tasks that come at once, to a server that takes a while to answer: each asks, and they stay in order."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from aiolock import BackendError, LockManager
from aiolock.scripts.base import Call
from aiolock.testing import MemoryBackend
from tests.support.locks import held, nothing_held, waiting

from .world import Crew, Holder, SlowBackend, assert_empty, inside, runtime_of, settle, tombstones, turns

MANY = 7


class Refusing(SlowBackend):
    """Gives no verdict on the next requests to acquire."""

    refusals = 0

    def _execute(self, call: Call[Any]) -> Any:
        if call.script.name == "acquire" and self.refusals:
            self.refusals -= 1
            call.writes += 1
            return BackendError(call.name, "BUSY Redis is busy running a script", transient=True)
        return super()._execute(call)


@pytest.fixture
def slow(backend: MemoryBackend) -> Refusing:
    return Refusing(backend, turns=4)


@pytest.fixture
async def many(slow: Refusing, crew: Crew) -> AsyncIterator[LockManager]:
    """A process whose requests take some turns of the loop."""
    async with LockManager(slow) as manager:
        yield manager
        await crew.dismiss()
        await settle(slow)
        assert_empty(manager)
    assert nothing_held(slow)


async def serve(backend: MemoryBackend, holders: list[Holder]) -> None:
    """Check that they enter one after the other, in this order, without a pause, and leave."""
    for at, holder in enumerate(holders):
        await settle(backend)
        assert inside(holders) == [one <= at for one in range(len(holders))]
        await holder.end()
    await settle(backend)


async def test_all_are_queued_in_order(many: LockManager, peer: LockManager, slow: Refusing, crew: Crew) -> None:
    """One request for each, written without waiting for the others' answers. Kept by Gate._line_up: `alone`."""
    lease = await peer.fair_lock("a").acquire()
    holders = [Holder(crew, many.fair_lock("a")) for _ in range(MANY)]
    await settle(slow)
    assert slow.calls == ["acquire"] * MANY
    assert len(waiting(slow, "a")) == MANY
    refusals = [entry.waits().refusal for entry in runtime_of(many).queue_entries.values()]  # type: ignore[attr-defined]
    assert [refusal.rank for refusal in refusals] == list(range(1, MANY + 1))
    await lease.release()
    await serve(slow, holders)


async def test_the_first_holds_at_once(many: LockManager, slow: Refusing, crew: Crew) -> None:
    holders = [Holder(crew, many.fair_lock("a")) for _ in range(MANY)]
    await serve(slow, holders)
    assert slow.calls.count("acquire") == MANY


async def test_a_task_that_comes_during_a_hand_off_is_queued(many: LockManager, slow: Refusing, crew: Crew) -> None:
    holders = [Holder(crew, many.fair_lock("a")) for _ in range(2)]
    await settle(slow)
    holders[0].leave.set()
    while "transfer" not in slow.calls:
        holders.append(Holder(crew, many.fair_lock("a")))
        await turns(1)
    holders.append(Holder(crew, many.fair_lock("a")))
    await serve(slow, holders[1:])
    assert slow.calls.count("acquire") == len(holders)


@pytest.mark.parametrize("lost", ["request", "reply"])
@pytest.mark.parametrize("after", range(0, 20, 2))
async def test_the_connection_dies_under_their_requests(
    many: LockManager, peer: LockManager, slow: Refusing, crew: Crew, lost: Any, after: int
) -> None:
    """They are written again, and each is in the queue once. Kept by QueueEntry.unanswered."""
    lease = await peer.fair_lock("a").acquire()
    holders = [Holder(crew, many.fair_lock("a")) for _ in range(MANY)]
    await turns(after)
    slow.die(lost)
    await settle(slow)
    assert len(set(waiting(slow, "a"))) == len(waiting(slow, "a")) == MANY
    await lease.release()
    await serve(slow, holders)
    assert not held(slow, "a")


@pytest.mark.parametrize("lost", ["request", "reply"])
async def test_one_has_given_up_when_the_connection_dies(
    many: LockManager, peer: LockManager, slow: Refusing, crew: Crew, lost: Any
) -> None:
    """Its request is not written again. But it may still reach the server, as those of the others may: each of the
    owners leaves a tombstone. Kept by QueueEntry.taint, and QueueEntry.wants.
    """
    lease = await peer.fair_lock("a").acquire()
    holders = [Holder(crew, many.fair_lock("a")) for _ in range(MANY)]
    await written(slow, MANY)
    owners = list(runtime_of(many).queue_entries)
    holders.pop(1).task.cancel()
    await turns(1)
    slow.die(lost)
    await settle(slow)
    assert len(waiting(slow, "a")) == MANY - 1
    assert slow.calls.count("acquire") == MANY - 1 + (MANY if lost == "reply" else 0)
    await lease.release()
    await serve(slow, holders)
    assert [key.partition(":dead:")[2] for key in tombstones(slow)] == sorted(owners)


async def test_owners_that_were_ended_ask_anew(
    many: LockManager, peer: LockManager, slow: Refusing, crew: Crew
) -> None:
    """Except one that has given up. Each asks once more, for itself only. Kept by LocalQueue.renew_owner."""
    lease = await peer.fair_lock("a").acquire()
    holders = [Holder(crew, many.fair_lock("a")) for _ in range(MANY)]
    await written(slow, MANY)
    for owner in runtime_of(many).queue_entries:
        slow.store.set(f"aiolock:lock:{{a}}:dead:{owner}", "1", 90_000)
    holders.pop(3).task.cancel()
    await settle(slow)
    assert len(waiting(slow, "a")) == MANY - 1
    assert slow.calls.count("acquire") == MANY + MANY - 1
    await lease.release()
    await serve(slow, holders)


async def test_no_verdict_on_their_requests(many: LockManager, peer: LockManager, slow: Refusing, crew: Crew) -> None:
    """A task whose server had not answered yet gets the error. Those that waited go on, and nobody else asks again.

    Kept by QueueEntry.pause, and LocalQueue.ask.
    """
    lease = await peer.fair_lock("a").acquire()
    first = Holder(crew, many.fair_lock("a"))
    await settle(slow)
    slow.refusals = 2
    others = [Holder(crew, many.fair_lock("a")) for _ in range(3)]
    await settle(slow)
    failed = [other for other in others if other.task.done()]
    for other in failed:
        with pytest.raises(BackendError, match="BUSY"):
            await other.task
    left = [first, *(other for other in others if other not in failed)]
    await slow.clock.advance(2.0)
    assert len(waiting(slow, "a")) == len(left)
    await lease.release()
    await serve(slow, left)


async def written(slow: SlowBackend, requests: int) -> None:
    """Wait until this many requests of the process were written, and the last one was not executed."""
    while len(slow.calls) + sum(flight.result is None and flight.call.writes for flight in slow._flights) < requests:
        await turns(1)
    assert len(slow.calls) < requests
