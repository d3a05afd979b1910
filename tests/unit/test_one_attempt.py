"""One attempt does not wait: whatever the server answers, to it or to others meanwhile, ends it."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from aiolock import BackendError, Lease, LockManager
from aiolock.scripts.base import Call
from aiolock.testing import MemoryBackend

from .world import settle


class Refusing(MemoryBackend):
    """Gives no verdict on the requests with these numbers, counted from 1."""

    def __init__(self, peer: MemoryBackend, *numbers: int) -> None:
        super().__init__(peer)
        self._numbers = numbers
        self._asked = 0

    def _execute(self, call: Call[Any]) -> Any:
        self._asked += call.script.name == "acquire"
        if call.script.name == "acquire" and self._asked in self._numbers:
            call.writes += 1
            return BackendError(call.name, "OOM", transient=True)
        return super()._execute(call)


@pytest.mark.parametrize("kind", ["fair_lock", "semaphore"])
async def test_no_verdict_while_another_one_was_answered(kind: str) -> None:
    """Kept by Waiter.impatient: `not self.queues`."""
    server = MemoryBackend()
    backend = Refusing(server, 2)
    async with LockManager(server) as peer, LockManager(backend) as locks:
        things = [peer.fair_lock("a"), locks.fair_lock("a")]
        if kind == "semaphore":
            things = [manager.semaphore("a", 1) for manager in (peer, locks)]  # type: ignore[misc]
        async with things[0]:
            refused, unknown = [asyncio.create_task(attempt(things[1])) for _ in range(2)]
            await settle(backend)
            assert refused.result() is None
            assert unknown.done(), "it waits"
            with pytest.raises(BackendError, match="OOM"):
                await unknown


async def attempt(lock: Any) -> Lease | None:
    lease: Lease | None = await lock.try_acquire()
    return lease
