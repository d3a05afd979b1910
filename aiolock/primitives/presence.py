"""What the tasks of this process hold and wait for, as its manager knows it: no server is asked."""

from __future__ import annotations

from ..core.calls import Calls, Contention
from ..core.gate import Gate
from ..core.runtime import Runtime
from ..record import Record

WHOLE = 2**31
"""What a writer takes."""


class LeaseInfo(Record):
    """A lease of this process.

    Attributes:
        kind: "lock" (a fair lock, too), "rw", "semaphore" or "multi"; those of Redisson's begin with "redisson.".
        name: the lock's.
        task: the name of the task or thread that has it; "" if that has ended.
        side: "read" or "write" of a read-write lock, otherwise "".
        permits: how many of a semaphore's; 1 of anything else.
        metadata: of its lock.
        fence: its fencing token; 0 if it has none.
        held_for: seconds since its owner was admitted.
        remaining: seconds still guaranteed; 0.0 once it is lost.
        lost: whether it is lost, and not released yet.
    """

    kind: str
    name: str
    task: str
    side: str
    permits: int
    metadata: str | None
    fence: int
    held_for: float
    remaining: float
    lost: bool


class WaitInfo(Record):
    """An acquire of this process that waits for a lock.

    Attributes:
        kind: as of a lease.
        name: the lock's.
        task: the name of the task or thread that waits.
        side: as of a lease.
        permits: how many of a semaphore's; 1 of anything else.
        waited: seconds since it began.
    """

    kind: str
    name: str
    task: str
    side: str
    permits: int
    waited: float


def leases_of(runtime: Runtime) -> list[LeaseInfo]:
    """Return what is held, the oldest first."""
    now = runtime.clock.now()
    found = []
    for hold in sorted(runtime.holds.values(), key=lambda hold: hold.began):
        for lease in hold.all_leases():
            calls, task, lost = lease._calls, lease._task, hold.loss_by_clock() is not None
            found.append(
                LeaseInfo(
                    hold.calls.kind,
                    hold.calls.name,
                    "" if task is None else task.get_name(),
                    _side(calls),
                    _permits(calls, hold.home.contention),
                    hold.policy.metadata,
                    hold.fence,
                    max(0.0, now - hold.began),
                    0.0 if lost else max(0.0, hold.deadline - now),
                    lost,
                )
            )
    return found


def waits_of(runtime: Runtime) -> list[WaitInfo]:
    """Return what is waited for, the oldest first."""
    now = runtime.clock.now()
    waits = [(waiter, gate) for gate in runtime.gates.values() if isinstance(gate, Gate) for waiter in gate.waits()]
    return [
        WaitInfo(
            waiter.calls.kind,
            waiter.calls.name,
            "" if waiter.task is None else waiter.task.get_name(),
            _side(waiter.calls),
            _permits(waiter.calls, gate.contention),
            max(0.0, now - waiter.began),
        )
        for waiter, gate in sorted(waits, key=lambda wait: wait[0].began)
    ]


def _side(calls: Calls) -> str:
    if calls.kind.rpartition(".")[2] != "rw":
        return ""
    return "write" if calls.weight >= WHOLE else "read"


def _permits(calls: Calls, contention: Contention) -> int:
    return calls.weight if contention.divisible else 1
