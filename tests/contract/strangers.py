"""Who else is at a name with a queue: those that wait, and strangers behind the managers' backs."""

from __future__ import annotations

import asyncio
from typing import Any, TypeVar

from aiolock.core.policy import milliseconds
from aiolock.primitives.rw_lock import FULL
from aiolock.scripts.base import DONT_QUEUE, JOIN
from aiolock.scripts.outcomes import Granted, Queued
from aiolock.scripts.queue import QueueCalls
from aiolock.scripts.queue.records import Holder, Waiter, encode, read

from .places import KEYS, Place

R = TypeVar("R", Holder, Waiter)


async def queued(lock: Any, waiters: int = 1) -> None:
    """Wait until so many wait for the `lock`, which is held."""
    async with asyncio.timeout(10.0):
        while (info := await lock.info()) is None or info.waiters < waiters:  # noqa: ASYNC110 - the server tells nobody
            await asyncio.sleep(0.001)


class Stranger:
    """One owner of a process that no manager here knows.

    Args:
        place: where.
        kind: `fair`, `rw` or `semaphore`.
        name: of the lock.
        capacity: of the name.
        weight: how much it takes; all if not given.
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
        self._side = place.side
        self.calls = QueueCalls(
            KEYS,
            kind,
            name,
            capacity=capacity,
            weight=weight,
            mints=kind != "rw" or weight == FULL,
            liveness_ms=milliseconds(liveness),
        )
        self.keys = KEYS.of(kind, name)
        self.owner = owner

    def take(self, ttl: float = 30.0) -> int:
        """Hold it, and never renew; answers the fence."""
        call = self.calls.acquire(self.owner, milliseconds(ttl), 0, "a thief", queue_number=DONT_QUEUE)
        granted = self._side.run(call)
        assert isinstance(granted, Granted), granted
        return granted.fence

    def steal(self, ttl: float = 30.0) -> int:
        """Hold it instead of whoever has it; nobody is told."""
        for owner in self._records(Holder):
            self._side.score(self.keys.queue[1], owner, 1)
        return self.take(ttl)

    def queue(self, ttl: float = 30.0) -> Queued:
        """Wait for it."""
        queued = self._side.run(self.calls.acquire(self.owner, milliseconds(ttl), 0, "a thief", queue_number=JOIN))
        assert isinstance(queued, Queued), queued
        return queued

    def leave(self) -> None:
        """Release it, or leave the queue."""
        self._side.run(self.calls.release(self.owner, 30_000, 0, "clean", False))

    def die(self) -> None:
        """Its liveness passes."""
        waits = self._records(Waiter)[self.owner]
        self._side.hset(self.keys.state, {self.owner: encode(waits._replace(alive=1))})

    @property
    def holds(self) -> bool:
        """The server counts it as a holder."""
        return self.owner in self._records(Holder)

    def _records(self, kind: type[R]) -> dict[str, R]:
        """Those who hold it, or those who wait."""
        found = self._side.hash(self.keys.state)
        return {owner: record for owner, text in found.items() if isinstance(record := read(text), kind)}
