"""One name in one process: the local queue, the requests to the server, and the hand-off."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Callable
from typing import Any, TypeVar

import pytest

from aiolock import AcquireTimeout, BackendError, Lease, LockLost, LockManager, LossReason
from aiolock.backends.base import Wake
from aiolock.scripts.base import Call
from aiolock.testing import MemoryBackend
from tests.support.locks import waiting

from .world import (
    TTL,
    Crew,
    Holder,
    SlowBackend,
    assert_empty,
    expect_loss,
    inside,
    lock_keys,
    queue_up,
    settle,
    state_of,
    tombstones,
    turns,
)

R = TypeVar("R")


class Counting(MemoryBackend):
    """Counts subscriptions beside scripts: everything that is sent."""

    def __init__(self, peer: MemoryBackend | None = None) -> None:
        super().__init__(peer)
        self.subscribed: list[str] = []

    def subscribe(self, channel: str, wake: Wake) -> asyncio.Future[None]:
        self.subscribed.append(channel)
        return super().subscribe(channel, wake)

    @property
    def cost(self) -> int:
        return len(self.calls) + len(self.subscribed)

    def reset(self) -> None:
        self.calls.clear()
        self.subscribed.clear()


@pytest.fixture
def backend() -> Counting:
    return Counting()


async def test_first_come_first_served(locks: LockManager, backend: Counting, crew: Crew) -> None:
    holders = await queue_up(crew, locks.lock("a"), 10, backend)
    for i, holder in enumerate(holders):
        assert inside(holders) == [True] * (i + 1) + [False] * (9 - i)
        await holder.end()
        await settle(backend)


async def test_a_release_is_a_transfer_while_a_task_waits(locks: LockManager, backend: Counting, crew: Crew) -> None:
    """§6 Local hand-off: one round trip, and the fence rises."""
    holders = await queue_up(crew, locks.lock("a"), 5, backend)
    for holder in holders:
        await holder.end()
        await settle(backend)
    assert backend.calls == ["acquire", *["transfer"] * 4, "release"]
    fences = [holder.entered.result().fence for holder in holders]
    assert fences == sorted(set(fences))
    assert not any(holder.entered.result().abandoned for holder in holders)


async def test_waiting_costs_next_to_nothing(
    backend: Counting, crew: Crew, locks: LockManager, peer: LockManager
) -> None:
    """200 tasks that wait for a lock of another process: one place in its queue, one heartbeat per second."""
    async with peer.lock("a"):
        backend.reset()
        holders = await queue_up(crew, locks.lock("a"), 200, backend)
        assert backend.calls == ["acquire"]
        await backend.clock.advance(30)
        assert 28 <= backend.calls.count("refresh") == len(backend.calls) - 1 <= 31
        assert backend.subscribed == []
    await settle(backend)
    assert holders[0].entered.done()


async def test_waiting_behind_a_task_of_this_process_costs_nothing(
    locks: LockManager, backend: Counting, crew: Crew
) -> None:
    """H14, `obtain`: ① only if no task of this process holds or queues."""
    async with locks.lock("a"):
        backend.reset()
        await queue_up(crew, locks.lock("a"), 200, backend)
        await backend.clock.advance(3)
        assert backend.cost == 0


async def test_one_attempt_costs_one_command(locks: LockManager, peer: LockManager, backend: Counting) -> None:
    """If it is refused, it leaves nothing to undo. Kept by QueueEntry.end."""
    async with peer.lock("a"):
        backend.reset()
        async with locks.lock("a").try_acquire() as lease:
            assert lease is None
        with pytest.raises(AcquireTimeout):
            await locks.lock("a").acquire(timeout=0)
        await settle(backend)
    assert (backend.calls, backend.subscribed) == (["acquire", "acquire"], [])


async def test_try_acquire_behind_a_task_of_this_process_costs_nothing(
    locks: LockManager, backend: Counting, crew: Crew
) -> None:
    holder = Holder(crew, locks.lock("a"))
    await holder.entered
    backend.reset()
    async with locks.lock("a").try_acquire() as lease:
        assert lease is None
    assert backend.cost == 0


async def test_woken_by_a_release_elsewhere(
    locks: LockManager, peer: LockManager, backend: Counting, crew: Crew
) -> None:
    """Invariant 5: no time passes between the release and the next holder's entry."""
    async with peer.lock("a"):
        holder = Holder(crew, locks.lock("a"))
        await settle(backend)
    await settle(backend)
    assert holder.entered.done()


async def test_woken_by_the_holders_expiry(
    locks: LockManager, peer: LockManager, backend: Counting, crew: Crew
) -> None:
    """There is no message: the first in the queue asks when the holder's time is over. Kept by Wait.free_at."""
    lease = await peer.lock("a", renew=False, ttl=0.7).acquire()
    holder = Holder(crew, locks.lock("a"))
    await settle(backend)
    await backend.clock.advance(0.7)
    assert not holder.entered.done()
    await backend.clock.advance(0.0011)
    assert holder.entered.result().abandoned
    with pytest.raises(LockLost):
        await lease.release()


async def test_a_lost_message_costs_a_second_at_most(
    locks: LockManager, peer: LockManager, backend: Counting, crew: Crew
) -> None:
    """Invariant 5: a waiter asks every third of the liveness, and learns of it then."""
    lease = await peer.lock("a").acquire()
    holder = Holder(crew, locks.lock("a"))
    await settle(backend)
    backend.expire("a")  # without a message
    await settle(backend)
    assert not holder.entered.done()
    await backend.clock.advance(1.01)
    assert holder.entered.done()
    with pytest.raises(LockLost):
        await lease.release()


async def test_a_release_while_the_answer_is_on_its_way_is_not_missed(
    peer: LockManager, backend: Counting, crew: Crew
) -> None:
    """Whenever it comes. test_queue_entry.py has what the message of the grant overtakes."""
    for moment in range(10):
        async with LockManager(SlowBackend(backend)) as slow:
            lease = await peer.lock("a").acquire()
            holder = Holder(crew, slow.lock("a"))
            await turns(moment)
            lease.release()
            await settle(backend)
            assert holder.entered.done()
            await holder.end()


async def test_waiting_survives_an_outage(locks: LockManager, peer: LockManager, backend: Counting, crew: Crew) -> None:
    """§3 Outage policy: a task that already waits keeps waiting."""
    lease = await peer.lock("a").acquire()
    holder = Holder(crew, locks.lock("a"))
    await settle(backend)
    with backend.outage():
        await backend.clock.advance(20)
        await lease.release()
        await backend.clock.advance(20)
        assert not holder.task.done()
    await settle(backend)
    assert holder.entered.done()


async def test_outage_while_waiting_ends_with_the_timeout(
    locks: LockManager, peer: LockManager, backend: Counting, crew: Crew
) -> None:
    async with peer.lock("a"):
        task = crew.start(_acquire(locks, timeout=12))
        await settle(backend)
        with backend.outage():
            await backend.clock.advance(11.9)
            assert not task.done()
            await backend.clock.advance(0.2)
            with pytest.raises(AcquireTimeout):
                await task
        await settle(backend)


async def _acquire(locks: LockManager, **options: Any) -> Lease:
    return await locks.lock("a").acquire(**options)


async def test_a_waiter_cancelled_in_the_middle_of_a_transfer(
    locks: LockManager, peer: LockManager, backend: Counting, crew: Crew
) -> None:
    """H2 (b), the entry is the process's: the lock is passed on, not kept by a task that is gone."""
    first, gone, third = await queue_up(crew, locks.lock("a"), 3, backend)
    first.leave.set()
    await asyncio.sleep(0)
    assert backend.calls == ["acquire", "transfer"]
    gone.task.cancel()
    await settle(backend)
    await first.task
    assert gone.task.cancelled()
    assert third.entered.done()
    await third.end()
    assert not await peer.lock("a").is_locked()
    assert not state_of(backend, "a").dirty


async def test_a_transfer_to_a_last_waiter_that_is_cancelled(
    locks: LockManager, peer: LockManager, backend: Counting, crew: Crew
) -> None:
    first, gone = await queue_up(crew, locks.lock("a"), 2, backend)
    first.leave.set()
    await asyncio.sleep(0)
    gone.task.cancel()
    await settle(backend)
    await first.task
    assert backend.calls == ["acquire", "transfer", "release"]
    assert_empty(locks)
    async with peer.lock("a").acquire(timeout=0) as lease:
        assert not lease.abandoned


async def test_a_transfer_of_a_lock_that_is_gone(locks: LockManager, backend: Counting, crew: Crew) -> None:
    """H2 (d), H10: the releaser is told; the next in the queue asks for itself."""
    first, second = await queue_up(crew, locks.lock("a"), 2, backend)
    backend.expire("a")
    with expect_loss(LossReason.DELETED):
        await first.end()
    await settle(backend)
    assert second.entered.done()
    assert second.entered.result().abandoned
    assert backend.calls.count("acquire") == 2


@pytest.mark.parametrize("lost", ["request", "reply"])
async def test_a_transfer_whose_connection_dies(
    locks: LockManager, peer: LockManager, backend: Counting, crew: Crew, lost: Any
) -> None:
    """H2 (a): the repetition finds the successor holding, and answers with the same grant; the releaser's owner is
    tainted.
    """
    first, second = await queue_up(crew, locks.lock("a"), 2, backend)
    backend.fail_next(lost)
    await first.end()
    await settle(backend)
    assert second.entered.done()
    assert second.entered.result().fence > first.entered.result().fence
    await second.end()
    await settle(backend)
    assert not await peer.lock("a").is_locked()
    assert any(key.endswith(second.entered.result()._hold.owner) for key in tombstones(backend))


@pytest.mark.parametrize("lost", ["request", "reply"])
async def test_a_transfer_whose_connection_dies_after_the_successor_left(
    locks: LockManager, peer: LockManager, backend: Counting, crew: Crew, lost: Any
) -> None:
    """H2 (b), (c), `_Transfer._unanswered`: no one wants it any more, so **both** owners end."""
    first, gone = await queue_up(crew, locks.lock("a"), 2, backend)
    with backend.outage():
        first.leave.set()
        await settle(backend)
        gone.task.cancel()
        await settle(backend)
    await settle(backend)
    await first.task
    async with peer.lock("a").acquire(timeout=0) as lease:
        assert not lease.abandoned
    backend.fail_next(lost)
    again, gone = await queue_up(crew, locks.lock("a"), 2, backend)
    backend.fail_next(lost)
    again.leave.set()
    gone.task.cancel()
    await settle(backend)
    await again.task
    async with peer.lock("a").acquire(timeout=0) as lease:
        assert lease.depth == 1
    assert_empty(locks)


async def test_not_handed_on_after_a_loss(locks: LockManager, backend: Counting, crew: Crew) -> None:
    """§6: Kept by Gate.lower: the next in the queue asks the server itself, and those behind it wait."""
    first, second, third = await queue_up(crew, locks.lock("a"), 3, backend)
    first.entered.result()._hold.lose(LossReason.MAX_HOLD)
    with pytest.raises(LockLost):
        await first.task
    await settle(backend)
    assert "transfer" not in backend.calls
    assert (second.entered.done(), third.entered.done()) == (True, False)
    assert second.entered.result().abandoned


@pytest.mark.parametrize("how", ["cancel", "error"])
async def test_a_body_that_fails_hands_on_too(locks: LockManager, backend: Counting, crew: Crew, how: str) -> None:
    async def fail() -> None:
        async with locks.lock("a"):
            await asyncio.Event().wait() if how == "cancel" else None
            raise ZeroDivisionError

    async with locks.lock("b"):
        task = crew.start(fail())
        second = Holder(crew, locks.lock("a"))
        await settle(backend)
        if how == "cancel":
            task.cancel()
        await asyncio.wait({task})
        assert task.cancelled() == (how == "cancel")
        await settle(backend)
        assert second.entered.done()
        assert backend.calls.count("transfer") == 1


async def test_a_connection_that_dies_while_acquiring(locks: LockManager, peer: LockManager, backend: Counting) -> None:
    """Invariant 4: whether or not the server saw it, one hold, and a tombstone when it ends."""
    for lost in ("request", "reply"):
        backend.fail_next(lost)  # type: ignore[arg-type]
        async with locks.lock("a") as lease:
            assert lease.depth == 1
            assert not lease.abandoned
        assert not await peer.lock("a").is_locked()
    assert len(tombstones(backend)) == 2


async def test_a_finished_owner_cannot_come_back(locks: LockManager, backend: Counting) -> None:
    """C4 and c: an original that arrives after its own undo meets the tombstone (acquire.lua: `finished`)."""
    copies: list[Callable[[], Any]] = []
    execute = backend._execute

    def remember(call: Any) -> Any:
        if call.script.name == "acquire":
            copies.append(lambda args=call.args: execute(_copy(call, args)))
        return execute(call)

    backend._execute = remember  # type: ignore[method-assign]
    backend.fail_next("reply")
    async with locks.lock("a"):
        pass
    for late in copies:
        assert late() == ()
    assert lock_keys(backend) == []


def _copy(call: Any, args: Any) -> Any:
    return type(call)(call.name, call.script, call.keys, args)


class Busy(MemoryBackend):
    """Answers BUSY to the next calls of a script; `executed` of them had run before."""

    def __init__(self, peer: MemoryBackend | None = None) -> None:
        super().__init__(peer)
        self.busy: dict[str, int] = {}
        self.executed: set[str] = set()

    def _execute(self, call: Call[R]) -> R | BackendError:
        name = call.script.name
        if not self.busy.get(name):
            return super()._execute(call)
        self.busy[name] -= 1
        if name in self.executed:
            super()._execute(call)
        call.writes += 1
        return BackendError(call.name, "BUSY Redis is busy running a script", transient=True)


async def test_an_undo_cannot_hit_the_next_attempt(peer: LockManager, backend: Counting, crew: Crew) -> None:
    """The undo of an attempt in doubt would free a live lease if it came late. Kept by LocalQueue.renew_owner."""
    slow = Busy(backend)
    async with LockManager(slow) as locks:
        lost = await peer.lock("a").acquire()
        holder = Holder(crew, locks.lock("a"))
        await settle(backend)
        backend.flush()
        slow.busy, slow.executed = {"acquire": 1, "release": 4}, {"acquire"}
        await backend.clock.advance(1.01)  # it is in no queue any more, and asks anew
        for _ in range(100):
            await backend.clock.advance(0.01)
        assert slow.busy == {"acquire": 0, "release": 0}
        await holder.entered.result().renew()
        assert (await peer.lock("a").info()) is not None
        await holder.end()
        with pytest.raises(LockLost):
            await lost.release()


async def test_a_release_that_had_to_be_repeated_wakes_the_queue(
    locks: LockManager, backend: Counting, crew: Crew
) -> None:
    """Invariant 5: the server grants to the first in its queue whenever the release arrives."""
    slow = Busy(backend)
    async with LockManager(slow) as locks_of_busy:
        first, second = await queue_up(crew, locks_of_busy.lock("a"), 2, backend)
        third = Holder(crew, locks.lock("a"))
        await settle(backend)
        slow.busy = {"release": 3, "transfer": 1}
        first.leave.set()
        await backend.clock.advance(1)
        assert first.task.done()
        for _ in range(2):
            (entered,) = [one for one in (second, third) if one.entered.done() and not one.leave.is_set()]
            await entered.end()
            await settle(backend)


async def test_a_transfer_in_doubt_to_a_task_that_left(backend: Counting, peer: LockManager, crew: Crew) -> None:
    """H2 (b), (c), `_Transfer._settle`: both owners end; the releaser, whose body ended well, is told nothing."""
    for lost in ("request", "reply"):
        slow = SlowBackend(backend)
        async with LockManager(slow) as locks:
            first, gone = await queue_up(crew, locks.lock("a"), 2, backend)
            first.leave.set()
            await turns(3)
            gone.task.cancel()
            await turns(1)
            slow.die(lost)  # type: ignore[arg-type]
            await settle(backend)
            await first.task
            assert gone.task.cancelled()
            async with peer.lock("a").acquire(timeout=0) as lease:
                assert lease.depth == 1


async def test_memory_per_name_goes_away(locks: LockManager, backend: Counting) -> None:
    """Invariant 8, `Gate.settle_down`."""

    async def use(names: range) -> int:
        for i in names:
            async with locks.lock(f"name {i}"):
                pass
        assert_empty(locks)
        gc.collect()
        return sum(str(type(thing).__module__).startswith("aiolock.core") for thing in gc.get_objects())

    first = await use(range(200))
    assert await use(range(200, 2000)) < first + 600  # what the scheduler has forgotten is dropped 64 at a time


async def test_memory_of_a_task_that_holds_much_grows_with_what_it_holds(locks: LockManager) -> None:
    """It does not grow with the square: `LeasesByTask.add`, whose callback keeps no context of its own."""
    leases = [await locks.lock(f"name {i}").acquire() for i in range(50)]
    gc.collect()
    ours = {id(lease._hold) for lease in leases}
    tuples = [thing for thing in gc.get_objects() if type(thing) is tuple and thing and id(thing[0]) in ours]
    assert sum(map(len, tuples)) < 3 * len(leases)
    for lease in leases:
        await lease.release()


async def test_waiters_leave_nothing(locks: LockManager, peer: LockManager, backend: Counting, crew: Crew) -> None:
    """Invariant 8: the place in the server's queue goes with the last waiter."""
    async with peer.lock("a"):
        tasks = [crew.start(_acquire(locks, timeout=1)) for _ in range(5)]
        await settle(backend)
        assert len(waiting(backend, "a")) == 1
        await backend.clock.advance(1)
        for task in tasks:
            with pytest.raises(AcquireTimeout):
                await task
        await settle(backend)
        assert waiting(backend, "a") == []
        assert_empty(locks)


async def test_a_release_wakes_one_task(
    backend: Counting, crew: Crew, locks: LockManager, peer: LockManager, peer_backend: MemoryBackend
) -> None:
    """Thundering herd: of fifty waiters of two processes one is granted, and asks; no other does."""
    async with LockManager(MemoryBackend(backend)) as other:
        async with other.lock("a"):
            holders = await queue_up(crew, locks.lock("a"), 50, backend)
            others = await queue_up(crew, peer.lock("a"), 50, backend)
            backend.reset()
            peer_backend.calls.clear()
        await settle(backend)
        assert (backend.calls, peer_backend.calls) == (["acquire"], [])
        assert sum(holder.entered.done() for holder in holders + others) == 1


async def test_handoff_continues_while_no_one_else_waits(backend: Counting, crew: Crew, locks: LockManager) -> None:
    async with LockManager(MemoryBackend(backend), handoff_limit=3) as greedy:
        own = greedy._runtime.backend
        assert isinstance(own, MemoryBackend)
        for holder in await queue_up(crew, greedy.lock("a"), 12, backend):
            await settle(backend)
            assert holder.entered.done()
            await holder.end()
        assert own.calls == ["acquire", *["transfer"] * 11, "release"]
        await settle(backend)


async def test_contended_by_many(backend: Counting, crew: Crew, locks: LockManager, peer: LockManager) -> None:
    """Invariants 1 and 2 under load: three processes, sixty tasks, no two inside, fences rise."""
    inside, fences = 0, []

    async def work(manager: LockManager) -> None:
        nonlocal inside
        async with manager.lock("a") as lease:
            assert inside == 0
            inside += 1
            fences.append(lease.fence)
            await asyncio.sleep(0)
            inside -= 1

    async with LockManager(MemoryBackend(backend)) as third:
        tasks = [crew.start(work(manager)) for manager in (locks, peer, third) * 20]
        for _ in range(400):
            await backend.clock.advance(0.05)
            if all(task.done() for task in tasks):
                break
        await asyncio.gather(*tasks)
        await settle(backend)
        assert_empty(third)
    assert fences == sorted(set(fences))
    assert len(fences) == 60


async def test_after_a_loss_the_local_queue_continues(locks: LockManager, backend: Counting, crew: Crew) -> None:
    """`Gate.lost`: the slot is free at once; the server decides when the next one may enter."""
    first, second = await queue_up(crew, locks.lock("a"), 2, backend)
    backend.expire("a")
    await backend.clock.advance(TTL / 3)
    with expect_loss(LossReason.DELETED):
        await first.task
    assert second.entered.done()
