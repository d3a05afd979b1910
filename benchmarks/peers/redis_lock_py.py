"""redis-lock-py: SET NX EX, and a pub/sub connection for each waiter."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager

from redis.asyncio import Redis
from redis_lock.asyncio import RedisLock


class Lock:
    """Its expiry is in whole seconds."""

    settings = "expire_timeout=ttl, blocking_timeout=60 (its default), pool of 1,000"
    scripted = frozenset({"get", "del", "publish"})
    permits = 1

    async def open(self, url: str) -> None:
        """Connect."""
        self._client = Redis.from_url(url, max_connections=1000)

    async def close(self) -> None:
        """Disconnect."""
        await self._client.aclose()

    def lock(self, name: str, ttl: float) -> AbstractAsyncContextManager[object]:
        """Return a lock that expires."""
        return RedisLock(self._client, name, blocking_timeout=60, expire_timeout=max(1, round(ttl)))
