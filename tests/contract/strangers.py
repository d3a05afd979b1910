"""Others at a name with a queue: waiters, and strangers behind the managers' backs."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from typing import Any, TypeVar

from aiolock.core.policy import milliseconds
from aiolock.primitives.kinds import FULL
from aiolock.scripts.base import Call
from aiolock.scripts.bid import Bid
from aiolock.scripts.lock import LockCalls
from aiolock.scripts.outcomes import AcquireOutcome, Granted, Queued
from aiolock.scripts.queue import QueueCalls
from aiolock.scripts.queue.records import Holder, Waiter, read
from tests.support.queues import encode

from .places import KEYS, Place

R = TypeVar("R", Holder, Waiter)


async def queued(lock: Any, waiters: int = 1) -> None:
    """Wait until this many wait for the `lock`, which is held."""
    async with asyncio.timeout(10.0):
        while (info := await lock.info()) is None or info.waiters < waiters:  # noqa: ASYNC110 - the server does not announce it
            await asyncio.sleep(0.001)


class Stranger(ABC):
    """An owner of a process that no manager here knows.

    Args:
        place: where.
        name: of the lock.
        calls: requests about it.
        liveness: seconds for which it counts as alive while it waits.
        owner: who it is.
        counted: it says that it listens. Nothing here listens for it, so a message to it proves that it is gone.
    """

    def __init__(self, place: Place, name: str, calls: Any, liveness: float, owner: str, counted: bool = False) -> None:
        self._side = place.side
        self._place = place
        self._name = name
        self._liveness_ms = milliseconds(liveness)
        self._counted = counted
        self.calls = calls
        self.owner = owner

    def take(self, ttl: float = 30.0) -> int:
        """Hold it, and never renew; return the fence."""
        granted = self._acquire(ttl, 0)
        assert isinstance(granted, Granted), granted
        return granted.fence

    def queue(self, ttl: float = 30.0) -> Queued:
        """Wait for it."""
        queued = self._acquire(ttl, self._liveness_ms)
        assert isinstance(queued, Queued), queued
        return queued

    def _acquire(self, ttl: float, liveness_ms: int) -> AcquireOutcome:
        call: Call[AcquireOutcome] = self.calls.acquire(
            Bid(self.owner, milliseconds(ttl), 0, "a thief", liveness_ms, self._counted)
        )
        return self._side.run(call)

    def leave(self) -> None:
        """Release it, or leave the queue."""
        self._side.run(self.calls.release(self.owner, 30_000, 0, "clean", False))

    @abstractmethod
    def die(self) -> None:
        """Let its liveness run out."""

    @property
    @abstractmethod
    def holds(self) -> bool:
        """The server counts it as a holder."""


class LockStranger(Stranger):
    """A stranger at a lock, under the fair rule if it says so.

    Args:
        place: where.
        name: of the lock.
        liveness: seconds for which its process counts as alive while it waits.
        owner: who it is.
        counted: see `Stranger`.
    """

    def __init__(
        self, place: Place, name: str, liveness: float = 3.0, owner: str = "thief:1", counted: bool = False
    ) -> None:
        super().__init__(place, name, LockCalls(KEYS, name, milliseconds(liveness)), liveness, owner, counted)

    def die(self) -> None:
        self._side.hset(KEYS.of("lock", self._name).of_lock[2], {self.owner.partition(":")[0]: "1"})

    @property
    def holds(self) -> bool:
        return self._place.state(self._name).holder == self.owner


class QueueStranger(Stranger):
    """A stranger at a name that has a capacity.

    Args:
        place: where.
        kind: `rw` or `semaphore`.
        name: of the lock.
        capacity: of the name.
        weight: how much it takes; by default everything.
        liveness: seconds for which it counts as alive while it waits.
        owner: who it is.
    """

    def __init__(
        self,
        place: Place,
        kind: str,
        name: str,
        capacity: int = 1,
        weight: int | None = None,
        liveness: float = 3.0,
        owner: str = "thief:1",
    ) -> None:
        if kind == "rw":
            capacity = FULL
        weight = capacity if weight is None else weight
        calls = QueueCalls(
            KEYS,
            kind,
            name,
            capacity=capacity,
            weight=weight,
            mints=kind != "rw" or weight == FULL,
            liveness_ms=milliseconds(liveness),
        )
        super().__init__(place, name, calls, liveness, owner)
        self.keys = KEYS.of(kind, name)

    def die(self) -> None:
        waits = self._records(Waiter)[self.owner]
        self._side.hset(self.keys.state, {self.owner: encode(waits._replace(until=1))})

    @property
    def holds(self) -> bool:
        return self.owner in self._records(Holder)

    def _records(self, kind: type[R]) -> dict[str, R]:
        """The holders, or the waiters."""
        found = self._side.hash(self.keys.state)
        return {owner: record for owner, text in found.items() if isinstance(record := read(text), kind)}


def stranger_of(place: Place, kind: str, name: str, **options: Any) -> Stranger:
    """Return a stranger at a name of the kind `lock`, `rw` or `semaphore`."""
    return LockStranger(place, name, **options) if kind == "lock" else QueueStranger(place, kind, name, **options)
