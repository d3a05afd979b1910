"""What fault tests look at and wait for."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from typing import Any, Protocol

import redis

from aiolock import BackendError, Lease, Lock, LockManager
from aiolock.core.waiting.queue_entry import QueueEntry
from aiolock.core.waiting.wait import QUEUED
from tests.support import locks

NAME = "order:42"
ENOUGH = 15.0
"""Seconds: far longer than anything here needs, far shorter than any ttl or recheck that could help instead."""
SHORT = 4.5
"""Seconds: the ttl of a lease that waits for a renewal. More than two seconds lie between the renewal and the deadline,
so a noisy machine may stand still for that long.
"""
STILL = 2.3
"""Seconds: a margin within which it may stand still."""
LATE = 3.0
"""Seconds that a noisy machine may add to a bound."""
USER = "aiolock-nokill"


def queued(locks: LockManager) -> bool:
    """Whether a waiter of this manager has been told that it is in the queue: the server knows that earlier."""
    entries = locks._runtime.queue_entries.values()
    return any(isinstance(entry, QueueEntry) and entry.state is QUEUED for entry in entries)


def key_of(name: str = NAME) -> str:
    """The key of a lock's state."""
    return locks.KEYS.of("lock", name).lock


async def until(check: Callable[[], object], seconds: float = 10.0) -> None:
    """Poll for a change that is not announced."""
    async with asyncio.timeout(seconds):
        while not check():  # noqa: ASYNC110 - what servers and processes do sets no event here
            await asyncio.sleep(0.002)


async def renewed(lease: Lease, since: float) -> None:
    """Wait until the answer to a renewal has moved the expiry."""
    async with asyncio.timeout(ENOUGH):
        await until(lambda: lease._hold.expiry > since, ENOUGH)


async def enter(lock: Lock) -> int:
    """Enter and leave; return the fence."""
    async with lock as lease:
        return lease.fence


async def enter_eventually(lock: Lock) -> int:
    """Enter and leave as soon as the connection is back: the next attempt to connect may be 2 s away."""
    async with asyncio.timeout(ENOUGH):
        while True:
            with contextlib.suppress(BackendError):
                return await enter(lock)
            await asyncio.sleep(0.01)


class Server:
    """A view of a server from outside.

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
        """Return the queue, first to last: a process has one entry for all its tasks."""
        return locks.waiting(self, name)

    def held(self) -> list[str]:
        """Return the names that are held, the queues that are not empty, and the keys that never expire."""
        return [*locks.held_names(self), *locks.all_waiting(self), *locks.unlimited(self)]

    def tombstones(self) -> int:
        return len(locks.tombstones(self))

    def scripts_run(self) -> int:
        """How many since the server started, as for every count here."""
        return self._calls("evalsha")

    def subscriptions(self) -> int:
        return self._calls("subscribe")

    def _calls(self, command: str) -> int:
        stats = self.link.info("commandstats")
        return int(stats.get(f"cmdstat_{command}", {"calls": 0})["calls"])  # type: ignore[union-attr, index, call-overload]

    async def ran(self, more: int, since: int) -> None:
        """Wait until the server has run `more` scripts than `since`."""
        await until(lambda: self.scripts_run() >= since + more)


class Opener(Protocol):
    """Enters a manager, and closes it at the end of the test."""

    async def __call__(self, url: str, **options: Any) -> LockManager: ...
