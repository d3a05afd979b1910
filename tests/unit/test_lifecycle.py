"""A manager's life when others end it: closed while a task enters, its loop closed first, its task cancelled."""

from __future__ import annotations

import asyncio
import gc
import subprocess
import sys
import warnings
from collections.abc import Awaitable, Callable
from typing import Any

import anyio
import pytest

from aiolock import AcquireTimeout, AiolockError, BackendError, ConfigurationError, LockLost, LockManager
from aiolock.core import lifecycle
from aiolock.testing import MemoryBackend

from .world import Crew, Holder, SlowBackend, lock_keys, runtime_of, settle, turns

ALIVE = "aiolock:lock:{a}:alive"


async def enter(manager: LockManager) -> LockManager:
    return await manager.__aenter__()


def assert_nothing_left(manager: LockManager, backend: MemoryBackend) -> None:
    runtime = runtime_of(manager)
    assert not runtime.binding.bound
    assert (backend._wakes, backend.store._subscribers, backend._loop) == ({}, {}, None)
    assert asyncio.all_tasks() == {asyncio.current_task()}


FIRST_BLOCK = """
import asyncio, sys
from aiolock import LockManager

async def main():
    async with LockManager("memory://") as locks:
        before = set(sys.modules)
        async with locks.lock("a"):
            print(sorted(set(sys.modules) - before))
        print(sorted(set(sys.modules) - before))

asyncio.run(main())
"""


def test_the_first_block_of_a_process_imports_nothing() -> None:
    """All other tasks would wait for the import, and the loop would stand still. Kept by Lifecycle._open:
    `CancelScope`.
    """
    done = subprocess.run([sys.executable, "-c", FIRST_BLOCK], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n[]\n"


# Closed while a task enters.


@pytest.mark.parametrize("count", range(12))
async def test_closed_while_a_task_enters(count: int) -> None:
    """At whatever await: a clear error there, and nothing is left. Kept by Lifecycle.close: `reschedule`."""
    backend = SlowBackend()
    manager = LockManager(backend)
    entering = asyncio.create_task(enter(manager))
    await turns(count)
    done = entering.done()
    await manager.aclose()
    if done or not count:  # it had entered, or had not begun
        assert await entering is manager
        await manager.aclose()
    else:
        with pytest.raises(ConfigurationError, match="closed while it was being entered"):
            await entering
    assert_nothing_left(manager, backend)
    async with manager, manager.lock("a"):
        pass


def test_both_ends_of_an_entry_were_met() -> None:
    """The turns above reach from before the first await to after the last one."""

    async def count() -> int:
        entering = asyncio.create_task(enter(manager := LockManager(SlowBackend())))
        needed = 0
        while not entering.done():
            await asyncio.sleep(0)
            needed += 1
        await manager.aclose()
        return needed

    assert 4 < asyncio.run(count()) < 12


async def test_an_entry_that_would_wait_for_long_ends_at_once() -> None:
    class Mute(MemoryBackend):
        def subscribe(self, channel: str, wake: object) -> asyncio.Future[None]:
            return self._running().create_future()

    backend = Mute()
    manager = LockManager(backend)
    entering = asyncio.create_task(enter(manager))
    await turns(5)
    await manager.aclose()
    with pytest.raises(ConfigurationError, match="closed while"):
        await entering
    assert_nothing_left(manager, backend)


async def test_closed_twice_while_a_task_enters() -> None:
    backend = SlowBackend()
    manager = LockManager(backend)
    entering = asyncio.create_task(enter(manager))
    await turns(2)
    await asyncio.gather(manager.aclose(), manager.aclose())
    await asyncio.wait((entering,))
    assert isinstance(entering.exception(), ConfigurationError)
    assert_nothing_left(manager, backend)


async def test_entering_is_cancelled_and_closed_at_once() -> None:
    """The cancelled task is told so."""
    backend = SlowBackend()
    manager = LockManager(backend)
    entering = asyncio.create_task(enter(manager))
    await turns(2)
    entering.cancel()
    await manager.aclose()
    await asyncio.wait((entering,))
    assert entering.cancelled()
    assert_nothing_left(manager, backend)


async def test_a_second_entry_while_a_task_enters() -> None:
    manager = LockManager(SlowBackend())
    entering = asyncio.create_task(enter(manager))
    await turns(2)
    with pytest.raises(ConfigurationError, match="open already"):
        await enter(manager)
    await entering
    await manager.aclose()


async def test_a_lock_is_used_while_another_task_enters() -> None:
    """The message is about the manager, not about its connection. Kept by Binding.check: `_entered`."""
    manager = LockManager(SlowBackend())
    entering, met = asyncio.create_task(enter(manager)), 0
    await turns(1)
    while not entering.done():
        with pytest.raises(ConfigurationError, match="'a' was used while its manager was still being entered"):
            await manager.lock("a").acquire()
        met += 1
        await turns(1)
    assert met > 3
    async with manager.lock("a"):
        pass
    await manager.aclose()


async def test_entered_while_it_closes() -> None:
    """A second aclose() does not wait for the first one; an entry then says that it is too early."""
    backend = SlowBackend()
    manager = await enter(LockManager(backend))
    closing = asyncio.create_task(manager.aclose())
    await turns(1)
    await manager.aclose()
    assert not closing.done()
    with pytest.raises(ConfigurationError, match="still closing"):
        await enter(manager)
    await closing
    await enter(manager)
    await manager.aclose()
    assert_nothing_left(manager, backend)


# Opened and closed by hooks.


async def test_opened_and_closed_by_tasks_that_end() -> None:
    """As a framework's hooks do: neither is the task that uses the locks."""
    backend = MemoryBackend()
    manager = LockManager(backend)
    await manager.close()  # was never opened
    for _ in range(2):
        assert await asyncio.create_task(manager.open()) is manager
        async with manager.lock("a"):
            pass
        await asyncio.create_task(manager.close())
        await manager.close()
        assert_nothing_left(manager, backend)
        with pytest.raises(ConfigurationError, match="after its manager was closed"):
            await manager.lock("a").acquire()


async def test_opened_twice() -> None:
    manager = LockManager(MemoryBackend())
    await manager.open()
    with pytest.raises(ConfigurationError, match="open already"):
        await manager.open()
    with pytest.raises(ConfigurationError, match="open already"):
        async with manager:
            pass
    async with manager.lock("a"):  # that does not close it
        pass
    await manager.close()


@pytest.mark.parametrize("count", range(8))
async def test_opening_is_cancelled(count: int) -> None:
    """At whatever await: nothing stays open, and you can open it again."""
    backend = SlowBackend()
    manager = LockManager(backend)
    opening = asyncio.create_task(manager.open())
    await turns(count)
    if opening.done():
        await manager.close()
    else:
        opening.cancel()
        await asyncio.wait((opening,))
        assert opening.cancelled()
    assert_nothing_left(manager, backend)
    async with manager, manager.lock("a"):
        pass


@pytest.mark.parametrize("call", [LockManager.open, LockManager.close])
async def test_on_another_loop(call: Callable[[LockManager], Awaitable[object]]) -> None:
    """A clear error, and the manager stays open where it is. Kept by Lifecycle: `runtime.binding.loop is not loop`."""
    manager = LockManager(MemoryBackend())
    await manager.open()

    def elsewhere() -> None:
        async def main() -> None:
            with pytest.raises(ConfigurationError, match="open on another event loop"):
                await call(manager)

        asyncio.run(main())

    await asyncio.to_thread(elsewhere)
    async with manager.lock("a"):
        pass
    await manager.close()


def test_under_trio() -> None:
    """One clear error at the entry, and nothing is bound. Kept by lifecycle._running_loop."""
    manager = LockManager(MemoryBackend())

    async def main() -> None:
        with pytest.raises(ConfigurationError, match="asyncio and uvloop, not on trio"):
            async with manager:
                pytest.fail("entered")
        with pytest.raises(ConfigurationError, match="asyncio and uvloop, not on trio"):
            await manager.close()
        with pytest.raises(ConfigurationError, match="before its manager was entered"):
            await manager.lock("a").acquire()

    anyio.run(main, backend="trio")
    assert not runtime_of(manager).binding.bound


# Cancelled together with the blocks.


@pytest.mark.parametrize("owner_first", [True, False])
async def test_the_closing_task_and_the_blocks_are_cancelled_together(owner_first: bool) -> None:
    """A second Ctrl-C, while closing waits for the blocks: each block that ends in the same turns of the loop is
    released.

    Kept by Lifecycle._drain.
    """

    class Abrupt(MemoryBackend):
        async def aclose(self) -> None:
            closing = super().aclose()
            closing.send(None)  # as a connection on which everything is answered
            closing.close()

    backend = Abrupt()
    manager = LockManager(backend)
    entered = asyncio.Semaphore(0)

    async def own() -> None:
        async with manager:
            entered.release()
            await asyncio.sleep(60)

    async def body(name: str) -> None:
        async with manager.lock(name):
            entered.release()
            try:
                await asyncio.sleep(60)
            finally:
                with anyio.CancelScope(shield=True):
                    await asyncio.sleep(60)  # until the second one

    owner = asyncio.create_task(own())
    await entered.acquire()
    bodies = [asyncio.create_task(body(f"n{number}")) for number in range(3)]
    for _ in bodies:
        await entered.acquire()
    tasks = [owner, *bodies] if owner_first else [*bodies, owner]
    for task in tasks:
        task.cancel()
    await turns(5)
    assert not any(task.done() for task in tasks)
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks)
    assert lock_keys(backend) == []


# The loop ends before the manager.


def run(main: Callable[[], Awaitable[Any]], *, then: Callable[[asyncio.AbstractEventLoop], object]) -> None:
    loop = asyncio.new_event_loop()
    try:
        loop.run_until_complete(main())
        then(loop)
    finally:
        loop.close()


def test_a_manager_left_open_is_closed_with_the_loop() -> None:
    """As `asyncio.run()` does it, even if the lease was dropped. Kept by Lifecycle._close_with_loop."""
    backend = MemoryBackend()
    manager = LockManager(backend)
    leases: list[object] = []

    async def main() -> None:
        await enter(manager)
        leases.append(await manager.lock("a").acquire())

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        asyncio.run(main())
        gc.collect()
    assert not runtime_of(manager).binding.bound
    assert lock_keys(backend) == []


def test_a_loop_that_was_closed_without_notice() -> None:
    """You can enter the manager again, on another loop. Kept by Lifecycle._forget_dead_loop."""
    backend = MemoryBackend()
    manager = LockManager(backend)
    for _ in range(3):
        run(lambda: enter(manager), then=lambda loop: None)

    async def use() -> None:
        async with manager, manager.lock("a"):
            pass

    asyncio.run(use())
    assert not runtime_of(manager).binding.bound


def test_closing_after_the_loop() -> None:
    manager = LockManager(MemoryBackend())
    run(lambda: enter(manager), then=lambda loop: None)
    asyncio.run(manager.aclose())
    assert not runtime_of(manager).binding.bound


async def test_the_watch_over_a_former_entry_leaves_the_next_alone() -> None:
    """Kept by Lifecycle._close_with_loop: `entered`."""
    manager = LockManager(MemoryBackend())
    await enter(manager)
    former = manager._lifecycle._with_loop
    assert former is not None
    manager._lifecycle._with_loop = None  # as if closing had been cancelled before that point
    await manager.aclose()
    async with manager:
        await former.aclose()
        async with manager.lock("a"):
            pass


async def test_blocks_that_end_while_their_manager_closes() -> None:
    """What `asyncio.run()` does at its end: all are cancelled at once, and each is released."""
    backend = SlowBackend()
    manager = LockManager(backend)

    async def body(name: str) -> None:
        async with manager.lock(name):
            await asyncio.sleep(60)

    async def own() -> None:
        async with manager:
            bodies.extend(asyncio.create_task(body(f"n{number}")) for number in range(5))
            await asyncio.sleep(60)

    bodies: list[asyncio.Task[None]] = []
    owner = asyncio.create_task(own())
    await turns(60)
    assert len(lock_keys(backend)) == 5
    for task in (owner, *bodies):
        task.cancel()
    await asyncio.wait((owner, *bodies))
    assert lock_keys(backend) == []
    assert all(task.cancelled() or isinstance(task.exception(), LockLost) for task in bodies)


# Opened without a server.


class Away(SlowBackend):
    """Cannot be opened, for some times."""

    def __init__(self, times: int, transient: bool = True) -> None:
        super().__init__()
        self.times = times
        self.transient = transient

    async def open(self, **options: Any) -> None:
        await super().open(**options)
        if self.times:
            self.times -= 1
            raise BackendError("", "away", transient=self.transient)


@pytest.fixture
def no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lifecycle, "PAUSE", 0.0)


async def till_connected(manager: LockManager) -> None:
    async with asyncio.timeout(60):
        while not manager.connected:  # noqa: ASYNC110 - its background attempts announce nothing
            await asyncio.sleep(0)


async def test_opened_without_a_server(no_pause: None) -> None:
    """Each use says why it cannot be, until there is one. Kept by Binding.check: `awaited`."""
    manager = LockManager(backend := Away(3))
    assert not manager.connected
    assert not manager.is_open
    assert await manager.open(strict=False) is manager
    assert manager.is_open
    for use in (manager.lock("a").acquire(), manager.lock("a").info(), manager.latch("a", 1).wait(), manager.ping()):
        with pytest.raises(BackendError, match=r"before its manager is connected.*: away") as away:
            await use
        assert away.value.transient
    with pytest.raises(ConfigurationError, match="open already"):
        await manager.open()
    await till_connected(manager)
    async with manager.lock("a"):
        assert backend.times == 0
    await manager.close()
    assert not manager.connected
    assert_nothing_left(manager, backend)


async def test_open_is_neither_opening_nor_closing() -> None:
    """As a second task sees it. Kept by Lifecycle.is_open: `_entry`, `closing`."""
    manager = LockManager(SlowBackend())
    leave = asyncio.Event()
    entering = asyncio.create_task(enter(manager))
    await turns(2)
    assert not entering.done()
    assert not manager.is_open
    await entering
    with pytest.raises(ConfigurationError, match="open already"):
        await manager.open()
    assert manager.is_open

    async def stay() -> None:
        async with manager.lock("a"):
            with anyio.CancelScope(shield=True):
                await leave.wait()

    staying = asyncio.create_task(stay())
    await turns(10)
    closing = asyncio.create_task(manager.close())
    await turns(2)
    assert not closing.done()
    assert not manager.is_open
    leave.set()
    await closing
    assert not manager.is_open
    with pytest.raises(LockLost):
        await staying
    with pytest.raises(ConfigurationError, match="after its manager was closed"):
        await manager.ping()


def test_open_ends_with_its_loop() -> None:
    """Kept by Lifecycle.is_open: `is_closed`."""
    manager = LockManager(MemoryBackend())
    loop = asyncio.new_event_loop()
    loop.run_until_complete(manager.open())
    assert manager.is_open
    loop.close()
    assert not manager.is_open


@pytest.mark.parametrize(("strict", "transient"), [(True, True), (True, False), (False, False)])
async def test_not_opened_without_a_server(strict: bool, transient: bool) -> None:
    """Kept by Lifecycle._open: `transient`."""
    manager = LockManager(backend := Away(1, transient))
    with pytest.raises(BackendError, match="away"):
        await manager.open(strict=strict)
    assert_nothing_left(manager, backend)


@pytest.mark.parametrize("count", range(24))
async def test_closed_before_there_is_a_server(no_pause: None, count: int) -> None:
    """At whatever await of the first attempt, between two, and of the second. Kept by Lifecycle.close: `stopped`."""
    manager = LockManager(backend := Away(100))
    opening = asyncio.create_task(manager.open(strict=False))
    await turns(count)
    await manager.close()
    await asyncio.wait((opening,))
    if count and isinstance(opening.exception(), ConfigurationError):
        assert not manager.connected
    else:
        await manager.close()
    assert_nothing_left(manager, backend)
    backend.times = 0
    async with manager, manager.lock("a"):
        pass


@pytest.mark.parametrize("count", range(24))
async def test_a_stranger_cancels_the_attempts(no_pause: None, count: int) -> None:
    """As a shutdown does that cancels all tasks: they go on. Kept by Lifecycle._connect: `aclose`."""
    manager = LockManager(backend := Away(2))
    await manager.open(strict=False)
    await turns(count)
    for task in asyncio.all_tasks() - {asyncio.current_task()}:
        task.cancel()
    await till_connected(manager)
    async with manager.lock("a"):
        pass
    await manager.close()
    assert_nothing_left(manager, backend)


async def test_a_refusal_after_an_outage(no_pause: None, caplog: pytest.LogCaptureFixture) -> None:
    """It is no outage any more: an ERROR, once, and no use is worth another try."""
    manager = LockManager(backend := Away(1000))
    await manager.open(strict=False)
    backend.transient = False
    async with asyncio.timeout(60):
        while "still not connected" not in caplog.text:  # noqa: ASYNC110 - the log is the announcement
            await asyncio.sleep(0)
    with pytest.raises(BackendError) as refused:
        await manager.lock("a").acquire()
    assert not refused.value.transient
    backend.times = 0
    await till_connected(manager)
    await manager.close()
    assert [record.levelname for record in caplog.records].count("ERROR") == 1


def test_a_loop_that_ends_before_there_is_a_server() -> None:
    """Kept by Lifecycle._forget_dead_loop: `_connecting`."""
    manager = LockManager(backend := Away(1))
    asyncio.run(manager.open(strict=False))  # type: ignore[arg-type]

    async def again() -> None:
        async with manager, manager.lock("a"):
            assert manager.connected

    backend.times = 0
    asyncio.run(again())


async def test_a_closed_manager_leaves_no_trace_in_queues(backend: MemoryBackend) -> None:
    """Whether it still waited or not; others are still known. Kept by Lifecycle.close: `departures`."""
    async with LockManager(backend) as locks, LockManager(MemoryBackend(backend)) as peer:
        lease = await locks.lock("a").acquire()
        waiting = asyncio.create_task(peer.lock("a").acquire())
        await settle(backend)
        for names in (("a",), ("a", "b")):
            async with LockManager(MemoryBackend(backend)) as short:
                attempt = asyncio.ensure_future(short.multi_lock(*names).acquire(timeout=0.5))
                await backend.clock.advance(0.6)
                with pytest.raises(AcquireTimeout):
                    await attempt
                assert len(backend.store.hgetall(ALIVE)) == 2
            assert list(backend.store.hgetall(ALIVE)) == [runtime_of(peer).binding.id]
        await lease.release()
        await (await waiting).release()
    assert backend.store.hgetall(ALIVE) == {}


@pytest.mark.parametrize("ends", ["its task", "its manager"])
@pytest.mark.parametrize("kind", ["lock", "fair_lock", "multi_lock"])
async def test_a_wait_that_ended_before_its_answer_leaves_no_trace(
    backend: MemoryBackend, peer: LockManager, kind: str, ends: str
) -> None:
    """The server has queued it, and nobody looks at the answer. Kept by QueueEntry.undo: `stands`.

    Found by simulation.
    """
    lease = await peer.lock("a").acquire()
    async with LockManager(SlowBackend(backend, 5)) as short:
        waiting = asyncio.create_task(getattr(short, kind)("a").acquire())
        while not backend.store.hgetall(ALIVE):  # noqa: ASYNC110 - it is executed between two turns
            await asyncio.sleep(0)
        if ends == "its task":
            waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
    assert backend.store.hgetall(ALIVE) == {}
    await lease.release()


async def test_a_wait_whose_place_is_unknown_leaves_no_trace(backend: MemoryBackend, peer: LockManager) -> None:
    """The server gave no verdict, and the wait ends before it asks again. Kept by LocalQueue.renew_owner: `undo`."""

    class Doubtful(MemoryBackend):
        def _execute(self, call: Any) -> Any:
            outcome = super()._execute(call)
            busy = BackendError("a", "BUSY Redis is busy running a script", transient=True)
            return busy if call.script.name == "acquire" else outcome

    lease = await peer.lock("a").acquire()
    async with LockManager(Doubtful(backend)) as short:
        with pytest.raises(BackendError):
            await short.lock("a").acquire(timeout=0.0001)
    assert backend.store.hgetall(ALIVE) == {}
    await lease.release()


@pytest.mark.parametrize("kind", ["lock", "fair_lock", "multi_lock"])
async def test_a_wait_of_which_no_answer_told_leaves_no_trace(
    backend: MemoryBackend, peer: LockManager, kind: str
) -> None:
    """Its first request queued it, and the answer was lost; the second one was granted. Kept by QueueEntry.taint:
    `stands`.
    """
    lease = await peer.lock("a").acquire()
    async with LockManager(slow := SlowBackend(backend, 5)) as short:
        waiting = asyncio.create_task(getattr(short, kind)("a").acquire())
        while not backend.store.hgetall(ALIVE):  # noqa: ASYNC110 - it is executed between two turns
            await asyncio.sleep(0)
        await lease.release()
        slow.die("reply")
        await (await waiting).release()
    assert backend.store.hgetall(ALIVE) == {}


async def test_a_hand_off_whose_heir_went_leaves_no_trace(
    backend: MemoryBackend, peer: LockManager, crew: Crew
) -> None:
    """It queued the heir, for it was the turn of others. Kept by QueueEntry.undo: `stands`."""
    async with LockManager(SlowBackend(backend, 5), handoff_limit=0) as short:
        holder = Holder(crew, short.lock("a"))
        await holder.entered
        other = Holder(crew, peer.lock("a"))
        await settle(backend)
        heir = asyncio.create_task(short.lock("a").acquire())
        await settle(backend)
        closing = runtime_of(short).binding.id
        assert closing not in backend.store.hgetall(ALIVE)
        ended = asyncio.ensure_future(holder.end())
        while closing not in backend.store.hgetall(ALIVE):  # noqa: ASYNC110 - it is executed between two turns
            await asyncio.sleep(0)
        heir.cancel()
        await ended
        await other.entered
    assert closing not in backend.store.hgetall(ALIVE)
    await other.end()


async def test_a_manager_leaves_the_queues_that_it_reaches(backend: MemoryBackend, peer: LockManager) -> None:
    """One of a cluster's servers is away: those of the others forget it. Kept by Lifecycle.close: `away`."""

    class Half(MemoryBackend):
        left: BackendError | None = None

        @property
        def unreachable(self) -> AiolockError | None:
            return self.left

        def away(self, key: str) -> AiolockError | None:
            return self.left if "{b}" in key else None

    keys = {name: f"aiolock:lock:{{{name}}}:alive" for name in "ab"}
    leases = [await peer.lock(name).acquire() for name in keys]
    async with LockManager(half := Half(backend)) as short:
        for name in keys:
            attempt = asyncio.ensure_future(short.lock(name).acquire(timeout=0.5))
            await backend.clock.advance(0.6)
            with pytest.raises(AcquireTimeout):
                await attempt
            assert backend.store.hgetall(keys[name])
        half.left = BackendError("", "a node of the cluster is away", transient=True)
        half.calls.clear()
    assert half.calls == ["depart"]
    assert backend.store.hgetall(keys["a"]) == {}
    for lease in leases:
        await lease.release()
