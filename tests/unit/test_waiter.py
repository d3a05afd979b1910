"""A waiter that asks by itself: whatever becomes of its request, nothing is lost, and the next one gets in."""

from __future__ import annotations

from collections.abc import AsyncIterator
from functools import partial
from typing import Any, Literal

import pytest

from aiolock import BackendError, Lease, Lock, LockManager, LossReason
from aiolock.scripts.base import Call
from aiolock.testing import MemoryBackend
from tests.support.locks import held, nothing_held

from .world import (
    Crew,
    Holder,
    SlowBackend,
    assert_empty,
    expect_loss,
    queue_up,
    runtime_of,
    settle,
    tombstones,
    turns,
)

WHILE_ASKING = range(8)
"""Turns of the loop, from before its request is written until its task has gone in."""


class Wrapping(SlowBackend):
    """Wraps what becomes of each call, as those do that write it elsewhere later."""

    def __init__(self, peer: MemoryBackend) -> None:
        super().__init__(peer)
        self.settled: list[str] = []

    def post(self, call: Call[Any]) -> None:
        call.settle = partial(self._settle, call, call.settle)
        super().post(call)

    def unanswered(self, script: str) -> list[Call[Any]]:
        """The requests that were written, and may or may not have reached the server."""
        calls = [flight.call for flight in self._flights]
        return [call for call in calls if call.writes and call.script.name == script]

    def refuse(self) -> None:
        """Say of what was written that no server has run it."""
        for flight in [one for one in self._flights if one.call.writes and one.result is None]:
            if not flight.call.again(unrun=True):
                self._flights.remove(flight)
                flight.call.end(BackendError(flight.call.name, "LOADING", True))

    def _settle(self, call: Call[Any], tell: Any, outcome: Any) -> None:
        self.settled.append(call.script.name)
        if tell is not None:
            tell(outcome)


@pytest.fixture
def slow(backend: MemoryBackend) -> Wrapping:
    return Wrapping(backend)


@pytest.fixture
async def mine(slow: Wrapping, crew: Crew, caplog: pytest.LogCaptureFixture) -> AsyncIterator[LockManager]:
    """A process whose requests take some turns of the loop; nothing of it fails, or is left."""
    async with LockManager(slow) as manager:
        yield manager
        await crew.dismiss()
        await settle(slow)
        assert_empty(manager)
    assert nothing_held(slow)
    assert [record.getMessage() for record in caplog.get_records("call") if record.levelname == "ERROR"] == []


async def test_nobody_else_comes(mine: LockManager, slow: Wrapping, crew: Crew) -> None:
    """One request, and no entry. Kept by Waiter._answered."""
    (holder,) = await queue_up(crew, mine.lock("a"), 1, slow)
    assert holder.entered.done()
    assert slow.calls == ["acquire"]
    assert not runtime_of(mine).queue_entries
    await holder.end()


@pytest.mark.parametrize("after", WHILE_ASKING)
async def test_it_is_cancelled(mine: LockManager, slow: Wrapping, crew: Crew, after: int) -> None:
    """Its request is taken back, or undone; also a grant that comes when its task is about to end.

    Kept by Gate.leave: `adopt`, and Waiter._answered: `outcome.done()`.
    """
    holder = Holder(crew, mine.lock("a"))
    await turns(after)
    holder.task.cancel()
    await settle(slow)
    assert not held(slow, "a")
    assert_empty(mine)
    (other,) = await queue_up(crew, mine.lock("a"), 1, slow)
    assert other.entered.done()
    await other.end()


@pytest.mark.parametrize("kind", ["lock", "fair_lock"])
@pytest.mark.parametrize("gone", [False, True])
@pytest.mark.parametrize("after", WHILE_ASKING)
async def test_another_comes(mine: LockManager, slow: Wrapping, crew: Crew, kind: str, gone: bool, after: int) -> None:
    """It goes on with the request of the first, whose task may give up then; a fair one has its own, and is behind it.

    Kept by Gate._line_up: `adopt`; for a fair one by LocalQueue.enter: `adopt`.
    """
    first = Holder(crew, mine.lock("a"))
    await turns(after)
    second = Holder(crew, getattr(mine, kind)("a"))
    if gone:
        await turns(1)
        first.task.cancel()
    await settle(slow)
    if not gone:
        assert first.entered.done()
        assert not second.entered.done()
        await first.end()
        await settle(slow)
    assert second.entered.done()
    if kind == "lock":
        assert slow.calls.count("acquire") <= 1 + gone
    await second.end()


@pytest.mark.parametrize("lost", ["request", "reply"])
@pytest.mark.parametrize("gone", [False, True])
@pytest.mark.parametrize("others", [0, 1])
@pytest.mark.parametrize("after", WHILE_ASKING)
async def test_the_connection_dies(
    mine: LockManager,
    slow: Wrapping,
    crew: Crew,
    lost: Literal["request", "reply"],
    gone: bool,
    others: int,
    after: int,
) -> None:
    """It is asked again, unless nobody wants it any more. A copy may still come: the owner's end leaves a tombstone.

    Kept by Waiter._unanswered, Waiter._wants, and admit(): `tainted`.
    """
    first = Holder(crew, mine.lock("a"))
    await turns(after)
    following = [Holder(crew, mine.lock("a")) for _ in range(others)]
    await turns(others)
    if gone:
        first.task.cancel()
        await turns(1)
    owners = {call.args[0] for call in slow.unanswered("acquire")}
    slow.die(lost)
    await settle(slow)
    for holder in following if gone else (first, *following):
        assert holder.entered.done()
        await holder.end()
        await settle(slow)
    assert not held(slow, "a")
    assert {key.partition(":dead:")[2] for key in tombstones(slow)} >= owners


@pytest.mark.parametrize("gone", [False, True])
@pytest.mark.parametrize("others", [0, 1])
@pytest.mark.parametrize("after", WHILE_ASKING)
async def test_no_server_has_run_it(
    mine: LockManager, slow: Wrapping, crew: Crew, gone: bool, others: int, after: int
) -> None:
    """It is written again, unless nobody wants it any more. No copy can come, so there is no tombstone.

    Kept by Waiter._wants, and Waiter.ask: `unrun`.
    """
    first = Holder(crew, mine.lock("a"))
    await turns(after)
    following = [Holder(crew, mine.lock("a")) for _ in range(others)]
    await turns(others)
    if gone:
        first.task.cancel()
        await turns(1)
    unwanted = gone and not others and "acquire" not in slow.calls
    slow.refuse()
    await settle(slow)
    assert slow.calls.count("acquire") == (0 if unwanted else 1)
    for holder in following if gone else (first, *following):
        assert holder.entered.done()
        await holder.end()
        await settle(slow)
    assert tombstones(slow) == []


@pytest.mark.parametrize("after", WHILE_ASKING)
async def test_who_wrote_the_request_is_told(mine: LockManager, slow: Wrapping, crew: Crew, after: int) -> None:
    """An entry adopts it, and its answer still goes through all who were to hear it. Kept by QueueEntry.adopt."""
    first = Holder(crew, mine.lock("a"))
    await turns(after)
    second = Holder(crew, mine.lock("a"))
    await settle(slow)
    assert slow.settled == ["acquire"]
    for holder in (first, second):
        await holder.end()


@pytest.mark.parametrize("others", [0, 1])
async def test_its_grant_comes_too_late(mine: LockManager, slow: Wrapping, crew: Crew, others: int) -> None:
    """It is undone, and asked for anew. Kept by admit(): `hold.check()`, and Gate.rejoin."""
    holders = [Holder(crew, mine.lock("a", ttl=1.0)) for _ in range(1 + others)]
    await turns(2)
    slow.clock.jump(0.95)
    await settle(slow)
    assert slow.calls == ["acquire", "release", "acquire"]
    for holder in holders:
        assert not (await holder.entered).lost
        await holder.end()
        await settle(slow)


async def test_an_outage_after_a_grant_that_came_too_late(mine: LockManager, slow: Wrapping, crew: Crew) -> None:
    """The server has answered since it came, so it waits until that is back. Kept by Waiter._answered: `replies`."""
    holder = Holder(crew, mine.lock("a", ttl=1.0))
    await turns(2)
    slow.clock.jump(0.95)
    while not slow.settled:
        await turns(1)
    with slow.outage():
        await settle(slow)
        assert not holder.task.done()
    await settle(slow)
    assert not (await holder.entered).lost
    await holder.end()


async def test_it_begins_no_turn(mine: LockManager, peer: LockManager, slow: Wrapping, crew: Crew) -> None:
    """Nobody waited in its process when it was granted: whoever waits elsewhere is next.

    Kept by Waiter._answered: `turn`.
    """
    lock = mine.lock("a")
    (theirs,) = await queue_up(crew, peer.lock("a"), 1, slow)
    first, *gone = await queue_up(crew, lock, 3, slow)
    await theirs.end()
    await settle(slow)
    assert first.entered.done()  # and begins a turn of its process
    for holder in gone:
        holder.task.cancel()
    await settle(slow)
    await first.end()
    await settle(slow)
    (alone,) = await queue_up(crew, lock, 1, slow)
    (other,) = await queue_up(crew, peer.lock("a"), 1, slow)
    (last,) = await queue_up(crew, lock, 1, slow)
    await alone.end()
    await settle(slow)
    assert other.entered.done()
    assert not last.entered.done()
    for holder in (other, last):
        await holder.end()
        await settle(slow)


@pytest.mark.parametrize("after", WHILE_ASKING)
async def test_it_is_ended_by_force(
    mine: LockManager, peer: LockManager, slow: Wrapping, crew: Crew, after: int
) -> None:
    """What it has is known to be lost, or it has it anew. Kept by Waiter.revoked."""
    waiting = crew.start(take(mine.lock("a")))
    await turns(after)
    await peer.lock("a").force_release()
    lease = await waiting
    await settle(slow)
    if lease.lost:
        with expect_loss(LossReason.REVOKED):
            await lease.release()
    else:
        assert held(slow, "a")
        await lease.release()


async def take(lock: Lock) -> Lease:
    return await lock.acquire()


@pytest.mark.parametrize("after", WHILE_ASKING)
async def test_a_fair_task_hands_on_while_it_asks(mine: LockManager, slow: Wrapping, crew: Crew, after: int) -> None:
    """The process does not ask a second time. Kept by hand_on(): `asking`. Found by simulation."""
    fair = Holder(crew, mine.fair_lock("a"))
    fair.leave.set()
    await turns(after)
    plain = Holder(crew, mine.lock("a"))
    await settle(slow)
    assert plain.entered.done()
    assert not runtime_of(mine).queue_entries
    await plain.end()


@pytest.mark.parametrize("after", range(12))
async def test_a_fair_task_gives_up_while_it_asks(mine: LockManager, slow: Wrapping, crew: Crew, after: int) -> None:
    """Nor does it then. Kept by LocalQueue.advance: `asking`."""
    fair = Holder(crew, mine.fair_lock("a"))
    await turns(after // 2)
    plain = Holder(crew, mine.lock("a"))
    await turns(after - after // 2)
    fair.task.cancel()
    await settle(slow)
    assert plain.entered.done()
    assert not runtime_of(mine).queue_entries
    await plain.end()


async def test_it_gives_up_before_it_is_written(mine: LockManager, slow: Wrapping, crew: Crew) -> None:
    """Its request is taken back, so there is nothing to undo. Kept by QueueEntry.end: `call.withdraw()`."""
    with slow.outage(silent=True):
        holder = Holder(crew, mine.lock("a"))
        await turns(3)
        holder.task.cancel()
        await turns(2)
    await settle(slow)
    assert slow.calls == []
