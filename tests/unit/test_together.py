"""Tasks that queue together: fair tasks that come while another's request is unanswered are queued by one request."""

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


async def test_all_that_came_meanwhile_are_queued_by_one_request(
    many: LockManager, peer: LockManager, slow: Refusing, crew: Crew
) -> None:
    lease = await peer.fair_lock("a").acquire()
    holders = [Holder(crew, many.fair_lock("a")) for _ in range(MANY)]
    await settle(slow)
    assert slow.calls == ["acquire", "acquire"]
    assert len(waiting(slow, "a")) == MANY
    refusals = [entry.waits().refusal for entry in runtime_of(many).queue_entries.values()]  # type: ignore[attr-defined]
    assert [refusal.rank for refusal in refusals] == list(range(1, MANY + 1))
    await lease.release()
    await serve(slow, holders)


async def test_the_first_holds_at_once(many: LockManager, slow: Refusing, crew: Crew) -> None:
    holders = [Holder(crew, many.fair_lock("a")) for _ in range(MANY)]
    await serve(slow, holders)
    assert slow.calls.count("acquire") == 2


async def test_a_task_that_comes_during_a_hand_off_is_queued(many: LockManager, slow: Refusing, crew: Crew) -> None:
    """The answer that it waits for may be that of a release, too."""
    holders = [Holder(crew, many.fair_lock("a")) for _ in range(2)]
    await settle(slow)
    holders[0].leave.set()
    while "transfer" not in slow.calls:
        holders.append(Holder(crew, many.fair_lock("a")))
        await turns(1)
    holders.append(Holder(crew, many.fair_lock("a")))
    await serve(slow, holders[1:])
    assert slow.calls.count("acquire") <= len(holders)


@pytest.mark.parametrize("gone", [0, 1, MANY // 2, MANY - 1])
@pytest.mark.parametrize("after", range(0, 24, 2))
async def test_one_that_gives_up_stops_no_other(
    many: LockManager, peer: LockManager, slow: Refusing, crew: Crew, gone: int, after: int
) -> None:
    lease = await peer.fair_lock("a").acquire()
    holders = [Holder(crew, many.fair_lock("a")) for _ in range(MANY)]
    await turns(after)
    holders.pop(gone).task.cancel()
    await settle(slow)
    assert len(waiting(slow, "a")) == MANY - 1
    await lease.release()
    await serve(slow, holders)


async def test_the_first_gives_up_before_its_request_is_written(
    many: LockManager, peer: LockManager, slow: Refusing, crew: Crew
) -> None:
    """Its request is not written at all, and those behind it were to be sent with its answer."""
    lease = await peer.fair_lock("a").acquire()
    with slow.outage(silent=True):
        holders = [Holder(crew, many.fair_lock("a")) for _ in range(MANY)]
        await turns(3)
        holders.pop(0).task.cancel()
        await turns(3)
    await settle(slow)
    assert len(waiting(slow, "a")) == MANY - 1
    await lease.release()
    await serve(slow, holders)


async def test_the_first_of_a_request_for_many_gives_up_before_it_is_written(
    many: LockManager, peer: LockManager, slow: Refusing, crew: Crew
) -> None:
    lease = await peer.fair_lock("a").acquire()
    holders = [Holder(crew, many.fair_lock("a")) for _ in range(MANY)]
    await turns(3)
    with slow.outage():
        await settle(slow)  # what was written before is answered, and the others' request waits for the connection
        assert len(waiting(slow, "a")) == 1
        holders.pop(1).task.cancel()
        await settle(slow)
    await settle(slow)
    assert len(waiting(slow, "a")) == MANY - 1
    await lease.release()
    await serve(slow, holders)


@pytest.mark.parametrize("lost", ["request", "reply"])
@pytest.mark.parametrize("after", range(0, 20, 2))
async def test_the_connection_dies_under_a_request_for_many(
    many: LockManager, peer: LockManager, slow: Refusing, crew: Crew, lost: Any, after: int
) -> None:
    """It is written again, and they are in the queue once. Kept by QueueEntry.unanswered."""
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
async def test_its_first_has_given_up_when_the_connection_dies(
    many: LockManager, peer: LockManager, slow: Refusing, crew: Crew, lost: Any
) -> None:
    """Its request is not written again, and the others get no error. Kept by QueueEntry.answered.

    It may still reach the server: each of its owners leaves a tombstone. Kept by QueueEntry.taint: `self.more`.
    """
    lease = await peer.fair_lock("a").acquire()
    holders = [Holder(crew, many.fair_lock("a")) for _ in range(MANY)]
    await written(slow, 2)
    owners = list(runtime_of(many).queue_entries)[1:]
    holders.pop(1).task.cancel()
    await turns(1)
    slow.die(lost)
    await settle(slow)
    assert len(waiting(slow, "a")) == MANY - 1
    await lease.release()
    await serve(slow, holders)
    assert [key.partition(":dead:")[2] for key in tombstones(slow)] == sorted(owners)


async def test_an_owner_that_was_ended_asks_anew(
    many: LockManager, peer: LockManager, slow: Refusing, crew: Crew
) -> None:
    """With those behind it, except one that has given up. Kept by QueueEntry.behind."""
    lease = await peer.fair_lock("a").acquire()
    holders = [Holder(crew, many.fair_lock("a")) for _ in range(MANY)]
    await written(slow, 2)
    for owner in list(runtime_of(many).queue_entries)[1:]:
        slow.store.set(f"aiolock:lock:{{a}}:dead:{owner}", "1", 90_000)
    holders.pop(3).task.cancel()
    await settle(slow)
    assert len(waiting(slow, "a")) == MANY - 1
    await lease.release()
    for _ in holders:
        await settle(slow)
        (entered,) = [one for one in holders if one.entered.done() and not one.leave.is_set()]
        await entered.end()


async def test_no_verdict_on_a_request_for_many(
    many: LockManager, peer: LockManager, slow: Refusing, crew: Crew
) -> None:
    """A task that has had an answer keeps waiting; each asks again by itself."""
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
    for _ in left:
        await settle(slow)
        (entered,) = [one for one in left if one.entered.done() and not one.leave.is_set()]
        await entered.end()


async def written(slow: SlowBackend, requests: int) -> None:
    """Wait until this many requests of the process were written, and the last one was not executed."""
    while len(slow.calls) + sum(flight.result is None and flight.call.writes for flight in slow._flights) < requests:
        await turns(1)
    assert len(slow.calls) < requests
