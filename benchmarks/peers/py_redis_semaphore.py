"""py-redis-semaphore: `Mutex`, a sorted set, BLPOP and a heartbeat."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager

from redis.asyncio import Redis
from redis_semaphore import Mutex as TheirMutex


class Mutex:
    """As its documentation recommends for production."""

    settings = "lock_timeout=ttl, strict_mode=True, BLPOP and heartbeat (its defaults), pool of 1,000"
    scripted = frozenset(
        {"zadd", "zrem", "zcard", "zscore", "zremrangebyscore", "time", "incr", "hset", "hget", "hdel", "pexpire"}
        | {"expire", "rpush", "lpush", "llen", "del", "exists", "get", "set", "zrange", "zrangebyscore", "ltrim"}
    )
    permits = 1

    async def open(self, url: str) -> None:
        """Connect."""
        self._client = Redis.from_url(url, max_connections=1000)

    async def close(self) -> None:
        """Disconnect."""
        await self._client.aclose()

    def lock(self, name: str, ttl: float) -> AbstractAsyncContextManager[object]:
        """A mutex, renewed."""
        return TheirMutex(self._client, name, lock_timeout=ttl, strict_mode=True)
