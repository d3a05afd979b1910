"""An entry in a queue on the server: its refreshes, its grant, and what can go wrong with either."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from aiolock import AcquireTimeout, BackendError, LockLost, LockManager, LossReason, NotAcquired
from aiolock.core.waiting.queue_entry import QueueEntry
from aiolock.core.waiting.wait import QUEUED
from aiolock.scripts.base import Call
from aiolock.testing import MemoryBackend
from tests.support.locks import state, waiting

from .world import (
    BEAT,
    LIVENESS,
    MARGIN,
    TTL,
    Crew,
    Deaf,
    Holder,
    SlowBackend,
    expect_loss,
    inside,
    queue_up,
    runtime_of,
    settle,
    step_wall,
    turns,
)


class Overtaking(SlowBackend):
    """Its messages take another connection than its answers.

    Attributes:
        answered: whether the first request was.
    """

    answered = False

    def _deliver(self, channel: str, payload: str) -> None:
        MemoryBackend._deliver(self, channel, payload)

    def post(self, call: Call[Any]) -> None:
        settle_call = call.settle or (lambda outcome: None)

        def settled(outcome: Any) -> None:
            self.answered = True
            settle_call(outcome)

        call.settle = settled
        super().post(call)


Make = Callable[[LockManager], Any]
MAKE: dict[str, Make] = {"lock": lambda manager: manager.lock("a"), "fair_lock": lambda manager: manager.fair_lock("a")}


def tell(manager: LockManager, backend: MemoryBackend, text: str) -> None:
    """Publish on its channel."""
    runtime = runtime_of(manager)
    backend.store.publish(runtime.keys.manager(runtime.binding.id), text)


@pytest.fixture
def backend() -> Deaf:
    return Deaf()


def entries(manager: LockManager) -> list[QueueEntry]:
    """The entries of a manager, in no particular order."""
    return list(runtime_of(manager).queue_entries.values())


def queue_numbers(backend: MemoryBackend, name: str = "a") -> dict[str, int]:
    """The server's queue: owner -> queue number."""
    key = f"aiolock:lock:{{{name}}}:queue"
    return {owner: backend.store.zscore(key, owner) or 0 for owner in waiting(backend, name)}


def refuse_once(backend: MemoryBackend, script: str, answer: Any) -> None:
    """The next so named script is not executed, and answers so."""
    execute = backend._execute

    def once(call: Call[Any]) -> Any:
        if call.script.name != script:
            return execute(call)
        backend._execute = execute  # type: ignore[method-assign]
        call.sent_at = backend.clock.now()
        return answer

    backend._execute = once  # type: ignore[method-assign]


# Its refreshes.


async def test_all_waiters_of_a_manager_cost_one_command_per_beat(
    locks: LockManager, peer: LockManager, backend: Deaf, crew: Crew
) -> None:
    """However many, on however many names, and whenever each came. Kept by `QueueEntry.schedule`."""
    kept = [await peer.fair_lock(name).acquire() for name in "abcd"]
    for turn in range(20):
        Holder(crew, locks.fair_lock("abcd"[turn % 4]))
        await backend.clock.advance(0.137)
    await backend.clock.advance(2 * BEAT)
    backend.calls.clear()
    await backend.clock.advance(10 * BEAT)
    assert 9 <= len(backend.calls) <= 11, backend.calls
    assert set(backend.calls) == {"refresh"}
    assert len(entries(locks)) == 20
    for lease in kept:
        await lease.release()


async def test_waiters_of_every_kind_share_the_beat(
    locks: LockManager, peer: LockManager, backend: Deaf, crew: Crew
) -> None:
    held = [locks.fair_lock("a"), locks.rw_lock("a").write, locks.semaphore("a", 1)]
    kept = [
        await peer.fair_lock("a").acquire(),
        await peer.rw_lock("a").write.acquire(),
        await peer.semaphore("a", 1).acquire(),
    ]
    for lock in held:
        await queue_up(crew, lock, 2, backend)
    backend.calls.clear()
    await backend.clock.advance(3 * BEAT)
    assert 2 <= backend.calls.count("refresh") <= 4
    assert 2 <= backend.calls.count("acquire") <= 4
    assert set(backend.calls) == {"refresh", "acquire"}
    for lease in kept:
        await lease.release()


async def test_a_ttl_shorter_than_the_liveness_sets_the_pace(
    locks: LockManager, peer: LockManager, backend: Deaf, crew: Crew
) -> None:
    """A grant lasts no longer, and must be found in time. Kept by QueueEntry.schedule: `min(liveness, ttl)`."""
    lease = await peer.fair_lock("a").acquire()
    (waiter,) = await queue_up(crew, locks.fair_lock("a", ttl=0.6), 1, backend)
    backend.calls.clear()
    await backend.clock.advance(0.21 * 5)
    assert 4 <= backend.calls.count("refresh") <= 7
    await lease.release()
    await settle(backend)
    assert waiter.entered.done()
    await backend.clock.advance(3.0)
    assert not waiter.entered.result().lost
    await waiter.end()


async def test_a_waiter_that_keeps_to_the_beat_keeps_its_place(
    locks: LockManager, peer: LockManager, backend: Deaf, crew: Crew
) -> None:
    lease = await peer.fair_lock("a").acquire()
    mine, others = await queue_up(crew, locks.fair_lock("a"), 1, backend), []
    others = await queue_up(crew, peer.fair_lock("a"), 1, backend)
    before = queue_numbers(backend)
    await backend.clock.advance(100)
    assert queue_numbers(backend) == before
    await lease.release()
    await settle(backend)
    assert inside(mine + others) == [True, False]
    for holder in mine + others:
        await holder.end()


# Its grant.


async def test_a_handoff_is_one_script_and_one_message(
    locks: LockManager, peer: LockManager, backend: Deaf, peer_backend: MemoryBackend, crew: Crew
) -> None:
    """However many wait: no time passes, and only the one that releases and the one that enters send anything."""
    lease = await peer.fair_lock("a").acquire()
    holders = await queue_up(crew, locks.fair_lock("a"), 20, backend)
    backend.calls.clear()
    peer_backend.calls.clear()
    await lease.release()
    await settle(backend)
    assert inside(holders) == [True] + [False] * 19
    assert peer_backend.calls == ["release"]
    assert backend.calls == ["acquire"]
    for i, holder in enumerate(holders):
        assert inside(holders) == [True] * (i + 1) + [False] * (19 - i)
        await holder.end()
        await settle(backend)
    assert backend.calls == ["acquire", *["transfer"] * 19, "release"]


async def test_a_lost_message_is_compensated_by_the_next_refresh(
    locks: LockManager, peer: LockManager, backend: Deaf, crew: Crew
) -> None:
    """H6. Kept by `QueueEntry.judged`."""
    lease = await peer.fair_lock("a").acquire()
    (waiter,) = await queue_up(crew, locks.fair_lock("a"), 1, backend)
    backend.deaf = True
    await lease.release()
    await settle(backend)
    assert not waiter.entered.done()
    await backend.clock.advance(1.1 * BEAT)
    entered = waiter.entered.result()
    assert entered.fence > lease.fence
    assert not entered.abandoned
    assert entered.remaining() == pytest.approx(TTL - MARGIN, abs=0.2)
    assert backend.calls[-2:] == ["refresh", "acquire"]
    await waiter.end()


async def test_the_first_in_line_of_a_process_speaks_for_it(
    locks: LockManager, peer: LockManager, backend: Deaf, crew: Crew
) -> None:
    """Its refresh is told of its grant, if the message was lost. Kept by LocalQueue.enter: `pass_others`."""
    lease = await peer.fair_lock("a").acquire()
    (later,) = await queue_up(crew, locks.fair_lock("a"), 1, backend)
    (first,) = await queue_up(crew, locks.fair_lock("a", priority=1), 1, backend)
    backend.deaf = True
    await lease.release()
    await backend.clock.advance(1.1 * BEAT)
    assert inside([first, later]) == [True, False]
    await first.end()


async def test_its_next_id_has_its_priority(locks: LockManager, peer: LockManager, backend: Deaf, crew: Crew) -> None:
    """Kept by LocalQueue.renew_owner."""
    async with peer.fair_lock("a"):
        await queue_up(crew, locks.fair_lock("a", priority=7), 1, backend)
        (entry,) = runtime_of(locks).queue_entries.values()
        assert isinstance(entry, QueueEntry)
        assert "p7" in entry.owner
        before = entry.owner
        entry.queue.renew_owner(entry)
        assert entry.owner != before
        assert "p7" in entry.owner


@pytest.mark.parametrize(
    "message",
    [
        "admitted {owner} {old} 99 3000 0 1 aiolock:semaphore:{{a}}:state",
        "admitted {owner} {old} 99 30000 0 1 aiolock:semaphore:{{a}}:state",
        "admitted {owner} 1 99 3000 0 1 aiolock:semaphore:{{a}}:state",
        "admitted {manager}:99 {new} 99 3000 0 1 aiolock:semaphore:{{a}}:state",
        "admitted somebody:1 {new} 99 3000 0 1 aiolock:semaphore:{{a}}:state",
        "granted {manager}:99 99 0 aiolock:lock:{{a}}",
        "granted somebody:1 99 0 aiolock:lock:{{a}}",
        "revoked {owner} 99",
        "granted",
        "granted {owner}",
        "hello",
    ],
)
async def test_a_message_that_says_nothing_new_is_ignored(
    locks: LockManager, peer: LockManager, backend: Deaf, crew: Crew, message: str
) -> None:
    """Kept by `QueueEntry.told`, which asks; and by ManagerChannel: unknown owners."""
    lease = await peer.semaphore("a", 1).acquire()
    (waiter,) = await queue_up(crew, locks.semaphore("a", 1), 1, backend)
    (entry,) = entries(locks)
    runtime = runtime_of(locks)
    text = message.format(owner=entry.owner, old=1, new=10**16, manager=runtime.binding.id)
    tell(locks, backend, text)
    await settle(backend)
    assert not waiter.entered.done()
    await lease.release()
    await settle(backend)
    assert waiter.entered.done()
    await waiter.end()


@pytest.mark.parametrize("make", MAKE.values(), ids=MAKE)
async def test_a_second_message_of_one_grant_changes_nothing(
    locks: LockManager, peer: LockManager, backend: Deaf, crew: Crew, make: Make
) -> None:
    """It may come twice, and late: after another task has what it announced. Kept by `QueueEntry.told`."""
    heard: list[str] = []
    backend.store.subscribe(runtime_of(locks).keys.manager(runtime_of(locks).binding.id), heard.append)
    lease = await make(peer).acquire()
    first, second, third = await queue_up(crew, make(locks), 3, backend)
    await lease.release()
    await settle(backend)
    (message,) = heard
    for holder in (first, second):
        fence, depth = holder.entered.result().fence, state(backend, "a").depth
        tell(locks, backend, message)
        await settle(backend)
        assert inside([second, third]) == [holder is second, False]
        assert (holder.entered.result().lost, state(backend, "a").fence, depth) == (False, fence, 1)
        await holder.end()
        await settle(backend)
    assert third.entered.done()
    await third.end()
    await settle(backend)
    tell(locks, backend, message)
    await settle(backend)


@pytest.mark.parametrize("make", MAKE.values(), ids=MAKE)
async def test_a_message_before_the_answer(peer: LockManager, backend: Deaf, crew: Crew, make: Make) -> None:
    """They use two connections in a cluster. The answer says "queued", and is older: it asks again. Kept by
    QueueEntry.told: `TOLD`.
    """
    slow = Overtaking(backend, turns=6)
    async with LockManager(slow) as locks:
        lease = await make(peer).acquire()
        waiter = Holder(crew, make(locks))
        while not waiting(backend, "a"):
            await turns(1)
        lease.release()
        await turns(2)
        assert not waiter.entered.done()
        assert not slow.answered
        await settle(backend)
        assert slow.answered
        assert slow.calls == ["acquire", "acquire"]
        assert waiter.entered.result().remaining() == pytest.approx(TTL - MARGIN)
        assert state(backend, "a").depth == 1
        await waiter.end()


@pytest.mark.parametrize("make", MAKE.values(), ids=MAKE)
async def test_a_message_after_a_revocation_and_before_the_answer(
    peer: LockManager, backend: Deaf, crew: Crew, make: Make
) -> None:
    """What was revoked is an earlier grant. The answer says "queued", so it asks again. Kept by QueueEntry.take."""
    slow = Overtaking(backend, turns=6)
    async with LockManager(slow) as locks:
        lease = await make(peer).acquire()
        waiter = Holder(crew, make(locks))
        while not waiting(backend, "a"):
            await turns(1)
        (owner,) = waiting(backend, "a")
        tell(locks, backend, f"revoked {owner} 1")
        await turns(1)
        lease.release()
        await turns(1)
        assert not slow.answered
        await settle(backend)
        assert slow.calls == ["acquire", "acquire"]
        await waiter.end()


@pytest.mark.parametrize("make", MAKE.values(), ids=MAKE)
async def test_a_server_that_forgot_all_is_told_again_that_the_process_lives(
    locks: LockManager, peer: LockManager, backend: Deaf, crew: Crew, make: Make
) -> None:
    """Although it was told a moment ago. Kept by LocalQueue.ask_anew: `LONG_AGO`."""
    lease = await make(peer).acquire()
    (waiter,) = await queue_up(crew, make(locks), 1, backend)
    backend.store.flush()
    backend.steal("a")
    entries(locks)[0].verify()
    await backend.clock.advance(0)
    assert len(waiting(backend, "a")) == 1
    known = backend.store.hgetall("aiolock:lock:{a}:alive")
    assert list(known) == [runtime_of(locks).binding.id]
    backend.give_back("a")
    await settle(backend)
    await waiter.end()
    with pytest.raises(LockLost):
        await lease.release()


@pytest.mark.parametrize("make", MAKE.values(), ids=MAKE)
@pytest.mark.parametrize("late", [2.8, 2.99, 3.5, 30.5, 100.0])
async def test_a_grant_that_arrives_past_its_deadline_is_requested(
    locks: LockManager, peer: LockManager, backend: Deaf, crew: Crew, make: Make, late: float
) -> None:
    """The loop stood still while the message was unread: by now another may hold it. No task enters with it.

    The process asks, and gets in: with the same grant, or anew. Kept by QueueEntry.told, which asks.
    """
    lease = await make(peer).acquire()
    first, second = await queue_up(crew, make(locks), 2, backend)
    backend.calls.clear()
    lease.release()
    backend.clock.jump(late)
    await settle(backend)
    assert backend.calls[0] == "acquire"
    if late < LIVENESS:  # the grant was still good on the server: no one was overtaken
        assert inside([first, second]) == [True, False]
    left = [first, second]
    while left:
        (entered,) = [one for one in left if one.entered.done()]
        assert entered.entered.result().remaining() > LIVENESS
        assert state(backend, "a").holder == entered.entered.result()._hold.owner
        left.remove(entered)
        await entered.end()
        await settle(backend)


async def test_a_grant_is_for_the_ttl_before_its_block_begins(
    locks: LockManager, peer: LockManager, backend: Deaf, crew: Crew
) -> None:
    """Until then it is for a moment only, and the lock is nobody's: no block counts on it. Kept by QueueEntry.told."""
    lease = await peer.fair_lock("a").acquire()

    async def work() -> tuple[list[str], float, int]:
        async with locks.fair_lock("a") as mine:
            return list(backend.calls), mine.remaining(), state(backend, "a").depth

    working = crew.start(work())
    await settle(backend)
    await lease.release()
    assert await working == (["acquire", "acquire"], pytest.approx(TTL - MARGIN), 1)


async def test_no_block_begins_while_the_server_is_not_asked(
    locks: LockManager, peer: LockManager, backend: Deaf, crew: Crew
) -> None:
    """Nothing that this process sends gets through: the grant ends, and another has it. Kept by QueueEntry.told."""
    lease = await peer.lock("a").acquire()
    (waiter,) = await queue_up(crew, locks.lock("a"), 1, backend)
    with backend.outage():
        await lease.release()
        await settle(backend)
        assert state(backend, "a").depth == 0
        assert not waiter.entered.done()
        backend.steal("a")
        await settle(backend)
        assert not waiter.entered.done()
    await settle(backend)
    assert not waiter.entered.done()
    backend.give_back("a")
    await backend.clock.advance(LIVENESS)
    assert not waiter.entered.result().lost
    await waiter.end()


@pytest.mark.parametrize("closed", [False, True], ids=["cancelled", "closed"])
@pytest.mark.parametrize("ran", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("make", MAKE.values(), ids=MAKE)
async def test_who_gives_up_while_it_asks_passes_the_lock_on(
    peer: LockManager, backend: Deaf, crew: Crew, make: Make, ran: bool, closed: bool
) -> None:
    """At once, whether the request has run or not. Kept by QueueEntry.end: the release leaves behind the request."""
    slow = SlowBackend(backend, turns=6)
    async with LockManager(slow) as locks:
        lease = await make(peer).acquire()
        waiter = Holder(crew, make(locks))
        await settle(backend)
        behind = Holder(crew, make(peer))
        await settle(backend)
        lease.release()
        (entry,) = entries(locks)
        while entry.state is QUEUED or slow.calls.count("acquire") < 1 + ran:
            await turns(1)
        assert not waiter.entered.done()
        assert state(backend, "a").depth == ran
        if closed:
            await locks.aclose()
        else:
            waiter.task.cancel()
        await settle(backend)
        assert waiter.task.done()
        assert behind.entered.done()
        await behind.end()


@pytest.mark.parametrize("kind", MAKE)
async def test_a_short_ttl_ends_a_grant_that_no_one_takes(
    peer: LockManager, locks: LockManager, backend: Deaf, crew: Crew, kind: str
) -> None:
    """Not after the liveness. Kept by LocalQueue.enter, settle.lua and release_pass.lua: `'~(%d+)$'`."""
    lease = await getattr(peer, kind)("a").acquire()
    (waiter,) = await queue_up(crew, getattr(locks, kind)("a", ttl=0.3), 1, backend)
    with backend.outage():
        await lease.release()
        await settle(backend)
        assert 0 < state(backend, "a").pttl <= 300
    await settle(backend)
    await waiter.end()


async def test_a_short_ttl_counts_though_a_longer_one_waited(
    locks: LockManager, peer: LockManager, backend: Deaf, crew: Crew
) -> None:
    """The place was asked for by a task with another ttl, which has gone. Kept by own.lua."""
    lease = await peer.lock("a").acquire()
    (first,) = await queue_up(crew, locks.lock("a"), 1, backend)
    (second,) = await queue_up(crew, locks.lock("a", ttl=0.5, renew=False), 1, backend)
    first.task.cancel()
    await lease.release()
    await settle(backend)
    assert second.entered.done()
    assert 400 < state(backend, "a").pttl <= 500
    with expect_loss(LossReason.EXPIRED):
        await backend.clock.advance(1.0)
        await second.task


@pytest.mark.parametrize("make", MAKE.values(), ids=MAKE)
async def test_a_fence_rises_though_the_server_forgot_the_last_one(
    locks: LockManager, peer: LockManager, backend: Deaf, crew: Crew, make: Make
) -> None:
    """The name's state is gone, its queue is not, and the server's clock went back: the waiter knew the last fence.
    Kept by own.lua: `known`.
    """
    lease = await make(peer).acquire()
    (waiter,) = await queue_up(crew, make(locks), 1, backend)
    step_wall(backend, -10.0)
    backend.store.delete("aiolock:lock:{a}")
    await settle(backend)
    await backend.clock.advance(2 * BEAT)
    assert waiter.entered.result().fence > lease.fence
    await waiter.end()
    with pytest.raises(LockLost):
        await lease.release()


async def test_a_fixed_lease_gets_its_ttl_once(
    locks: LockManager, peer: LockManager, backend: Deaf, crew: Crew
) -> None:
    """Not the liveness, and no more after that. Kept by own.lua."""
    lease = await peer.fair_lock("a").acquire()
    (waiter,) = await queue_up(crew, locks.fair_lock("a", renew=False), 1, backend)
    await lease.release()
    await settle(backend)
    entered = waiter.entered.result()
    assert entered.remaining() == pytest.approx(TTL - MARGIN)
    await backend.clock.advance(TTL - MARGIN - 0.1)
    assert not entered.lost
    await backend.clock.advance(0.2)
    with expect_loss(LossReason.EXPIRED):
        await waiter.task
    assert backend.calls.count("renew") == 0


# What goes wrong.


async def test_a_stalled_waiter_is_passed_over_and_comes_back(
    locks: LockManager, peer: LockManager, backend: Deaf, peer_backend: MemoryBackend, crew: Crew
) -> None:
    """H6: passed over within the liveness, without a pause for those behind it; alive again, it has its place. Kept by
    QueueEntry.rename: its number.
    """
    lease = await peer.fair_lock("a").acquire()
    (stalled,) = await queue_up(crew, locks.fair_lock("a"), 1, backend)
    behind = await queue_up(crew, peer.fair_lock("a"), 2, backend)
    with backend.outage():
        await backend.clock.advance(LIVENESS + 0.1)
        await lease.release()
        await settle(backend)
        assert inside(behind) == [True, False]
        assert not any(owner.startswith(runtime_of(locks).binding.id) for owner in queue_numbers(backend))
    await settle(backend)
    assert [owner.partition(":")[0] for owner in queue_numbers(backend)] == [
        runtime_of(locks).binding.id,
        runtime_of(peer).binding.id,
    ]
    for holder in (behind[0], stalled, behind[1]):
        await settle(backend)
        assert holder.entered.done()
        await holder.end()


async def test_after_a_lost_queue_every_waiter_has_its_place_again(
    locks: LockManager, peer: LockManager, backend: Deaf, crew: Crew
) -> None:
    """One refresh is enough for all of a process, so its answer is about one: all must ask.

    Kept by LocalQueue.ask_anew.
    """
    lease = await peer.fair_lock("a").acquire()
    mine = await queue_up(crew, locks.fair_lock("a"), 6, backend)
    theirs = await queue_up(crew, peer.fair_lock("a"), 2, backend)
    before = list(queue_numbers(backend).values())
    backend.store.delete("aiolock:lock:{a}:queue")
    await backend.clock.advance(0.01)
    late = await queue_up(crew, peer.fair_lock("a"), 2, backend)
    backend.calls.clear()
    await backend.clock.advance(2 * BEAT)
    assert list(queue_numbers(backend).values())[:8] == before
    assert backend.calls.count("acquire") == 6
    await lease.release()
    await settle(backend)
    for count, holder in enumerate((*mine, *theirs, *late)):
        assert inside([*mine, *theirs, *late]).count(True) == count + 1
        await holder.end()
        await settle(backend)


async def test_more_than_a_script_sees_that_do_not_hear(peer: LockManager, backend: Deaf, crew: Crew) -> None:
    """They neither lock out those behind them nor make them spin; their process has its places again when it is back.

    Kept by crowd.lua, and settle.lua: `disperse`.
    """
    there = MemoryBackend(backend)
    async with LockManager(there, liveness=60.0, recheck=60.0) as away:
        lease = await peer.fair_lock("a").acquire()
        many = [Holder(crew, away.fair_lock("a")) for _ in range(1200)]
        await settle(backend)
        assert len(queue_numbers(backend)) == 1200
        (behind,) = await queue_up(crew, peer.fair_lock("a"), 1, backend)
        before = list(queue_numbers(backend).values())
        channel = runtime_of(away).keys.manager(runtime_of(away).binding.id)
        numsub = backend.store.numsub
        backend.store.numsub = lambda to: 0 if to == channel else numsub(to)  # type: ignore[method-assign]
        backend.calls.clear()
        await lease.release()
        await settle(backend)
        assert behind.entered.done()  # the clock stands still
        backend.store.numsub = numsub  # type: ignore[method-assign]
        there._wakes[channel](None)  # subscribed again
        await settle(backend)
        assert list(queue_numbers(backend).values()) == before[:-1]
        await behind.end()
        await settle(backend)
        for holder in many:
            holder.task.cancel()
        await settle(backend)


async def test_a_process_that_was_not_reached_keeps_its_place(
    locks: LockManager, peer: LockManager, backend: Deaf, crew: Crew
) -> None:
    """It reconnects: no one heard the message, so the next one is granted at once. Kept by settle.lua: `at`."""
    lease = await peer.fair_lock("a").acquire()
    (away,) = await queue_up(crew, locks.fair_lock("a"), 1, backend)
    behind = await queue_up(crew, peer.fair_lock("a"), 2, backend)
    before = queue_numbers(backend)
    channel = runtime_of(locks).keys.manager(runtime_of(locks).binding.id)
    numsub = backend.store.numsub
    backend.store.numsub = lambda to: 0 if to == channel else numsub(to)  # type: ignore[method-assign]
    await lease.release()
    await settle(backend)
    assert inside([away, *behind]) == [False, True, False]
    assert next(iter(queue_numbers(backend).items())) == next(iter(before.items()))
    backend.store.numsub = numsub  # type: ignore[method-assign]
    await behind[0].end()
    await settle(backend)
    assert inside([away, behind[1]]) == [True, False]
    await away.end()
    await settle(backend)
    await behind[1].end()


async def test_a_message_that_was_not_counted_is_no_grant(peer: LockManager, backend: Deaf, crew: Crew) -> None:
    """On a cluster every node passes messages on, and a script counts only who listens on its own. The one that it
    passed over keeps its place. Kept by QueueEntry.told, which asks.
    """
    here = MemoryBackend(backend)
    async with LockManager(here) as locks:
        lease = await peer.fair_lock("a").acquire()
        (away,) = await queue_up(crew, locks.fair_lock("a"), 1, backend)
        (behind,) = await queue_up(crew, peer.fair_lock("a"), 1, backend)
        before = queue_numbers(backend)
        channel = runtime_of(locks).keys.manager(runtime_of(locks).binding.id)
        owner = next(iter(before))
        numsub = backend.store.numsub
        backend.store.numsub = lambda to: 0 if to == channel else numsub(to)  # type: ignore[method-assign]
        await lease.release()
        tell(locks, backend, f"granted {owner} {lease.fence + 1} 0 aiolock:lock:{{a}}")
        await settle(backend)
        assert here.calls[-1:] == ["acquire"]
        assert inside([away, behind]) == [False, True]
        assert next(iter(queue_numbers(backend).items())) == next(iter(before.items()))
        backend.store.numsub = numsub  # type: ignore[method-assign]
        await behind.end()
        await settle(backend)
        assert inside([away]) == [True]
        await away.end()


async def test_a_dead_waiter_is_passed_over_by_the_next(
    locks: LockManager, peer: LockManager, backend: Deaf, crew: Crew
) -> None:
    """The lock is free and no release comes: a refresh grants. Kept by refresh.lua: `settle`."""
    lease = await peer.fair_lock("a").acquire()
    await queue_up(crew, peer.fair_lock("a"), 1, backend)
    (behind,) = await queue_up(crew, locks.fair_lock("a"), 1, backend)
    peer_backend = runtime_of(peer).backend
    assert isinstance(peer_backend, MemoryBackend)
    with peer_backend.outage():  # holder and waiter of the other process are gone
        await backend.clock.advance(TTL + 0.1)
        assert lease.lost
        await backend.clock.advance(LIVENESS + 2 * BEAT)
        assert behind.entered.done()
        assert behind.entered.result().abandoned
        await behind.end()
    with expect_loss(LossReason.UNREACHABLE):
        await lease.release()


async def test_a_waiter_survives_an_outage(locks: LockManager, peer: LockManager, backend: Deaf, crew: Crew) -> None:
    lease = await peer.fair_lock("a").acquire()
    waiters = await queue_up(crew, locks.fair_lock("a"), 3, backend)
    order = list(queue_numbers(backend))
    with backend.outage():
        await backend.clock.advance(20.0)
    await settle(backend)
    assert list(queue_numbers(backend)) == order
    await lease.release()
    for i, waiter in enumerate(waiters):
        await settle(backend)
        assert inside(waiters) == [True] * (i + 1) + [False] * (2 - i)
        await waiter.end()


async def test_a_new_connection_refreshes_at_once(
    locks: LockManager, peer: LockManager, backend: Deaf, crew: Crew
) -> None:
    """A grant may have been announced meanwhile. Kept by Lifecycle._verify and ManagerChannel.on_message(None),
    each.
    """
    lease = await peer.fair_lock("a").acquire()
    (waiter,) = await queue_up(crew, locks.fair_lock("a"), 1, backend)
    with backend.outage():
        backend.deaf = True
        await lease.release()
        await settle(backend)
        backend.deaf = False
    assert not waiter.entered.done()
    await settle(backend)
    assert waiter.entered.done()
    await waiter.end()


async def test_a_timeout_that_passes_in_an_outage_is_kept(
    locks: LockManager, peer: LockManager, backend: Deaf, crew: Crew
) -> None:
    lease = await peer.fair_lock("a").acquire()
    (waiter,) = await queue_up(crew, locks.fair_lock("a"), 1, backend, timeout=4.0)
    with backend.outage():
        await backend.clock.advance(4.1)
        with pytest.raises(AcquireTimeout, match="number 1 in the queue"):
            await waiter.task
    await settle(backend)
    assert queue_numbers(backend) == {}
    await lease.release()


async def test_closing_while_queued_leaves_the_queue(peer: LockManager, backend: Deaf, crew: Crew) -> None:
    lease = await peer.fair_lock("a").acquire()
    async with LockManager(MemoryBackend(backend)) as locks:
        waiters = await queue_up(crew, locks.fair_lock("a"), 3, backend)
        assert len(queue_numbers(backend)) == 3
    for waiter in waiters:
        with pytest.raises(NotAcquired, match="closed"):
            await waiter.task
    assert queue_numbers(backend) == {}
    assert runtime_of(locks).queue_entries == {}
    await lease.release()
    async with peer.fair_lock("a").acquire(timeout=0):
        pass


@pytest.mark.parametrize("lost", ["request", "reply"])
@pytest.mark.parametrize("script", ["acquire", "refresh", "renew", "release", "undo"])
async def test_a_connection_that_dies_at_any_script(
    locks: LockManager, peer: LockManager, backend: Deaf, crew: Crew, script: str, lost: Any
) -> None:
    """Invariant 4: order is kept, every task gets in, nothing is left."""
    lease = await peer.fair_lock("a").acquire()
    if script == "acquire":
        backend.fail_next(lost)
    (first,) = await queue_up(crew, locks.fair_lock("a"), 1, backend)
    (second,) = await queue_up(crew, peer.fair_lock("a"), 1, backend)
    if script == "refresh":
        backend.fail_next(lost)
        await backend.clock.advance(2 * BEAT)
    assert list(queue_numbers(backend).values()) == sorted(queue_numbers(backend).values())
    assert len(queue_numbers(backend)) == 2
    if script == "undo":
        backend.fail_next(lost)
        first.task.cancel()
        await backend.clock.advance(0.1)
        assert len(queue_numbers(backend)) == 1
    if script == "renew":
        backend.fail_next(lost)
    await lease.release()
    await backend.clock.advance(1.5 * BEAT)
    if script != "undo":
        assert inside([first, second]) == [True, False]
        assert first.entered.result().remaining() > LIVENESS
        if script == "release":
            backend.fail_next(lost)
        await first.end()
        await backend.clock.advance(0.5)
    assert second.entered.done()
    await second.end()


@pytest.mark.parametrize("lost", ["request", "reply"])
async def test_a_refresh_that_died_is_remembered_when_the_owner_ends(
    locks: LockManager, peer: LockManager, backend: Deaf, crew: Crew, lost: Any
) -> None:
    """It may still reach the server, and queue or hold for no one. Kept by `QueueEntry.unknown`: a tombstone."""
    lease = await peer.fair_lock("a").acquire()
    (waiter,) = await queue_up(crew, locks.fair_lock("a"), 1, backend)
    backend.fail_next(lost)
    await backend.clock.advance(1.1 * BEAT)
    owner = entries(locks)[0].owner
    await lease.release()
    await settle(backend)
    await waiter.end()
    assert backend.store.exists(f"aiolock:lock:{{a}}:dead:{owner}")


async def test_a_refresh_that_dies_after_its_own_grant_is_remembered_too(
    locks: LockManager, peer: LockManager, backend: Deaf, crew: Crew
) -> None:
    """The message overtook its answer. Kept by `QueueEntry.unknown`."""
    lease = await peer.fair_lock("a").acquire()
    (waiter,) = await queue_up(crew, locks.fair_lock("a"), 1, backend)
    (entry,) = entries(locks)
    await lease.release()
    await settle(backend)
    assert waiter.entered.done()
    entry.unknown(BackendError("", "the connection died", transient=True))
    await waiter.end()
    assert backend.store.exists(f"aiolock:lock:{{a}}:dead:{entry.owner}")


async def test_a_flush_while_queued(locks: LockManager, peer: LockManager, backend: Deaf, crew: Crew) -> None:
    """Every waiter comes back by itself; the holder finds out, and the waiters enter one after the other."""
    holder = Holder(crew, peer.fair_lock("a", ttl=6.0))
    await holder.entered
    waiters = await queue_up(crew, locks.fair_lock("a"), 3, backend)
    fence = holder.entered.result().fence
    backend.flush()
    await backend.clock.advance(1.1 * BEAT)
    assert inside(waiters).count(True) == 1
    await backend.clock.advance(2.0)
    with expect_loss(LossReason.TAKEN_OVER):
        await holder.task
    left = list(waiters)
    while left:
        (entered,) = [waiter for waiter in left if waiter.entered.done()]
        assert entered.entered.result().fence > fence
        fence = entered.entered.result().fence
        left.remove(entered)
        await entered.end()
        await settle(backend)


async def test_a_forced_release_grants_to_the_next(
    locks: LockManager, peer: LockManager, backend: Deaf, crew: Crew
) -> None:
    holder = Holder(crew, peer.fair_lock("a"))
    await holder.entered
    waiters = await queue_up(crew, locks.fair_lock("a"), 2, backend)
    assert await locks.fair_lock("a").force_release()
    await settle(backend)
    assert inside(waiters) == [True, False]
    assert waiters[0].entered.result().abandoned
    with expect_loss(LossReason.REVOKED):
        await holder.task
    for waiter in waiters:
        await waiter.end()
        await settle(backend)
    assert not waiters[1].entered.result().abandoned


async def test_waiters_are_told_if_a_key_becomes_another_type(
    locks: LockManager, peer: LockManager, backend: Deaf, crew: Crew
) -> None:
    """And no one else: others' entries in the same request are kept. Kept by refresh.lua's `pcall`."""
    kept = [await peer.fair_lock(name).acquire() for name in "ab"]
    (bad,) = await queue_up(crew, locks.fair_lock("a"), 1, backend)
    (good,) = await queue_up(crew, locks.fair_lock("b"), 1, backend)
    key = "aiolock:lock:{a}:queue"
    backend.store.delete(key)
    backend.store.set(key, "mine", 10**9)
    await backend.clock.advance(LIVENESS + BEAT)
    with pytest.raises(BackendError, match="another type"):
        await bad.task
    await backend.clock.advance(2 * LIVENESS)
    assert len(queue_numbers(backend, "b")) == 1
    assert not good.task.done()
    backend.store.delete(key)
    for lease in kept:
        await lease.release()
    await settle(backend)
    await good.end()
