"""The watchdog: one timer and no task, requests in batches, a heap that does not grow."""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Iterable
from contextlib import AsyncExitStack
from typing import TypeVar

import pytest

from aiolock import BackendError, LockLost, LockManager, LossReason
from aiolock.core.watchdog import CHUNK, CHUNK_KEYS, LATE, MAX_EARLY, Watchdog
from aiolock.scripts.base import Call
from aiolock.testing import MemoryBackend, VirtualClock

from .world import DEADLINE, TTL, runtime_of, settle

R = TypeVar("R")


class Item:
    """Something to look at; notes when it was."""

    def __init__(self, clock: VirtualClock) -> None:
        self.due = math.inf
        self.seen: list[tuple[float, float]] = []
        self._clock = clock
        self._start = clock.now()

    def on_due(self, now: float, late: float) -> None:
        self.seen.append((now - self._start, late))


class Choosy(MemoryBackend):
    """Counts renewal requests, and refuses each that touches one of `denied`, as an ACL on a key would."""

    def __init__(self) -> None:
        super().__init__()
        self.denied: set[str] = set()
        self.batches: list[int] = []

    def _execute(self, call: Call[R]) -> R | BackendError:
        if call.script.name == "renew":
            self.batches.append(len(call.keys))
            if any(f"{{{name}}}" in key for key in call.keys for name in self.denied):
                return BackendError("", "NOPERM no permissions to access one of the keys")
        return super()._execute(call)


@pytest.fixture
async def dog() -> Iterable[tuple[Watchdog, VirtualClock]]:
    clock = VirtualClock()
    dog = Watchdog(clock)
    dog.start(MemoryBackend())
    yield dog, clock
    dog.stop()


async def test_looks_at_each_item_at_its_moment(dog: tuple[Watchdog, VirtualClock]) -> None:
    watchdog, clock = dog
    start = clock.now()
    items = [Item(clock) for _ in range(3)]
    for item, delay in zip(items, (3, 1, 2), strict=True):
        watchdog.schedule(item, start + delay)
    await clock.advance(5)
    assert [item.seen for item in items] == [[(3, 0)], [(1, 0)], [(2, 0)]]
    assert all(item.due == math.inf for item in items)


async def test_an_earlier_item_wakes_it(dog: tuple[Watchdog, VirtualClock]) -> None:
    """`schedule`: `if due < self._wake_at: self._wake()`."""
    watchdog, clock = dog
    late, early = Item(clock), Item(clock)
    watchdog.schedule(late, clock.now() + 100)
    await clock.advance(1)
    watchdog.schedule(early, clock.now() + 1)
    await clock.advance(1)
    assert (early.seen, late.seen) == ([(2, 0)], [])


async def test_rescheduled_and_forgotten(dog: tuple[Watchdog, VirtualClock]) -> None:
    watchdog, clock = dog
    moved, dropped, again = Item(clock), Item(clock), Item(clock)
    watchdog.schedule(moved, clock.now() + 1)
    watchdog.schedule(moved, clock.now() + 3)
    watchdog.schedule(dropped, clock.now() + 1)
    watchdog.forget(dropped)
    watchdog.forget(dropped)
    watchdog.schedule(again, clock.now() + 1)
    watchdog.forget(again)
    watchdog.schedule(again, clock.now() + 1)
    await clock.advance(5)
    assert (moved.seen, dropped.seen, again.seen) == ([(3, 0)], [], [(1, 0)])


async def test_says_how_late_it_woke(dog: tuple[Watchdog, VirtualClock], caplog: pytest.LogCaptureFixture) -> None:
    watchdog, clock = dog
    prompt, late = Item(clock), Item(clock)
    watchdog.schedule(prompt, clock.now() + 1)
    watchdog.schedule(late, clock.now() + 2)
    await clock.advance(1)
    assert watchdog.lateness(clock.now()) == 0
    with caplog.at_level(logging.WARNING, "aiolock.watchdog"):
        clock.jump(1 + LATE / 2)
        await clock.advance(0)
        assert late.seen == [(2 + LATE / 2, pytest.approx(LATE / 2))]
        assert caplog.records == []
        watchdog.schedule(late, clock.now() + 1)
        clock.jump(8.5)
        assert watchdog.lateness(clock.now()) == pytest.approx(8.0)  # it wakes at the beginning of a second
        await clock.advance(0)
    assert late.seen[1][1] == pytest.approx(8.0)
    assert "8.00 s late" in caplog.text


async def test_an_error_in_one_item_stops_nothing(
    dog: tuple[Watchdog, VirtualClock], caplog: pytest.LogCaptureFixture
) -> None:
    watchdog, clock = dog
    broken, whole = Item(clock), Item(clock)
    broken.on_due = lambda now, late: 1 / 0  # type: ignore[method-assign,assignment]
    watchdog.schedule(broken, clock.now() + 1)
    watchdog.schedule(whole, clock.now() + 2)
    await clock.advance(3)
    assert whole.seen == [(2, 0)]
    assert "ZeroDivisionError" in caplog.text


def kept(watchdog: Watchdog) -> int:
    return len(watchdog._heap) + len(watchdog._seconds) + sum(map(len, watchdog._seconds.values()))


@pytest.mark.parametrize(
    ("pause", "step"),
    [
        pytest.param(0.5, 0, id="in this second"),  # `forget`: compaction once most of the heap is stale
        pytest.param(3600, 0, id="far off"),  # `forget`: del self._seconds[…][item]
        pytest.param(3600, 1, id="in many seconds"),  # `_sweep`
    ],
)
async def test_nothing_is_kept_of_finished_items(dog: tuple[Watchdog, VirtualClock], pause: float, step: float) -> None:
    watchdog, clock = dog
    await clock.advance(0)
    lasting = [Item(clock) for _ in range(100)]
    for number, item in enumerate(lasting):
        watchdog.schedule(item, clock.now() + pause + number / 1000)
    for number in range(5_000):
        item = Item(clock)
        watchdog.schedule(item, clock.now() + pause + step * number)
        watchdog.forget(item)
    assert kept(watchdog) < 400
    await clock.advance(pause + 1)
    assert [item.seen for item in lasting] == [[(pytest.approx(pause + n / 1000), 0)] for n in range(100)]


async def test_many_short_leases_leave_nothing(locks: LockManager) -> None:
    for i in range(500):
        async with locks.lock(f"n{i}"):
            pass
    assert kept(runtime_of(locks).watchdog) < 200


async def test_the_order_within_a_second(dog: tuple[Watchdog, VirtualClock]) -> None:
    """Also for items that come when that second has begun, or are put off, or brought forward from another one."""
    watchdog, clock = dog
    first, last, moved, late, gone = (Item(clock) for _ in range(5))
    watchdog.schedule(last, clock.now() + 2.75)
    watchdog.schedule(gone, clock.now() + 2.5)
    watchdog.schedule(moved, clock.now() + 7)
    watchdog.schedule(first, clock.now() + 2.25)
    watchdog.forget(gone)
    await clock.advance(2.125)
    watchdog.schedule(moved, clock.now() + 0.5)
    watchdog.schedule(late, clock.now() + 0.25)
    await clock.advance(0.5)
    assert [item.seen for item in (first, late, moved, last, gone)] == [[(2.25, 0)], [(2.375, 0)], [(2.625, 0)], [], []]
    watchdog.schedule(last, clock.now() + 3)
    await clock.advance(5)
    assert last.seen == [(5.625, 0)]
    assert gone.seen == []


async def test_a_stop_looks_at_all_items_a_last_time() -> None:
    clock = VirtualClock()
    watchdog = Watchdog(clock)
    watchdog.start(MemoryBackend())
    await clock.advance(0)
    near, far, gone = (Item(clock) for _ in range(3))
    for item, pause in ((far, 1e9), (near, 0.25), (gone, 60.0)):
        watchdog.schedule(item, clock.now() + pause)
    watchdog.forget(gone)
    watchdog.stop()
    assert (len(near.seen), len(far.seen), len(gone.seen)) == (1, 1, 0)


async def test_no_task_however_many_leases(locks: LockManager, backend: MemoryBackend) -> None:
    """A shutdown that cancels all other tasks cancels nothing of ours."""
    assert asyncio.all_tasks() == {asyncio.current_task()}
    leases = [await locks.lock(f"n{i}").acquire() for i in range(50)]
    assert asyncio.all_tasks() == {asyncio.current_task()}
    await backend.clock.advance(3 * TTL)
    assert not any(lease.lost for lease in leases)
    for lease in leases:
        await lease.release()


async def test_renewals_of_one_moment_leave_in_chunks() -> None:
    """`_ask_due`: CHUNK holds a request; §6, one task renews thousands."""
    backend = Choosy()
    async with LockManager(backend) as locks, AsyncExitStack() as stack:
        for i in range(2 * CHUNK + 20):
            await stack.enter_async_context(locks.lock(f"n{i}"))
        await backend.clock.advance(TTL / 3)
        assert backend.batches == [CHUNK, CHUNK, 20]
        await backend.clock.advance(TTL / 3)
        assert backend.batches == [CHUNK, CHUNK, 20] * 2


async def test_renewals_of_almost_one_moment_leave_together() -> None:
    """`_ask_due`: a thirtieth of the ttl early, with others; never alone, and never late."""
    backend = Choosy()
    async with LockManager(backend) as locks, AsyncExitStack() as stack:
        for pause in (0.0, MAX_EARLY * 0.9, MAX_EARLY * 0.2):
            await backend.clock.advance(pause)
            await stack.enter_async_context(locks.lock(f"n{pause}"))
        item = Item(backend.clock)
        runtime_of(locks).watchdog.schedule(item, backend.clock.now() + TTL / 3 - MAX_EARLY)
        await backend.clock.advance(TTL / 3 - MAX_EARLY * 1.1)
        assert item.seen == []  # a lease that did not agree to it is not looked at early
        assert backend.batches == [2]  # at the first one's time; the third is too early
        await backend.clock.advance(MAX_EARLY)
        assert backend.batches == [2]
        await backend.clock.advance(MAX_EARLY * 0.1)
        assert backend.batches == [2, 1]


async def test_a_short_lease_is_not_renewed_with_long_ones_early() -> None:
    """`Policy.early`: a thirtieth of its own ttl."""
    backend = Choosy()
    async with LockManager(backend) as locks, locks.lock("long"):
        async with locks.lock("short", ttl=3.0):
            await backend.clock.advance(1.0)
            assert backend.batches == [1]
        await backend.clock.advance(TTL / 3 - 1.15)
        async with locks.lock("another", ttl=3.0):
            await backend.clock.advance(0.15)
            assert backend.batches == [1, 1]  # the long one in time, without one that is due in 0.85 s


async def test_a_chunk_has_a_maximum_of_keys() -> None:
    """`_chunks`: a renewal of a multi lock is as large as those of all its names."""
    backend = Choosy()
    async with LockManager(backend) as locks, AsyncExitStack() as stack:
        for i in range(60):
            await stack.enter_async_context(locks.multi_lock(*(f"{i}.{part}" for part in range(64))))
        await backend.clock.advance(TTL / 3)
        assert sum(backend.batches) == 60 * 64
        assert max(backend.batches) <= CHUNK_KEYS
        assert len(backend.batches) == 2


async def test_a_denied_key_spoils_no_other_lease(caplog: pytest.LogCaptureFixture) -> None:
    """C5. `Watchdog.renew`: a request that fails as a whole is split down to single keys."""
    backend = Choosy()
    async with LockManager(backend) as locks:
        leases = [await locks.lock(f"n{i}").acquire() for i in range(16)]
        bad = leases[5]
        backend.denied = {"n5"}
        await backend.clock.advance(TTL / 3)
        assert sorted(backend.batches) == [1, 1, 2, 2, 4, 4, 8, 8, 16]
        assert {lease.name for lease in leases if lease.remaining() < DEADLINE - 1} == {"n5"}
        await backend.clock.advance(TTL)
        assert [lease.name for lease in leases if lease.lost] == ["n5"]
        assert bad.reason is LossReason.UNREACHABLE
        with pytest.raises(LockLost) as caught:
            await bad.release()
        assert "NOPERM" in str(caught.value.__cause__)
        backend.denied = set()
        for lease in leases:
            if lease is not bad:
                await lease.release()
    assert caplog.text.count("could not renew") == 1


async def test_a_wrong_type_spoils_no_other_lease(locks: LockManager, backend: MemoryBackend) -> None:
    """C5, the other half: `renew_one` judges each key under pcall."""
    leases = [await locks.lock(f"n{i}").acquire() for i in range(3)]
    key = "aiolock:lock:{n1}"
    backend.store.delete(key)
    backend.store.set(key, "a string", 3_600_000)
    backend.calls.clear()
    await backend.clock.advance(TTL / 3)
    assert backend.calls == ["renew"]
    await backend.clock.advance(2 * TTL)
    assert [lease.reason for lease in leases] == [None, LossReason.UNREACHABLE, None]
    backend.store.delete(key)
    for lease in (leases[0], leases[2]):
        await lease.release()
    with pytest.raises(LockLost):
        await leases[1].release()


async def test_renewal_does_not_wait_for_answers(locks: LockManager, backend: MemoryBackend) -> None:
    """§6: it never awaits I/O; a second lease is renewed while the first one's answer is missing."""
    first = await locks.lock("first").acquire()
    await backend.clock.advance(5)
    second = await locks.lock("second").acquire()
    with backend.outage():
        await backend.clock.advance(11)
        waiting = [call.script.name for call, _ in backend._backlog]
    assert waiting == ["renew", "renew"]
    await settle(backend)
    assert not first.lost
    assert not second.lost
    await first.release()
    await second.release()
