"""Everything that is measured of one library."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict, replace
from statistics import median
from typing import Any
from urllib.parse import urlsplit

from redis import Redis

from ..contest import BARE, OURS, PROCESSES, Team, in_turns
from ..crew import Worker, WorkerFailed, crew
from ..crowd import summary
from ..figure import Series
from ..rows.handoff import lines
from ..slow_link import slow_link
from ..stage import Stage
from . import Peer
from .environment import Unavailable, python_of

ROUNDS = 2
WAITERS = 200
IDLE = 5.0
QUICK_IDLE = 1.5
LINK = 0.001
SHORT_TTL = 1.0
PATIENCE = 60.0
"""Seconds that one step may take; a step that takes longer has hung."""


class Trial:
    """A library on a stage.

    Attributes:
        result: what was found so far, for the report.
        series: lines for the plots.
    """

    def __init__(self, peer: Peer, stage: Stage) -> None:
        self._peer = peer
        self._stage = stage
        self.series: list[Series] = []
        self.result: dict[str, Any] = {"name": peer.name, "failed": {}}

    def run(self) -> bool:
        """Measure everything; return False if the library is not available here, and then the result says why."""
        try:
            self._stage = replace(self._stage, python=python_of(self._peer))
            identity = self._ask("benchmarks.speed:identity", distributions=list(self._peer.distributions))
        except (Unavailable, WorkerFailed) as error:
            self.result["absent"] = str(error).partition("\n")[0]
            return False
        self.result |= identity
        steps: dict[str, Callable[[], Any]] = {
            "uncontended": self._uncontended, "contended": self._contended, "handoff": self._handoff,
            "idle": self._idle, "exclusion": self._exclusion, "cancelled": self._cancelled, "lost": self._lost,
            "orphaned": self._orphaned,
        }  # fmt: skip
        for name, step in steps.items():
            self._flush()
            try:
                self.result[name] = step()
            except (WorkerFailed, ValueError, ZeroDivisionError, IndexError) as error:
                self.result["failed"][name] = str(error).partition("\n")[0] or type(error).__name__
        return True

    def _flush(self) -> None:
        with Redis.from_url(self._stage.url) as raw:
            raw.flushall()

    def _ask(self, function: str, **more: Any) -> Any:
        with self._crew(1) as (worker,):
            return worker.call(function, url=self._stage.url, adapter=self._peer.adapter, **more)

    def _crew(self, number: int) -> AbstractContextManager[Sequence[Worker]]:
        return crew(number, self._stage.python, self._stage.loop, PATIENCE)

    def _uncontended(self) -> Any:
        seen = self._ask("benchmarks.speed:uncontended", quick=self._stage.quick)
        self.series.append(
            Series("throughput", self._peer.name, [(tasks, crowd["pairs"]) for tasks, crowd in seen["crowds"]])
        )
        if self._peer.adapter == OURS:
            self.series.append(
                Series("throughput", "base", [(tasks, crowd["base"]) for tasks, crowd in seen["crowds"]])
            )
        return seen

    def _contended(self) -> Any:
        return self._ask("benchmarks.speed:contended", quick=self._stage.quick)

    def _handoff(self) -> Any:
        """Measure in turns with bare BLPOP, and with aiolock if this is another library."""
        url, adapter = self._stage.url, self._peer.adapter
        with self._crew(PROCESSES) as workers, crew(PROCESSES, loop=self._stage.loop) as of_ours:
            teams = {"bare": Team.even(workers, BARE, url), "peer": Team.even(workers, adapter, url)}
            if not self._peer.ours:
                teams["aiolock"] = Team.even(of_ours, OURS, url)
            seen = in_turns(teams, self._stage.scale.handoffs, 1 if self._stage.quick else ROUNDS)
        self.series += lines(self._peer.name, seen["peer"])
        found = summary(seen["peer"], seen["bare"])
        if "aiolock" in seen:
            rates = [one.rate / other.rate for one, other in zip(seen["aiolock"], seen["peer"], strict=True)]
            found["lead"] = median(rates)
        return {**found, "seconds": self._stage.scale.handoffs}

    def _idle(self) -> Any:
        return self._ask("benchmarks.idle:measured", waiters=WAITERS, seconds=QUICK_IDLE if self._stage.quick else IDLE)

    def _exclusion(self) -> Any:
        """Run two processes; in each the first section outlasts the ttl."""
        with self._crew(2) as workers:
            team = Team.even(workers, self._peer.adapter, self._stage.url)
            seen = team.contend(self._stage.scale.outlasting, ttl=SHORT_TTL, outlast=True)
        errors: dict[str, int] = {}
        for each in seen.processes:
            for kind, number in each.errors.items():
                errors[kind] = errors.get(kind, 0) + number
        return {"overlaps": seen.overlaps, "visits": len(seen.visits), "errors": errors}

    def _cancelled(self) -> Any:
        parts = urlsplit(self._stage.url)
        with slow_link(parts.hostname or "127.0.0.1", parts.port or 6379, LINK) as slow:
            return self._ask("benchmarks.behaviour:cancelled", slow_url=slow, rounds=self._stage.scale.loss_rounds)

    def _orphaned(self) -> Any:
        return {"after": self._ask("benchmarks.behaviour:orphaned")}

    def _lost(self) -> Any:
        return self._ask("benchmarks.behaviour:lost")

    def as_json(self) -> dict[str, Any]:
        """Return the result and the lines."""
        return {"result": self.result, "series": [asdict(line) for line in self.series]}
