"""A look at the server beside the library: plain clients without retries, and what the server was asked."""

from __future__ import annotations

import re
from collections import Counter
from typing import Any

import redis
import redis.asyncio
from redis.asyncio.retry import Retry as AsyncRetry
from redis.backoff import NoBackoff
from redis.retry import Retry

from aiolock.scripts import latch, lock, multi, queue

INSIDE_SCRIPTS = frozenset(
    name.lower()
    for script in (*lock.SCRIPTS, *multi.SCRIPTS, *queue.SCRIPTS, *latch.SCRIPTS)
    for name in re.findall(r"redis\.p?call\('(\w+)'", script.lua)
)
"""Commands that the scripts issue: the server counts them beside those that clients send."""


def client(url: str) -> redis.Redis:
    """A blocking client; close it."""
    return redis.Redis.from_url(url, retry=Retry(NoBackoff(), 0), socket_timeout=10.0)


def async_client(url: str, **options: Any) -> redis.asyncio.Redis:
    """An asyncio client; `aclose()` it."""
    return redis.asyncio.Redis.from_url(url, retry=AsyncRetry(NoBackoff(), 0), **options)


def flush(url: str) -> None:
    """Delete every key of the server, of every database."""
    with client(url) as link:
        link.flushall()


class CommandStats:
    """Counts what the server executed since `reset`.

    Args:
        raw: the client to ask with; what it asks here is not counted.
    """

    def __init__(self, raw: redis.asyncio.Redis) -> None:
        self._raw = raw
        self._before: Counter[str] = Counter()

    async def reset(self) -> None:
        """Count from here."""
        self._before = await self._read()

    async def counts(self) -> Counter[str]:
        """Calls of each command since `reset`, those inside scripts included; names as `evalsha`, `client|kill`."""
        now = await self._read()
        return now - self._before

    async def sent(self) -> Counter[str]:
        """Calls of each command that only a client can have sent: scripts count once, as `evalsha`."""
        counts = await self.counts()
        return Counter({name: count for name, count in counts.items() if name not in INSIDE_SCRIPTS})

    async def _read(self) -> Counter[str]:
        found = await self._raw.info("commandstats")
        counts = Counter({name.removeprefix("cmdstat_"): int(row["calls"]) for name, row in found.items()})
        # What a client sends to introduce itself depends on when its pool connects: `raw`'s own is not of interest.
        del counts["info"]
        return counts
