"""What observers are told: each event once, with what belongs into it, in the order in which things happen."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import fields, replace
from typing import Any

import pytest

from aiolock import (
    AcquireTimeout,
    BackendError,
    Lease,
    LockManager,
    LossReason,
    NotAcquired,
    NotOwned,
    Owner,
    WaitTimeout,
)
from aiolock.errors import Holder as Occupant
from aiolock.events import (
    Abandoned,
    Acquired,
    AcquireFailed,
    Event,
    Lost,
    Passed,
    Ran,
    Refused,
    Released,
    Renewed,
    TimedOut,
    Waiting,
    WokeLate,
)
from aiolock.recipes import once
from aiolock.testing import MemoryBackend

from .world import DEADLINE, MARGIN, TTL, Crew, Holder, SlowBackend, assert_empty, expect_loss, settle, turns

Told = list[Event]


@pytest.fixture
def told() -> Told:
    """The events of this process, in order."""
    return []


@pytest.fixture
async def locks(backend: MemoryBackend, told: Told) -> AsyncIterator[LockManager]:
    """This process, observed."""
    async with LockManager(backend, observer=told.append) as manager:
        yield manager
        await settle(backend)
        assert_empty(manager)


def ended(told: Told) -> Told:
    """All but the beginnings of waits, each of which has a number of its own, and one end with it."""
    begun = [event.wait for event in told if isinstance(event, Waiting)]
    assert len(set(begun)) == len(begun)
    ends = [getattr(event, "wait", 0) for event in told if not isinstance(event, Waiting)]
    assert sorted(filter(None, ends)) == begun
    return [event for event in told if not isinstance(event, Waiting)]


def kinds(told: Told) -> list[str]:
    """Which events there were, but for the beginnings of waits."""
    return [type(event).__name__ for event in told if not isinstance(event, Waiting)]


def facts(event: Event, *but: str) -> dict[str, Any]:
    """What an event says, but for these attributes."""
    return {field.name: getattr(event, field.name) for field in fields(event) if field.name not in ("manager", *but)}


async def test_whose_it_is(backend: MemoryBackend, told: Told) -> None:
    """Kept by Observers.tell."""
    async with LockManager(backend, name="checkout", observer=told.append) as named, named.lock("a"):
        pass
    async with LockManager(MemoryBackend(backend), observer=told.append) as unnamed, unnamed.lock("a"):
        pass
    assert [event.manager for event in told] == ["checkout", "checkout", "", ""]
    assert replace(told[0], manager="billing").manager == "billing"


async def test_a_pair(locks: LockManager, backend: MemoryBackend, told: Told) -> None:
    async with locks.lock("a") as lease:
        await backend.clock.advance(5)
    hold = {"name": "a", "kind": "lock", "fence": lease.fence, "owner": lease.owner._hold.owner}
    taken, given = told
    assert isinstance(taken, Acquired)
    assert facts(taken) == hold | {
        "depth": 1, "waited": 0.0, "requests": 1, "contended": False, "abandoned": False, "wait": 0
    }  # fmt: skip
    assert isinstance(given, Released)
    assert facts(given) == hold | {"depth": 0, "held": 5.0, "handed_on": False, "detached": False}


async def test_levels(locks: LockManager, told: Told, crew: Crew) -> None:
    """A nested acquisition, and one of a child task that was given the owner."""
    lock = locks.lock("a")

    async def share(owner: Owner) -> None:
        async with lock.acquire(owner=owner):
            pass

    async with lock as outer:
        async with lock:
            pass
        await crew.start(share(outer.owner))
    assert kinds(told) == ["Acquired", "Acquired", "Released", "Acquired", "Released", "Released"]
    assert [event.depth for event in told if isinstance(event, Acquired | Released)] == [1, 2, 1, 2, 1, 0]


async def test_an_acquire_by_hand_and_an_idempotent_release(locks: LockManager, told: Told) -> None:
    lease = await locks.lock("a").acquire()
    lease.release()
    await lease.release()
    assert kinds(told) == ["Acquired", "Released"]


async def test_a_handoff_inside_the_process(locks: LockManager, backend: MemoryBackend, told: Told, crew: Crew) -> None:
    first, second = Holder(crew, locks.lock("a")), Holder(crew, locks.lock("a"))
    await settle(backend)
    await backend.clock.advance(2)
    await first.end()
    await second.entered
    assert kinds(told) == ["Acquired", "Released", "Acquired"]
    _, given, taken = ended(told)
    assert isinstance(given, Released)
    assert given.handed_on
    assert isinstance(taken, Acquired)
    assert (taken.waited, taken.requests, taken.contended) == (2.0, 0, True)
    await second.end()


@pytest.mark.parametrize("kind", ["lock", "fair_lock"])
async def test_a_grant_out_of_the_queue(
    locks: LockManager, peer: LockManager, backend: MemoryBackend, told: Told, crew: Crew, kind: str
) -> None:
    """Two answers: the one that queued it, and the one that says that it has the lock."""
    other = Holder(crew, peer.lock("a"))
    await settle(backend)
    holder = Holder(crew, getattr(locks, kind)("a"))
    await backend.clock.advance(0.5)
    await other.end()
    lease = await holder.entered
    await settle(backend)
    assert kinds(told) == ["Granted", "Acquired"]
    granted, taken = ended(told)
    assert facts(granted) == {"name": "a", "kind": "lock", "fence": lease.fence, "owner": lease.owner._hold.owner}
    assert isinstance(taken, Acquired)
    assert (taken.waited, taken.requests, taken.contended) == (0.5, 2, True)
    await holder.end()


async def test_a_quorum(told: Told, crew: Crew) -> None:
    """It has no queue, so a waiter asks again. The answers of all servers together are one."""
    nodes = [MemoryBackend() for _ in range(3)]
    for node in nodes[1:]:
        node.clock = nodes[0].clock
    others = [MemoryBackend(node) for node in nodes]
    async with LockManager.quorum(others) as peer, LockManager.quorum(nodes, observer=told.append) as locks:
        other = Holder(crew, peer.lock("a"))
        await other.entered
        holder = Holder(crew, locks.lock("a"))
        await settle(nodes[0])
        await other.end()
        await nodes[0].clock.advance(1)
        await holder.entered
        asked = nodes[1].calls.count("acquire")  # processes line up on the first one
        await holder.end()
        with expect_loss(LossReason.DELETED):
            async with locks.lock("a"):
                for node in nodes:
                    node.flush()
                await nodes[0].clock.advance(TTL)
    assert kinds(told) == ["Acquired", "Released", "Acquired", "Lost"]
    taken = ended(told)[0]
    assert (facts(taken)["requests"], facts(taken)["contended"]) == (asked, True)


async def test_a_dead_holder(locks: LockManager, backend: MemoryBackend, told: Told, crew: Crew) -> None:
    """Nothing is told by a message, as no one released it."""
    backend.steal("a")
    holder = Holder(crew, locks.lock("a"))
    await settle(backend)
    backend.expire("a")
    await backend.clock.advance(1)
    lease = await holder.entered
    assert kinds(told) == ["Acquired"]
    assert lease.abandoned
    (taken,) = ended(told)
    assert (facts(taken)["abandoned"], facts(taken)["requests"]) == (True, 2)
    await holder.end()


async def test_a_refusal(locks: LockManager, backend: MemoryBackend, told: Told) -> None:
    backend.steal("a")
    async with locks.lock("a").try_acquire() as lease:
        assert lease is None
    (refused,) = told
    assert isinstance(refused, Refused)
    assert facts(refused) == {"name": "a", "kind": "lock", "waited": 0.0, "holder": Occupant("a", "a thief")}


async def test_a_refusal_without_a_request(locks: LockManager, backend: MemoryBackend, told: Told, crew: Crew) -> None:
    """Another task of the process has it."""
    holder = Holder(crew, locks.lock("a"))
    await holder.entered
    asked = len(backend.calls)
    async with locks.lock("a").try_acquire() as lease:
        assert lease is None
    with pytest.raises(AcquireTimeout):
        await locks.lock("a").acquire(timeout=0)
    assert len(backend.calls) == asked
    assert kinds(told) == ["Acquired", "Refused", "TimedOut"]
    assert facts(told[2], "holder") == {"name": "a", "kind": "lock", "waited": 0.0, "requests": 0, "wait": 0}
    await holder.end()


async def test_a_timeout(locks: LockManager, backend: MemoryBackend, told: Told, crew: Crew) -> None:
    backend.steal("a")
    waiting = crew.start(_entered(locks, timeout=1.5))
    await settle(backend)
    await backend.clock.advance(1.5)
    with pytest.raises(AcquireTimeout):
        await waiting
    (event,) = ended(told)
    assert isinstance(event, TimedOut)
    assert facts(event, "requests", "wait") == {
        "name": "a",
        "kind": "lock",
        "waited": 1.5,
        "holder": Occupant("a", "a thief"),
    }
    assert event.requests >= 2


async def _entered(locks: LockManager, timeout: float | None) -> None:
    async with locks.lock("a").acquire(timeout=timeout):
        pass


async def test_a_cancelled_wait(locks: LockManager, backend: MemoryBackend, told: Told, crew: Crew) -> None:
    backend.steal("a")
    waiting = crew.start(_entered(locks, timeout=None))
    await backend.clock.advance(1)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    (event,) = ended(told)
    assert isinstance(event, AcquireFailed)
    assert facts(event, "error", "wait") == {"name": "a", "kind": "lock", "waited": 1.0}
    assert isinstance(event.error, asyncio.CancelledError)


async def test_an_acquire_without_an_answer(locks: LockManager, backend: MemoryBackend, told: Told, crew: Crew) -> None:
    with backend.outage(silent=True):
        attempts = [crew.start(_entered(locks, timeout=None)), crew.start(_tried(locks))]
        await backend.clock.advance(5)
        for attempt in attempts:
            with pytest.raises(BackendError) as caught:
                await attempt
            event = told.pop(0)
            assert isinstance(event, AcquireFailed)
            assert event.error is caught.value
            assert event.waited == 5.0
    assert told == []


async def _tried(locks: LockManager) -> None:
    async with locks.lock("b").try_acquire():
        pass


async def test_an_acquire_that_cannot_be(locks: LockManager, told: Told) -> None:
    """An owner that does not hold it, a name that overlaps with what the task has, and a reader that wants to write."""
    async with locks.lock("a") as lease:
        gone = lease.owner
        with pytest.raises(NotAcquired) as overlapping:
            await locks.multi_lock("a", "b").acquire()
    with pytest.raises(NotOwned):
        await locks.lock("a").acquire(owner=gone)
    rw = locks.rw_lock("c")
    async with rw.read:
        with pytest.raises(NotAcquired) as upgrading:
            await rw.write.acquire()
    assert [caught.value.transient for caught in (overlapping, upgrading)] == [False, False]
    assert kinds(told) == [
        *("Acquired", "AcquireFailed", "Released"), "AcquireFailed", *("Acquired", "AcquireFailed", "Released")
    ]  # fmt: skip


async def test_a_nested_acquire_that_fails(locks: LockManager, backend: MemoryBackend, told: Told) -> None:
    async with locks.lock("a") as lease:
        with backend.outage(silent=True):
            nested = asyncio.ensure_future(locks.lock("a").acquire(owner=lease.owner, timeout=1.0))
            await backend.clock.advance(1)
            with pytest.raises(BackendError):
                await nested
    assert kinds(told) == ["Acquired", "AcquireFailed", "Released"]
    assert facts(told[1])["waited"] == 1.0


async def test_a_renewal(locks: LockManager, backend: MemoryBackend, told: Told) -> None:
    async with locks.lock("a") as lease:
        await backend.clock.advance(TTL / 3)
        renewed = told[-1]
        assert isinstance(renewed, Renewed)
        assert facts(renewed, "headroom", "owner") == {
            "name": "a", "kind": "lock", "fence": lease.fence, "ttl": TTL, "took": 0.0
        }  # fmt: skip
        assert renewed.headroom == pytest.approx(TTL * 2 / 3 - MARGIN)
        with backend.outage():
            await backend.clock.advance(TTL / 2)
        await settle(backend)
        late = told[-1]
        assert isinstance(late, Renewed)
        assert late is not renewed
        assert late.headroom == pytest.approx(TTL / 2 - MARGIN)
        await lease.renew()
        assert facts(told[-1])["headroom"] == pytest.approx(DEADLINE)
    assert kinds(told) == ["Acquired", "Renewed", "Renewed", "Renewed", "Released"]


async def test_a_fixed_lease(locks: LockManager, backend: MemoryBackend, told: Told) -> None:
    """A look at it after a reconnect is no renewal."""
    async with locks.lock("a", renew=False) as lease:
        await backend.clock.advance(1)
        backend.fail_next()
        await locks.lock("b").info()
        await settle(backend)
        assert backend.calls.count("renew") == 1
        assert kinds(told) == ["Acquired"]
        await lease.renew()
        assert kinds(told) == ["Acquired", "Renewed"]


async def test_a_loss(locks: LockManager, backend: MemoryBackend, told: Told) -> None:
    """It is the end of that hold: what comes after it is no release."""
    with expect_loss(LossReason.DELETED):
        async with locks.lock("a") as lease:
            await backend.clock.advance(1)
            backend.flush()
            await backend.clock.advance(TTL)
    assert kinds(told) == ["Acquired", "Lost"]
    lost = told[1]
    assert isinstance(lost, Lost)
    assert facts(lost, "explanation") == {
        "name": "a", "kind": "lock", "fence": lease.fence, "owner": lease.owner._hold.owner,
        "reason": LossReason.DELETED, "held": TTL / 3, "late": 0.0,
    }  # fmt: skip
    assert lost.explanation.startswith("DELETED: the server no longer has its key")


async def test_a_loss_that_is_noticed_late(locks: LockManager, backend: MemoryBackend, told: Told) -> None:
    with expect_loss(LossReason.LOOP_BLOCKED):
        async with locks.lock("a"):
            backend.clock.jump(DEADLINE + 4)
            await asyncio.sleep(10)
    assert kinds(told) == ["Acquired", "Lost", "WokeLate"]
    assert (facts(told[1])["late"], facts(told[1])["held"]) == (4.0, DEADLINE + 4)
    assert isinstance(told[2], WokeLate)
    assert told[2].late > 4.0


async def test_a_loss_that_only_the_release_finds(locks: LockManager, backend: MemoryBackend, told: Told) -> None:
    with expect_loss(LossReason.DELETED):
        async with locks.lock("a"):
            backend.flush()
    assert kinds(told) == ["Acquired", "Released", "Lost"]
    assert facts(told[2])["reason"] is LossReason.DELETED


async def test_what_no_task_has_had_is_not_lost(told: Told, crew: Crew) -> None:
    """A task is cancelled between its grant and its block, and the server forgets the grant meanwhile.

    Kept by Release: `entered`.
    """
    slow = SlowBackend()
    async with LockManager(slow, observer=told.append) as manager:
        waiter = crew.start(_entered(manager, timeout=None))
        while not manager._runtime.holds:
            await turns(1)
        slow.flush()
        waiter.cancel()
        await settle(slow)
    assert kinds(told) == ["AcquireFailed"]


async def test_closing(backend: MemoryBackend, told: Told, crew: Crew) -> None:
    """The end of the manager is told as a loss, and to waiters as an error."""
    async with LockManager(MemoryBackend(backend), observer=told.append) as manager:
        holder, waiter = Holder(crew, manager.lock("a")), crew.start(_entered(manager, timeout=None))
        await settle(backend)
    with expect_loss(LossReason.CLOSED):
        await holder.task
    with pytest.raises(NotAcquired):
        await waiter
    assert kinds(told) == ["Acquired", "Lost", "AcquireFailed"]


async def test_a_task_that_ends_inside_its_block(locks: LockManager, told: Told, crew: Crew) -> None:
    async def enter() -> None:
        await locks.lock("a").acquire().__aenter__()

    await crew.start(enter())
    await asyncio.sleep(0)
    assert kinds(told) == ["Acquired", "Abandoned"]
    assert facts(told[1], "fence", "owner", "held") == {"name": "a", "kind": "lock", "depth": 0, "collected": False}


async def test_a_lease_that_is_collected(locks: LockManager, backend: MemoryBackend, told: Told, crew: Crew) -> None:
    async def acquire() -> None:
        await locks.lock("a").acquire()

    async def forget() -> None:
        await crew.start(acquire())
        await settle(backend)

    with pytest.warns(ResourceWarning, match="unreleased"):
        await forget()
    assert kinds(told) == ["Acquired", "Abandoned"]
    abandoned = told[1]
    assert isinstance(abandoned, Abandoned)
    assert (abandoned.depth, abandoned.collected) == (0, True)


async def test_a_ticket(locks: LockManager, backend: MemoryBackend, peer_backend: MemoryBackend, told: Told) -> None:
    """A detached lease is released here, and acquired where it goes on."""
    elsewhere: Told = []
    async with LockManager(peer_backend, observer=elsewhere.append) as peer:
        async with locks.lock("a") as lease:
            ticket = await lease.detach()
        async with peer.resume(ticket):
            pass
        with pytest.raises(NotOwned):
            await peer.resume(ticket)
        assert kinds(elsewhere) == ["Acquired", "Released", "AcquireFailed"]
        assert facts(elsewhere[0])["requests"] == 1
    assert kinds(told) == ["Acquired", "Renewed", "Released"]
    assert facts(told[2], "owner", "fence") == {
        "name": "a", "kind": "lock", "depth": 0, "held": 0.0, "handed_on": False, "detached": True
    }  # fmt: skip


async def test_a_condition(locks: LockManager, backend: MemoryBackend, told: Told, crew: Crew) -> None:
    """Waiting releases the lock, and acquires it again under a new owner."""
    lock = locks.lock("a")

    async def wait() -> None:
        async with lock:
            await locks.condition(lock).wait()

    waiting = crew.start(wait())
    await settle(backend)
    async with lock:
        await locks.condition(lock).notify()
    await waiting
    assert kinds(told).count("Acquired") == kinds(told).count("Released") == 3
    owners = [event.owner for event in told if isinstance(event, Acquired)]
    assert len(set(owners)) == 3
    assert [event.owner for event in told if isinstance(event, Released)] == owners


@pytest.mark.parametrize(
    ("make", "kind"),
    [
        (lambda locks: locks.rw_lock("a").write, "rw"),
        (lambda locks: locks.rw_lock("a").read, "rw"),
        (lambda locks: locks.semaphore("a", 2), "semaphore"),
        (lambda locks: locks.multi_lock("a", "b"), "multi"),
    ],
)
async def test_other_primitives(locks: LockManager, told: Told, make: Callable[[LockManager], Any], kind: str) -> None:
    async with make(locks) as lease:
        pass
    assert kinds(told) == ["Acquired", "Released"]
    assert {(facts(event)["kind"], facts(event)["name"]) for event in told} == {(kind, lease.name)}


async def test_part_of_a_semaphore(locks: LockManager, told: Told) -> None:
    """It is no release, because the lease goes on."""
    async with locks.semaphore("a", 3).acquire(2) as lease:
        await lease.release(1)
        assert kinds(told) == ["Acquired"]
    assert kinds(told) == ["Acquired", "Released"]


async def test_waking_late(locks: LockManager, backend: MemoryBackend, told: Told) -> None:
    async with locks.lock("a", renew=False):
        backend.clock.jump(7)
        await settle(backend)
    assert kinds(told) == ["Acquired", "WokeLate", "Released"]
    assert facts(told[1])["late"] == pytest.approx(2.0)  # the manager looks for silence after `request_timeout`


# The beginnings of waits.


def begun(told: Told) -> list[tuple[str, str]]:
    """Kind and name of each wait."""
    return [(event.kind, event.name) for event in told if isinstance(event, Waiting)]


@pytest.mark.parametrize("kind", ["lock", "fair_lock", "rw_lock", "semaphore", "multi_lock"])
async def test_waits(locks: LockManager, peer: LockManager, backend: MemoryBackend, told: Told, kind: str) -> None:
    """Told while they last, once each, also of those whose process has asked already. Kept by obtain(): `tell_waiting`,
    and LocalQueue.begin_wait.
    """

    def lock(manager: LockManager) -> Any:
        match kind:
            case "rw_lock":
                return manager.rw_lock("a").write
            case "semaphore":
                return manager.semaphore("a", 1)
            case "multi_lock":
                return manager.multi_lock("a", "b")
        return getattr(manager, kind)("a")

    async def use() -> None:
        async with lock(locks):
            pass

    async with lock(peer):
        tasks = [asyncio.create_task(use()) for _ in range(3)]
        await settle(backend)
        assert len(begun(told)) == len(told) == 3
        await backend.clock.advance(2)
        assert len(told) == 3
        tasks.pop().cancel()
        await settle(backend)
        assert kinds(told) == ["AcquireFailed"]
    await asyncio.gather(*tasks)
    assert kinds(ended(told)).count("Acquired") == 2


@pytest.mark.parametrize("kind", ["lock", "fair_lock"])
async def test_a_wait_that_ends_as_it_begins(
    locks: LockManager, peer: LockManager, backend: MemoryBackend, told: Told, kind: str
) -> None:
    """It has no beginning that comes after its end: a gauge would count it for ever. Kept by LocalQueue._tell_waiting:
    `outcome.done`.
    """

    async def use() -> None:
        async with getattr(locks, kind)("a"):
            pass

    async with getattr(peer, kind)("a"):
        for turns in range(20):
            task = asyncio.create_task(use())
            for _ in range(turns):
                await asyncio.sleep(0)
            task.cancel()
            await settle(backend)
    assert 0 < len(begun(told)) < 20
    assert set(kinds(ended(told))) == {"AcquireFailed"}


async def test_no_wait(locks: LockManager, backend: MemoryBackend, told: Told) -> None:
    """A free lock is got at once, and an attempt does not wait."""
    async with locks.lock("a"):
        pass
    backend.steal("a")
    async with locks.lock("a").try_acquire() as lease:
        assert lease is None
    with pytest.raises(AcquireTimeout):
        await locks.lock("a").acquire(timeout=0)
    assert begun(told) == []


async def test_an_outage_is_a_wait(locks: LockManager, backend: MemoryBackend, told: Told, crew: Crew) -> None:
    """Of a task that waits behind another of its process, whatever that waits for."""
    with backend.outage(silent=True):
        waiting = [crew.start(_entered(locks, timeout=None)) for _ in range(2)]
        await settle(backend)
        assert begun(told) == [("lock", "a")]
    await asyncio.gather(*waiting)
    assert kinds(ended(told)).count("Acquired") == 2


async def test_waits_for_a_latch(locks: LockManager, backend: MemoryBackend, told: Told, crew: Crew) -> None:
    """Kept by Latch.wait: `told_of`."""
    latch = locks.latch("a", 1)
    waiting, late = crew.start(latch.wait()), crew.start(latch.wait(1.0))
    await settle(backend)
    assert begun(told) == [("latch", "a")] * 2
    await backend.clock.advance(1.0)
    with pytest.raises(WaitTimeout):
        await late
    await latch.count_down()
    await waiting
    await latch.wait()  # it is open: no wait
    out, through = ended(told)
    assert isinstance(out, TimedOut)
    assert isinstance(through, Passed)
    assert (out.waited, out.holder, through.kind) == (1.0, None, "latch")


async def test_waits_for_a_condition(locks: LockManager, backend: MemoryBackend, told: Told, crew: Crew) -> None:
    """Then it waits for its lock. Kept by Condition._notified: `told_of`."""
    lock = locks.lock("a")
    changed = locks.condition(lock)

    async def consume() -> None:
        async with lock:
            await changed.wait()

    waiting = crew.start(consume())
    await settle(backend)
    assert begun(told) == [("condition", "a")]
    async with lock:
        await changed.notify()
        await settle(backend)
        assert kinds(told).count("Passed") == 1
    await waiting
    assert begun(ended(told) + told) == [("condition", "a"), ("lock", "a")]


async def test_runs_of_a_job(locks: LockManager, backend: MemoryBackend, told: Told) -> None:
    """Each call once, whatever became of it. Kept by Once._call: `tell_ran`."""
    nightly = once(locks, "nightly", window=60.0, repeat="both")

    async def well(lease: Lease) -> None: ...

    async def badly(lease: Lease) -> None:
        raise ValueError

    async def cut_off(lease: Lease) -> None:
        raise asyncio.CancelledError

    for work, error in ((badly, ValueError), (cut_off, asyncio.CancelledError)):
        with pytest.raises(error):
            await nightly.run(work)
    for _ in range(2):
        await nightly.run(well)
    runs = [(event.kind, event.name, event.ran, event.status) for event in told if isinstance(event, Ran)]
    assert runs == [
        ("once", "nightly", True, "failed"),
        ("once", "nightly", True, "interrupted"),
        ("once", "nightly", True, "succeeded"),
        ("once", "nightly", False, "succeeded"),
    ]
