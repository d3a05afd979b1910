"""What fault tests look at and wait for."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from typing import Any, Protocol

import redis

from aiolock import BackendError, Lease, Lock, LockManager
from aiolock.scripts.keys import Keys, NameKeys

NAME = "order:42"
ENOUGH = 15.0
"""Seconds: far more than anything here needs, far less than any ttl or recheck that could help instead."""
SHORT = 4.5
"""Seconds: the ttl of what waits for a renewal. From when that is due to the deadline there are more than two seconds:
so long may a noisy machine stand still."""
STILL = 2.3
"""Seconds: a margin within which it may do so."""
LATE = 3.0
"""Seconds that a noisy machine may add to a bound."""
USER = "aiolock-nokill"


def keys_of(name: str = NAME) -> NameKeys:
    return Keys("aiolock").of("lock", name)


async def until(check: Callable[[], object], seconds: float = 10.0) -> None:
    """Poll for what nobody announces."""
    async with asyncio.timeout(seconds):
        while not check():  # noqa: ASYNC110 - what servers and processes do sets no event here
            await asyncio.sleep(0.002)


async def renewed(lease: Lease, since: float) -> None:
    """Wait until a renewal was answered that moved the expiry beyond what it was."""
    async with asyncio.timeout(ENOUGH):
        await until(lambda: lease.hold.expiry > since, ENOUGH)


async def enter(lock: Lock) -> int:
    """Enter and leave; answers the fence."""
    async with lock as lease:
        return lease.fence


async def enter_eventually(lock: Lock) -> int:
    """Enter and leave, as soon as the connection is back: the next attempt to connect may be 2 s away."""
    async with asyncio.timeout(ENOUGH):
        while True:
            with contextlib.suppress(BackendError):
                return await enter(lock)
            await asyncio.sleep(0.01)


class Server:
    """A look at a server from beside.

    Args:
        link: a blocking client.
    """

    def __init__(self, link: redis.Redis) -> None:
        self.link = link

    def locked(self, name: str = NAME) -> bool:
        return bool(self.link.exists(keys_of(name).lock))

    def depths(self, name: str = NAME) -> list[int]:
        return [int(depth) for depth in self.link.hvals(keys_of(name).lock)]  # type: ignore[union-attr]

    def pttl(self, name: str = NAME) -> int:
        return int(self.link.pttl(keys_of(name).lock))  # type: ignore[arg-type]

    def listeners(self, name: str = NAME) -> int:
        ((_, count),) = self.link.pubsub_numsub(keys_of(name).free)  # type: ignore[misc]
        return int(count)

    def held(self) -> set[str]:
        """Every key but states and tombstones."""
        keys = {key.decode() for key in self.link.keys("*")}  # type: ignore[union-attr]
        return {key for key in keys if not key.endswith(":state") and ":dead:" not in key}

    def tombstones(self) -> int:
        return len(self.link.keys("*:dead:*"))  # type: ignore[arg-type]

    def scripts_run(self) -> int:
        """How many since the server started, as every count here."""
        return self._calls("evalsha")

    def subscriptions(self) -> int:
        return self._calls("subscribe")

    def _calls(self, command: str) -> int:
        stats = self.link.info("commandstats")
        return int(stats.get(f"cmdstat_{command}", {"calls": 0})["calls"])  # type: ignore[union-attr, index, call-overload]

    async def ran(self, more: int, since: int) -> None:
        """Wait until the server ran `more` scripts since there had been `since`."""
        await until(lambda: self.scripts_run() >= since + more)


class Opener(Protocol):
    """Enters a manager that is closed at the end of the test."""

    async def __call__(self, url: str, **options: Any) -> LockManager: ...
