"""Why an acquisition failed, as data: who has the lock, and why Redis cannot be reached."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from aiolock import AcquireTimeout, BackendError, Holder, LockManager, QuorumError, WaitTimeout
from aiolock.testing import MemoryBackend
from tests.support.locks import change

from .world import Crew, runtime_of, settle

NAME = "order:42"


async def acquire(lock: Any, **options: Any) -> Any:
    return await lock.acquire(**options)


def of(manager: LockManager, metadata: str | None = None, name: str = NAME) -> Holder:
    """A process as it describes itself."""
    return Holder(name, runtime_of(manager).binding.holder, metadata)


async def test_another_task_of_this_process(locks: LockManager, backend: MemoryBackend, crew: Crew) -> None:
    """No server is asked. Kept by Refusal.holder: `hold.home is gate`."""
    lock = locks.lock(NAME, metadata="nightly")
    async with locks.lock("another", metadata="not this one"), lock:
        backend.calls.clear()

        async def others() -> None:
            attempt = lock.try_acquire()
            async with attempt as lease:
                assert lease is None
                assert attempt.holder == of(locks, "nightly")
            with pytest.raises(AcquireTimeout) as caught:
                await lock.acquire(timeout=0)
            assert caught.value.holder == of(locks, "nightly")
            assert caught.value.__cause__ is None

        await crew.start(others())
        assert backend.calls == []


async def test_another_task_that_is_about_to_hold_it(locks: LockManager, backend: MemoryBackend, crew: Crew) -> None:
    """The process is known, and no more. Kept by `obtain_now`: `answered`."""
    first = crew.start(acquire(locks.lock(NAME, metadata="nightly")))
    await asyncio.sleep(0)
    attempt = locks.lock(NAME).try_acquire()
    assert await attempt is None
    assert attempt.holder == of(locks)
    lease = await first
    refused = crew.start(acquire(locks.lock(NAME), timeout=0))
    await asyncio.wait((refused,))
    error = refused.exception()
    assert isinstance(error, AcquireTimeout)
    assert error.holder == of(locks, "nightly")
    await lease.release()


async def test_another_process(locks: LockManager, peer: LockManager, backend: MemoryBackend) -> None:
    """The refusal says it, without another request. Kept by Refusal.holder: `_said`."""
    async with peer.lock(NAME, metadata="two\nlines"):
        backend.calls.clear()
        attempt = locks.lock(NAME).try_acquire()
        assert attempt.holder is None
        assert await attempt is None
        assert attempt.holder == of(peer, "two\nlines")
        assert str(attempt.holder) == f"{runtime_of(peer).binding.holder} two\nlines"
        assert backend.calls == ["acquire"]
    attempt = locks.lock(NAME).try_acquire()
    async with attempt as lease:
        assert lease is not None
        assert attempt.holder is None


async def test_behind_a_task_that_waits_for_another_process(
    locks: LockManager, peer: LockManager, backend: MemoryBackend, crew: Crew
) -> None:
    """The answer to the task before it counts for it, too. Kept by `obtain_now`: `gate.queue.common`."""
    async with peer.lock(NAME, metadata="nightly"):
        waiting = crew.start(acquire(locks.lock(NAME)))
        await settle(backend)
        attempt = locks.lock(NAME).try_acquire()
        assert await attempt is None
        assert attempt.holder == of(peer, "nightly")
        waiting.cancel()
        await settle(backend)


async def test_a_holder_that_said_nothing_of_itself(
    locks: LockManager, peer: LockManager, backend: MemoryBackend
) -> None:
    """It is a holder all the same. Kept by Refusal.holder: `seen.pttl`."""
    async with peer.lock(NAME):
        change(backend, NAME, process="")
        with pytest.raises(AcquireTimeout, match="held by an unnamed holder") as caught:
            await locks.lock(NAME).acquire(timeout=0)
        assert caught.value.holder == Holder(NAME, "")


@pytest.mark.parametrize("overlapping", [False, True])
async def test_an_ancestor(locks: LockManager, crew: Crew, overlapping: bool) -> None:
    """A task that waits for the one that started it. Kept by Refusal._why: `_kin`."""
    held = locks.multi_lock(NAME, "b", metadata="nightly") if overlapping else locks.lock(NAME, metadata="nightly")
    async with held:
        child = crew.start(acquire(locks.lock(NAME), timeout=0))
        await asyncio.wait((child,))
    error = child.exception()
    assert isinstance(error, AcquireTimeout)
    assert error.holder == of(locks, "nightly", held.name)
    assert "a task that started this one" in str(error)


async def test_a_lost_hold_of_this_process_is_not_named(locks: LockManager, backend: MemoryBackend, crew: Crew) -> None:
    """The one that took it is. Kept by Refusal.holder: `hold.reason is None`."""
    lost = await locks.lock(NAME, metadata="lost").acquire()
    backend.steal(NAME)
    await backend.clock.advance(10)
    assert lost.lost
    refused = crew.start(acquire(locks.lock(NAME), timeout=0))
    await asyncio.wait((refused,))
    error = refused.exception()
    assert isinstance(error, AcquireTimeout)
    assert error.holder == Holder(NAME, "a thief")
    lost.release()
    await settle(backend)


# A known outage.


async def test_no_holder_is_known_in_an_outage(locks: LockManager, backend: MemoryBackend, crew: Crew) -> None:
    """So nobody is said to hold it, and it is known at once. Kept by LocalQueue.away."""
    with backend.outage():
        waiting = crew.start(acquire(locks.lock(NAME), timeout=0.5))
        with pytest.raises(BackendError, match=r"got no answer: the server is unreachable") as caught:
            await waiting
    assert isinstance(caught.value.__cause__, BackendError)
    await settle(backend)


async def test_the_holder_from_before_an_outage(
    locks: LockManager, peer: LockManager, backend: MemoryBackend, crew: Crew
) -> None:
    """Both are reported. Kept by Refusal._why: `since`."""
    async with peer.lock(NAME, metadata="nightly"):
        waiting = crew.start(acquire(locks.lock(NAME), timeout=2.0))
        await settle(backend)
        with backend.outage():
            await backend.clock.advance(2.1)
            assert waiting.done()
        error = waiting.exception()
        assert isinstance(error, AcquireTimeout)
        assert error.holder == of(peer, "nightly")
        assert "number 1 in the queue; since then the server is unreachable" in str(error)
        assert isinstance(error.__cause__, BackendError)
        await settle(backend)


@pytest.mark.parametrize(
    "call",
    [
        lambda locks: locks.lock(NAME).acquire(),
        lambda locks: locks.lock(NAME).try_acquire(),
        lambda locks: locks.lock(NAME).info(),
        lambda locks: locks.latch(NAME, 2).wait(),
    ],
)
async def test_an_outage_is_the_cause(locks: LockManager, backend: MemoryBackend, crew: Crew, call: Any) -> None:
    """Kept by Services.unanswered: `unreachable`."""

    async def ask() -> None:
        await call(locks)

    with backend.outage():
        asking = crew.start(ask())
        with pytest.raises(BackendError, match=r"got no answer: the server is unreachable") as caught:
            await asking
    assert caught.value.name == NAME
    assert caught.value.transient
    assert isinstance(caught.value.__cause__, BackendError)
    await settle(backend)


async def test_a_latch_in_an_outage(locks: LockManager, backend: MemoryBackend, crew: Crew) -> None:
    """Kept by Latch._late: `known`."""
    waiting = crew.start(locks.latch(NAME, 2).wait(1.0))
    await settle(backend)
    with backend.outage():
        await backend.clock.advance(1.1)
        with pytest.raises(WaitTimeout, match=r"2 of 2 counts are missing: the server is unreachable") as caught:
            await waiting
    assert isinstance(caught.value.__cause__, BackendError)


async def test_nested_in_an_outage(locks: LockManager, backend: MemoryBackend, crew: Crew) -> None:
    """No other has it: the server was not reached. Kept by `_nest`: `call.away`."""
    async with locks.lock(NAME) as lease:
        with backend.outage():
            nesting = crew.start(acquire(locks.lock(NAME), owner=lease.owner, timeout=0.5))
            with pytest.raises(BackendError, match="the server is unreachable") as caught:
                await nesting
        assert isinstance(caught.value.__cause__, BackendError)
        await settle(backend)


async def test_a_quorum_names_the_outage_of_each_node() -> None:
    """Without a wait, as there is no majority. Kept by QuorumRequest: `request.away`."""
    one = MemoryBackend()
    nodes = [one, *(_another(one) for _ in range(2))]
    async with LockManager.quorum(nodes) as locks:
        with nodes[1].outage(), nodes[2].outage():
            waiting = asyncio.ensure_future(acquire(locks.lock(NAME), timeout=1.0))
            both = r"node 2: the server is unreachable.* node 3: the server is unreachable"
            with pytest.raises(QuorumError, match=both) as caught:
                await waiting
        assert isinstance(caught.value.__cause__, BackendError)
        await settle(one)


def _another(first: MemoryBackend) -> MemoryBackend:
    """Another server, on the same clock."""
    other = MemoryBackend()
    other.clock = first.clock
    return other
