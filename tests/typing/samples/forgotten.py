"""Calls whose `await` is missing. These rules of lock.md find each line that ends so, and no other."""

# mypy: enable-error-code="truthy-bool, unused-awaitable"
# pyright: strict, reportUnusedCallResult=true

from __future__ import annotations

from aiolock import LockManager

lock = LockManager("redis://localhost").lock("a")


async def use() -> None:
    lock.acquire()  # refused
    lock.try_acquire()  # refused
    lock.is_locked()  # refused
    if lock.is_locked():  # refused
        lock.release()  # refused
    async with lock:
        pass
    lease = await lock.acquire()
    lease.release()  # refused
