"""Processes that contend for one name, in turns with processes that use another library."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from .contention import SETTLE, Visits
from .crew import Worker
from .crowd import Crowd

PROCESSES = 4
TASKS = 5
SECTION = 0.001
BARE = "benchmarks.peers.base:Blpop"
OURS = "benchmarks.peers.aiolock:Lock"
FAIR = "benchmarks.peers.aiolock:Fair"


@dataclass(frozen=True, slots=True)
class Team:
    """Processes that use one library.

    Attributes:
        workers: the processes.
        adapter: the library.
        urls: the server's, as each worker reaches it.
        tasks: how many tasks each worker has.
        permits: how many may be inside at once.
    """

    workers: Sequence[Worker]
    adapter: str
    urls: Sequence[str]
    tasks: Sequence[int]
    permits: int = 1

    @classmethod
    def even(cls, workers: Sequence[Worker], adapter: str, url: str, tasks: int = TASKS, permits: int = 1) -> Team:
        """Return a team whose workers are all alike."""
        return cls(workers, adapter, [url] * len(workers), [tasks] * len(workers), permits)

    def contend(self, seconds: float, **more: Any) -> Crowd:
        """Let them enter and leave one name for this long; blocks."""
        name = f"handoff:{time.monotonic_ns()}"
        members = list(zip(self.workers, self.urls, self.tasks, strict=True))
        for worker, url, _ in members:
            worker.send("benchmarks.contention:warm", adapter=self.adapter, url=url)
        for worker in self.workers:
            worker.receive()
        self.workers[0].call("benchmarks.contention:prepare", adapter=self.adapter, url=self.urls[0], name=name)
        asked = {"section": SECTION, "start_at": time.monotonic() + SETTLE, "seconds": seconds, **more}
        for worker, url, tasks in members:
            worker.send(
                "benchmarks.contention:visits", adapter=self.adapter, url=url, name=name, tasks=tasks, **asked
            )  # fmt: skip
        return Crowd([Visits.from_json(worker.receive()) for worker in self.workers], self.permits)


def in_turns(teams: Mapping[str, Team], seconds: float, rounds: int) -> dict[str, list[Crowd]]:
    """Run each team for this long in each round, so that noise from the machine hits all of them; blocks."""
    seen: dict[str, list[Crowd]] = {label: [] for label in teams}
    order = list(teams)
    for _ in range(rounds):
        for label in order:
            seen[label].append(teams[label].contend(seconds))
        order.append(order.pop(0))
    return seen
