"""`lease.detach()` and `manager.resume()`: a peer on the same store is the other process."""

# ruff: noqa: PT012 - what raises is the whole guarded block

from __future__ import annotations

import asyncio
import gc
from collections.abc import Awaitable, Callable
from dataclasses import replace

import pytest

from aiolock import (
    BackendError,
    ConfigurationError,
    Lease,
    LockLost,
    LockManager,
    LossReason,
    NotAcquired,
    NotOwned,
)
from aiolock.core.holding.ticket import Ticket
from aiolock.scripts.bid import Bid
from aiolock.scripts.keys import Keys
from aiolock.scripts.lock import LockCalls
from aiolock.scripts.outcomes import Finished
from aiolock.testing import MemoryBackend

from .world import (
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
    tombstones,
)

CALLS = LockCalls(Keys("aiolock"), "a", 3_000)
KEY = "aiolock:lock:{a}"


async def ticket_of(manager: LockManager, ttl: float | None = None) -> str:
    """Have a process acquire the lock and detach it."""
    lease = await manager.lock("a").acquire()
    return await lease.detach(ttl)


# Moving.


@pytest.mark.parametrize("what", ["resume", "try_acquire", "acquire"])
async def test_one_answer_is_no_wait(what: str, backend: MemoryBackend) -> None:
    """Breaks if Gate.end_waits ends what asks once: the lock of a ticket would be moved, and lost with it."""
    async with LockManager(MemoryBackend(backend)) as first, LockManager(SlowBackend(backend)) as second:
        ticket = await ticket_of(first) if what == "resume" else ""
        lock = second.lock("a")
        asks: dict[str, Callable[[], Awaitable[Lease | None]]] = {
            "resume": lambda: second.resume(ticket),
            "try_acquire": lock.try_acquire,
            "acquire": lambda: lock.acquire(timeout=0),
        }
        task = asyncio.ensure_future(asks[what]())
        await asyncio.sleep(0)
        assert lock.cancel_waits() == 0
        lease = await task
        assert lease is not None
        await lease.release()


async def test_moves_under_a_higher_fence(locks: LockManager, peer: LockManager, backend: MemoryBackend) -> None:
    lease = await locks.lock("a").acquire()
    owner = lease._hold.owner
    ticket = await lease.detach()
    assert state_of(backend, "a")[:2] == (owner, 1)
    async with peer.resume(ticket) as resumed:
        assert resumed.fence > lease.fence
        assert resumed.depth == 1
        assert not resumed.abandoned
        assert state_of(backend, "a")[:2] == (resumed._hold.owner, 1)
        assert state_of(backend, "a").fence == resumed.fence
        await backend.clock.advance(10 * TTL)  # the other process renews it now
        assert not resumed.lost
    assert lock_keys(backend) == []
    assert not state_of(backend, "a").dirty
    assert tombstones(backend) == []


async def test_the_old_lease_is_over(locks: LockManager, peer: LockManager, backend: MemoryBackend) -> None:
    lease = await locks.lock("a").acquire()
    owner = lease.owner
    ticket = await lease.detach()
    assert lease.released
    assert (lease.depth, lease.remaining()) == (0, 0.0)
    assert repr(lease) == f"<Lease 'a' fence={lease.fence} detached>"
    for use in (lease.ensure, lease.renew, lease.detach):
        with pytest.raises(NotOwned, match="was detached"):
            await use()  # type: ignore[misc]
    with pytest.raises(NotOwned):
        await locks.lock("a").acquire(owner=owner)
    backend.calls.clear()
    await lease.release()
    with pytest.raises(NotOwned):
        await locks.lock("a").release()
    assert backend.calls == []
    assert lock_keys(backend)
    await (await peer.resume(ticket)).release()
    assert not lease.lost


async def test_a_detached_lease_causes_no_warning(locks: LockManager, backend: MemoryBackend) -> None:
    """Kept by Lease.__del__: it has a result. Warnings are errors."""
    ticket = await ticket_of(locks)
    gc.collect()
    await backend.clock.advance(TTL - 1)
    assert lock_keys(backend)
    await (await locks.resume(ticket)).release()


async def test_a_ticket_has_a_whole_ttl(locks: LockManager, backend: MemoryBackend) -> None:
    """Kept by `await self.renew(ttl)`."""
    lease = await locks.lock("a").acquire()
    await backend.clock.advance(TTL / 3 - 1)
    assert state_of(backend, "a").pttl < TTL * 1000
    await lease.detach()
    assert state_of(backend, "a").pttl == TTL * 1000
    await backend.clock.advance(TTL - 1)  # it is not renewed
    assert state_of(backend, "a").pttl == 1000


@pytest.mark.parametrize(("ttl", "left"), [(300.0, 300_000), (1.0, 30_000)])
async def test_a_ticket_may_take_longer(
    ttl: float, left: int, locks: LockManager, peer: LockManager, backend: MemoryBackend
) -> None:
    """And never shorter than the lease's ttl; the next holder has its own."""
    ticket = await ticket_of(locks, ttl)
    assert state_of(backend, "a").pttl == left
    lease = await peer.resume(ticket)
    assert state_of(backend, "a").pttl == TTL * 1000
    await lease.release()


@pytest.mark.parametrize("ttl", [0.0, float("nan"), "long"])
async def test_a_bad_ttl_changes_nothing(ttl: float, locks: LockManager) -> None:
    async with locks.lock("a") as lease:
        with pytest.raises(ConfigurationError, match="ttl of lock 'a'"):
            await lease.detach(ttl)
        lease.ensure()


async def test_a_fixed_lease_moves(locks: LockManager, peer: LockManager, backend: MemoryBackend) -> None:
    lease = await locks.lock("a", renew=False).acquire()
    await backend.clock.advance(20)
    ticket = await lease.detach()
    await backend.clock.advance(20)
    async with peer.resume(ticket, renew=False) as resumed:
        assert resumed.remaining() == pytest.approx(TTL - MARGIN)


async def test_the_old_process_may_end(backend: MemoryBackend, peer: LockManager) -> None:
    async with LockManager(MemoryBackend(backend)) as first:
        ticket = await ticket_of(first)
    async with peer.resume(ticket) as lease:
        assert not lease.lost
        assert await peer.lock("a").is_locked()


async def test_back_and_forth(locks: LockManager, peer: LockManager) -> None:
    """One task of one process, too."""
    fences = []
    async with locks.lock("a") as lease:
        fences.append(lease.fence)
        ticket = await lease.detach()
        async with locks.resume(ticket) as again:
            fences.append(again.fence)
            ticket = await again.detach()
            async with peer.resume(ticket) as third, peer.lock("a") as nested:
                assert nested.fence == third.fence
                fences.append(third.fence)
    assert fences == sorted(set(fences))


async def test_the_resuming_manager_sets_the_options(
    locks: LockManager, peer: LockManager, backend: MemoryBackend
) -> None:
    ticket = await ticket_of(locks)
    with expect_loss(LossReason.MAX_HOLD):
        async with peer.resume(ticket, ttl=60.0, max_hold=100.0, cancel_on_loss=False, metadata="worker 7") as lease:
            assert state_of(backend, "a").pttl == 60_000
            info = await locks.lock("a").info()
            assert info is not None
            assert info.metadata == "worker 7"
            await backend.clock.advance(99)
            assert not lease.lost
            await backend.clock.advance(2)
            assert lease.lost
    assert lock_keys(backend) == []


async def test_info_and_force_release_of_a_detached_one(locks: LockManager, peer: LockManager) -> None:
    lease = await locks.lock("a", metadata="web 3").acquire()
    ticket = await lease.detach()
    info = await peer.lock("a").info()
    assert info is not None
    assert (info.metadata, info.fence, info.depth) == ("web 3", lease.fence, 1)
    assert await peer.lock("a").force_release()
    with pytest.raises(NotOwned, match="the lock is free"):
        await peer.resume(ticket)


async def test_force_release_reaches_the_new_holder(
    locks: LockManager, peer: LockManager, backend: MemoryBackend, crew: Crew
) -> None:
    ticket = await ticket_of(locks)
    with expect_loss(LossReason.REVOKED):
        async with peer.resume(ticket):
            await locks.lock("a").force_release()
            await asyncio.Event().wait()


# The block around it.


async def test_a_block_continues_and_releases_nothing(
    locks: LockManager, peer: LockManager, backend: MemoryBackend
) -> None:
    """Kept by Gate.detach: `_end`, so nothing cancels the block; and by Lease._give_up: it is settled."""
    async with locks.lock("a") as lease:
        ticket = await lease.detach()
        backend.calls.clear()
        await backend.clock.advance(TTL / 2)
        resumed = await peer.resume(ticket)
        await backend.clock.advance(2 * TTL)
        backend.expire("a")
        backend.calls.clear()
    assert backend.calls == []
    with expect_loss(LossReason.DELETED):
        await backend.clock.advance(TTL)
        await resumed.release()


async def test_an_error_of_the_block_passes(locks: LockManager, peer: LockManager) -> None:
    with pytest.raises(KeyError):
        async with locks.lock("a") as lease:
            ticket = await lease.detach()
            raise KeyError
    await (await peer.resume(ticket)).release()


async def test_closing_does_not_wait_for_a_block_that_was_detached(backend: MemoryBackend, peer: LockManager) -> None:
    leave = asyncio.Event()
    first = LockManager(MemoryBackend(backend))
    detached: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    async def work() -> None:
        async with first.lock("a") as lease:
            detached.set_result(await lease.detach())
            await leave.wait()

    async with first:
        task = asyncio.create_task(work())
        ticket = await detached
    assert not task.done()
    leave.set()
    await task
    async with peer.resume(ticket):
        pass


# What cannot be moved.


async def test_a_nested_lease_stays(locks: LockManager, backend: MemoryBackend) -> None:
    async with locks.lock("a") as one:
        async with locks.lock("a") as two:
            backend.calls.clear()
            for lease in (one, two):
                with pytest.raises(ConfigurationError, match="'a' cannot be detached while its owner has 2"):
                    await lease.detach()
            assert backend.calls == []
            assert (one.depth, two.released) == (2, False)
        one.ensure()
        await (await locks.resume(await one.detach())).release()


async def test_a_lease_shared_with_a_child_task_stays(locks: LockManager, crew: Crew) -> None:
    async with locks.lock("a") as lease:
        child = Holder(crew, locks.lock("a"), owner=lease.owner)
        await child.entered
        with pytest.raises(ConfigurationError, match="those of other tasks"):
            await lease.detach()
        await child.end()
        lease.ensure()


async def test_nested_in_the_meantime(crew: Crew) -> None:
    """A task nests while the renewal is on its way. Kept by the second look."""
    backend = SlowBackend()
    async with LockManager(backend) as locks:
        lease = await locks.lock("a").acquire()
        moving = crew_task(lease.detach())
        await asyncio.sleep(0)
        nested = await locks.lock("a").acquire()
        with pytest.raises(ConfigurationError, match="2 acquisitions"):
            await moving
        assert lease.depth == 2
        await nested.release()
        await lease.release()
        assert lock_keys(backend) == []


def crew_task(work: object) -> asyncio.Task[object]:
    return asyncio.ensure_future(work)  # type: ignore[call-overload, no-any-return]


async def test_two_detach_it_at_once() -> None:
    """There is one ticket. Kept by the second look."""
    backend = SlowBackend()
    async with LockManager(backend) as locks:
        lease = await locks.lock("a").acquire()
        one, two = await asyncio.gather(lease.detach(), lease.detach(), return_exceptions=True)
        assert isinstance(one, str)
        assert isinstance(two, NotOwned)
        await (await locks.resume(one)).release()


async def test_released_in_the_meantime() -> None:
    backend = SlowBackend()
    async with LockManager(backend) as locks:
        lease = await locks.lock("a").acquire()
        moving = crew_task(lease.detach())
        await asyncio.sleep(0)
        await lease.release()
        with pytest.raises(NotOwned, match="was released"):
            await moving
        assert lock_keys(backend) == []


async def test_a_lost_lease_is_not_moved(locks: LockManager, backend: MemoryBackend) -> None:
    with expect_loss(LossReason.TAKEN_OVER):
        async with locks.lock("a") as lease:
            backend.steal("a")
            with expect_loss(LossReason.TAKEN_OVER):
                await lease.detach()
    backend.give_back("a")


async def test_a_lease_whose_deadline_passed_on_the_way_is_not_moved() -> None:
    """Kept by the second `ensure()`: the answer is old by the time it is read."""
    backend = SlowBackend()
    async with LockManager(backend) as locks:
        lease = await locks.lock("a", ttl=1.0).acquire()
        moving = crew_task(lease.detach())
        for _ in range(5):
            await asyncio.sleep(0)
        backend.clock.jump(2.0)
        with pytest.raises(LockLost):
            await moving
        with pytest.raises(LockLost):
            await lease.release()


async def test_unreachable_and_still_held(locks: LockManager, peer: LockManager, backend: MemoryBackend) -> None:
    async with locks.lock("a") as lease:
        with backend.outage(), pytest.raises(BackendError) as caught:
            await lease.detach()
        assert caught.value.transient
        await backend.clock.advance(5 * TTL)  # renewed as usual
        lease.ensure(1.0)
        assert lease.depth == 1
        assert await peer.lock("a").try_acquire() is None
        ticket = await lease.detach()
    async with peer.resume(ticket):
        pass


async def test_a_longer_ttl_that_may_have_arrived_stays_in_force(locks: LockManager, backend: MemoryBackend) -> None:
    """Otherwise a release in an outage would be given up while the key lives on."""
    async with locks.lock("a") as lease:
        with backend.outage(), pytest.raises(BackendError):
            await lease.detach(300.0)
        assert lease._hold.ttl_ms == 300_000
    assert lock_keys(backend) == []


# A ticket that is invalid.


async def test_twice(locks: LockManager, peer: LockManager) -> None:
    ticket = await ticket_of(locks)
    async with peer.resume(ticket) as lease:
        for manager in (locks, peer):
            with pytest.raises(
                NotOwned, match="another owner holds the lock, so the ticket was already resumed"
            ) as caught:
                await manager.resume(ticket)
            assert caught.value.name == "a"
        lease.ensure()
    with pytest.raises(NotOwned, match="the lock is free, so it was resumed and released"):
        await peer.resume(ticket)


async def test_two_resume_it_at_once(locks: LockManager, peer: LockManager) -> None:
    ticket = await ticket_of(locks)
    answers = await asyncio.gather(*(m.resume(ticket) for m in (peer, locks, peer)), return_exceptions=True)
    (lease,) = [answer for answer in answers if isinstance(answer, Lease)]
    assert sum(isinstance(answer, NotOwned) for answer in answers) == 2
    await lease.release()


async def test_late(locks: LockManager, peer: LockManager, backend: MemoryBackend) -> None:
    ticket = await ticket_of(locks)
    await backend.clock.advance(TTL)
    with pytest.raises(NotOwned, match="came after its ttl"):
        await peer.resume(ticket)
    async with peer.lock("a") as lease:
        assert lease.abandoned  # what the ticket stood for was never finished
        with pytest.raises(NotOwned, match="came after its ttl"):
            await locks.resume(ticket)
        lease.ensure()


async def test_made_up(locks: LockManager, peer: LockManager, backend: MemoryBackend) -> None:
    """It has the right shape, but no one can guess the owner's 128 random bits."""
    real = Ticket.read(await ticket_of(locks))
    made_up = [replace(real, owner=f"{'0' * 32}:1"), replace(real, fence=real.fence - 1), replace(real, name="b")]
    for ticket in made_up:
        with pytest.raises(NotOwned):
            await peer.resume(ticket.encode())
    assert state_of(backend, "a")[:2] == (real.owner, 1)
    await (await peer.resume(real.encode())).release()


async def test_not_for_this_manager(locks: LockManager, peer: LockManager) -> None:
    """Refused before any request, and the text is never quoted."""
    text = await ticket_of(locks)
    real = Ticket.read(text)
    wrong = [
        replace(real, namespace="shop").encode(),
        replace(real, db=1).encode(),
        replace(real, kind="tea").encode(),
        text[:-9],
        "",
    ]
    for ticket in wrong:
        with pytest.raises(ConfigurationError) as caught:
            peer.resume(ticket)
        assert ticket[:20] not in str(caught.value) or not ticket
    await (await peer.resume(text)).release()


@pytest.mark.parametrize("bad", [{"ttl": 0.0}, {"max_hold": -1.0}, {"metadata": b"x"}])
async def test_a_bad_option_leaves_the_ticket(bad: dict[str, float], locks: LockManager, peer: LockManager) -> None:
    ticket = await ticket_of(locks)
    with pytest.raises(ConfigurationError, match="lock 'a'"):
        peer.resume(ticket, **bad)  # type: ignore[arg-type]
    await (await peer.resume(ticket)).release()


async def test_outside_its_manager(locks: LockManager, backend: MemoryBackend) -> None:
    ticket = await ticket_of(locks)
    other = LockManager(MemoryBackend(backend))
    with pytest.raises(ConfigurationError, match="before its manager was entered"):
        await other.resume(ticket)
    async with other:
        await (await other.resume(ticket)).release()


async def test_never_awaited(locks: LockManager, peer: LockManager) -> None:
    ticket = await ticket_of(locks)
    with pytest.warns(RuntimeWarning, match=r"resume\(\) of lock 'a' was never awaited"):
        peer.resume(ticket)
    lease = await peer.resume(ticket)  # still valid
    assert not lease.lost
    await lease.release()


# Others that want the lock.


async def test_waiters_of_the_old_process_wait_for_the_server(
    locks: LockManager, peer: LockManager, backend: MemoryBackend, crew: Crew
) -> None:
    """Kept by Gate.detach: the slot is free, so the head talks to the server, and is refused."""
    async with locks.lock("a") as lease:
        first, second = Holder(crew, locks.lock("a")), Holder(crew, locks.lock("a"))
        await settle(backend)
        ticket = await lease.detach()
    await settle(backend)
    resumed = await peer.resume(ticket)
    await backend.clock.advance(5 * TTL)
    assert not first.entered.done()
    await resumed.release()
    await settle(backend)
    assert first.entered.done()
    assert not second.entered.done()
    assert first.entered.result().fence > resumed.fence
    await first.end()
    await second.entered
    await second.end()


async def test_waiters_of_the_old_process_continue_when_the_ticket_is_dropped(
    locks: LockManager, backend: MemoryBackend, crew: Crew
) -> None:
    async with locks.lock("a") as lease:
        waiter = Holder(crew, locks.lock("a"))
        await settle(backend)
        await lease.detach()
    await backend.clock.advance(TTL - 1)
    assert not waiter.entered.done()
    await backend.clock.advance(2)
    assert waiter.entered.result().abandoned
    await waiter.end()


async def test_the_task_itself_is_kept_out(locks: LockManager, peer: LockManager) -> None:
    """It holds nothing any more: no reentrancy."""
    async with locks.lock("a") as lease:
        ticket = await lease.detach()
        assert await locks.lock("a").try_acquire() is None
        with pytest.raises(TimeoutError, match="held by"):
            await locks.lock("a").acquire(timeout=0)
    await (await peer.resume(ticket)).release()


async def test_waiters_of_the_new_process_keep_their_order(
    locks: LockManager, peer: LockManager, backend: MemoryBackend, peer_backend: MemoryBackend, crew: Crew
) -> None:
    """The head talked to the server before; now it gets the lock first. Kept by Gate.join."""
    ticket = await ticket_of(locks)
    first, second = Holder(crew, peer.lock("a")), Holder(crew, peer.lock("a"))
    await settle(backend)
    async with peer.resume(ticket):
        await settle(backend)
        peer_backend.calls.clear()
    await settle(backend)
    assert first.entered.done()
    assert not second.entered.done()
    await first.end()
    await second.entered
    await second.end()
    assert peer_backend.calls == ["transfer", "transfer", "release"]


async def test_waiters_of_the_new_process_continue_after_a_loss(
    locks: LockManager, peer: LockManager, backend: MemoryBackend, crew: Crew
) -> None:
    ticket = await ticket_of(locks)
    waiter = Holder(crew, peer.lock("a"))
    await settle(backend)
    with expect_loss(LossReason.REVOKED):
        async with peer.resume(ticket):
            await locks.lock("a").force_release()
            await asyncio.Event().wait()
    await waiter.entered
    await waiter.end()


async def test_a_waiter_behind_a_resumed_lease_survives_an_outage(
    locks: LockManager, peer: LockManager, backend: MemoryBackend, peer_backend: MemoryBackend, crew: Crew
) -> None:
    """The server has answered this process before. Kept by `gate.answered = True`."""
    ticket = await ticket_of(locks)

    async def hold() -> None:
        with expect_loss(LossReason.UNREACHABLE):
            async with peer.resume(ticket):
                await asyncio.Event().wait()

    holding = crew.start(hold())
    await settle(backend)
    waiter = Holder(crew, peer.lock("a"))
    await settle(backend)
    with peer_backend.outage():
        await backend.clock.advance(2 * TTL)
    await backend.clock.advance(5)
    assert holding.done()
    await holding
    assert waiter.entered.done()
    await waiter.end()


async def test_a_release_does_not_hand_the_lock_to_a_resume(backend: MemoryBackend) -> None:
    """A late ticket while a task of the process holds the lock. Kept by LocalQueue.first_queued: `QUEUED`."""
    slow = SlowBackend(backend)
    async with LockManager(MemoryBackend(backend)) as first, LockManager(slow) as second:
        ticket = await ticket_of(first)
        await backend.clock.advance(TTL)
        lease = await second.lock("a").acquire()
        resuming = crew_task(second.resume(ticket))
        await asyncio.sleep(0)
        slow.calls.clear()
        await lease.release()
        with pytest.raises(NotOwned):
            await resuming
        assert "transfer" not in slow.calls[1:]
        assert lock_keys(backend) == []


# Old requests.


async def test_late_requests_of_the_old_owner_hurt_no_one(
    locks: LockManager, peer: LockManager, backend: MemoryBackend
) -> None:
    lease = await locks.lock("a").acquire()
    owner, fence = lease._hold.owner, lease.fence
    async with peer.resume(await lease.detach()) as resumed:
        before = state_of(backend, "a")[:2]
        for call in (
            CALLS.release(owner, 30_000, 0, "clean", False),
            CALLS.release(owner, 30_000, 1, "clean", True),
            CALLS.renew_many([CALLS.renewal(owner, fence, 90_000)]),
            CALLS.acquire(Bid(owner, 90_000, 0, "", 2, fence)),
            CALLS.acquire(Bid(owner, 90_000, 0, "")),
        ):
            backend._execute(call)  # type: ignore[arg-type]
            assert state_of(backend, "a")[:2] == before
            assert state_of(backend, "a").pttl <= 30_000
        await resumed.renew()


async def test_a_tainted_owner_never_comes_back(locks: LockManager, peer: LockManager, backend: MemoryBackend) -> None:
    """A copy of its acquire may still be on its way when the new holder has left. Kept by `Ticket.tainted`."""
    backend.fail_next("reply")
    lease = await locks.lock("a").acquire()
    owner = lease._hold.owner
    async with peer.resume(await lease.detach()):
        assert tombstones(backend) == [f"{KEY}:dead:{owner}"]
    assert backend._execute(CALLS.acquire(Bid(owner, 30_000, 0, ""))) == Finished()
    assert lock_keys(backend) == []


# Faults and cancellation of resume.


@pytest.mark.parametrize("lost", ["request", "reply"])
async def test_resume_over_a_connection_that_dies(
    lost: str, locks: LockManager, peer: LockManager, backend: MemoryBackend, peer_backend: MemoryBackend
) -> None:
    """The request is repeated, and reads its own grant. Kept by `unanswered`."""
    ticket = await ticket_of(locks)
    peer_backend.fail_next(lost)  # type: ignore[arg-type]
    async with peer.resume(ticket) as lease:
        assert state_of(backend, "a")[:2] == (lease._hold.owner, 1)
        assert state_of(backend, "a").fence == lease.fence
    assert lock_keys(backend) == []
    assert len(tombstones(backend)) == 1  # the copy may still come


async def test_resume_in_an_outage(
    locks: LockManager, peer: LockManager, backend: MemoryBackend, peer_backend: MemoryBackend
) -> None:
    """The server never saw it: the ticket is still valid. Kept by `call.withdraw()`."""
    ticket = await ticket_of(locks)
    with peer_backend.outage():
        resuming = crew_task(peer.resume(ticket))
        with pytest.raises(BackendError, match="resuming lock 'a'") as caught:
            await resuming
        assert caught.value.transient
    await settle(backend)
    async with peer.resume(ticket):
        pass


async def test_resume_unanswered_and_given_up(backend: MemoryBackend) -> None:
    """The server saw it, its answer is overdue: undone, even if the connection dies first, and nothing is held."""
    for dies in (False, True):
        slow = SlowBackend(backend, turns=40)
        async with LockManager(MemoryBackend(backend)) as first, LockManager(slow) as second:
            ticket = await ticket_of(first)
            resuming = crew_task(second.resume(ticket))
            for _ in range(60):
                await asyncio.sleep(0)
            assert state_of(backend, "a").manager == runtime_of(second).binding.id
            backend.clock.jump(6.0)
            with pytest.raises(BackendError, match="resuming"):
                await resuming
            if dies:
                slow.die("reply")
            await settle(backend)
            assert lock_keys(backend) == []
            assert bool(tombstones(backend)) is dies
            async with first.lock("a") as lease:
                assert lease.abandoned


@pytest.mark.parametrize("lost", ["request", "reply"])
async def test_resume_given_up_just_before_its_connection_dies(lost: str, backend: MemoryBackend) -> None:
    """Its undo is not written yet, so it must leave a tombstone all the same. Kept by `undo.taint()`."""
    slow = SlowBackend(backend)
    async with LockManager(MemoryBackend(backend)) as first, LockManager(slow) as second:
        ticket = await ticket_of(first)
        resuming = crew_task(second.resume(ticket))
        for _ in range(3):
            await asyncio.sleep(0)
        resuming.cancel()
        await asyncio.sleep(0)
        slow.die(lost)  # type: ignore[arg-type]
        await settle(backend)
        assert resuming.cancelled()
        assert len(tombstones(backend)) == 1
        if lost == "reply":
            assert lock_keys(backend) == []
        else:  # the server never saw it, and is not asked again
            async with first.resume(ticket):
                pass


async def test_a_grant_past_its_own_deadline_is_undone(backend: MemoryBackend) -> None:
    slow = SlowBackend(backend)
    async with LockManager(MemoryBackend(backend)) as first, LockManager(slow) as second:
        ticket = await ticket_of(first)
        resuming = crew_task(second.resume(ticket, ttl=3.0))
        for _ in range(5):
            await asyncio.sleep(0)
        backend.clock.jump(2.8)
        with pytest.raises(NotAcquired, match="resumed too late"):
            await resuming
        await settle(backend)
        assert lock_keys(backend) == []
        async with first.lock("a") as lease:
            assert lease.abandoned


async def test_a_cancelled_resume_frees_the_lock_for_others(backend: MemoryBackend, crew: Crew) -> None:
    """Kept by `undoing = "dirty"`: the work is unfinished, and the next holder is told."""
    slow = SlowBackend(backend)
    async with LockManager(MemoryBackend(backend)) as first, LockManager(slow) as second:
        ticket = await ticket_of(first)
        waiter = asyncio.create_task(first.lock("a").acquire())
        resuming = crew_task(second.resume(ticket))
        for _ in range(4):
            await asyncio.sleep(0)
        resuming.cancel()
        await settle(backend)
        assert resuming.cancelled()
        lease = await waiter
        assert lease.abandoned
        await lease.release()


async def test_resuming_while_the_manager_closes(backend: MemoryBackend) -> None:
    slow = SlowBackend(backend)
    async with LockManager(MemoryBackend(backend)) as first:
        ticket = await ticket_of(first)
        async with LockManager(slow) as second:
            resuming = crew_task(second.resume(ticket))
            await asyncio.sleep(0)
            await asyncio.sleep(0)
        with pytest.raises(NotAcquired, match="its manager was closed"):
            await resuming
        assert lock_keys(backend) == []
