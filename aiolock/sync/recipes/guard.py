"""Writes to the lock's own Redis that the server does only while the lease holds, for threads."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping, Sequence
from datetime import timedelta
from typing import Protocol, TypeVar

from ...errors import ConfigurationError
from ...recipes.guard import GuardedWrites as AsyncGuardedWrites
from ...recipes.guard import Word
from ...recipes.guard import guard as async_guard
from ..lease import Lease

R = TypeVar("R")


class RedisClient(Protocol):
    """A `redis.Redis`, `redis.RedisCluster`, or the same of valkey-py."""

    def execute_command(self, *args: Word) -> object:
        """Send one command, and return its reply."""


def guard(lease: Lease, client: RedisClient) -> GuardedWrites:
    """Return writes that Redis itself refuses once the lease no longer holds.

    As `aiolock.recipes.guard`, which says all of it.

    Args:
        lease: of a `lock()`, `fair_lock()` or `multi_lock()`, or of the `write` side of an `rw_lock()`.
        client: your own client, of the server and database that keep the lock.

    Raises:
        ConfigurationError: no lease of `aiolock.sync`, one that excludes no one, or of a quorum; a pipeline, an asyncio
            client, or one with another database.

    Cost: no I/O.

    Example:
        ```python
        with locks.lock("order:42") as lease:
            orders = guard(lease, client)
            orders.hset("{order:42}:state", {"paid": 1})
        ```
    """
    if not isinstance(lease, Lease):
        raise ConfigurationError("", f"guard() needs the lease that `with lock as lease:` gives, not {lease!r}")
    if hasattr(client, "aclose") or hasattr(client, "execute") or not hasattr(client, "execute_command"):
        raise ConfigurationError(
            lease.name, f"guard() for threads needs a blocking client that sends at once, not {type(client).__name__}"
        )
    return GuardedWrites(lease, async_guard(lease._core, _InThread(client)))


class GuardedWrites:
    """What `guard()` returns: a few write commands, and your own Lua.

    Each method raises what those of `aiolock.recipes.GuardedWrites` raise. They keep the order of the calls, from all
    threads. If a signal interrupts one, the write may still be done. Cost: one round trip, in a thread of its own.

    Args:
        lease: under which they are done.
        core: what it stands for.
    """

    def __init__(self, lease: Lease, core: AsyncGuardedWrites) -> None:
        self._lease = lease
        self._core = core

    def set(
        self,
        key: str | bytes,
        value: Word,
        *,
        ttl: float | timedelta | None = None,
        ex: int | timedelta | None = None,
        px: int | timedelta | None = None,
        nx: bool = False,
        xx: bool = False,
    ) -> bool:
        """Set a key; return False if `nx` (only if it does not exist) or `xx` (only if it does) kept it from that.

        Args:
            key: which.
            value: to what.
            ttl: seconds until it expires, from 0.001; or `ex`, the same in redis-py's words, or `px`, milliseconds.
            nx: only if it does not exist.
            xx: only if it exists.
        """
        return self._do(lambda: self._core.set(key, value, ttl=ttl, ex=ex, px=px, nx=nx, xx=xx))

    def delete(self, *keys: str | bytes) -> int:
        """Delete keys; return how many there were."""
        return self._do(lambda: self._core.delete(*keys))

    def hset(
        self,
        key: str | bytes,
        fields: Mapping[str, Word] | str | bytes | None = None,
        value: Word | None = None,
        *,
        mapping: Mapping[str, Word] | None = None,
    ) -> int:
        """Set fields of a hash, by a mapping, or one field by its name and value; return how many are new."""
        return self._do(lambda: self._core.hset(key, fields, value, mapping=mapping))

    def incrby(self, key: str | bytes, amount: int = 1) -> int:
        """Add to a number; return the sum."""
        return self._do(lambda: self._core.incrby(key, amount))

    def lpush(self, key: str | bytes, *values: Word) -> int:
        """Put values at the head of a list; return its length."""
        return self._do(lambda: self._core.lpush(key, *values))

    def xadd(self, key: str | bytes, fields: Mapping[str, Word]) -> str:
        """Append an entry to a stream; return its id."""
        return self._do(lambda: self._core.xadd(key, fields))

    def expire(self, key: str | bytes, ttl: float | timedelta) -> bool:
        """Let a key expire after `ttl` seconds, from 0.001; return False if there is none."""
        return self._do(lambda: self._core.expire(key, ttl))

    def write(self, *commands: Sequence[Word]) -> list[object]:
        """Do several writes in one script: all or, if the lease no longer holds, none.

        Args:
            commands: each a command and its arguments, as `("INCRBY", "stock:7", -1)`.

        Returns:
            The raw reply of each; a sum of 2**53 or more comes as text.
        """
        return self._do(lambda: self._core.write(*commands))

    def run(self, lua: str, keys: Sequence[str | bytes] = (), args: Sequence[Word] = ()) -> object:
        """Run your own Lua, with its `KEYS` and `ARGV`, if the lease still holds.

        What it returns is kept for an hour, for a copy of the request: return little. It has no `#!lua` line, and names
        all its keys in `keys`.

        Returns:
            What it returns, as your client decodes it.
        """
        return self._do(lambda: self._core.run(lua, keys, args))

    def _do(self, work: Callable[[], Coroutine[object, object, R]]) -> R:
        return self._lease._portal.call(self._lease.name, work)

    def __repr__(self) -> str:
        return f"<GuardedWrites of {self._lease!r}>"


class _InThread:
    """A blocking client as the asynchronous recipe needs it: each command has a thread.

    Args:
        client: the client.
    """

    def __init__(self, client: RedisClient) -> None:
        self._client = client
        self.connection_pool = getattr(client, "connection_pool", None)

    async def execute_command(self, *args: Word) -> object:
        return await asyncio.to_thread(self._client.execute_command, *args)

    async def aclose(self) -> None:
        """It is not ours to close."""
