"""The testing kit where the loop runs in another thread: beside `aiolock.sync`, and beside a TestClient."""

from __future__ import annotations

import asyncio
import math
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from aiolock import BackendError, ConfigurationError, LockLost, LockManager, LossReason
from aiolock.backends.memory import MemoryBackend as PlainMemoryBackend
from aiolock.scripts.store import Store
from aiolock.sync import LockManager as SyncManager
from aiolock.testing import MemoryBackend, VirtualClock

TTL = 10.0


@pytest.fixture
def backend() -> MemoryBackend:
    return MemoryBackend()


@pytest.fixture
def locks(backend: MemoryBackend) -> Iterator[SyncManager]:
    with SyncManager(backend, ttl=TTL) as locks:
        yield locks


def test_a_renewed_lease_outlives_its_ttl(locks: SyncManager, backend: MemoryBackend) -> None:
    """Each timer fires in its own loop, and the renewal is answered before time passes on: VirtualClock._settle."""
    lease = locks.lock("a").acquire()
    asyncio.run(backend.clock.advance(6 * TTL))
    assert not lease.lost
    assert backend.calls.count("renew") >= 6
    lease.release()


async def test_two_loops_share_a_clock(backend: MemoryBackend) -> None:
    """A task's lease and a thread's are renewed at the same moments. Kept by VirtualClock._fire."""

    def thread() -> None:
        with SyncManager(MemoryBackend(peer=backend), ttl=TTL) as theirs, theirs.lock("theirs") as lease:
            inside.set()
            assert over.wait(60)
            assert not lease.lost

    inside, over = threading.Event(), threading.Event()
    running = asyncio.create_task(asyncio.to_thread(thread))
    async with LockManager(backend, ttl=TTL) as ours, ours.lock("ours") as lease:
        await asyncio.to_thread(inside.wait, 60)
        await backend.clock.advance(6 * TTL)
        assert not lease.lost
        over.set()
        await running


def test_an_outage(locks: SyncManager, backend: MemoryBackend) -> None:
    """At its end the connection is back, and holds are verified, on the loop. Kept by MemoryBackend._on_loop."""
    lease = locks.lock("a").acquire()
    backend.calls.clear()
    with backend.outage(), ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(locks.lock("b", acquire_timeout=2 * TTL).try_acquire)
        while not backend._backlog:
            asyncio.run(backend.clock.advance(0))
        asyncio.run(backend.clock.advance(6.0))  # longer than the request_timeout
        with pytest.raises(BackendError):
            waiting.result(60)
    asyncio.run(backend.clock.advance(0))
    assert "renew" in backend.calls
    lease.ensure(TTL / 2)
    lease.release()


def test_a_jump(locks: SyncManager, backend: MemoryBackend) -> None:
    """Its timers fire late, each in its own loop. Kept by VirtualClock.jump."""
    lost, told = locks.lock("a").acquire(), list[LossReason]()
    watching = threading.Thread(target=lambda: told.append(lost.wait_lost()))
    watching.start()
    asyncio.run(backend.clock.advance(0))
    backend.clock.jump(4 * TTL)
    assert lost.lost
    watching.join(60)
    assert told == [LossReason.LOOP_BLOCKED]
    with pytest.raises(LockLost):
        lost.release()


def test_a_thief_gives_back(locks: SyncManager, backend: MemoryBackend) -> None:
    """Whoever waits in another loop is told at once: MemoryBackend.subscribe."""
    backend.steal("a")
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(locks.lock("a").acquire)
        while "acquire" not in backend.calls:
            asyncio.run(backend.clock.advance(0))
        backend.give_back("a")  # no time passes: nobody asks again by itself
        lease = waiting.result(60)
        assert lease.fence
        lease.release()


async def test_a_script_is_one_step_for_all_threads() -> None:
    """As on a server. Kept by MemoryBackend._execute."""
    entered = list[bool]()

    def enter() -> bool:
        if not store.mutex.acquire(blocking=False):
            return False
        store.mutex.release()
        return True

    def wall_us() -> int:
        """The server's clock, which scripts read: while one does, a thread tries to run another."""
        with ThreadPoolExecutor(1) as pool:
            entered.append(pool.submit(enter).result(60))
        return 1_750_000_000_000_000

    store = Store(wall_us)
    async with LockManager(PlainMemoryBackend(store)) as locks, locks.lock("a"):
        assert entered
    assert not any(entered)


@pytest.mark.parametrize("seconds", [math.inf, math.nan, -5.0])
@pytest.mark.parametrize("how", ["advance", "jump"])
async def test_time_that_cannot_pass(how: str, seconds: float) -> None:
    """Refused: it never ended, did nothing, or went back. Kept by `forward`."""
    clock = VirtualClock()
    before = clock.now()
    move: Callable[[float], object] = getattr(clock, how)
    with pytest.raises(ConfigurationError, match=f"{how}.. takes"):
        await asyncio.wait_for(asyncio.create_task(clock.advance(seconds)), 5) if how == "advance" else move(seconds)
    assert clock.now() == before


async def test_a_loop_that_has_ended() -> None:
    """Its timers are forgotten, and nobody waits for it. Kept by VirtualClock._settle."""
    clock, fired = VirtualClock(), list[str]()

    async def leave() -> None:
        clock.call_at(clock.now() + 1, lambda: fired.append("there"))

    await asyncio.to_thread(asyncio.run, leave())
    clock.call_at(clock.now() + 1, lambda: fired.append("here"))
    await asyncio.wait_for(clock.advance(2), 5)
    assert fired == ["here"]
