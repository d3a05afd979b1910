"""Which error a wait ends with: the caller's timeout is one, a server that does not answer is another."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from aiolock import AcquireTimeout, BackendError, LockManager
from aiolock.core.waiting.waiter import Waiter
from aiolock.scripts.outcomes import Refused
from aiolock.testing import MemoryBackend

from .world import Crew, assert_empty, lock_keys, runtime_of, settle

KINDS: dict[str, Callable[[LockManager], Any]] = {
    "lock": lambda manager: manager.lock("a"),
    "fair": lambda manager: manager.fair_lock("a"),
    "write": lambda manager: manager.rw_lock("a").write,
    "read": lambda manager: manager.rw_lock("a").read,
    "semaphore": lambda manager: manager.semaphore("a", 2),
    "multi": lambda manager: manager.multi_lock("a", "b"),
}


@pytest.fixture(params=KINDS)
def lock(locks: LockManager, request: pytest.FixtureRequest) -> Any:
    return KINDS[request.param](locks)


async def acquire(lock: Any, **options: Any) -> Any:
    return await lock.acquire(**options)


async def test_a_timeout_before_the_first_answer(
    locks: LockManager, backend: MemoryBackend, crew: Crew, lock: Any
) -> None:
    """No one is known to have it: it is no `AcquireTimeout`. Kept by `Refusal.error`: `seen is None`."""
    with backend.outage(silent=True):
        task = crew.start(acquire(lock, timeout=0.05))
        await backend.clock.advance(0.06)
        with pytest.raises(BackendError, match=r"got no answer within 0.05 s: is Redis reachable"):
            await task
    await settle(backend)
    assert lock_keys(backend) == []
    assert_empty(locks)


async def test_a_timeout_before_the_first_answer_behind_another_task(
    locks: LockManager, backend: MemoryBackend, crew: Crew
) -> None:
    """A task that waits behind it in this process had no answer either. Kept by `Refusal.error`: `seen is None`."""
    with backend.outage(silent=True):
        tasks = [crew.start(acquire(locks.lock("a"), timeout=timeout)) for timeout in (2.0, 0.5)]
        await backend.clock.advance(2.1)
        for task in tasks:
            with pytest.raises(BackendError, match="got no answer within"):
                await task
    await settle(backend)


async def test_a_timeout_while_a_task_of_this_process_hands_it_on(
    locks: LockManager, backend: MemoryBackend, crew: Crew
) -> None:
    """Another task had it, so that is no outage, though nobody has it at that moment. Kept by Refusal: `answered`."""
    lease = await locks.lock("a").acquire()
    waiting = [crew.start(acquire(locks.lock("a"), timeout=timeout)) for timeout in (0.6, 0.5)]
    await settle(backend)
    with backend.outage(silent=True):
        lease.release()
        await backend.clock.advance(0.55)
        with pytest.raises(AcquireTimeout, match="wanted first by another task of this process"):
            await waiting.pop()
        await backend.clock.advance(0.1)
        with pytest.raises(AcquireTimeout, match="wanted first by another task of this process"):
            await waiting.pop()
    await settle(backend)
    assert lock_keys(backend) == []


async def test_behind_a_task_whose_place_is_behind_another_process(
    backend: MemoryBackend, peer: LockManager, peer_backend: MemoryBackend, crew: Crew
) -> None:
    """No request of its own is on its way, so none is unanswered, however soon the server must answer. Kept by
    `Wait.queued`: `Refused`.
    """
    own = MemoryBackend(backend)
    async with LockManager(own, request_timeout=0.3) as locks:
        lease = await locks.lock("a").acquire()
        there = await asyncio.wait_for(queue(crew, peer, backend), 1.0)
        first = crew.start(acquire(locks.lock("a")))
        await settle(backend)
        lease.release()  # it is the turn of the other process, and the first task gets a place behind that
        await settle(backend)
        assert there.done()
        others = [crew.start(acquire(locks.lock("a"), timeout=timeout)) for timeout in (None, 0.4)]
        attempt = locks.lock("a").try_acquire()
        assert await attempt is None
        assert attempt.holder is not None
        with pytest.raises(AcquireTimeout, match="held by an unnamed holder"):
            await locks.lock("a").acquire(timeout=0)
        await backend.clock.advance(0.5)
        assert not others[0].done()
        with pytest.raises(AcquireTimeout, match=f"held by {runtime_of(peer).binding.holder}"):
            await others[1]
        await (await there).release()
        for one in (first, others[0]):
            await settle(backend)
            await (await one).release()
        await settle(backend)
        assert_empty(locks)


async def queue(crew: Crew, manager: LockManager, backend: MemoryBackend) -> Any:
    """A task that waits."""
    task = crew.start(acquire(manager.lock("a")))
    await settle(backend)
    return task


@pytest.mark.parametrize("kind", ["lock", "multi"])
async def test_one_attempt_while_another_task_asks(
    locks: LockManager, backend: MemoryBackend, crew: Crew, kind: str
) -> None:
    """A task of this process is before it, and it does not wait for that one's answer: nothing says that no server
    gives one, as long as none is known to be away. Kept by `obtain`: `answered`.
    """
    lock = KINDS[kind](locks)
    with backend.outage(silent=True):
        first = crew.start(acquire(lock))
        await asyncio.sleep(0)
        assert await crew.start(attempt(lock)) is None
        with pytest.raises(AcquireTimeout, match="wanted first by another task of this process"):
            await crew.start(acquire(lock, timeout=0))
        assert not first.done()
    await (await first).release()
    await settle(backend)


async def attempt(lock: Any) -> Any:
    return await lock.try_acquire()


async def test_one_attempt_while_a_task_of_this_process_hands_it_on(
    locks: LockManager, backend: MemoryBackend, crew: Crew
) -> None:
    """Nobody has it at that moment, but the next one is about to. Kept by `obtain`: `answered`."""
    lease = await locks.lock("a").acquire()
    heir = crew.start(acquire(locks.lock("a")))
    await settle(backend)
    with backend.outage(silent=True):
        lease.release()
        assert await crew.start(attempt(locks.lock("a"))) is None
        with pytest.raises(AcquireTimeout, match="wanted first by another task of this process"):
            await crew.start(acquire(locks.lock("a"), timeout=0))
        assert not heir.done()
    await (await heir).release()
    await settle(backend)


async def test_attempts_behind_a_task_that_asks_a_server_which_is_away(
    locks: LockManager, backend: MemoryBackend, crew: Crew
) -> None:
    """It is not said that another has it. Kept by `obtain_now`: `refusal.unknown`."""
    with backend.outage():
        first = crew.start(acquire(locks.lock("a")))
        tasks = [crew.start(attempt(locks.lock("a"))) for _ in range(2)]
        for task in (first, *tasks):
            with pytest.raises(BackendError, match="got no answer: the server is unreachable"):
                await task
    await settle(backend)


@pytest.mark.parametrize("timeout", [None, 0, 5.0, 60.0])
async def test_no_answer_within_request_timeout(
    locks: LockManager, backend: MemoryBackend, crew: Crew, lock: Any, timeout: float | None
) -> None:
    """One attempt, with `timeout=0`, waits for its answer as long as any request does. Kept by
    `Waiter.overdue`: `self.impatient`.
    """
    with backend.outage(silent=True):
        task = crew.start(acquire(lock, timeout=timeout))
        await backend.clock.advance(4.9)
        assert not task.done()
        await backend.clock.advance(0.2)
        with pytest.raises(BackendError, match="got no answer within 5 s"):
            await task
    await settle(backend)
    assert lock_keys(backend) == []
    assert_empty(locks)


async def test_an_answer_in_the_moment_in_which_it_is_given_up(
    locks: LockManager, backend: MemoryBackend, crew: Crew, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A loop that was blocked finds both at once. It is not said that the whole timeout is over. Kept by `_late`:
    `silent`.
    """
    overdue = Waiter.overdue

    def and_answered(waiter: Waiter) -> None:
        call = waiter.call
        assert call is not None
        overdue(waiter)
        call.end(Refused(30_000, 5, "another"))

    monkeypatch.setattr(Waiter, "overdue", and_answered)
    with backend.outage(silent=True):
        task = crew.start(acquire(locks.lock("a"), timeout=60.0))
        await backend.clock.advance(5.1)
        with pytest.raises(BackendError, match="got no answer within 5 s"):
            await task
    await settle(backend)
    assert_empty(locks)


@pytest.mark.parametrize("timeout", [0.05, None, 60.0])
async def test_a_latch_without_an_answer(
    locks: LockManager, backend: MemoryBackend, crew: Crew, timeout: float | None
) -> None:
    """Kept by Latch.wait: `patience`."""
    with backend.outage(silent=True):
        task = crew.start(locks.latch("a", 2).wait(timeout))
        await backend.clock.advance(0.06)
        assert task.done() == (timeout == 0.05)
        await backend.clock.advance(5.0)
        with pytest.raises(BackendError, match=f"no answer within {0.05 if timeout == 0.05 else 5} s"):
            await task
    await settle(backend)
    assert_empty(locks)


@pytest.mark.parametrize("timeout", [0.05, 0, 60.0])
async def test_a_nested_acquire_without_an_answer(
    locks: LockManager, backend: MemoryBackend, crew: Crew, timeout: float
) -> None:
    """The outer one lives on, one level deep. Kept by `_nest`: `seconds`."""
    async with locks.lock("a") as lease:
        with backend.outage(silent=True):
            task = crew.start(acquire(locks.lock("a"), owner=lease.owner, timeout=timeout))
            await backend.clock.advance(0.06)
            assert task.done() == (timeout == 0.05)
            await backend.clock.advance(5.0)
            with pytest.raises(BackendError, match=f"no answer within {timeout if timeout == 0.05 else 5} s"):
                await task
        await settle(backend)
        assert not lease.lost
        assert lease.depth == 1
    await settle(backend)
    assert lock_keys(backend) == []


@pytest.mark.parametrize("timeout", [None, 0, 5.0])
async def test_a_server_that_refuses_connections(
    locks: LockManager, backend: MemoryBackend, crew: Crew, lock: Any, timeout: float | None
) -> None:
    """All that ask hear it at once. Kept by `LocalQueue.away`."""
    with backend.outage():
        tasks = [crew.start(acquire(lock, timeout=timeout)) for _ in range(3)]
        for task in tasks:
            with pytest.raises(BackendError, match="the server is unreachable"):
                await task
    await settle(backend)
    assert lock_keys(backend) == []
    assert_empty(locks)


async def test_a_connection_that_dies_and_is_refused(locks: LockManager, backend: MemoryBackend, crew: Crew) -> None:
    """What came before, and was not answered, hears it, too; who waits for a holder goes on. Kept by
    `Waiter.impatient`.
    """
    async with locks.lock("a"):
        behind = crew.start(acquire(locks.lock("a")))
        await settle(backend)
        with backend.outage():
            attempt = crew.start(acquire(locks.lock("b"), timeout=9.0))
            with pytest.raises(BackendError, match="the server is unreachable"):
                await attempt
            await backend.clock.advance(6.0)
            assert not behind.done()
    await (await behind).release()
    await settle(backend)
