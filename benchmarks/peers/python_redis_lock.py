"""python-redis-lock: for threads, so an asyncio program runs it in an executor."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractAsyncContextManager

from redis import Redis
from redis_lock import Lock as TheirLock


class Lock:
    """Each call runs in a thread of a pool; its expiry is in whole seconds."""

    settings = "expire=ttl, auto_renewal=True, in an executor of 256 threads, pool of 1,000"
    scripted = frozenset({"get", "del", "lpush", "pexpire", "expire"})
    permits = 1

    async def open(self, url: str) -> None:
        """Connect."""
        self._client = Redis.from_url(url, max_connections=1000, socket_timeout=None)
        self._threads = ThreadPoolExecutor(256)

    async def close(self) -> None:
        """Disconnect; a thread that waits for a lock keeps waiting."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    def lock(self, name: str, ttl: float) -> AbstractAsyncContextManager[object]:
        """Return a lock that a thread of its own renews."""
        return _Lock(self._threads, TheirLock(self._client, name, expire=max(1, round(ttl)), auto_renewal=True))


class _Lock:
    def __init__(self, threads: ThreadPoolExecutor, lock: TheirLock) -> None:
        self._threads = threads
        self._lock = lock

    async def __aenter__(self) -> object:
        return await asyncio.get_running_loop().run_in_executor(self._threads, self._lock.acquire)

    async def __aexit__(self, *how: object) -> None:
        await asyncio.get_running_loop().run_in_executor(self._threads, self._lock.release)
