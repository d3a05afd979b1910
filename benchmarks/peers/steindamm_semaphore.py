"""steindamm: a semaphore with one permit, a list and BLPOP; its holders have no lease."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager

from redis.asyncio import Redis
from steindamm import AsyncSemaphore


class Semaphore:
    """Waiting needs a client whose reads do not time out."""

    settings = "capacity=1, expiry=60 (its default), max_sleep=0, socket_timeout=None, pool of 1,000"
    scripted = frozenset({"exists", "rpush", "set", "setnx", "expire"})
    permits = 1

    async def open(self, url: str) -> None:
        """Connect."""
        self._client = Redis.from_url(url, max_connections=1000, socket_timeout=None)

    async def close(self) -> None:
        """Disconnect."""
        await self._client.aclose()

    def lock(self, name: str, ttl: float) -> AbstractAsyncContextManager[object]:
        """Return one permit. The ttl is that of the whole semaphore, not of a holder's lease."""
        return AsyncSemaphore.create(connection=self._client, name=name, capacity=1, max_sleep=0)
