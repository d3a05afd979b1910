"""Redisson's locks: where they are refused, and what their waiters and holders cost, by a virtual clock."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any, Literal

import pytest

from aiolock import AcquireTimeout, BackendError, ConfigurationError, LockLost, LockManager
from aiolock.backends.base import Wake
from aiolock.core.waiting.wait import ASKING
from aiolock.redisson import Redisson, RFairLock
from aiolock.redisson.place import Place
from aiolock.scripts.outcomes import Queued
from aiolock.testing import MemoryBackend

from .world import settle

NAME = "order:42"


@pytest.mark.parametrize(
    "make",
    [
        lambda: LockManager.quorum(["redis://a", "redis://b", "redis://c"]),
        lambda: LockManager("sqlite:///locks.db"),
    ],
    ids=["quorum", "sqlite"],
)
def test_where_it_cannot_be(make: Callable[[], LockManager]) -> None:
    """Refused before anything is held. Kept by Abilities.need_masters."""
    with pytest.raises(ConfigurationError, match="Redisson's locks need a manager of one Redis server"):
        Redisson(make())


@pytest.mark.parametrize("name", ["a}b", "a{b", "{}ab", "a{}{b}"])
def test_names_whose_keys_a_cluster_would_part(name: str) -> None:
    """Kept by Redisson._keep_together."""
    java = Redisson(LockManager.cluster(["redis://a:1"]))
    for make in (java.lock, java.count_down_latch):
        with pytest.raises(ConfigurationError, match="into several slots"):
            make(name)
    assert java.lock("a{b}c").name == "a{b}c"
    assert Redisson(LockManager(MemoryBackend())).lock(name).name == name


def test_what_it_cannot_be_made_of() -> None:
    with pytest.raises(ConfigurationError, match=r"needs an aiolock\.LockManager"):
        Redisson("redis://")  # type: ignore[arg-type]


def test_options_that_do_not_exist_there() -> None:
    java = Redisson(LockManager(MemoryBackend()))
    with pytest.raises(ConfigurationError, match="keeps no metadata"):
        java.lock(NAME, metadata="mine")
    with pytest.raises(TypeError, match="acquire_timeout"):
        java.lock(NAME, blocking_timeout=3)  # type: ignore[call-arg]


@pytest.mark.parametrize("lost", ["request", "reply"])
async def test_whatever_is_lost_no_permit_is(lost: Literal["request", "reply"]) -> None:
    """Of an acquire, a release of some, a release: nothing is taken or given back twice."""
    backend = MemoryBackend()
    async with LockManager(backend, ttl=60.0) as locks:
        semaphore = Redisson(locks).permit_expirable_semaphore(NAME)
        await semaphore.try_set_permits(5)
        backend.fail_next(lost)
        lease = await semaphore.acquire(3)
        assert await semaphore.available() == 2
        backend.fail_next(lost)
        await lease.release(1)
        assert await semaphore.available() == 3
        backend.fail_next(lost)
        await lease.release()
        assert await semaphore.available() == 5


@pytest.mark.parametrize(("lost", "left"), [("request", 2), ("reply", 1)])
async def test_a_count_whose_answer_is_lost_is_not_repeated(lost: Literal["request", "reply"], left: int) -> None:
    """Its caller is told. Kept by RCountDownLatch.count_down: `again=False`."""
    backend = MemoryBackend()
    async with LockManager(backend) as locks:
        latch = Redisson(locks).count_down_latch(NAME)
        await latch.try_set_count(2)
        backend.fail_next(lost)
        with pytest.raises(BackendError):
            await latch.count_down()
        assert await latch.count() == left


async def test_who_counts_last_wakes_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where the message is denied. Kept by RCountDownLatch.count_down: `settle`."""
    backend = MemoryBackend()
    monkeypatch.setattr(backend.store, "publish", lambda *_: 0)
    async with LockManager(backend, recheck=60.0) as locks:
        latch = Redisson(locks).count_down_latch(NAME)
        await latch.try_set_count(1)
        waiting = asyncio.ensure_future(latch.wait())
        await settle(backend)
        await latch.count_down()
        await settle(backend)
        assert waiting.done()


async def test_a_holder_without_an_expiry_is_asked_for_rarely() -> None:
    """As somebody's PERSIST leaves one. Kept by Race._pause: `pttl >= 0`."""
    backend = MemoryBackend()
    async with LockManager(backend, recheck=5.0) as locks:
        backend.store.hset(NAME, {"java:1": "1"})
        waiter = asyncio.ensure_future(Redisson(locks).lock(NAME).acquire(timeout=60.0))
        await settle(backend)
        backend.calls.clear()
        await backend.clock.advance(11.0)
        assert backend.calls == ["acquire"] * 2
        waiter.cancel()
        await asyncio.gather(waiter, return_exceptions=True)
    assert backend.store.keys() == [NAME]


MAKES: dict[str, Callable[[Redisson], Any]] = {
    "fenced": lambda java: java.fenced_lock(NAME),
    "fair": lambda java: java.fair_lock(NAME),
    "read": lambda java: java.rw_lock(NAME).read,
    "write": lambda java: java.rw_lock(NAME).write,
}


@pytest.mark.parametrize("kind", MAKES)
@pytest.mark.parametrize("lost", ["request", "reply"])
async def test_whatever_is_lost_the_depth_is_right(lost: Literal["request", "reply"], kind: str) -> None:
    """Of an acquire, a nesting, either release: nothing is counted twice, and nothing stays held."""
    backend = MemoryBackend()
    async with LockManager(backend) as locks:
        lock = MAKES[kind](Redisson(locks))
        backend.fail_next(lost)
        async with lock as lease:
            assert depth(backend) == "1"
            backend.fail_next(lost)
            async with lock:
                assert depth(backend) == "2"
                backend.fail_next(lost)
            assert depth(backend) == "1"
            assert lease.remaining() > 0
            backend.fail_next(lost)
        left = set(backend.store.keys())
        assert all(key.startswith(("redisson_lock_token", "aiolock_dead")) for key in left)
        async with lock as again:
            assert kind != "fenced" or (lease.fence, again.fence) == (1, 2)


def depth(backend: MemoryBackend) -> str:
    """What the server has of its only owner."""
    (counted,) = (count for field, count in backend.store.hgetall(NAME).items() if field != "mode")
    return counted


class Refusing(MemoryBackend):
    """Refuses as many subscriptions as it is told to, for a passing reason."""

    refusals = 0

    def subscribe(self, channel: str, wake: Wake) -> asyncio.Future[None]:
        if not self.refusals:
            return super().subscribe(channel, wake)
        self.refusals -= 1
        refused: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        refused.set_exception(BackendError("", "LOADING the dataset", transient=True))
        return refused


async def test_a_refused_subscription_is_asked_for_again() -> None:
    """With the next renewal. Kept by Gate.extended: `held`."""
    backend = Refusing()
    async with LockManager(backend, ttl=30.0) as locks, Redisson(locks).lock(NAME):
        backend.refusals = 1
        await backend.clock.advance(1.0)
        assert (backend.refusals, listening(backend)) == (0, 0)
        await backend.clock.advance(10.5)
        assert listening(backend) == 1


async def test_a_holder_listens_on_when_a_waiter_has_gone() -> None:
    """Kept by Gate.settle_down: `self.holds`."""
    backend = MemoryBackend()
    async with LockManager(backend) as locks:
        lock = Redisson(locks).lock(NAME)
        async with lock:
            await backend.clock.advance(1.0)
            waiter = asyncio.ensure_future(lock.acquire(timeout=0.5))
            await backend.clock.advance(1.0)
            assert isinstance(waiter.exception(), AcquireTimeout)
            assert listening(backend) == 1
        assert listening(backend) == 0


def listening(backend: MemoryBackend) -> int:
    return backend.store.numsub(f"redisson_lock__channel:{{{NAME}}}")


@pytest.fixture
async def pair() -> AsyncIterator[tuple[MemoryBackend, RFairLock, RFairLock]]:
    """A fair lock that another process holds, and this one's."""
    backend = MemoryBackend()
    async with LockManager(backend) as locks, LockManager(MemoryBackend(backend)) as others:
        yield backend, Redisson(locks).fair_lock(NAME), Redisson(others).fair_lock(NAME)


Pair = tuple[MemoryBackend, RFairLock, RFairLock]


def ears(backend: MemoryBackend) -> list[str]:
    """The owners that listen for their turn."""
    begin = f"redisson_lock__channel:{{{NAME}}}:"
    return [channel.removeprefix(begin) for channel in backend.store._subscribers if channel.startswith(begin)]


async def test_only_who_waits_listens(pair: Pair) -> None:
    """Kept by Place.take: `_hear_no_more`; and Place.end."""
    backend, here, there = pair
    lease = await there.acquire()
    first, second = (asyncio.ensure_future(here.acquire()) for _ in range(2))
    await settle(backend)
    assert ears(backend) == backend.store.lrange(f"redisson_lock_queue:{{{NAME}}}") != []
    second.cancel()
    await asyncio.gather(second, return_exceptions=True)
    assert len(ears(backend)) == 1
    await lease.release()
    await settle(backend)
    assert ears(backend) == []
    await first.result().release()


async def test_who_comes_back_listens_elsewhere(pair: Pair) -> None:
    """Kept by Place.rename."""
    backend, here, there = pair
    lease = await there.acquire()
    waiter = asyncio.ensure_future(here.acquire())
    await settle(backend)
    before = ears(backend)
    backend.store.delete(f"redisson_lock_queue:{{{NAME}}}")
    await backend.clock.advance(1.5)
    assert len(ears(backend)) == 1
    assert ears(backend) != before
    await lease.release()
    await (await waiter).release()


async def test_a_message_meets_an_answer(pair: Pair) -> None:
    """A release while its request is on its way, whose answer does not know of it. Kept by Place._turn: `TOLD`."""
    backend, here, there = pair
    lease = await there.acquire()
    waiter = asyncio.ensure_future(here.acquire())
    await settle(backend)
    (entry,) = here._gate().entries
    assert isinstance(entry, Place)
    entry.state = ASKING  # as with a heartbeat's answer that made it ask
    entry._turn()
    backend.store.delete(NAME)
    entry.take(Queued(rank=1, pttl=30_000), backend.clock.now())
    await settle(backend)
    assert waiter.done()
    await waiter.result().release()
    with pytest.raises(LockLost):
        await lease.release()
