"""Which tasks of a process wait: tasks that come and give up share one place in the server's queue."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from aiolock import AcquireTimeout, BackendError, LockManager, LossReason
from aiolock.scripts.base import Call
from aiolock.testing import MemoryBackend
from tests.support.locks import held, nothing_held, state, waiting

from .world import (
    LIVENESS,
    MARGIN,
    TTL,
    Crew,
    Holder,
    SlowBackend,
    assert_empty,
    expect_loss,
    inside,
    later,
    queue_up,
    runtime_of,
    settle,
    turns,
)


class Tricky(SlowBackend):
    """Does things before it executes a script, or gives another answer instead.

    Attributes:
        before: what to do before the next script with this name is executed.
        instead: the answer to the next script with this name, which is not executed.
    """

    def __init__(self, peer: MemoryBackend | None = None, turns: int = 2) -> None:
        super().__init__(peer, turns)
        self.before: dict[str, Any] = {}
        self.instead: dict[str, BackendError] = {}

    def _execute(self, call: Call[Any]) -> Any:
        name = call.script.name
        if name in self.before:
            self.before.pop(name)()
        if name in self.instead:
            call.writes += 1
            self.calls.append(name)
            return self.instead.pop(name)
        return super()._execute(call)


def busy(transient: bool = True) -> BackendError:
    """The server gives no verdict."""
    return BackendError("a", "BUSY Redis is busy running a script", transient=transient)


@pytest.fixture
def slow(backend: MemoryBackend) -> Tricky:
    return Tricky(backend)


@pytest.fixture
async def mine(slow: Tricky, crew: Crew) -> AsyncIterator[LockManager]:
    """This process, whose requests take some turns of the loop."""
    async with LockManager(slow) as manager:
        yield manager
        await crew.dismiss()
        await settle(slow)
        assert_empty(manager)
    assert nothing_held(slow)


async def give_up(holder: Holder, backend: MemoryBackend) -> None:
    """It does not want it any more."""
    holder.task.cancel()
    await settle(backend)


# Giving up.


async def test_one_place_for_all(mine: LockManager, peer: LockManager, slow: Tricky, crew: Crew) -> None:
    lease = await peer.lock("a").acquire()
    holders = await queue_up(crew, mine.lock("a"), 5, slow)
    assert len(waiting(slow, "a")) == 1
    assert slow.calls == ["acquire"]
    await lease.release()
    for at, holder in enumerate(holders):
        await settle(slow)
        assert inside(holders) == [one <= at for one in range(5)]
        await holder.end()


async def test_a_task_that_gives_up_leaves_the_place_to_the_others(
    mine: LockManager, peer: LockManager, slow: Tricky, crew: Crew
) -> None:
    """Even if it is the one that asked for the place; no other process gets in before them."""
    lease = await peer.lock("a").acquire()
    first, second, third = await queue_up(crew, mine.lock("a"), 3, slow)
    others = await queue_up(crew, peer.lock("a"), 1, slow)
    place = waiting(slow, "a")
    slow.calls.clear()
    await give_up(first, slow)
    await give_up(second, slow)
    assert waiting(slow, "a") == place
    assert slow.calls == []
    await lease.release()
    await settle(slow)
    assert inside([third, *others]) == [True, False]
    await third.end()
    await settle(slow)
    await others[0].end()


@pytest.mark.parametrize("after", range(8))
async def test_a_task_that_gives_up_during_the_request_leaves_it_to_the_others(
    mine: LockManager, slow: Tricky, crew: Crew, after: int
) -> None:
    """And the lock that it gets: there is one request, whoever takes the result."""
    first, second = Holder(crew, mine.lock("a")), Holder(crew, mine.lock("a"))
    for _ in range(after):
        await turns(1)
    await give_up(first, slow)
    assert second.entered.done()
    assert slow.calls.count("acquire") <= 1 + (first.entered.done())
    await second.end()


async def test_the_last_one_leaves_the_queue(mine: LockManager, peer: LockManager, slow: Tricky, crew: Crew) -> None:
    async with peer.lock("a"):
        holders = await queue_up(crew, mine.lock("a"), 3, slow)
        for holder in holders:
            assert len(waiting(slow, "a")) == 1
            await give_up(holder, slow)
        assert waiting(slow, "a") == []
        assert_empty(mine)


@pytest.mark.parametrize("after", range(12))
async def test_a_grant_that_no_task_waits_for_is_passed_on(
    mine: LockManager, peer: LockManager, slow: Tricky, crew: Crew, after: int
) -> None:
    """Whenever the last one gives up around the moment of the grant; no one then sees an abandoned lock."""
    lease = await peer.lock("a").acquire()
    (gone,) = await queue_up(crew, mine.lock("a"), 1, slow)
    (other,) = await queue_up(crew, peer.lock("a"), 1, slow)
    lease.release()
    await turns(after)
    await give_up(gone, slow)
    assert other.entered.done()
    assert not other.entered.result().abandoned
    await other.end()


@pytest.mark.parametrize("after", range(12))
async def test_a_grant_goes_to_the_next_of_the_process(
    mine: LockManager, peer: LockManager, slow: Tricky, crew: Crew, after: int
) -> None:
    lease = await peer.lock("a").acquire()
    gone, second = await queue_up(crew, mine.lock("a"), 2, slow)
    lease.release()
    await turns(after)
    await give_up(gone, slow)
    assert second.entered.done()
    await second.end()


async def test_a_task_that_comes_after_the_last_one_left_asks_anew(
    mine: LockManager, peer: LockManager, slow: Tricky, crew: Crew
) -> None:
    lease = await peer.lock("a").acquire()
    (gone,) = await queue_up(crew, mine.lock("a"), 1, slow)
    (before,) = waiting(slow, "a")
    gone.task.cancel()
    await turns(1)
    (holder,) = await queue_up(crew, mine.lock("a"), 1, slow)
    (after,) = waiting(slow, "a")
    assert after != before
    await lease.release()
    await settle(slow)
    await holder.end()


async def test_tasks_that_share_a_place_have_their_own_timeouts(
    mine: LockManager, peer: LockManager, slow: Tricky, crew: Crew
) -> None:
    lease = await peer.lock("a").acquire()
    tasks = [crew.start(mine.lock("a").acquire(timeout=seconds)._start()) for seconds in (1, 2, 3)]
    await settle(slow)
    for at, task in enumerate(tasks):
        assert [one.done() for one in tasks] == [one < at for one in range(3)]
        await slow.clock.advance(1)
        with pytest.raises(AcquireTimeout, match="number 1 in the queue"):
            await task
    assert waiting(slow, "a") == []
    await lease.release()


# Taking what another task has asked for.


async def test_the_taker_sets_ttl_and_metadata(mine: LockManager, peer: LockManager, slow: Tricky, crew: Crew) -> None:
    """It is another task than the one that asked: the confirmation carries its ttl and metadata. Kept by
    LocalQueue.granted.
    """
    lease = await peer.lock("a").acquire()
    (asker,) = await queue_up(crew, mine.lock("a", metadata="asker"), 1, slow)
    (taker,) = await queue_up(crew, mine.lock("a", ttl=60.0, metadata="taker"), 1, slow)
    await give_up(asker, slow)
    await lease.release()
    await settle(slow)
    found = state(slow, "a")
    assert found.depth == 1
    assert 59_000 < found.pttl <= 60_000
    assert found.metadata.endswith("\ntaker")
    assert taker.entered.result().remaining() == pytest.approx(60.0 - MARGIN)
    await taker.end()


@pytest.mark.parametrize("ttl", [10.0, 60.0])
async def test_the_taker_of_an_immediate_grant_does_so_too(
    mine: LockManager, slow: Tricky, crew: Crew, ttl: float
) -> None:
    """The request's grant was meant for another task, with another ttl."""
    asker = Holder(crew, mine.lock("a", metadata="asker"))
    taker = Holder(crew, mine.lock("a", ttl=ttl, metadata="taker"))
    await turns(3)
    await give_up(asker, slow)
    assert taker.entered.done()
    assert state(slow, "a").metadata.endswith("\ntaker")
    assert taker.entered.result().remaining() <= state(slow, "a").pttl / 1000
    await slow.clock.advance(2 * ttl)
    assert not taker.entered.result().lost
    await taker.end()


async def test_the_next_of_a_turn_sets_ttl_and_metadata(mine: LockManager, slow: Tricky, crew: Crew) -> None:
    (first,) = await queue_up(crew, mine.lock("a", metadata="first"), 1, slow)
    (second,) = await queue_up(crew, mine.lock("a", ttl=60.0, metadata="second"), 1, slow)
    await first.end()
    await settle(slow)
    found = state(slow, "a")
    assert (found.depth, found.pttl, found.metadata.partition("\n")[2]) == (1, 60_000, "second")
    assert second.entered.result().remaining() == pytest.approx(60.0 - MARGIN)
    await second.end()


# The answers to a release that hands on.


async def test_a_turn_that_is_over_is_passed_and_the_process_waits_again(
    peer: LockManager, slow: Tricky, crew: Crew
) -> None:
    """One request releases, grants to the other process and queues this one."""
    async with LockManager(slow, handoff_limit=0) as modest:
        first, second = await queue_up(crew, modest.lock("a"), 2, slow)
        (other,) = await queue_up(crew, peer.lock("a"), 1, slow)
        slow.calls.clear()
        await first.end()
        await settle(slow)
        assert inside([other, second]) == [True, False]
        assert slow.calls == ["transfer"]
        (owner,) = waiting(slow, "a")
        assert owner.startswith(runtime_of(modest).binding.id)
        await other.end()
        await settle(slow)
        await second.end()
        await settle(slow)
    assert nothing_held(slow)


@pytest.mark.parametrize("after", range(1, 8))
async def test_the_successor_gives_up_while_the_turn_is_passed(
    peer: LockManager, slow: Tricky, crew: Crew, after: int
) -> None:
    """The place that the process got in the meantime is given back."""
    async with LockManager(slow, handoff_limit=0) as modest:
        first, second = await queue_up(crew, modest.lock("a"), 2, slow)
        (other,) = await queue_up(crew, peer.lock("a"), 1, slow)
        first.leave.set()
        await turns(after)
        await give_up(second, slow)
        assert other.entered.done()
        assert waiting(slow, "a") == []
        await other.end()
        await settle(slow)
        assert_empty(modest)
    assert nothing_held(slow)


async def test_what_is_handed_on_was_taken(mine: LockManager, slow: Tricky, crew: Crew) -> None:
    """Missing: the releaser, whose time is not over, is told; the next one waits behind the thief."""
    first, second = await queue_up(crew, mine.lock("a"), 2, slow)
    slow.before["transfer"] = lambda: slow.steal("a")
    with expect_loss(LossReason.TAKEN_OVER):
        await first.end()
    await settle(slow)
    assert not second.entered.done()
    assert len(waiting(slow, "a")) == 1
    slow.give_back("a")
    await settle(slow)
    assert second.entered.done()
    await second.end()


async def test_what_is_handed_on_was_deleted(mine: LockManager, slow: Tricky, crew: Crew) -> None:
    first, second = await queue_up(crew, mine.lock("a"), 2, slow)
    slow.before["transfer"] = slow.flush
    with expect_loss(LossReason.DELETED):
        await first.end()
    await settle(slow)
    assert second.entered.result().fence > first.entered.result().fence
    await second.end()


@pytest.mark.parametrize("executed", [False, True])
async def test_no_verdict_on_what_is_handed_on(mine: LockManager, slow: Tricky, crew: Crew, executed: bool) -> None:
    """Whoever has it, neither keeps it: the next one asks anew, under another id. No error is reported."""
    first, second = await queue_up(crew, mine.lock("a"), 2, slow)
    if executed:
        doubt(slow, "transfer")
    else:
        slow.instead["transfer"] = busy()
    await first.end()
    await slow.clock.advance(1.0)
    lease = second.entered.result()
    assert state(slow, "a").holder == lease._hold.owner
    assert state(slow, "a").fence == lease.fence > first.entered.result().fence
    await lease.renew()
    await second.end()


async def test_a_refused_hand_off_ends_no_wait(mine: LockManager, slow: Tricky, crew: Crew) -> None:
    """Such as by an ACL that denies the script: the next one asks for itself. Kept by `_Transfer._settle`."""
    first, second, third = await queue_up(crew, mine.lock("a"), 3, slow)
    slow.instead["transfer"] = BackendError("a", "NOPERM this user has no permissions", transient=False)
    for holder in (first, second, third):
        await settle(slow)
        assert holder.entered.done()
        await holder.end()


@pytest.mark.parametrize("script", ["acquire", "refresh", "renew", "transfer", "release"])
@pytest.mark.parametrize("lost", ["request", "reply"])
@pytest.mark.parametrize("after", [0, 3])
async def test_a_connection_that_dies_at_any_script(
    mine: LockManager, peer: LockManager, slow: Tricky, crew: Crew, script: str, lost: Any, after: int
) -> None:
    """Invariant 4: all get in, one after the other, and nothing is left. `after`: turns until it is noticed."""
    lease = await peer.lock("a").acquire()
    done: list[int] = []

    def die() -> None:
        later(after, slow.die, lost)
        done.append(1)

    slow.before[script] = die
    holders = await queue_up(crew, mine.lock("a"), 3, slow)
    await slow.clock.advance(LIVENESS / 2)
    await lease.release()
    fences = [lease.fence]
    for at, holder in enumerate(holders):
        await slow.clock.advance(LIVENESS / 2)
        assert inside(holders) == [one <= at for one in range(3)]
        fences.append(holder.entered.result().fence)
        await slow.clock.advance(TTL / 2)
        await holder.end()
    await settle(slow)
    assert fences == sorted(set(fences))
    assert done == [1]
    assert not held(slow, "a")


async def test_a_gone_entry_asks_anew(mine: LockManager, peer: LockManager, slow: Tricky, crew: Crew) -> None:
    """The server knows nothing of it: its queue was deleted. Kept by QueueEntry.judged."""
    lease = await peer.lock("a").acquire()
    (holder,) = await queue_up(crew, mine.lock("a"), 1, slow)
    (before,) = waiting(slow, "a")
    slow.store.delete("aiolock:lock:{a}:queue")
    await slow.clock.advance(LIVENESS / 3 + 0.01)
    (after,) = waiting(slow, "a")
    assert after != before
    await lease.release()
    await settle(slow)
    assert holder.entered.done()
    await holder.end()


async def test_an_outage_longer_than_the_liveness_keeps_the_place(
    mine: LockManager, peer: LockManager, slow: Tricky, crew: Crew
) -> None:
    """No one took its turn in the meantime: a process that is not reached, and not passed over, keeps its number."""
    lease = await peer.lock("a").acquire()
    (holder,) = await queue_up(crew, mine.lock("a"), 1, slow)
    place = waiting(slow, "a")
    with slow.outage():
        await slow.clock.advance(3 * LIVENESS)
    await settle(slow)
    assert waiting(slow, "a") == place
    await lease.release()
    await settle(slow)
    assert holder.entered.done()
    await holder.end()


def doubt(slow: Tricky, script: str) -> None:
    """The next script with this name is executed, and its answer says that there is no verdict."""
    execute = slow._execute

    def once(call: Call[Any]) -> Any:
        outcome = execute(call)
        if call.script.name != script:
            return outcome
        slow._execute = execute  # type: ignore[method-assign]
        return busy()

    slow._execute = once  # type: ignore[method-assign]


# Priority.


@pytest.mark.parametrize("stays", [True, False])
@pytest.mark.parametrize("after", range(12))
async def test_one_that_passes_around_the_moment_of_the_grant(
    mine: LockManager, peer: LockManager, slow: Tricky, crew: Crew, after: int, stays: bool
) -> None:
    """One of them is inside, with its own terms, and then the other; also if the one that passes gives up."""
    lease = await peer.lock("a").acquire()
    (old,) = await queue_up(crew, mine.lock("a", metadata="old"), 1, slow)
    lease.release()
    await turns(after)
    new = Holder(crew, mine.lock("a", priority=1, metadata="new"))
    await turns(after % 5)
    if not stays:
        await give_up(new, slow)
        assert inside([old]) == [True]
        await old.end()
        return
    await settle(slow)
    order = [old, new] if inside([old])[0] else [new, old]
    for holder in order:
        assert inside([holder]) == [True]
        info = await peer.lock("a").info()
        assert info is not None
        assert info.metadata == ("old" if holder is old else "new")
        await holder.end()
        await settle(slow)
