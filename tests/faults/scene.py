"""What fault tests look at and wait for."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from typing import Any, Protocol

import redis

from aiolock import BackendError, Lease, Lock, LockManager
from tests.support import locks

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


def key_of(name: str = NAME) -> str:
    """The key of a lock's state."""
    return locks.KEYS.of("lock", name).lock


async def until(check: Callable[[], object], seconds: float = 10.0) -> None:
    """Poll for what nobody announces."""
    async with asyncio.timeout(seconds):
        while not check():  # noqa: ASYNC110 - what servers and processes do sets no event here
            await asyncio.sleep(0.002)


async def renewed(lease: Lease, since: float) -> None:
    """Wait until a renewal was answered that moved the expiry beyond what it was."""
    async with asyncio.timeout(ENOUGH):
        await until(lambda: lease._hold.expiry > since, ENOUGH)


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

    def state(self, name: str = NAME) -> locks.LockState:
        return locks.state(self, name)

    def locked(self, name: str = NAME) -> bool:
        return locks.held(self, name)

    def depth(self, name: str = NAME) -> int:
        return locks.state(self, name).depth

    def waiting(self, name: str = NAME) -> list[str]:
        """Who stands in the queue, first to last: a process has one entry for all its tasks."""
        return locks.waiting(self, name)

    def held(self) -> list[str]:
        """The names that somebody holds, the queues in which somebody waits, and the keys that never expire."""
        return [*locks.held_names(self), *locks.all_waiting(self), *locks.unlimited(self)]

    def tombstones(self) -> int:
        return len(locks.tombstones(self))

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
