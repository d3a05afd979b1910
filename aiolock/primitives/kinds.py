"""What is known of each primitive by its kind alone: the rare ones are imported when one is made or resumed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..core.calls import Contention
from ..core.runtime import KINDS, Kind, Runtime
from ..scripts.lock import LockCalls

if TYPE_CHECKING:
    from ..scripts.queue import QueueCalls

LOCK: Contention = Contention(exclusive=True)
RW: Contention = Contention(exclusive=False)
SEMAPHORE: Contention = Contention(exclusive=False, reentrant=False, divisible=True)


def lock_calls(runtime: Runtime, name: str, ordered: bool = False) -> LockCalls:
    """Requests about a name; with `ordered` each task waits for it by itself."""
    abilities = runtime.backend.abilities
    if abilities.requests is not None:
        made: LockCalls = abilities.requests("lock", name, 1, 1)  # with the same methods
        return made
    return LockCalls(runtime.keys, name, runtime.limits.liveness_ms, ordered=ordered, races=not abilities.queues)


def _of_lock(runtime: Runtime, name: str, weight: int, capacity: int) -> LockCalls:
    return lock_calls(runtime, name)


def _of_rw_lock(runtime: Runtime, name: str, weight: int, capacity: int) -> QueueCalls:
    from .rw_lock import rw_calls

    return rw_calls(runtime, name, weight)


def _of_semaphore(runtime: Runtime, name: str, weight: int, capacity: int) -> QueueCalls:
    from .semaphore import semaphore_calls

    return semaphore_calls(runtime, name, capacity, weight)


KINDS.update(lock=Kind(LOCK, _of_lock), rw=Kind(RW, _of_rw_lock), semaphore=Kind(SEMAPHORE, _of_semaphore))
