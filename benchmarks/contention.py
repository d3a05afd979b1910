"""Many tasks that want one lock: when each asked, entered and left, by the clock that all processes share."""

from __future__ import annotations

import asyncio
import math
import time
from dataclasses import asdict, dataclass, field
from typing import Any, NamedTuple

from .ending import end
from .peers.adapter import Adapter, opened
from .peers.base import Blpop

GRACE = 8.0
"""Seconds that the remaining waiters get at the end to enter once more."""
SETTLE = 0.3
"""Seconds between the request and the start, in which every process connects."""


class Visit(NamedTuple):
    """One task's visit, in seconds of `time.monotonic()`.

    Attributes:
        asked: when it asked.
        entered: when it got in.
        left: when its body ended.
        task: its number in its process.
    """

    asked: float
    entered: float
    left: float
    task: int = 0

    @property
    def wait(self) -> float:
        """Seconds between asking and entering."""
        return self.entered - self.asked


@dataclass(slots=True)
class Visits:
    """What the tasks of one process saw.

    Attributes:
        times: each visit.
        waiting: seconds waited so far by each task that never got in.
        errors: how often visits ended with an error, by its name.
        tasks: how many tasks there are.
        until: when they stopped asking.
    """

    times: list[Visit] = field(default_factory=list)
    waiting: list[float] = field(default_factory=list)
    errors: dict[str, int] = field(default_factory=dict)
    tasks: int = 1
    until: float = math.inf

    @classmethod
    def from_json(cls, told: dict[str, Any]) -> Visits:
        """Read what `asdict` gave, after its way through a pipe."""
        return cls(**{**told, "times": [Visit(*visit) for visit in told["times"]]})


async def contend(
    adapter: Adapter,
    name: str,
    tasks: int,
    seconds: float,
    *,
    section: float = 0.0,
    ttl: float = 30.0,
    outlast: bool = False,
    start_at: float | None = None,
) -> Visits:
    """Let this many tasks enter and leave again and again.

    Args:
        adapter: the library.
        name: the name they all want.
        tasks: how many tasks.
        seconds: for how long they keep asking.
        section: seconds inside; 0 for one turn of the loop.
        ttl: of the lock.
        outlast: the first visit lasts 1.7 × the ttl.
        start_at: the `time.monotonic()` at which all of them start.
    """
    asking: dict[int, float] = {}
    start = time.monotonic() if start_at is None else start_at
    await asyncio.sleep(max(0.0, start - time.monotonic()))
    until = start + seconds
    seen = Visits(tasks=tasks, until=until)
    long = 1.7 * ttl if outlast else section

    async def visitor(me: int) -> None:
        nonlocal long
        lock = adapter.lock(name, ttl)
        while (asked := time.monotonic()) < until:
            asking[me] = asked
            try:
                async with lock:
                    entered = time.monotonic()
                    del asking[me]
                    stay, long = long, section
                    try:
                        await asyncio.sleep(stay)
                    finally:
                        seen.times.append(Visit(asked, entered, time.monotonic(), me))
            except Exception as error:
                kind = type(error).__name__
                seen.errors[kind] = seen.errors.get(kind, 0) + 1
                asking.pop(me, None)
                await asyncio.sleep(0.001)  # an immediate failure must not spin

    everyone = [asyncio.create_task(visitor(me)) for me in range(tasks)]
    _, late = await asyncio.wait(everyone, timeout=max(0.0, until - time.monotonic()) + GRACE)
    now = time.monotonic()
    seen.waiting = [now - asked for asked in asking.values()]
    await end(late)
    return seen


async def visits(
    adapter: str, url: str, name: str, tasks: int, seconds: float, **more: float | bool
) -> dict[str, object]:
    """Run `contend` in a worker: takes the adapter by its name, returns JSON."""
    async with opened(adapter, url) as library:
        seen = await contend(library, name, tasks, seconds, **more)  # type: ignore[arg-type]
    return asdict(seen)


async def warm(adapter: str, url: str) -> None:
    """Import and connect once, so that the agreed start is kept."""
    async with opened(adapter, url):
        pass


async def prepare(adapter: str, url: str, name: str) -> None:
    """Create what a lock needs before it is used: only the bare token needs anything."""
    async with opened(adapter, url) as library:
        if isinstance(library, Blpop):
            await library.prepare(name)
