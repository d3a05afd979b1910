"""An entry in a queue that the server keeps: its refreshes, its grant, and what goes wrong with either."""

from __future__ import annotations

from typing import Any

import pytest

from aiolock import AcquireTimeout, BackendError, LockManager, LossReason, NotAcquired
from aiolock.core.queue_entry import QueueEntry
from aiolock.scripts.queue.state import FIRST
from aiolock.testing import MemoryBackend

from .world import MARGIN, TTL, Crew, Holder, expect_loss, runtime_of, settle

LIVENESS = 3.0
BEAT = LIVENESS / 3


class Deaf(MemoryBackend):
    """Loses what is published while `deaf`."""

    deaf = False

    def count_nobody(self) -> None:
        """From now on no script sees who listens, as in a cluster, or where `PUBSUB NUMSUB` is denied."""
        self.store.numsub = lambda channel: 0  # type: ignore[method-assign]

    def _deliver(self, channel: str, payload: str) -> None:
        if not self.deaf:
            super()._deliver(channel, payload)


@pytest.fixture
def backend() -> Deaf:
    return Deaf()


async def queue_up(crew: Crew, lock: Any, count: int, backend: MemoryBackend, **options: Any) -> list[Holder]:
    """So many tasks, each behind the one before."""
    holders = []
    for _ in range(count):
        holders.append(Holder(crew, lock, **options))
        await settle(backend)
    return holders


def inside(holders: list[Holder]) -> list[bool]:
    """Who has entered."""
    return [holder.entered.done() for holder in holders]


def entries(manager: LockManager) -> list[QueueEntry]:
    """The entries of a manager, in no order."""
    return list(runtime_of(manager).queue_entries.values())


def queue_numbers(backend: MemoryBackend, name: str = "a", kind: str = "fair") -> dict[str, int]:
    """The server's queue: owner -> queue number."""
    key = f"aiolock:{kind}:{{{name}}}:order"
    return {owner: backend.store.zscore(key, owner) or 0 for owner in backend.store.zrangebyscore(key, FIRST)}


# Its refreshes.


async def test_all_waiters_of_a_manager_cost_one_command_a_beat(
    locks: LockManager, peer: LockManager, backend: Deaf, crew: Crew
) -> None:
    """However many, on however many names, and whenever each came. Kept by `QueueEntry._schedule`."""
    kept = [await peer.fair_lock(name).acquire() for name in "abcd"]
    for turn in range(20):
        Holder(crew, locks.fair_lock("abcd"[turn % 4]))
        await backend.clock.advance(0.137)
    await backend.clock.advance(2 * BEAT)
    backend.calls.clear()
    await backend.clock.advance(10 * BEAT)
    assert 9 <= len(backend.calls) <= 11, backend.calls
    assert set(backend.calls) == {"acquire"}
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
    assert 2 <= len(backend.calls) <= 4
    for lease in kept:
        await lease.release()


async def test_a_ttl_shorter_than_the_liveness_sets_the_pace(
    locks: LockManager, peer: LockManager, backend: Deaf, crew: Crew
) -> None:
    """A grant lasts no longer, and must be found in time. Kept by QueueEntry._schedule: `min(liveness, ttl)`."""
    lease = await peer.fair_lock("a").acquire()
    (waiter,) = await queue_up(crew, locks.fair_lock("a", ttl=0.6), 1, backend)
    backend.calls.clear()
    await backend.clock.advance(0.21 * 5)
    assert 4 <= backend.calls.count("acquire") <= 7
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
    """However many wait: no time passes, and nobody sends anything but the one who releases."""
    lease = await peer.fair_lock("a").acquire()
    holders = await queue_up(crew, locks.fair_lock("a"), 20, backend)
    backend.calls.clear()
    peer_backend.calls.clear()
    await lease.release()
    await settle(backend)
    assert inside(holders) == [True] + [False] * 19
    assert peer_backend.calls == ["release"]
    assert backend.calls == []
    for i, holder in enumerate(holders):
        assert inside(holders) == [True] * (i + 1) + [False] * (19 - i)
        await holder.end()
        await settle(backend)


async def test_a_lost_message_is_made_up_for_by_the_next_refresh(
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
    # The answer to the refresh was no provisional grant: it is renewed in its own time.
    assert entered.remaining() > TTL - MARGIN - 1
    assert "renew" not in backend.calls
    await waiter.end()


@pytest.mark.parametrize(
    "message",
    [
        "granted {owner} {old} 99 3000 0 1",
        "granted {owner} 1 99 3000 0 1",
        "granted {manager}:99 {new} 99 3000 0 1",
        "granted somebody:1 {new} 99 3000 0 1",
        "revoked {owner} 99",
        "granted",
        "granted {owner}",
        "hello",
    ],
)
async def test_a_message_that_says_nothing_new_is_ignored(
    locks: LockManager, peer: LockManager, backend: Deaf, crew: Crew, message: str
) -> None:
    """Kept by `QueueEntry.told`: `serial > self._serial`; and Runtime.on_manager_message: unknown owners."""
    lease = await peer.fair_lock("a").acquire()
    (waiter,) = await queue_up(crew, locks.fair_lock("a"), 1, backend)
    (entry,) = entries(locks)
    runtime = runtime_of(locks)
    text = message.format(owner=entry.owner, old=entry._serial, new=entry._serial + 1, manager=runtime.id)
    runtime.on_manager_message(text)
    await settle(backend)
    assert not waiter.entered.done()
    await lease.release()
    await settle(backend)
    assert waiter.entered.done()
    await waiter.end()


async def test_a_second_message_of_one_grant_changes_nothing(
    locks: LockManager, peer: LockManager, backend: Deaf, crew: Crew
) -> None:
    lease = await peer.fair_lock("a").acquire()
    (waiter,) = await queue_up(crew, locks.fair_lock("a"), 1, backend)
    (entry,) = entries(locks)
    text = f"granted {entry.owner} {entry._serial + 10**9} 99 3000 0 1"
    await lease.release()
    await settle(backend)
    entered = waiter.entered.result()
    runtime_of(locks).on_manager_message(text)
    await settle(backend)
    assert (entered.fence > 99, entered.lost) == (True, False)
    await waiter.end()


@pytest.mark.parametrize("late", [27.5, 30.5, 100.0])
async def test_a_grant_that_comes_past_its_deadline_is_undone(
    locks: LockManager, peer: LockManager, backend: Deaf, crew: Crew, late: float
) -> None:
    """The loop stood still while the message lay there. It asks anew with its old queue number: nobody overtook it.

    Kept by Gate.accepts, and Waiter.queue_number, which an undo leaves as it is.
    """
    lease = await peer.fair_lock("a").acquire()
    first, second = await queue_up(crew, locks.fair_lock("a"), 2, backend)
    before = list(queue_numbers(backend).values())
    lease.release()
    backend.clock.jump(late)
    await settle(backend)
    assert list(queue_numbers(backend).values()) == before[1:]
    assert first.entered.done()
    assert not second.entered.done()
    assert first.entered.result().remaining() > TTL - MARGIN - 1
    await first.end()
    await settle(backend)
    assert second.entered.done()
    await second.end()


async def test_a_grant_is_for_the_whole_ttl(locks: LockManager, peer: LockManager, backend: Deaf, crew: Crew) -> None:
    """It counts from the last "queued". Kept by turn.lua: `heard[channel] > 0`."""
    lease = await peer.fair_lock("a").acquire()
    (waiter,) = await queue_up(crew, locks.fair_lock("a"), 1, backend)
    await backend.clock.advance(10.3 * BEAT)
    await lease.release()
    await settle(backend)
    assert TTL - MARGIN - BEAT <= waiter.entered.result().remaining() <= TTL - MARGIN
    assert set(backend.calls) == {"acquire"}
    backend.clock.jump(TTL - MARGIN - BEAT)  # the block begins with blocking work
    await settle(backend)
    assert not waiter.entered.result().lost
    await waiter.end()


async def test_a_brief_grant_is_renewed_before_its_block_begins(
    locks: LockManager, peer: LockManager, backend: Deaf, crew: Crew
) -> None:
    """Until then it lasts for the liveness. Kept by QueueEntry.told: `runtime.watchdog.renew`, before `granted`."""
    backend.count_nobody()
    lease = await peer.fair_lock("a").acquire()

    async def work() -> list[str]:
        async with locks.fair_lock("a"):
            return list(backend.calls)

    working = crew.start(work())
    await settle(backend)
    await lease.release()
    assert await working == ["acquire", "renew"]


async def test_a_brief_grant_is_renewed_at_once(
    locks: LockManager, peer: LockManager, backend: Deaf, crew: Crew
) -> None:
    """In one round trip. Kept by `_Confirmation.judged`."""
    backend.count_nobody()
    lease = await peer.fair_lock("a").acquire()
    (waiter,) = await queue_up(crew, locks.fair_lock("a"), 1, backend)
    await lease.release()
    await settle(backend)
    assert backend.calls.count("renew") == 1
    assert waiter.entered.result().remaining() == pytest.approx(TTL - MARGIN)
    await backend.clock.advance(3 * TTL)
    assert not waiter.entered.result().lost
    await waiter.end()


@pytest.mark.parametrize("provisional", [False, True])
async def test_a_fixed_lease_is_given_its_ttl_once(
    locks: LockManager, peer: LockManager, backend: Deaf, crew: Crew, provisional: bool
) -> None:
    """Not the liveness, and no more after that. Kept by QueueEntry.told: `renewal` with the whole ttl."""
    if provisional:
        backend.count_nobody()
    lease = await peer.fair_lock("a").acquire()
    (waiter,) = await queue_up(crew, locks.fair_lock("a", renew=False), 1, backend)
    await lease.release()
    await settle(backend)
    entered = waiter.entered.result()
    assert entered.remaining() == pytest.approx(TTL - MARGIN)
    await backend.clock.advance(TTL - MARGIN - 0.1)
    assert not entered.lost
    assert backend.calls.count("renew") == provisional
    await backend.clock.advance(0.2)
    with expect_loss(LossReason.EXPIRED):
        await waiter.task
    assert backend.calls.count("renew") == provisional


@pytest.mark.parametrize(("margin", "least"), [(None, 0.3), (0.1, 0.1)])
async def test_a_brief_grant_whose_renewals_fail_is_lost_before_the_server_ends_it(
    peer: LockManager, backend: Deaf, crew: Crew, margin: float | None, least: float
) -> None:
    """By a tenth of what was granted, or the margin if that is less: a margin of 3 s would leave nothing of 3 s.

    It counts from the last request that was answered "queued". Kept by QueueEntry.told: `min(policy.margin, …)`.
    """
    backend = Deaf(backend)
    backend.count_nobody()
    async with LockManager(backend, margin=margin) as locks:
        lease = await peer.fair_lock("a").acquire()
        (waiter,) = await queue_up(crew, locks.fair_lock("a"), 1, backend)
        lease.release()
        with backend.outage():
            await backend.clock.advance(LIVENESS - least - 0.01)
            entered = waiter.entered.result()
            assert not entered.lost
            await backend.clock.advance(0.02)
            assert entered.lost
            assert backend.store.zrangebyscore("aiolock:fair:{a}:order", 0, backend.clock.wall_us() // 1000) == []
            with expect_loss(LossReason.UNREACHABLE):
                await waiter.task


# What goes wrong.


async def test_a_waiter_that_stalls_is_skipped_and_comes_back_to_its_place(
    locks: LockManager, peer: LockManager, backend: Deaf, peer_backend: MemoryBackend, crew: Crew
) -> None:
    """H6: skipped within the liveness; alive again, its old queue number puts it before those who came later."""
    lease = await peer.fair_lock("a").acquire()
    (stalled,) = await queue_up(crew, locks.fair_lock("a"), 1, backend)
    behind = await queue_up(crew, peer.fair_lock("a"), 2, backend)
    (number,) = [number for owner, number in queue_numbers(backend).items() if owner.startswith(runtime_of(locks).id)]
    with backend.outage():
        await backend.clock.advance(LIVENESS + 0.1)
        await lease.release()
        await settle(backend)
        assert inside(behind) == [True, False]
        assert not any(owner.startswith(runtime_of(locks).id) for owner in queue_numbers(backend))
    await settle(backend)
    mine = {owner: t for owner, t in queue_numbers(backend).items() if owner.startswith(runtime_of(locks).id)}
    assert list(mine.values()) == [number]
    await behind[0].end()
    await settle(backend)
    assert inside([stalled, behind[1]]) == [True, False]
    await stalled.end()
    await settle(backend)
    await behind[1].end()


async def test_a_dead_waiter_is_skipped_by_whoever_waits_behind_it(
    locks: LockManager, peer: LockManager, backend: Deaf, crew: Crew
) -> None:
    """The lock is free and nobody releases anything: a refresh grants. Kept by acquire.lua: `settle(name, owner)`."""
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


async def test_a_waiter_rides_out_an_outage(locks: LockManager, peer: LockManager, backend: Deaf, crew: Crew) -> None:
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
    """A grant may have been told meanwhile. Kept by Lifecycle._verify and Runtime.on_manager_message(None), each."""
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
    """Invariant 4: order is kept, everybody gets in, nothing is left."""
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
    await backend.clock.advance(0.5)
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
    """It may still come to the server, and queue or hold for nobody. Kept by `QueueEntry.unknown`: a tombstone."""
    lease = await peer.fair_lock("a").acquire()
    (waiter,) = await queue_up(crew, locks.fair_lock("a"), 1, backend)
    backend.fail_next(lost)
    await backend.clock.advance(1.1 * BEAT)
    owner = entries(locks)[0].owner
    await lease.release()
    await settle(backend)
    await waiter.end()
    assert backend.store.exists(f"aiolock:fair:{{a}}:dead:{owner}")


async def test_a_refresh_that_dies_behind_its_own_grant_is_remembered_too(
    locks: LockManager, peer: LockManager, backend: Deaf, crew: Crew
) -> None:
    """The message overtook its answer. Kept by `QueueEntry.unknown`."""
    lease = await peer.fair_lock("a").acquire()
    (waiter,) = await queue_up(crew, locks.fair_lock("a"), 1, backend)
    (entry,) = entries(locks)
    runtime = runtime_of(locks)
    runtime.on_manager_message(f"granted {entry.owner} {entry._serial + 1} {lease.fence + 1} 3000 0 1")
    entry.unknown(BackendError("", "the connection died", transient=True))
    assert entry.waiter.tainted
    owner = entry.owner
    await settle(backend)  # the renewal finds that it never was: it asks anew
    assert backend.store.exists(f"aiolock:fair:{{a}}:dead:{owner}")
    assert not waiter.entered.done()
    await lease.release()
    await settle(backend)
    await waiter.end()


async def test_a_flush_while_queued(locks: LockManager, peer: LockManager, backend: Deaf, crew: Crew) -> None:
    """Everybody comes back by itself; who holds finds out, and those who wait enter one after the other."""
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


async def test_a_key_that_becomes_another_type_is_told_to_who_waits(
    locks: LockManager, peer: LockManager, backend: Deaf, crew: Crew
) -> None:
    """And to nobody else: others' entries in the same request are kept. Kept by batch.lua's `pcall`."""
    kept = [await peer.fair_lock(name).acquire() for name in "ab"]
    (bad,) = await queue_up(crew, locks.fair_lock("a"), 1, backend)
    (good,) = await queue_up(crew, locks.fair_lock("b"), 1, backend)
    backend.store.delete("aiolock:fair:{a}:order")
    backend.store.set("aiolock:fair:{a}:order", "mine", 10**9)
    await backend.clock.advance(1.1 * BEAT)
    with pytest.raises(BackendError, match="another type"):
        await bad.task
    await backend.clock.advance(2 * LIVENESS)
    assert len(queue_numbers(backend, "b")) == 1
    assert not good.task.done()
    backend.store.delete("aiolock:fair:{a}:order")
    for lease in kept:
        await lease.release()
    await settle(backend)
    await good.end()
