"""The baseline: the cheapest lock that redis-py allows, and the cheapest hand-off that Redis has."""

from __future__ import annotations

import secrets
from contextlib import AbstractAsyncContextManager
from types import TracebackType

from redis.asyncio import Redis, RedisCluster

COMPARE_AND_DELETE = "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0"


class Base:
    """`SET key token NX PX` and an EVALSHA that compares and deletes: no waiting, no renewal, no fence."""

    async def open(self, url: str) -> None:
        """Connect, with a pool of 1,000."""
        self._client = Redis.from_url(url, max_connections=1000)
        self._sha = await self._client.script_load(COMPARE_AND_DELETE)

    async def close(self) -> None:
        """Disconnect."""
        await self._client.aclose()

    async def pair(self, name: str) -> None:
        """Acquire and release."""
        token = secrets.token_hex(8)
        if not await self._client.set(name, token, nx=True, px=30_000):
            raise RuntimeError(f"{name} was taken")
        await self._client.evalsha(self._sha, 1, name, token)


class ClusterBase(Base):
    """The same through `redis.asyncio.RedisCluster`."""

    async def open(self, url: str) -> None:
        """Connect."""
        self._client = RedisCluster.from_url(url, max_connections=1000)  # type: ignore[assignment]
        self._sha = await self._client.script_load(COMPARE_AND_DELETE)


class Blpop:
    """One token in a list: BLPOP takes it, LPUSH brings it back. It is lost for ever if its holder dies."""

    settings = "bare BLPOP and LPUSH, a connection for each waiter"
    scripted: frozenset[str] = frozenset()
    permits = 1

    async def open(self, url: str) -> None:
        """Connect."""
        self._client = Redis.from_url(url, max_connections=1000, socket_timeout=None)

    async def close(self) -> None:
        """Disconnect."""
        await self._client.aclose()

    async def prepare(self, name: str) -> None:
        """Put the one token there."""
        await self._client.lpush(name, "token")  # type: ignore[misc]

    def lock(self, name: str, ttl: float) -> AbstractAsyncContextManager[object]:
        """Return a lock whose holder has the token."""
        return _Token(self._client, name)


class _Token:
    def __init__(self, client: Redis, name: str) -> None:
        self._client = client
        self._name = name

    async def __aenter__(self) -> None:
        await self._client.blpop([self._name])  # type: ignore[misc]

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._client.lpush(self._name, "token")  # type: ignore[misc]
