"""valkey-py: `valkey.asyncio.lock.Lock`, a fork of redis-py's."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager

from valkey.asyncio import Valkey
from valkey.asyncio.lock import Lock as TheirLock


class Lock:
    """With its own polling interval."""

    settings = "timeout=ttl, sleep=0.1 (its default), pool of 1,000"
    scripted = frozenset({"get", "del"})
    permits = 1

    async def open(self, url: str) -> None:
        """Connect."""
        self._client = Valkey.from_url(url, max_connections=1000)

    async def close(self) -> None:
        """Disconnect."""
        await self._client.aclose()

    def lock(self, name: str, ttl: float) -> AbstractAsyncContextManager[object]:
        """Return a lock that expires."""
        return TheirLock(self._client, name, timeout=ttl)
