"""pottery: `AIORedlock` on one master."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager

from pottery import AIORedlock
from redis.asyncio import Redis


class Lock:
    """Redlock with one server as the whole quorum."""

    settings = "auto_release_time=ttl, one master, pool of 1,000"
    scripted = frozenset({"get", "del"})
    permits = 1

    async def open(self, url: str) -> None:
        """Connect."""
        self._client = Redis.from_url(url, max_connections=1000)

    async def close(self) -> None:
        """Disconnect."""
        await self._client.aclose()

    def lock(self, name: str, ttl: float) -> AbstractAsyncContextManager[object]:
        """Return a lock that expires."""
        return AIORedlock(key=name, masters={self._client}, auto_release_time=ttl)
