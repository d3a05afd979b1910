"""What a run does, as data: so that it can be printed, repeated, and made smaller."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Any

SLOW = 40
"""Of its latencies: no ttl is shorter on a line that is not slow."""
Moment = float | tuple[str, int]
"""Seconds after the start; or `("before" or "after", n)`: around the execution of the n-th script; or `("sent", n)`:
when a process has sent the n-th piece, and none of it has arrived; or `("step", n)`: before the n-th delivery or
callback.
"""


DELAYS = frozenset({"late_up", "late_down", "late_turn"})
"""No faults, but another order of what happens."""


@dataclass(frozen=True)
class Step:
    """What a task does next.

    Attributes:
        what: the primitive, or another kind of call.
        name: its name.
        how: how it is used.
        seconds: how long it is held, or the pause.
        timeout: seconds to wait; None for no limit.
        n: permits, or a number of another kind.
        ttl: of this use of the name, in seconds; None for the plan's.
        priority: of its wait.
    """

    what: str
    name: str = "a"
    how: str = "guard"
    seconds: float = 0.0
    timeout: float | None = None
    n: int = 1
    ttl: float | None = None
    priority: int = 0


@dataclass(frozen=True)
class Worker:
    """A task.

    Attributes:
        process: where it runs.
        starts: seconds after the start.
        steps: what it does, in order.
    """

    process: int
    starts: float
    steps: tuple[Step, ...]


@dataclass(frozen=True)
class Fault:
    """What goes wrong.

    Attributes:
        what: the kind.
        at: when.
        target: the process; -1 for the one that sends, or whose script runs.
        seconds: how long.
        n: a choice within the kind.
    """

    what: str
    at: Moment
    target: int = -1
    seconds: float = 0.0
    n: int = 0


@dataclass(frozen=True)
class Plan:
    """A whole run.

    Attributes:
        noise: seeds how long each byte and each turn of a loop takes.
        processes: how many.
        workers: all tasks.
        faults: all faults.
        ttl: of all locks, in seconds; `margin`, `liveness`, `request_timeout`, `recheck` and `handoff_limit` likewise.
        latency: seconds that a byte takes one way.
        spikes: the share of writes that take up to a second longer.
        split: the share of turns of a loop in which time passes between callbacks.
        drift: how much faster the clock of each process runs than that of the one before.
        kill: CLIENT KILL is allowed; otherwise what was written on a dead connection may still run.
        window: bytes on their way after which a transport keeps the rest.
        abandoned: by how many seconds what is on its way on a connection that a process gives up is late; None to draw
            it.
        reopens: seconds after which a process that could not open its manager tries again.
        stays: seconds for which a process stays open after its work, so that what an open manager heals is seen.
        store: what keeps the locks: "redis"; "queues", as etcd does; or "rows", as a database does.
    """

    noise: str = ""
    processes: int = 2
    workers: tuple[Worker, ...] = ()
    faults: tuple[Fault, ...] = ()
    ttl: float = 3.0
    margin: float | None = None
    liveness: float = 1.0
    request_timeout: float = 1.0
    recheck: float = 1.0
    handoff_limit: int = 16
    latency: float = 0.001
    spikes: float = 0.0
    split: float = 0.0
    drift: float = 0.0
    kill: bool = True
    window: int = field(default=1 << 16)
    abandoned: float | None = None
    reopens: float = 0.5
    stays: float = 0.0
    store: str = "redis"

    @property
    def calm(self) -> bool:
        """Nothing goes wrong, no byte is slow, and no loop is blocked: then the order is checked, too."""
        return not any(fault.what not in DELAYS for fault in self.faults) and self.orderly

    @property
    def orderly(self) -> bool:
        """The same, except that the server may lose a queue: those who waited are before all newcomers again, once they
        have said that they still wait.
        """
        blocks = any(step.how == "block" for worker in self.workers for step in worker.steps)
        faults = any(fault.what not in {"lose_queue", *DELAYS} for fault in self.faults)
        return not (faults or self.spikes or blocks or self.slow)

    @property
    def slow(self) -> bool:
        """A script that is sent for the first time could hold up a renewal until the deadline."""
        return min(self.ttls) < SLOW * self.latency

    @property
    def ttls(self) -> list[float]:
        """All ttls."""
        return [self.ttl, *(step.ttl for worker in self.workers for step in worker.steps if step.ttl)]

    @property
    def longest(self) -> float:
        """The longest ttl."""
        return max(self.ttls)

    def __str__(self) -> str:
        """As Python, without what is as usual."""
        return text(self)


def text(value: Any) -> str:
    """Return a plan, or a part of one, as Python without defaults."""
    if isinstance(value, (Plan, Worker, Step, Fault)):
        given = [
            f"{each.name}={text(getattr(value, each.name))}"
            for each in fields(value)
            if getattr(value, each.name) != each.default
        ]
        return f"{type(value).__name__}({', '.join(given)})"
    if isinstance(value, tuple):
        parts = [text(part) for part in value]
        return f"({', '.join(parts)}{',' if len(parts) == 1 else ''})"
    return repr(value)
