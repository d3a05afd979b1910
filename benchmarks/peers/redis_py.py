"""redis-py: `redis.asyncio.lock.Lock`."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager

from redis.asyncio import Redis
from redis.asyncio.lock import Lock


class Default:
    """With its own polling interval."""

    settings = "timeout=ttl, sleep=0.1 (its default), pool of 1,000"
    scripted = frozenset({"get", "del"})
    permits = 1
    sleep = 0.1

    async def open(self, url: str) -> None:
        """Connect."""
        self._client = Redis.from_url(url, max_connections=1000)

    async def close(self) -> None:
        """Disconnect."""
        await self._client.aclose()

    def lock(self, name: str, ttl: float) -> AbstractAsyncContextManager[object]:
        """Return a lock that expires."""
        return Lock(self._client, name, timeout=ttl, sleep=self.sleep)


class Eager(Default):
    """Polling ten times as often."""

    settings = "timeout=ttl, sleep=0.01, pool of 1,000"
    sleep = 0.01
