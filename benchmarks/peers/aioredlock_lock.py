"""aioredlock: Redlock on one server; it extends a lock by itself if the lock has no timeout."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager

import aioredis
from aioredlock import Aioredlock


class Lock:
    """One manager for each ttl, because the interval of its renewal belongs to the manager."""

    settings = "internal_lock_timeout=ttl, retry_count=100,000, one server, pool of 1,000"
    scripted = frozenset({"get", "set", "del", "pexpire", "pttl"})
    permits = 1

    async def open(self, url: str) -> None:
        """Connect here: the library itself would try for ever, whatever the reason, and not tell you."""
        self._client = await aioredis.create_redis_pool(url, maxsize=1000)
        self._managers: dict[float, Aioredlock] = {}

    async def close(self) -> None:
        """Disconnect."""
        for manager in self._managers.values():
            await manager.destroy()
        self._client.close()
        await self._client.wait_closed()

    def lock(self, name: str, ttl: float) -> AbstractAsyncContextManager[object]:
        """A lock, renewed."""
        if ttl not in self._managers:
            self._managers[ttl] = Aioredlock([self._client], retry_count=100_000, internal_lock_timeout=ttl)
        return _Lock(self._managers[ttl], name)


class _Lock:
    def __init__(self, manager: Aioredlock, name: str) -> None:
        self._manager = manager
        self._name = name

    async def __aenter__(self) -> object:
        self._lock = await self._manager.lock(self._name)
        return self._lock

    async def __aexit__(self, *how: object) -> None:
        await self._manager.unlock(self._lock)
