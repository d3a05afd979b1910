"""What users write, and a type checker must accept."""

from __future__ import annotations

import asyncio
from contextlib import AbstractAsyncContextManager, nullcontext
from datetime import timedelta
from typing import Unpack, assert_type

import anyio
import redis.asyncio

from aiolock import (
    AcquireTimeout,
    Acquisition,
    Default,
    Holder,
    Lease,
    Lock,
    LockInfo,
    LockManager,
    LockOptions,
    LossReason,
    Poll,
)
from aiolock.recipes import Busy, Election, Run, current_lease, exclusive, leader, once
from aiolock.recipes import guard as guarded

locks = LockManager(
    "redis://localhost",
    ttl=timedelta(minutes=1),
    margin=timedelta(seconds=2),
    acquire_timeout=5,
    request_timeout=timedelta(seconds=5),
    recheck=2.5,
    liveness=timedelta(seconds=3),
    waiting=Poll(first=timedelta(milliseconds=10), cap=1),
    replica_timeout=timedelta(milliseconds=50),
)


def wrapped(name: str, **options: Unpack[LockOptions]) -> Lock:
    return locks.lock(name, **options)


def held(lock: Lock, timeout: float | timedelta | Default | None = Default()) -> Acquisition[Lease]:  # noqa: B008
    return lock.acquire(timeout=timeout)


async def use() -> None:
    assert_type(await locks.open(), LockManager)
    lock = wrapped("order:42", ttl=timedelta(seconds=30), max_hold=timedelta(hours=1), acquire_timeout=None)
    options: LockOptions = {"ttl": 30.0, "acquire_timeout": timedelta(seconds=2)}
    locks.lock("order:42", **options)
    async with lock as lease:
        assert_type(lease, Lease)
        lease.ensure(timedelta(seconds=1))
        await lease.renew(timedelta(minutes=2))
        assert_type(lease.reason, LossReason | None)
        assert_type(f"{lease.reason}", str)
    async with lock.acquire(timeout=timedelta(seconds=2)) as lease:
        assert_type(lease, Lease)
    attempt = lock.try_acquire()
    async with attempt as found:
        assert_type(found, Lease | None)
        assert_type(attempt.holder, Holder | None)
    assert_type(await lock.try_acquire(), Lease | None)
    async with await lock.acquire() as lease:
        assert_type(lease, Lease)
    guard: AbstractAsyncContextManager[object] = nullcontext()
    if not await lock.is_locked():
        guard = await lock.acquire()
    async with guard:
        pass
    try:
        await lock.acquire()
    except AcquireTimeout as error:
        assert_type(error.holder, Holder | None)
    assert_type(await held(lock), Lease)
    task = asyncio.create_task(lock.acquire())
    assert_type(await task, Lease)
    async with asyncio.TaskGroup() as group:
        group.create_task(locks.semaphore("pool", 3, ttl=timedelta(seconds=9)).acquire(2))
    async with anyio.create_task_group() as anyio_group:
        anyio_group.start_soon(locks.latch("ready", 3, ttl=timedelta(days=1)).wait, timedelta(seconds=1))
    assert_type(await guarded(await lock.acquire(), redis.asyncio.Redis()).hset("h", {"a": 1, "b": "x"}), int)
    reason: str = LossReason.EXPIRED
    print(reason)
    await locks.close()


async def work(term: Lease) -> int:
    return term.fence


async def lead() -> None:
    election = leader(locks.lock("feed"), backoff=timedelta(seconds=1), max_backoff=60)
    assert_type(await election.run(work), int)
    assert_type(await election.current(), LockInfo | None)
    async with election.running(work) as same:
        assert_type(same, Election)
    async with election as term:
        assert_type(term, Lease)
    async for now in election.changes(every=timedelta(seconds=5)):
        assert_type(now, LockInfo | None)


@exclusive(locks, key="order:{order}", timeout=timedelta(seconds=2), ttl=30)
async def pay(order: str, *, amount: int = 1) -> bool:
    lease = current_lease()
    assert_type(lease, Lease | None)
    return lease is not None


class Shop:
    def __init__(self) -> None:
        self.locks = locks

    @exclusive(lambda self: self.locks, key=lambda self, order: f"order:{order}", busy="skip")
    async def ship(self, order: int) -> str:
        return f"{order}"


async def call() -> None:
    assert_type(await pay("42", amount=3), bool)
    assert_type(await Shop().ship(42), str | None)
    task = asyncio.create_task(pay(order="42"))
    try:
        assert_type(await task, bool)
    except Busy as error:
        assert_type(error.holder, Holder | None)


async def nightly() -> None:
    job = once(locks, "report", window=timedelta(hours=20), repeat="both", ttl=30)
    run = await job.run(work)
    assert_type(run, Run[int])
    assert_type(run.result, int | None)
    assert_type(await job.last(), Run[object] | None)
