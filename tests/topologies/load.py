"""Processes that use locks all the time, while something happens to the servers."""

from __future__ import annotations

import asyncio
import json
import time
from typing import Any

import pytest

from tests.crossproc.conftest import LATE, Crew

from .history import History

PROCESSES = 3
PLAIN = pytest.param({}, id="plain")
REPLICATED = pytest.param({"min_replicas": 1, "replica_timeout": 0.3}, id="replicated")
ENOUGH = 60.0
"""Seconds: a machine that runs other tests starts processes slowly. What may not take that long is judged later."""
BUSY = (0.004, 2)
"""A hold of a busy name lasts 4 ms at most, and two tasks of each process want it."""
LONG = (0.6, 1)
"""A hold that may outlast a failover."""


class Load:
    """Starts processes; each has tasks that enter and leave some names.

    Args:
        crew: starts them.
        names: and of each how long a hold lasts at most, in seconds, and how many tasks of each process want it.
        options: of their managers.
    """

    def __init__(self, crew: Crew, names: dict[str, tuple[float, int]], **options: Any) -> None:
        self._crew = crew
        self.names = names
        self.options: dict[str, Any] = {"ttl": 3.0, "recheck": 1.0, "request_timeout": 1.5, **options}
        self.timeout = self.patience + LATE
        self._workers: list[Any] = []

    @property
    def patience(self) -> float:
        """How long after everything is well again a waiter may wait, in seconds: others may be in front of it."""
        others = max(stay * tasks * PROCESSES for stay, tasks in self.names.values())
        return float(self.options["ttl"] + self.options["recheck"] + others + LATE)

    async def begin(self) -> None:
        """Start them, and return once each has entered each name."""
        given = {"options": self.options, "timeout": self.timeout, "names": self.names}
        self._workers = [self._crew.start("load", json.dumps(given)) for _ in range(PROCESSES)]
        await self._crew.until(lambda: len(self._crew.events("ready")) == PROCESSES, ENOUGH)
        await self.flows()

    async def flows(self) -> float:
        """Wait until each process has entered each name from now on; return how long that took, in seconds."""
        began = time.monotonic()
        wanted = {(worker.pid, name) for worker in self._workers for name in self.names}
        await self._crew.until(lambda: wanted <= self._entered(began), ENOUGH)
        return time.monotonic() - began

    async def flow(self, seconds: float) -> None:
        """Let them go on for a while."""
        await asyncio.sleep(seconds)

    async def end(self) -> History:
        """Let them finish, and return what they did."""
        (self._crew.folder / "enough").touch()
        await self._crew.done(*self._workers, seconds=ENOUGH)
        return History(self._crew.events())

    def _entered(self, since: float) -> set[Any]:
        return {(event["pid"], event["name"]) for event in self._crew.events("enter") if event["at"] > since}
