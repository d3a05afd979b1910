"""What is known of each primitive by its kind alone: the rare ones are imported when one is made or resumed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..core.calls import Contention
from ..core.runtime import KINDS, Kind, Runtime
from ..scripts.lock import LockCalls

if TYPE_CHECKING:
    from ..scripts.queue import QueueCalls

FULL = 2**31
"""What a writer takes, and 1 more while it also reads; a reader takes 1, and there are never as many readers."""
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


def rw_calls(runtime: Runtime, name: str, weight: int) -> QueueCalls:
    """Requests about a name, for a reader or the writer."""
    make = runtime.backend.abilities.requests
    if make is not None:
        made: QueueCalls = make("rw", name, FULL, weight)  # with the same methods
        return made
    from ..scripts.queue import QueueCalls

    mints, liveness_ms = weight >= FULL, runtime.limits.liveness_ms
    return QueueCalls(
        runtime.keys, "rw", name, capacity=FULL, weight=min(weight, FULL), mints=mints, liveness_ms=liveness_ms
    )


def semaphore_calls(runtime: Runtime, name: str, weight: int, permits: int, slots: bool = False) -> QueueCalls:
    """Requests about a name that holds so many permits, for an acquisition of some of them, and their numbers."""
    make = runtime.backend.abilities.requests
    if make is not None:
        made: QueueCalls = make("semaphore", name, permits, weight)  # with the same methods
        return made
    from ..scripts.queue import QueueCalls

    return QueueCalls(
        runtime.keys,
        "semaphore",
        name,
        capacity=permits,
        weight=weight,
        mints=True,
        liveness_ms=runtime.limits.liveness_ms,
        slots=slots,
    )


KINDS.update(
    lock=Kind(LOCK, lambda runtime, name, *_: lock_calls(runtime, name)),
    rw=Kind(RW, lambda runtime, name, weight, _: rw_calls(runtime, name, weight)),
    semaphore=Kind(SEMAPHORE, semaphore_calls),
)
