"""A waiter whose scope was cancelled never enters, whatever arrives in the same turn of the loop."""

from __future__ import annotations

from typing import Any

import anyio
import pytest

from aiolock import LockManager
from aiolock.testing import MemoryBackend
from tests.unit.world import SlowBackend, later, lock_keys, settle

pytestmark = pytest.mark.any_loop


def lock_of(kind: str, locks: LockManager) -> Any:
    return {"lock": locks.lock, "fair": locks.fair_lock, "multi": locks.multi_lock}.get(
        kind, lambda name: locks.semaphore(name, 1)
    )("a")


@pytest.mark.parametrize("slow", [False, True])
@pytest.mark.parametrize("kind", ["lock", "fair", "multi", "semaphore"])
async def test_no_task_enters_a_cancelled_scope(kind: str, slow: bool) -> None:
    """Issue 9: under uvloop the grant comes before anyio's second try, which skips a task that is about to run."""
    backend = SlowBackend() if slow else MemoryBackend()
    entered: list[bool] = []  # and whether the scope had been cancelled
    async with LockManager(backend) as locks:
        for turns in range(24 if slow else 8):
            lock = lock_of(kind, locks)
            lease = await lock.acquire()
            with anyio.CancelScope() as scope:
                async with anyio.create_task_group() as group:

                    async def waiter(*, task_status: Any, lock: Any = lock, scope: Any = scope) -> None:
                        task_status.started()
                        async with lock:
                            entered.append(scope.cancel_called)

                    await group.start(waiter)
                    later(3, lease.release)
                    later(3 + turns, scope.cancel)
            await settle(backend)
            assert [key for key in lock_keys(backend) if not key.endswith((":expiry", ":queue", ":waiting"))] == []
    assert entered
    assert not any(entered)
