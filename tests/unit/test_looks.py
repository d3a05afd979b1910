"""Looking changes nothing, in whatever thread; anything that changes something belongs to the manager's loop."""

from __future__ import annotations

import asyncio
import gc
import sys
import threading
import time
import warnings
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import pytest

from aiolock import ConfigurationError, Lease, LockLost, LockManager, LossReason
from aiolock.core.holding.hold import Hold
from aiolock.testing import MemoryBackend

from .test_hold import Lagging
from .world import DEADLINE, TTL, Crew, expect_loss, lock_keys, runtime_of, settle

LOOKS: dict[str, Callable[[Lease], object]] = {
    "lost": lambda lease: lease.lost,
    "reason": lambda lease: lease.reason,
    "remaining": lambda lease: lease.remaining(),
    "ensure": lambda lease: lease.ensure(),
    "repr": repr,
}
TRUE = {"lost": True, "reason": LossReason.EXPIRED, "remaining": 0.0}


def look(lease: Lease, how: str) -> object:
    try:
        return LOOKS[how](lease)
    except LockLost as error:
        return error


def elsewhere(call: Callable[[], object]) -> object:
    """Return or raise what `call` does in another thread, while the loop stands still."""
    said: list[object] = []

    def work() -> None:
        try:
            said.append(call())
        except Exception as error:
            said.append(error)

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    thread.join(5)
    return said[0]


@pytest.mark.parametrize("there", [False, True], ids=["here", "in another thread"])
@pytest.mark.parametrize("how", LOOKS)
async def test_a_look_past_the_deadline(
    how: str, there: bool, locks: LockManager, backend: MemoryBackend, crew: Crew
) -> None:
    """It tells the truth, marks nothing, and the loop still cancels the block. Kept by Hold.loss_by_clock."""
    entered: asyncio.Future[Lease] = asyncio.get_running_loop().create_future()

    async def guarded() -> None:
        async with locks.lock("a", renew=False) as lease:
            entered.set_result(lease)
            await asyncio.Event().wait()

    task = crew.start(guarded())
    lease = await entered
    backend.clock.jump(DEADLINE)
    said = elsewhere(lambda: look(lease, how)) if there else look(lease, how)
    if how == "ensure":
        assert isinstance(said, LockLost)
        assert said.reason is LossReason.EXPIRED
    elif how == "repr":
        assert "lost=EXPIRED" in str(said)
    else:
        assert said == TRUE[how]
    assert lease._hold.reason is None
    with expect_loss(LossReason.EXPIRED):
        await task
    assert lock_keys(backend) == []


async def test_a_look_names_the_reason_that_the_loop_will_name(locks: LockManager, backend: MemoryBackend) -> None:
    lease = await locks.lock("a").acquire()
    backend.clock.jump(DEADLINE + 1)
    with expect_loss(LossReason.LOOP_BLOCKED, "for at least"):
        lease.ensure()
    await settle(backend)
    assert (lease._hold.reason, lease.reason) == (LossReason.LOOP_BLOCKED,) * 2
    with pytest.raises(LockLost):
        await lease.release()


async def test_ensure_looks_once(locks: LockManager, monkeypatch: pytest.MonkeyPatch) -> None:
    """In another thread the loop may end the hold between two looks. Kept by Hold.failure."""
    async with locks.lock("a") as lease:
        answers = iter([(LossReason.EXPIRED, 0.0)])
        with monkeypatch.context() as patched, expect_loss(LossReason.EXPIRED):
            patched.setattr(Hold, "_cause", lambda self: next(answers))
            lease.ensure()


CHANGES: dict[str, tuple[Callable[[LockManager, Lease], Awaitable[object]], str]] = {
    "lease.release()": (lambda locks, lease: _await(lease.release), "loop.call_soon_threadsafe(lease.release)"),
    "lease.renew()": (lambda locks, lease: lease.renew(60), "run_coroutine_threadsafe(lease.renew(), loop)"),
    "lease.detach()": (lambda locks, lease: lease.detach(), "run_coroutine_threadsafe(lease.detach(), loop)"),
    "lease.wait_lost()": (lambda locks, lease: lease.wait_lost(), "run_coroutine_threadsafe(lease.wait_lost(), loop)"),
    "lock.release()": (lambda locks, lease: locks.lock("a").release(), "another event loop"),
    "lock.acquire()": (lambda locks, lease: locks.lock("a").acquire(), "another event loop"),
    "lock.try_acquire()": (lambda locks, lease: locks.lock("a").try_acquire(), "another event loop"),
    "async with lock": (lambda locks, lease: locks.lock("a").__aenter__(), "another event loop"),
    "lock.force_release()": (lambda locks, lease: locks.lock("a").force_release(), "another event loop"),
    "owner=": (lambda locks, lease: locks.lock("a").acquire(owner=lease.owner), "another event loop"),
}


async def _await(call: Callable[[], Awaitable[object]]) -> object:
    return await call()


@pytest.mark.parametrize("what", CHANGES)
async def test_what_changes_something_raises_in_another_thread(
    what: str, locks: LockManager, backend: MemoryBackend
) -> None:
    """Kept by Binding.check_here, and Binding.check."""
    change, remedy = CHANGES[what]

    async def call() -> object:
        return await change(locks, lease)

    lease = await locks.lock("a").acquire()
    before = lease._hold.ttl_ms
    error = elsewhere(lambda: asyncio.run(call()))
    assert isinstance(error, ConfigurationError)
    assert "'a'" in str(error)
    assert remedy in str(error)
    assert (backend.calls, lease.released, lease._hold.ttl_ms) == (["acquire"], False, before)
    await lease.release()


async def test_a_block_that_is_left_in_another_thread(locks: LockManager, backend: MemoryBackend) -> None:
    """It reports it, and ends with its task. Kept by Guard.exit: `check_here`."""

    async def guarded() -> Lease:
        block = locks.lock("a").acquire()
        lease = await block.__aenter__()
        error = elsewhere(lambda: asyncio.run(block.__aexit__(None, None, None)))
        assert isinstance(error, ConfigurationError)
        assert "another thread" in str(error)
        assert not lease.released
        return lease

    lease = await asyncio.create_task(guarded())
    await settle(backend)
    assert lease.released
    assert backend.calls == ["acquire", "release"]


async def test_release_in_a_thread_without_a_loop(locks: LockManager, backend: MemoryBackend) -> None:
    """And the remedy that the error names works."""
    lease = await locks.lock("a").acquire()
    loop = asyncio.get_running_loop()
    error = elsewhere(lease.release)
    assert isinstance(error, ConfigurationError)
    assert "call_soon_threadsafe(lease.release)" in str(error)
    other = elsewhere(locks.lock("a").release)
    assert isinstance(other, ConfigurationError)
    assert "lock 'a' was used in another thread" in str(other)
    assert not lease.released
    elsewhere(lambda: loop.call_soon_threadsafe(lease.release))
    await settle(backend)
    assert lease.released
    assert lock_keys(backend) == []


def test_between_two_runs_of_the_loop() -> None:
    """It is the loop's thread, and nothing else runs meanwhile. Kept by Binding.check_here: `get_ident()`."""
    with asyncio.Runner() as runner:
        manager = LockManager(MemoryBackend())
        runner.run(manager.__aenter__())
        check = partial(runtime_of(manager).binding.check_here, "a", "something")
        assert check() is None
        assert "call something there" in str(elsewhere(check))
        runner.run(manager.aclose())
        assert elsewhere(check) is None


async def test_an_answer_that_is_read_past_the_deadline_revives_nothing() -> None:
    """A thread may have looked: lost stays lost. Kept by Hold.judged: `self.check()`."""
    backend = Lagging()
    async with LockManager(backend) as locks:
        lease = await locks.lock("a").acquire()
        backend.lag = 0.5
        await backend.clock.advance(TTL / 3 + 0.75)  # the server has executed it, and its answer is on its way
        backend.clock.jump(DEADLINE - TTL / 3)
        assert lease.reason is LossReason.LOOP_BLOCKED
        await settle(backend)
        assert lease.reason is LossReason.LOOP_BLOCKED
        backend.lag = 0.0
        with pytest.raises(LockLost):
            await lease.release()


@contextmanager
def unraisable() -> Iterator[list[Any]]:
    """What finalizers raised."""
    seen: list[Any] = []
    hook, sys.unraisablehook = sys.unraisablehook, seen.append
    try:
        yield seen
    finally:
        sys.unraisablehook = hook


async def kept_unreferenced(locks: LockManager) -> list[Lease]:
    """A lease that its task has left behind."""

    async def work() -> list[Lease]:
        return [await locks.lock("a").acquire()]

    kept = await asyncio.create_task(work())
    await asyncio.sleep(0)
    return kept


@pytest.mark.parametrize("there", [False, True], ids=["here", "in another thread"])
async def test_a_lease_is_collected_where_warnings_are_errors(
    there: bool, locks: LockManager, backend: MemoryBackend
) -> None:
    """`python -W error::ResourceWarning`: it is released all the same. Kept by the order in Lease.__del__."""
    kept = await kept_unreferenced(locks)
    with warnings.catch_warnings(), unraisable() as raised:
        warnings.simplefilter("error", ResourceWarning)
        if there:
            elsewhere(kept.clear)
        else:
            kept.clear()
        gc.collect()
        assert [type(one.exc_value) for one in raised] == [ResourceWarning]
        raised.clear()
    assert backend.calls == ["acquire"]  # nothing but a callback for the loop
    await settle(backend)
    assert backend.calls == ["acquire", "release"]
    assert lock_keys(backend) == []


def test_a_lease_that_outlives_its_loop() -> None:
    """Kept by Gate.collected: `suppress(RuntimeError)`."""
    backend = MemoryBackend()
    manager = LockManager(backend)

    async def work() -> list[Lease]:
        await manager.__aenter__()
        return await kept_unreferenced(manager)

    loop = asyncio.new_event_loop()
    kept = loop.run_until_complete(work())
    loop.close()
    with unraisable() as raised:
        with pytest.warns(ResourceWarning, match="unreleased"):
            kept.clear()
        gc.collect()
    assert raised == []
    assert runtime_of(manager).holds


@pytest.mark.filterwarnings("ignore:memory:RuntimeWarning")
async def test_a_thread_that_polls() -> None:
    """The natural way to stop a thread on a loss; the block is cancelled nevertheless."""
    async with LockManager("memory://", margin=0.02) as manager:
        ended: list[str] = []

        def work(lease: Lease) -> None:
            while not lease.lost:
                time.sleep(0.0005)
            ended.append("thread")

        with expect_loss(LossReason.EXPIRED):
            async with manager.lock("a", ttl=0.12, renew=False) as lease:
                worker = asyncio.get_running_loop().run_in_executor(None, work, lease)
                try:
                    async with asyncio.timeout(5):
                        await asyncio.Event().wait()
                finally:
                    ended.append("block")
        await worker
        assert sorted(ended) == ["block", "thread"]
