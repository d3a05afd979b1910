"""What a type checker must refuse: each line that ends so, and no other."""

from __future__ import annotations

from aiolock import Lease, LockManager
from aiolock.recipes import exclusive, leader, once

locks = LockManager("redis://localhost")
locks.lock("a", tll=5)  # refused
locks.lock("a", timeout=5)  # refused
locks.lock("a", ttl="5")  # refused
locks.lock("a", acquire_timeout=False, expire=3)  # refused
locks.fair_lock("a", tll=5)  # refused
locks.multi_lock("a", "b", tll=5)  # refused
locks.rw_lock("a", tll=5)  # refused
locks.semaphore("a", 3, tll=5)  # refused
locks.latch("a", 3, tll=5)  # refused
LockManager("redis://localhost", tll=5)  # refused
LockManager.quorum([], liveness=3)  # refused

lock = locks.lock("a", ttl=5)


async def use() -> None:
    lock.acquire(blocking=False)  # refused
    lock.acquire(3)  # refused
    lock.try_acquire(timeout=3)  # refused
    locks.semaphore("a", 3).acquire(blocking=False)  # refused
    locks.rw_lock("a").read.acquire(blocking=False)  # refused
    locks.multi_lock("a").acquire(ttl=3)  # refused
    async with lock.try_acquire() as attempt:
        attempt.fence  # noqa: B018  # refused
    async with lock as lease:
        lease.hold  # noqa: B018  # refused
        lease.guard  # noqa: B018  # refused
        lease.give_up("clean")  # refused
        lease.fence = 3  # refused


def plain(term: Lease) -> int:
    return term.fence


async def without_a_term() -> None: ...


async def lead() -> None:
    await leader(lock).run(plain)  # refused
    await leader(lock).run(without_a_term)  # refused
    leader(locks)  # refused
    leader(lock, ttl=3)  # refused


@exclusive(locks, key="a")
async def pay(order: str) -> int:
    return 1


@exclusive(locks, key="a", busy="skip")
async def skipped(order: str) -> int:
    return 1


async def call() -> None:
    await pay(42)  # refused
    await pay("42", amount=1)  # refused
    (await skipped("42")).bit_length()  # refused
    exclusive(locks, key="a", busy="never")  # refused
    exclusive(locks, key="a", busy="skip", timeout=1)  # refused
    exclusive(locks)  # refused
    exclusive(locks, key="a")(plain)  # refused


async def nightly() -> None:
    once(locks, "a", window=60)  # refused
    once(locks, "a", window=60, repeat="always")  # refused
    await once(locks, "a", window=60, repeat="never").run(plain)  # refused
