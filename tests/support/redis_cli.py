"""A view of the server beside the library: plain clients without retries, and what the server executed."""

from __future__ import annotations

import functools
import re
import socket
from collections import Counter
from typing import Any
from urllib.parse import urlsplit

import redis
import redis.asyncio
from redis.asyncio.retry import Retry as AsyncRetry
from redis.backoff import NoBackoff
from redis.retry import Retry

from aiolock.scripts import condition, latch, lock, multi, once, outcome, queue

Version = tuple[int, int]

INSIDE_SCRIPTS = frozenset(
    name.lower()
    for script in (
        *lock.SCRIPTS,
        *multi.SCRIPTS,
        *queue.SCRIPTS,
        *latch.SCRIPTS,
        *condition.SCRIPTS,
        *once.SCRIPTS,
        *outcome.SCRIPTS,
    )
    for name in re.findall(r"redis\.p?call\('(\w+)'", script.lua)
) | {"pubsub|numsub"}
"""Commands that the scripts call: the server counts them together with those that clients send."""


FORKS = {"valkey_version": "Valkey", "redict_version": "Redict", "redis_version": "Redis"}
"""The field with the version of each server. The forks also have that of the Redis they come from."""


def client(url: str, **options: Any) -> redis.Redis:
    """Return a blocking client; close it."""
    return redis.Redis.from_url(url, retry=Retry(NoBackoff(), 0), socket_timeout=10.0, **options)


def async_client(url: str, **options: Any) -> redis.asyncio.Redis:
    """Return an asyncio client; `aclose()` it."""
    return redis.asyncio.Redis.from_url(url, retry=AsyncRetry(NoBackoff(), 0), **options)


def product(link: redis.Redis) -> tuple[str, str]:
    """Return what the server is, and its version: ("Valkey", "9.1.2")."""
    info: dict[str, Any] = link.info("server")  # type: ignore[assignment]
    field = next(field for field in FORKS if field in info)
    keydb = str(info.get("executable", "")).endswith("keydb-server")  # nothing else tells
    return "KeyDB" if keydb else FORKS[field], str(info[field])


def version_of(link: redis.Redis | redis.asyncio.Redis) -> Version:
    """Return which version of Redis a server says it is; forks of it say one, too."""
    options = link.connection_pool.connection_kwargs
    return _version(str(options.get("host", "localhost")), int(options.get("port", 6379)))


@functools.cache  # tests change the server of a port, but not its version
def _version(host: str, port: int) -> Version:
    with client(f"redis://{host}:{port}") as link:
        major, minor, *_ = str(link.info("server")["redis_version"]).split(".")  # type: ignore[index]
    return int(major), int(minor)


def fill(link: redis.Redis) -> None:
    """Bring a server to its memory limit."""
    link.config_set("maxmemory-policy", "noeviction")
    link.config_set("maxmemory", 1)
    try:
        link.set("more", 1)
    except redis.exceptions.OutOfMemoryError:
        return
    raise AssertionError("there is room left")


def flush(url: str) -> None:
    """Delete every key of the server, in every database."""
    parts = urlsplit(url)
    if parts.scheme != "redis" or parts.username or parts.password:
        with client(url) as link:
            link.flushall()
        return
    # Half of the tests begin with this: a client that introduces itself takes five times as long.
    with socket.create_connection((parts.hostname or "localhost", parts.port or 6379), timeout=10.0) as line:
        line.sendall(b"FLUSHALL\r\n")
        answer = line.recv(100)
    assert answer == b"+OK\r\n", answer


class CommandStats:
    """Counts what the server executed since `reset`.

    Args:
        raw: the client to ask with; its own questions are not counted.
    """

    def __init__(self, raw: redis.asyncio.Redis) -> None:
        self._raw = raw
        self._before: Counter[str] = Counter()

    async def reset(self) -> None:
        """Start counting."""
        self._before = await self._read()

    async def counts(self) -> Counter[str]:
        """Return the calls of each command since `reset`, those in scripts included; names as `evalsha`,
        `client|kill`. Before Redis 7 all subcommands of `client` count as `client`.
        """
        now = await self._read()
        return now - self._before

    async def sent(self) -> Counter[str]:
        """Return the calls of each command that clients sent: a script counts once, as `evalsha`."""
        counts = await self.counts()
        return Counter({name: count for name, count in counts.items() if name not in INSIDE_SCRIPTS})

    async def _read(self) -> Counter[str]:
        found = await self._raw.info("commandstats")
        counts = Counter({name.removeprefix("cmdstat_"): int(row["calls"]) for name, row in found.items()})
        # What a client sends to introduce itself depends on when its pool connects. That of `raw` does not count.
        del counts["info"]
        return counts
