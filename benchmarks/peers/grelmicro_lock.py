"""grelmicro: `Lock` on its Redis backend; `hold(auto_extend=True)` where the version has it."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager

from grelmicro.sync import Lock as TheirLock
from grelmicro.sync.redis import RedisSyncBackend


class Lock:
    """With its own polling interval."""

    settings = (
        "lease_duration=ttl, hold(auto_extend=True), pool of 1,000"
        if hasattr(TheirLock, "hold")
        else "lease_duration=ttl, retry_interval=0.1 (its default), pool of 1,000"
    )
    scripted = frozenset({"get", "set", "del", "pexpire"})
    permits = 1

    async def open(self, url: str) -> None:
        """Connect."""
        self._backend = RedisSyncBackend(url)
        self._backend._redis.connection_pool.max_connections = 1000
        await self._backend.__aenter__()

    async def close(self) -> None:
        """Disconnect."""
        await self._backend.__aexit__(None, None, None)

    def lock(self, name: str, ttl: float) -> AbstractAsyncContextManager[object]:
        """Return a lock, renewed if this version can renew."""
        lock = TheirLock(name, backend=self._backend, lease_duration=ttl)
        return _Held(lock) if hasattr(lock, "hold") else lock


class _Held:
    """`hold()` returns a context manager that you can use once."""

    def __init__(self, lock: TheirLock) -> None:
        self._lock = lock

    async def __aenter__(self) -> object:
        self._hold = self._lock.hold(auto_extend=True)
        return await self._hold.__aenter__()

    async def __aexit__(self, *how: object) -> bool | None:
        return await self._hold.__aexit__(*how)
