"""The manager: entering, closing, entering again, and use where it must not be used."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

import anyio
import pytest

import aiolock.sync
from aiolock import BackendError, ConfigurationError, Lease, LockLost, LockManager, LossReason, NotAcquired
from aiolock.backends.memory import named_store
from aiolock.testing import MemoryBackend

from .world import TTL, Crew, Holder, SlowBackend, assert_empty, expect_loss, lock_keys, runtime_of, settle


@pytest.fixture
async def crew(backend: MemoryBackend) -> Crew:
    return Crew()


async def enter(manager: LockManager) -> LockManager:
    return await manager.__aenter__()


def assert_closed(manager: LockManager, backend: MemoryBackend) -> None:
    """Check that no task, subscription or state of it is left."""
    runtime = runtime_of(manager)
    assert not runtime.binding.bound
    assert backend._wakes == {}
    assert backend.store._subscribers == {}
    assert not [task for task in asyncio.all_tasks() if task.get_name().startswith("aiolock")]
    assert (runtime.gates, runtime.holds) == ({}, {})


async def use(manager: LockManager) -> None:
    async with manager.lock("a"):
        pass


def test_created_at_import_time() -> None:
    """Construction needs no loop and does no I/O."""
    backend = MemoryBackend()
    manager = LockManager(backend)
    assert repr(manager.lock("a")) == "<Lock 'a' ttl=30>"
    assert repr(manager) == "<LockManager ttl=30 closed>"
    assert backend.calls == []


@pytest.mark.parametrize(
    "call",
    [
        lambda lock: lock.acquire().__aenter__(),
        lambda lock: lock.try_acquire().__aenter__(),
        lambda lock: lock.__aenter__(),
        lambda lock: lock.info(),
        lambda lock: lock.is_locked(),
        lambda lock: lock.force_release(),
        lambda lock: lock.release(),
    ],
    ids=["acquire", "try_acquire", "async with", "info", "is_locked", "force_release", "release"],
)
async def test_used_outside(backend: MemoryBackend, call: Callable[..., object]) -> None:
    manager = LockManager(backend)
    lock = manager.lock("order:42")
    with pytest.raises(ConfigurationError, match="'order:42' was used before its manager was entered") as caught:
        await call(lock)  # type: ignore[misc]
    assert caught.value.name == "order:42"
    async with manager:
        pass
    with pytest.raises(ConfigurationError, match="after its manager was closed"):
        await call(lock)  # type: ignore[misc]
    assert backend.calls == []


def test_used_on_another_loop(backend: MemoryBackend) -> None:
    manager = LockManager(backend)
    loop = asyncio.new_event_loop()
    try:
        loop.run_until_complete(enter(manager))
        with pytest.raises(ConfigurationError, match="another event loop"):
            asyncio.run(use(manager))
        loop.run_until_complete(use(manager))
        loop.run_until_complete(manager.aclose())
    finally:
        loop.close()


async def test_entered_twice(backend: MemoryBackend) -> None:
    async with LockManager(backend) as manager:
        with pytest.raises(ConfigurationError, match="open already"):
            await enter(manager)
        await use(manager)


async def test_entered_twice_at_once() -> None:
    manager = LockManager(SlowBackend())
    results = await asyncio.gather(enter(manager), enter(manager), return_exceptions=True)
    assert [type(result) for result in results] == [LockManager, ConfigurationError]
    await manager.aclose()


async def test_entered_again(backend: MemoryBackend) -> None:
    """You can enter it again, with a fresh identity (C1): owner ids are never sent again."""
    manager, ids = LockManager(backend), set()
    lock = manager.lock("a")
    for _ in range(3):
        async with manager:
            ids.add(runtime_of(manager).binding.id)
            async with lock as lease:
                await backend.clock.advance(TTL)
                assert not lease.lost
        assert_closed(manager, backend)
    assert len(ids) == 3


def test_two_loops_in_turn(backend: MemoryBackend) -> None:
    """`with TestClient(app)` twice, a pytest-asyncio loop per test."""
    manager = LockManager(backend)

    async def serve() -> None:
        async with manager:
            await use(manager)

    for _ in range(3):
        asyncio.run(serve())
    assert backend.calls == ["acquire", "release"] * 3


def test_identity_is_drawn_on_entry(backend: MemoryBackend) -> None:
    """C1, `Binding.begin`: drawn at construction, it would be shared by every forked worker."""
    assert runtime_of(LockManager(backend)).binding.id == ""


async def test_closing_twice(backend: MemoryBackend) -> None:
    manager = LockManager(backend)
    await manager.aclose()
    async with manager:
        await asyncio.gather(manager.aclose(), manager.aclose())
        await manager.aclose()
    assert_closed(manager, backend)


async def test_closing_cancels_and_awaits_bodies_then_releases(
    backend: MemoryBackend, crew: Crew, caplog: pytest.LogCaptureFixture
) -> None:
    """H4: releasing a lease whose body still runs breaks invariant 1."""
    manager = LockManager(backend)
    finish = asyncio.Event()
    seen: list[str] = []

    async def work() -> None:
        async with manager.lock("a"):
            try:
                await asyncio.Event().wait()
            finally:
                seen.append("cancelled")
                with anyio.CancelScope(shield=True):
                    await finish.wait()
                seen.append(f"cleaned up, {len(lock_keys(backend))} held")

    await enter(manager)
    task = crew.start(work())
    await settle(backend)
    closing = crew.start(manager.aclose())
    await settle(backend)
    assert seen == ["cancelled"]
    assert not closing.done()
    finish.set()
    await closing
    with expect_loss(LossReason.CLOSED):
        await task
    assert seen == ["cancelled", "cleaned up, 1 held"]
    assert lock_keys(backend) == []
    assert_closed(manager, backend)
    assert not [record for record in caplog.records if record.levelno >= logging.ERROR]


async def test_a_body_that_does_not_end_keeps_its_key(
    backend: MemoryBackend, crew: Crew, caplog: pytest.LogCaptureFixture
) -> None:
    manager = LockManager(backend)
    finish = asyncio.Event()

    async def stubborn() -> None:
        async with manager.lock("a"):
            with anyio.CancelScope(shield=True):
                await finish.wait()

    await enter(manager)
    task = crew.start(stubborn())
    await settle(backend)
    closing = crew.start(manager.aclose())
    await backend.clock.advance(4.9)
    assert not closing.done()
    await backend.clock.advance(0.2)
    await closing
    assert "blocks still run" in caplog.text
    assert len(lock_keys(backend)) == 1
    assert_closed(manager, backend)
    finish.set()
    with expect_loss(LossReason.CLOSED):
        await task
    await backend.clock.advance(TTL)
    assert lock_keys(backend) == []


async def test_a_body_that_outlasts_closing_ends_after_reentry(backend: MemoryBackend, crew: Crew) -> None:
    manager = LockManager(backend)
    finish = asyncio.Event()

    async def stubborn() -> None:
        async with manager.lock("a"):
            with anyio.CancelScope(shield=True):
                await finish.wait()

    await enter(manager)
    task = crew.start(stubborn())
    await settle(backend)
    closing = crew.start(manager.aclose())
    await backend.clock.advance(5.1)
    await closing
    async with manager:
        assert await manager.lock("a").try_acquire() is None
        finish.set()
        with expect_loss(LossReason.CLOSED):
            await task
        await settle(backend)
        await use(manager)
        assert_empty(manager)


async def test_closing_ends_the_waits(backend: MemoryBackend, crew: Crew) -> None:
    manager, other = LockManager(backend), LockManager(MemoryBackend(backend))
    async with other, other.lock("a"), other.lock("b"):
        await enter(manager)
        waiting = [crew.start(use(manager)) for _ in range(5)]
        alone = crew.start(manager.lock("b").acquire().__aenter__())
        await settle(backend)
        await manager.aclose()
        for task in (*waiting, alone):
            with pytest.raises(NotAcquired, match="manager was closed"):
                await task
    await settle(backend)
    assert_closed(manager, backend)


async def test_closing_releases_plain_leases(backend: MemoryBackend) -> None:
    manager = LockManager(backend)
    await enter(manager)
    lease = await manager.lock("a").acquire()
    again = await manager.lock("a").acquire()
    await manager.aclose()
    assert lock_keys(backend) == []
    assert (lease.reason, again.reason) == (LossReason.CLOSED, LossReason.CLOSED)
    for one in (lease, again):
        with expect_loss(LossReason.CLOSED):
            await one.release()
    with pytest.raises(LockLost):
        lease.ensure()


async def test_closing_releases_a_lease_whose_task_has_ended(backend: MemoryBackend) -> None:
    manager = LockManager(backend)
    await enter(manager)

    async def acquire() -> Lease:
        return await manager.lock("a").acquire()

    lease = await asyncio.create_task(acquire())
    await settle(backend)
    await manager.aclose()
    assert lease.released
    assert lock_keys(backend) == []


async def test_closing_from_inside_a_body(backend: MemoryBackend) -> None:
    manager = LockManager(backend)
    await enter(manager)
    with expect_loss(LossReason.CLOSED):
        async with manager.lock("a"):
            await manager.aclose()
    await settle(backend)
    assert_closed(manager, backend)
    async with manager:
        async with manager.lock("b"):
            pass
        assert_empty(manager)


async def test_closing_in_a_scope_that_is_cancelled(backend: MemoryBackend) -> None:
    """anyio cancels at every await: still unbound, nothing left, and you can enter it again."""
    manager = LockManager(backend)
    await enter(manager)
    lease = await manager.lock("a").acquire()
    with anyio.CancelScope() as scope:
        scope.cancel()
        await manager.aclose()
    await settle(backend)
    assert_closed(manager, backend)
    assert lease.released
    async with manager:
        await use(manager)


async def test_closing_in_the_middle_of_a_release(backend: MemoryBackend, crew: Crew) -> None:
    """A release that waits for an answer in an outage is told that none will come."""
    manager = LockManager(backend)
    await enter(manager)
    holder = Holder(crew, manager.lock("a"))
    await holder.entered
    plain = await manager.lock("b").acquire()
    with backend.outage():
        holder.leave.set()
        plain_release = crew.start(observe(plain))
        await settle(backend)
        assert not holder.task.done()
        await manager.aclose()
        await settle(backend)
        assert (holder.task.done(), plain_release.done()) == (True, True)
        await asyncio.gather(holder.task, plain_release)
    assert_closed(manager, backend)


async def observe(lease: Lease) -> None:
    await lease.release()


@pytest.mark.parametrize("cancelled", [False, True])
async def test_a_first_request_without_an_answer_while_the_manager_closes(
    backend: MemoryBackend, crew: Crew, cancelled: bool
) -> None:
    """The error says that it was closed, not that Redis is silent. `_attempt`: `runtime.binding.closing`, twice."""
    manager = LockManager(backend)
    await enter(manager)
    with backend.outage(silent=True):
        acquiring = crew.start(use(manager))
        await settle(backend)
        closing = crew.start(manager.aclose())
        await settle(backend)
        if cancelled:
            closing.cancel()
        await backend.clock.advance(6)
    with pytest.raises(NotAcquired, match="manager was closed"):
        await acquiring
    await asyncio.wait([closing])


async def test_closing_in_the_middle_of_requests(backend: MemoryBackend, crew: Crew) -> None:
    manager = LockManager(backend)
    await enter(manager)
    lease = await manager.lock("b").acquire()
    with backend.outage():
        tasks = [
            crew.start(use(manager)),
            crew.start(manager.lock("c").info()),
            crew.start(lease.renew()),
        ]
        await settle(backend)
        closing = crew.start(manager.aclose())
        await backend.clock.advance(6)
        assert closing.done()
        await asyncio.wait(tasks, timeout=1)
        assert all(isinstance(task.exception(), NotAcquired | BackendError | LockLost) for task in tasks)
    assert_closed(manager, backend)
    with pytest.raises(LockLost):
        await lease.release()


async def test_use_while_closing(backend: MemoryBackend, crew: Crew) -> None:
    manager = LockManager(backend)
    await enter(manager)
    finish = asyncio.Event()

    async def stubborn() -> None:
        async with manager.lock("a"):
            with anyio.CancelScope(shield=True):
                await finish.wait()

    task = crew.start(stubborn())
    await settle(backend)
    closing = crew.start(manager.aclose())
    await settle(backend)
    with pytest.raises(ConfigurationError, match="manager is closing"):
        await use(manager)
    finish.set()
    await closing
    with pytest.raises(LockLost):
        await task


async def test_entering_fails_and_leaves_nothing(crew: Crew) -> None:
    class Unreachable(MemoryBackend):
        down = True

        async def open(self, **options: object) -> None:
            if self.down:
                raise BackendError("", "unreachable", transient=True)
            await super().open(**options)  # type: ignore[arg-type]

    backend = Unreachable()
    manager = LockManager(backend)
    with pytest.raises(BackendError):
        await enter(manager)
    assert_closed(manager, backend)
    backend.down = False
    async with manager:
        await use(manager)


async def test_entering_without_an_answer_ends(crew: Crew) -> None:
    class Mute(MemoryBackend):
        def subscribe(self, channel: str, wake: object) -> asyncio.Future[None]:
            return self._running().create_future()

    backend = Mute()
    task = crew.start(enter(LockManager(backend)))
    await backend.clock.advance(5.1)
    with pytest.raises(BackendError, match="SUBSCRIBE got no answer"):
        await task


@pytest.mark.filterwarnings("error")
async def test_memory_of_one_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """On request there is no warning; the store is that of its name. Kept by named_store."""
    monkeypatch.setattr("aiolock.backends.memory._warned", False)
    said, same = LockManager("memory://x?processes=1"), LockManager("memory://x?processes=1")
    aiolock.sync.LockManager("memory://?processes=1")
    async with said, same, said.lock("a"):
        assert await same.lock("a").is_locked()
        with pytest.raises(RuntimeWarning, match=r"say so: memory://x\?processes=1"):
            LockManager("memory://x")
    for option in ("processes=2", "process=1", "processes=1&ttl=3"):
        with pytest.raises(ConfigurationError, match="is not the URL of a store"):
            LockManager(f"memory://x?{option}")


async def test_memory_urls(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("aiolock.backends.memory._warned", False)
    with pytest.warns(RuntimeWarning, match="does not cross processes"):
        LockManager("memory://")
    shared, same, other = (LockManager(f"memory://{name}") for name in ("x", "x", "y"))
    alone, single = LockManager("memory://"), LockManager("memory://")
    async with shared, same, other, alone, single, shared.lock("a"), alone.lock("a"):
        taken = [await manager.lock("a").is_locked() for manager in (same, other, single)]
    assert taken == [True, False, False]


def test_a_named_store_is_forgotten_with_its_last_user(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("aiolock.backends.memory._warned", True)
    named_store("z").set("k", "v", 1000)
    assert named_store("z").get("k") is None


async def test_repr(backend: MemoryBackend) -> None:
    async with LockManager(backend, ttl=5) as manager, manager.lock("a"):
        assert repr(manager) == "<LockManager ttl=5 holds=1>"
        assert runtime_of(manager).binding.id not in repr(manager)


@pytest.mark.parametrize("source", [None, 3, b"redis://x", object()])
def test_bad_sources(source: object) -> None:
    with pytest.raises(ConfigurationError):
        LockManager(source)  # type: ignore[arg-type]


@pytest.mark.parametrize("source", ["", "localhost", "http://localhost", "redis:/localhost", "memory:/x"])
def test_bad_urls(source: str) -> None:
    with pytest.raises(ConfigurationError):
        LockManager(source)
