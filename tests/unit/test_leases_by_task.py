"""What tasks hold: found at once however much there is, and nothing is kept of what has ended."""

from __future__ import annotations

import asyncio
import contextvars
import gc
import sys
import weakref
from collections.abc import Iterator

import pytest

from aiolock import AcquireTimeout, Lease, LockManager, LossReason, NotAcquired
from aiolock.core.holding import leases_by_task
from aiolock.core.holding.leases_by_task import TaskLeases
from aiolock.testing import MemoryBackend

from .world import TTL, Crew, expect_loss, runtime_of, settle

MANY = 300


def chain() -> list[TaskLeases]:
    """What the context refers to, including tasks that hold nothing."""
    found, link = [], leases_by_task._current.get()
    while link is not None:
        found.append(link)
        link = link.outer
    return found


async def test_a_task_that_holds_many_looks_at_few(
    locks: LockManager, backend: MemoryBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`TaskLeases.leases` is a lookup by name: nothing walks over all leases of a task, or over those of a name."""
    kept = [await locks.lock(f"n{i}").acquire() for i in range(MANY)]
    permits = locks.semaphore("s", 10 * MANY)
    kept += [await permits.acquire() for _ in range(MANY)]
    seen: list[Lease] = []

    def count(self: TaskLeases) -> Iterator[Lease]:
        for leases in self.leases.values():
            seen.extend(leases)
            yield from leases

    monkeypatch.setattr(TaskLeases, "__iter__", count)
    async with locks.lock("one more") as lease, locks.lock("one more"):
        assert lease.depth == 2
    async with permits:
        pass
    await locks.lock("n0").release()
    assert seen == []
    assert kept[0].released
    await asyncio.gather(*(lease.release() for lease in kept))


async def test_a_release_out_of_order(locks: LockManager) -> None:
    lock = locks.lock("a")
    outer, inner = await lock.acquire(), await lock.acquire()
    await outer.release()
    await lock.release()
    assert inner.released


async def test_a_task_that_holds_nothing_more_keeps_nothing(locks: LockManager) -> None:
    """Kept by LeasesByTask.remove: `leases.clear()`; websocket tasks live for days after they held a lock once."""
    for name in "abc":
        async with locks.lock(name) as lease:
            hold = weakref.ref(lease)
    del lease
    gc.collect()
    assert hold() is None
    assert [(list(link), sys.getsizeof(link.leases)) for link in chain()] == [([], sys.getsizeof({}))]


async def test_one_task_after_another(locks: LockManager) -> None:
    """Each starts the next one inside its block: the chain is as long as the holds. Kept by leases_by_task._pruned."""
    lengths = []

    async def generation(left: int) -> asyncio.Task[None] | None:
        async with locks.lock(f"n{left}"):
            lengths.append(len(chain()))
            following = asyncio.create_task(step(left - 1)) if left else None
            await asyncio.sleep(0)
        return following

    async def step(left: int) -> None:
        following = await generation(left)
        if following is not None:
            await following

    async with locks.lock("outermost"):
        await step(20)
    assert max(lengths) <= 3


async def test_an_ancestor_of_an_ancestor_holds_it(locks: LockManager, crew: Crew, backend: MemoryBackend) -> None:
    """And the one between them used to hold something else. Kept by leases_by_task.lineage."""

    async def between() -> str:
        async with locks.lock("b"):
            inner = crew.start(wanting())
        return await inner

    async def wanting() -> str:
        async with locks.lock("c"):
            with pytest.raises(AcquireTimeout) as caught:
                await locks.lock("a").acquire(timeout=0)
        return str(caught.value)

    async with locks.lock("a"):
        assert "a task that started this one holds it" in await crew.start(between())


async def test_an_ancestor_lost_it(locks: LockManager, crew: Crew, backend: MemoryBackend) -> None:
    """Sharing would not help. Kept by Kin.of: `hold.reason`."""

    async def wanting() -> str:
        with pytest.raises(AcquireTimeout) as caught:
            await locks.lock("a").acquire(timeout=0)
        return str(caught.value)

    with expect_loss(LossReason.TAKEN_OVER):
        async with locks.lock("a", cancel_on_loss=False).acquire() as lease:
            backend.steal("a")
            await backend.clock.advance(TTL / 3)
            assert lease.lost
            told = await crew.start(wanting())
    assert "a task that started this one" not in told
    backend.expire("a")


async def test_a_task_that_released_as_it_ended(locks: LockManager, backend: MemoryBackend) -> None:
    """Kept by LeasesByTask._end: `if holds is None`."""
    held: list[Lease] = []

    async def work() -> None:
        held.append(await locks.lock("a").acquire())

    task = asyncio.create_task(work())
    task.add_done_callback(lambda _: held[0].release() and None, context=contextvars.Context())
    await task
    await settle(backend)
    assert held[0].released
    assert not runtime_of(locks).holds


async def test_overlaps_are_known_after_another_release(locks: LockManager) -> None:
    """A task with a multi lock has released something else. Kept by LeasesByTask.remove: `contention.overlapping`."""
    async with locks.multi_lock("a", "b"):
        async with locks.lock("c"):
            pass
        with pytest.raises(NotAcquired, match="would wait for itself"):
            await locks.lock("a").acquire(timeout=0)
