"""A hold: when it is renewed, when it counts as lost, and why."""

from __future__ import annotations

import asyncio
import logging
import math
from typing import Any, TypeVar

import anyio
import pytest

from aiolock import BackendError, LockLost, LockManager, LossReason
from aiolock.core.manager_channel import ManagerChannel
from aiolock.core.waiting.queue_entry import QueueEntry
from aiolock.core.waiting.waiter import Waiter
from aiolock.errors import EXPLAINED
from aiolock.event_log import CALM
from aiolock.scripts.base import Call
from aiolock.testing import MemoryBackend
from tests.support.locks import change

from .world import (
    DEADLINE,
    MARGIN,
    TTL,
    Crew,
    Holder,
    SlowBackend,
    expect_loss,
    lock_keys,
    runtime_of,
    settle,
    state_of,
    turns,
)

R = TypeVar("R")


class Lagging(MemoryBackend):
    """Takes `lag` seconds of virtual time to bring a request, and the same to bring its answer."""

    lag = 0.0

    def post(self, call: Call[Any]) -> None:
        if not self.lag or self._away:
            super().post(call)
            return
        sent = self.clock.now()
        call.writes += 1

        def execute() -> None:
            result = self._execute(call)
            call.sent_at, call.writes = sent, call.writes - 1
            self.clock.call_at(self.clock.now() + self.lag, lambda: self._bring(call, result))

        self.clock.call_at(sent + self.lag, execute)

    def _bring(self, call: Call[R], result: R | BackendError) -> None:
        call.end(result)


async def test_renewed_at_a_third_of_the_ttl(locks: LockManager, backend: MemoryBackend) -> None:
    async with locks.lock("a") as lease:
        for _ in range(20):
            assert lease.remaining() == pytest.approx(DEADLINE)
            await backend.clock.advance(TTL / 3 - 0.01)
            assert lease.remaining() == pytest.approx(DEADLINE - TTL / 3 + 0.01)
            await backend.clock.advance(0.01)
        assert backend.calls == ["acquire", *["renew"] * 20]
    await backend.clock.advance(TTL)
    assert backend.calls[-1] == "release"


async def test_deadline_counts_from_when_the_request_was_written(crew: Crew) -> None:
    """H5, `Hold.extend`: call time of the request + the PTTL in its reply - margin; not the time of the reply."""
    backend = Lagging()
    async with LockManager(backend) as locks:
        backend.lag = 2.0
        task = asyncio.ensure_future(locks.lock("a").acquire())
        await backend.clock.advance(4)
        lease = await task
        assert lease.remaining() == pytest.approx(DEADLINE - 4)
        await backend.clock.advance(TTL / 3 - 4)
        assert lease.remaining() == pytest.approx(DEADLINE - TTL / 3)
        await backend.clock.advance(4)
        assert lease.remaining() == pytest.approx(DEADLINE - 4)
        backend.lag = 0
        await lease.release()


async def test_a_grant_past_its_own_deadline_is_undone_and_repeated(caplog: pytest.LogCaptureFixture) -> None:
    """H5, `admit`: a grant that took longer than it lasts guards nothing."""
    backend = Lagging()
    async with LockManager(backend, ttl=3.0, request_timeout=60) as locks:
        backend.lag = 2.0
        task = asyncio.ensure_future(locks.lock("a").acquire())
        await backend.clock.advance(3.9)
        assert not task.done()
        backend.lag = 0
        await backend.clock.advance(0.1)
        lease = await task
        assert lease.remaining() == pytest.approx(2.7)
        assert backend.calls == ["acquire", "release", "acquire"]
        assert not lease.abandoned
        await lease.release()
    assert "past its own deadline" in caplog.text


async def test_nothing_shortens(locks: LockManager, backend: MemoryBackend) -> None:
    """H5, `_nest`: an owner has one ttl, the largest one requested; a shorter nested one changes nothing."""
    long, short = locks.lock("a", ttl=60), locks.lock("a", ttl=1)
    async with long as lease:
        before = lease.remaining()
        async with short as inner:
            assert inner.remaining() == before
            assert state_of(backend, "a").pttl == 60_000
        assert state_of(backend, "a").pttl == 60_000
        await backend.clock.advance(120)
        assert lease.remaining() == before


async def test_a_longer_nested_ttl_stays(locks: LockManager, backend: MemoryBackend) -> None:
    async with locks.lock("a", ttl=10) as lease:
        async with locks.lock("a", ttl=60):
            pass
        assert lease.remaining() == pytest.approx(59)
        await backend.clock.advance(20)
        assert lease.remaining() == pytest.approx(59)


async def test_unknown_is_repeated_until_it_works(
    locks: LockManager, backend: MemoryBackend, caplog: pytest.LogCaptureFixture
) -> None:
    """`Hold.unknown`: an error is no verdict; with backoff until the deadline."""
    async with locks.lock("a") as lease:
        with backend.outage():
            await backend.clock.advance(DEADLINE - 0.5)
            assert not lease.lost
        await settle(backend)
        assert not lease.lost
        assert lease.remaining() > DEADLINE - 1


async def test_unreachable_at_the_deadline_and_not_before(
    locks: LockManager, backend: MemoryBackend, crew: Crew
) -> None:
    """Invariant 6, `Hold.on_due`: you learn of the loss at the deadline, `margin` before the server lets go."""
    left: list[int] = []

    async def guarded() -> None:
        async with locks.lock("a"):
            try:
                await asyncio.Event().wait()
            finally:
                left.append(state_of(backend, "a").pttl)

    task = crew.start(guarded())
    await settle(backend)
    with backend.outage():
        await backend.clock.advance(DEADLINE - 0.001)
        assert not task.done()
        await backend.clock.advance(0.001)
        with expect_loss(LossReason.UNREACHABLE, "until its deadline: the server is unreachable"):
            await task
    assert left == [MARGIN * 1000]


async def test_it_lives_just_before_the_deadline(locks: LockManager, backend: MemoryBackend) -> None:
    lease = await locks.lock("a", renew=False).acquire()
    await backend.clock.advance(DEADLINE - 0.001)
    assert not lease.lost
    await backend.clock.advance(0.001)
    assert lease.lost
    with pytest.raises(LockLost):
        await lease.release()


async def test_a_fixed_lease_expires(locks: LockManager, backend: MemoryBackend) -> None:
    with expect_loss(LossReason.EXPIRED, "lease.renew()"):
        async with locks.lock("a", renew=False) as lease:
            await backend.clock.advance(DEADLINE - 0.1)
            assert lease.remaining() == pytest.approx(0.1)
            await backend.clock.advance(1)
    assert backend.calls == ["acquire", "release"]


async def test_max_hold(locks: LockManager, backend: MemoryBackend) -> None:
    with expect_loss(LossReason.MAX_HOLD):
        async with locks.lock("a", max_hold=100) as lease:
            await backend.clock.advance(99.9)
            assert not lease.lost
            await backend.clock.advance(1)
    assert lock_keys(backend) == []


async def test_loop_blocked_says_for_how_long(locks: LockManager, backend: MemoryBackend) -> None:
    """`Hold._cause` with `Scheduler.lateness`."""
    with expect_loss(LossReason.LOOP_BLOCKED, "for at least"):
        async with locks.lock("a") as lease:
            backend.clock.jump(31)
            await settle(backend)
    assert 31 - TTL / 3 <= lease._hold.blocked <= 31


async def test_a_blocking_body_is_judged_by_the_clock_at_its_end(locks: LockManager, backend: MemoryBackend) -> None:
    """§6: `Guard.exit` compares the deadline itself (`hold.check()`); a blocking body never sees a timer."""
    with expect_loss(LossReason.LOOP_BLOCKED):
        async with locks.lock("a"):
            backend.clock.jump(DEADLINE)


async def test_a_short_block_loses_nothing(locks: LockManager, backend: MemoryBackend) -> None:
    async with locks.lock("a") as lease:
        backend.clock.jump(DEADLINE - 1)
        await settle(backend)
        assert lease.remaining() == pytest.approx(DEADLINE)


async def test_a_silent_server_is_not_excused_by_being_asked_often() -> None:
    """Breaks if Hold.on_due gives each request of many the time that the first one had for its answer."""
    backend = Lagging()
    async with LockManager(backend, ttl=TTL) as locks:
        lease = await locks.lock("a").acquire()
        backend.lag = TTL
        for _ in range(12):
            lease._hold.verify()
            await backend.clock.advance(TTL / 20)
        backend.clock.jump(TTL)
        await settle(backend)
        assert lease.reason is LossReason.UNREACHABLE
        backend.lag = 0.0
        with pytest.raises(LockLost):
            await lease.release()


@pytest.mark.parametrize("kind", ["lock", "semaphore"])
async def test_a_renewal_without_an_answer_keeps_no_name_for_longer(kind: str) -> None:
    """Breaks if Release._request says only how much of the hold's time ends with it: the server knows of more."""
    backend = Lagging()
    async with LockManager(backend, ttl=TTL) as locks, LockManager(MemoryBackend(backend)) as others:
        made: dict[str, Any] = {
            "lock": lambda of, **options: of.lock("a", **options),
            "semaphore": lambda of, **options: of.semaphore("a", 1, **options),
        }
        lease = await made[kind](locks, hold_at_least=TTL / 2).acquire()
        backend.lag = 1.0
        await backend.clock.advance(TTL / 3 + 1.5)
        released = asyncio.ensure_future(lease.release())
        await backend.clock.advance(2.0)
        await released
        backend.lag = 0.0
        assert await made[kind](others).try_acquire() is None
        await backend.clock.advance(TTL / 6 - 2.4)
        await (await made[kind](others).acquire(timeout=0)).release()


async def test_without_a_margin_an_outage_is_still_an_outage(backend: MemoryBackend) -> None:
    """`Hold._cause`: with margin=0 a loop that is not late at all must not count as blocked."""
    async with LockManager(backend, margin=0) as locks:
        lease = await locks.lock("a").acquire()
        with backend.outage():
            await backend.clock.advance(TTL)
            assert lease.reason is LossReason.UNREACHABLE
        with pytest.raises(LockLost):
            await lease.release()


async def test_deleted(locks: LockManager, backend: MemoryBackend) -> None:
    with expect_loss(LossReason.DELETED):
        async with locks.lock("a"):
            backend.expire("a")
            await backend.clock.advance(TTL / 3)


async def test_taken_over(locks: LockManager, backend: MemoryBackend) -> None:
    with expect_loss(LossReason.TAKEN_OVER):
        async with locks.lock("a") as lease:
            thief = backend.steal("a")
            assert not lease.lost
            await backend.clock.advance(TTL / 3)
    assert thief > lease.fence


async def test_a_fence_that_differs_is_taken_over(locks: LockManager, backend: MemoryBackend) -> None:
    """C2, `renew_one`: `known != fence`; the owner's field alone proves nothing."""
    lease = await locks.lock("a").acquire()
    change(backend, "a", fence=lease.fence + 1)
    await backend.clock.advance(TTL / 3)
    assert lease.reason is LossReason.TAKEN_OVER
    with pytest.raises(LockLost):
        await lease.release()


async def test_revoked_at_once(locks: LockManager, peer: LockManager, backend: MemoryBackend) -> None:
    with expect_loss(LossReason.REVOKED):
        async with locks.lock("a"):
            assert await peer.lock("a").force_release()
            await settle(backend)


async def test_revoked_before_its_task_runs(locks: LockManager, peer: LockManager, backend: MemoryBackend) -> None:
    """The grant and the message come in one read: it asks anew. Kept by admit(): `hold.check()`."""
    runtime = runtime_of(locks)
    waiting = asyncio.create_task(locks.lock("a").acquire())
    while not runtime.queue_entries:  # noqa: ASYNC110 - the task asks when it first runs
        await asyncio.sleep(0)
    (entry,) = runtime.queue_entries.values()
    assert isinstance(entry, QueueEntry | Waiter)
    while entry.owner not in runtime.holds:  # noqa: ASYNC110 - some turns later
        await asyncio.sleep(0)
    before = runtime.holds[entry.owner].fence
    backend._execute(peer.lock("a")._calls.force_release(0))
    ManagerChannel(runtime).on_message(f"revoked {entry.owner} {before}")
    assert not waiting.done()
    lease = await waiting
    assert lease.fence > before
    await lease.renew()
    await lease.release()


async def test_revoked_before_the_answer(locks: LockManager, peer: LockManager, backend: MemoryBackend) -> None:
    """The message is faster than the grant, as on a cluster, where both may come from different nodes: it asks anew.
    Kept by Gate.begin: `revoked`.
    """
    runtime = runtime_of(locks)
    waiting = asyncio.create_task(locks.lock("a").acquire())
    while not runtime.queue_entries:  # noqa: ASYNC110 - the task asks when it first runs
        await asyncio.sleep(0)
    ((owner, entry),) = runtime.queue_entries.items()
    assert isinstance(entry, QueueEntry | Waiter)
    assert not runtime.holds
    before = backend._holders("a", "lock")[owner]
    backend.unsubscribe(runtime.keys.manager(runtime.binding.id))  # it comes once
    backend._execute(peer.lock("a")._calls.force_release(0))
    ManagerChannel(runtime).on_message(f"revoked {owner} {before}")
    lease = await waiting
    assert lease.fence > before
    await lease.renew()
    await lease.release()
    assert not await locks.lock("a").is_locked()


async def test_revoked_before_the_answer_to_a_hand_off(
    locks: LockManager, peer: LockManager, backend: MemoryBackend
) -> None:
    """The same for a task that is handed the lock by another. Kept by Gate.begin: `revoked`."""
    runtime = runtime_of(locks)
    first = await locks.lock("a").acquire()
    waiting = asyncio.create_task(locks.lock("a").acquire())
    await settle(backend)
    released = first.release()
    ((owner, entry),) = runtime.queue_entries.items()
    assert isinstance(entry, QueueEntry | Waiter)
    before = backend._holders("a", "lock")[owner]
    assert before > first.fence
    backend.unsubscribe(runtime.keys.manager(runtime.binding.id))  # it comes once
    backend._execute(peer.lock("a")._calls.force_release(0))
    ManagerChannel(runtime).on_message(f"revoked {owner} {before}")
    lease = await waiting
    assert lease.fence > before
    await lease.renew()
    await released
    await lease.release()
    assert not await locks.lock("a").is_locked()


@pytest.mark.parametrize("answered", [True, False], ids=["before its task runs", "before the answer"])
async def test_wanted_early(locks: LockManager, answered: bool) -> None:
    """The grant and the message come in one read, or the message is faster, as on a cluster. The lease is wanted from
    its beginning. Kept by Gate.begin: `wanted`.
    """
    runtime = runtime_of(locks)
    waiting = asyncio.create_task(locks.lock("a").acquire())
    while not runtime.queue_entries:  # noqa: ASYNC110 - the task asks when it first runs
        await asyncio.sleep(0)
    (entry,) = runtime.queue_entries.values()
    assert isinstance(entry, QueueEntry | Waiter)
    while answered and not runtime.holds:  # noqa: ASYNC110 - some turns later
        await asyncio.sleep(0)
    ManagerChannel(runtime).on_message(f"wanted {entry.owner}")
    ManagerChannel(runtime).on_message("wanted a stranger")
    assert not waiting.done()
    lease = await waiting
    assert lease.wanted
    await lease.wait_wanted()
    await lease.release()
    async with locks.lock("a") as another:
        assert not another.wanted


async def test_another_id_is_not_wanted() -> None:
    """An owner was asked to finish, and is undone before it is a holder: nobody has asked the next one.

    Kept by QueueEntry.rename.
    """
    slow = SlowBackend()
    async with LockManager(slow) as locks:
        runtime = runtime_of(locks)
        waiter = asyncio.create_task(locks.lock("a").acquire())
        await turns(1)
        (owner,) = runtime.queue_entries
        ManagerChannel(runtime).on_message(f"wanted {owner}")
        slow._execute(runtime.gates["lock", "a"].calls.release(owner, 1_000, 0, "clean", True))
        async with await waiter as lease:
            assert lease.owner._hold.owner != owner
            assert not lease.wanted


async def test_a_late_revocation_spares_the_successor(locks: LockManager) -> None:
    """H9, `ManagerChannel.on_message`: owner and fence must both be the hold's."""
    runtime = runtime_of(locks)
    lease = await locks.lock("a").acquire()
    owner, fence = lease._hold.owner, lease.fence
    for message in (f"revoked {owner} {fence - 1}", f"revoked {owner}x {fence}", "revoked", "", f"hm {owner} {fence}"):
        ManagerChannel(runtime).on_message(message)
    ManagerChannel(runtime).on_message(None)
    assert not lease.lost
    ManagerChannel(runtime).on_message(f"revoked {owner} {fence}")
    assert lease.reason is LossReason.REVOKED
    with expect_loss(LossReason.REVOKED):
        await lease.release()


async def test_the_first_loss_counts(locks: LockManager, backend: MemoryBackend) -> None:
    """H5: absorbing once observed."""
    lease = await locks.lock("a").acquire()
    lease._hold.lose(LossReason.DELETED)
    lease._hold.lose(LossReason.TAKEN_OVER)
    await backend.clock.advance(2 * TTL)
    assert lease.reason is LossReason.DELETED
    with pytest.raises(LockLost):
        await lease.release()


async def test_a_renewal_after_the_deadline_revives_nothing(backend: MemoryBackend) -> None:
    """H5, `Hold.judged`: a loss is absorbing, even if the server answers 'renewed' later."""
    backend = Lagging()
    async with LockManager(backend) as locks:
        lease = await locks.lock("a").acquire()
        backend.lag = 9.0
        await backend.clock.advance(DEADLINE)
        backend.lag = 0
        assert lease.reason is None or lease.reason is LossReason.UNREACHABLE
        slow = await locks.lock("b").acquire()
        backend.lag = 12.0
        await backend.clock.advance(DEADLINE)
        assert slow.reason is LossReason.UNREACHABLE
        await backend.clock.advance(TTL)
        assert slow.reason is LossReason.UNREACHABLE
        assert slow.remaining() == 0
        backend.lag = 0
        for one in (lease, slow):
            with pytest.raises(LockLost):
                await one.release()


async def test_a_verdict_on_a_released_hold_is_ignored(locks: LockManager, backend: MemoryBackend) -> None:
    """H10, `Hold.judged`: `self.ended`; a renewal that crosses a release is no loss, and nothing stays scheduled."""
    lease = await locks.lock("a").acquire()
    with backend.outage():
        await backend.clock.advance(TTL / 3)
        settled = lease.release()
    await settled
    await settle(backend)
    assert backend.calls == ["acquire", "renew", "release"]
    assert (lease._hold.reason, lease._hold.due) == (None, math.inf)


async def test_a_flushed_server_is_noticed_on_reconnect(locks: LockManager, backend: MemoryBackend) -> None:
    """§6, `Lifecycle._verify`: after a reconnect every hold is verified at once."""
    renewed, fixed = await locks.lock("a").acquire(), await locks.lock("b", renew=False).acquire()
    with backend.outage():
        backend.flush()
    await settle(backend)
    assert (renewed.reason, fixed.reason) == (LossReason.DELETED, LossReason.DELETED)
    for lease in (renewed, fixed):
        with pytest.raises(LockLost):
            await lease.release()


async def test_a_reconnect_extends_no_fixed_lease(locks: LockManager, backend: MemoryBackend) -> None:
    fixed = await locks.lock("b", renew=False).acquire()
    await backend.clock.advance(10)
    with backend.outage():
        pass
    await settle(backend)
    assert backend.calls == ["acquire", "renew"]
    assert fixed.remaining() == pytest.approx(DEADLINE - 10)
    assert state_of(backend, "b").pttl == 20_000
    await fixed.release()


async def test_after_a_loss_the_key_stays_until_the_body_has_ended(
    locks: LockManager, peer: LockManager, backend: MemoryBackend, crew: Crew
) -> None:
    """Invariant 1 and H4: `Guard.exit` writes the release, `Hold.lose` does not."""
    told, done = asyncio.Event(), asyncio.Event()

    async def slow_to_clean_up() -> None:
        async with locks.lock("a", max_hold=5):
            try:
                await asyncio.Event().wait()
            finally:
                told.set()
                with anyio.CancelScope(shield=True):
                    await done.wait()

    task = crew.start(slow_to_clean_up())
    await settle(backend)
    await backend.clock.advance(5)
    assert told.is_set()
    assert await peer.lock("a").is_locked()
    done.set()
    with expect_loss(LossReason.MAX_HOLD):
        await task
    async with peer.lock("a").acquire(timeout=0) as lease:
        assert lease.abandoned


def test_every_reason_is_explained() -> None:
    assert set(EXPLAINED) == set(LossReason)


@pytest.mark.parametrize("reason", LossReason)
async def test_a_loss_is_logged_once_and_names_no_owner(
    locks: LockManager, backend: MemoryBackend, caplog: pytest.LogCaptureFixture, reason: LossReason
) -> None:
    with caplog.at_level(logging.DEBUG, "aiolock"):
        lease = await locks.lock("a").acquire()
        lease._hold.lose(reason)
        with pytest.raises(LockLost) as caught:
            await lease.release()
    (record,) = [record for record in caplog.records if record.name == "aiolock.hold"]
    assert record.levelno == (logging.WARNING if reason in CALM else logging.ERROR)
    assert vars(record)["lock_name"] == "a"
    assert vars(record)["loss_reason"] == reason.value
    assert caught.value.reason is reason
    assert reason.name in str(caught.value)
    assert runtime_of(locks).binding.id not in caplog.text + str(caught.value)


async def test_wait_lost(locks: LockManager, backend: MemoryBackend, crew: Crew) -> None:
    lease = await locks.lock("a", cancel_on_loss=False).acquire()
    watching = [crew.start(lease.wait_lost()) for _ in range(3)]
    await settle(backend)
    assert not any(task.done() for task in watching)
    watching[0].cancel()
    backend.steal("a")
    await backend.clock.advance(TTL / 3)
    assert [await task for task in watching[1:]] == [LossReason.TAKEN_OVER] * 2
    assert await lease.wait_lost() is LossReason.TAKEN_OVER
    with pytest.raises(LockLost):
        await lease.release()


async def test_the_aggressive_policy_lets_the_body_run_on(locks: LockManager, backend: MemoryBackend) -> None:
    went_on = False
    with expect_loss(LossReason.TAKEN_OVER):
        async with locks.lock("a", cancel_on_loss=False) as lease:
            backend.steal("a")
            await backend.clock.advance(TTL)
            went_on = lease.lost
    assert went_on


async def test_every_task_that_shares_the_hold_is_cancelled(
    locks: LockManager, backend: MemoryBackend, crew: Crew
) -> None:
    """Review "shared/nested loss": each in its task, the outermost of each task raises."""
    async with locks.lock("b"):
        parent = Holder(crew, locks.lock("a"))
        owner = (await parent.entered).owner
        children = [Holder(crew, locks.lock("a"), owner=owner) for _ in range(2)]
        for child in children:
            await child.entered
        backend.steal("a")
        await backend.clock.advance(TTL / 3)
        for holder in (parent, *children):
            with pytest.raises(LockLost):
                await holder.task
