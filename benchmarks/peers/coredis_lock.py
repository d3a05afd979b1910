"""coredis: its own client, and `coredis.patterns.lock.Lock`."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager

from coredis import Redis
from coredis.patterns.lock import Lock as TheirLock


class Lock:
    """With its own polling interval; the client multiplexes."""

    settings = "timeout=ttl, sleep=0.1 (its default)"
    scripted = frozenset({"get", "del"})
    permits = 1

    async def open(self, url: str) -> None:
        """Connect."""
        self._client = Redis.from_url(url, max_connections=1000)
        await self._client.__aenter__()

    async def close(self) -> None:
        """Disconnect."""
        await self._client.__aexit__(None, None, None)

    def lock(self, name: str, ttl: float) -> AbstractAsyncContextManager[object]:
        """Return a lock that expires."""
        return TheirLock(self._client, name, timeout=ttl)
