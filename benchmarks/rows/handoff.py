"""Row D: from one process to another, beside a bare BLPOP."""

from __future__ import annotations

import time
from collections.abc import Sequence
from statistics import median
from typing import Any

from ..contention import SETTLE, Visits, handoffs
from ..crew import Worker, crew, together
from ..figure import Figure, Findings, Series, cdf, percentile
from ..peers.adapter import load
from ..peers.aiolock import offered
from ..stage import Stage
from .growth import judge

PROCESSES = 4
TASKS = 5
SECTION = 0.001
BARE = "benchmarks.peers.base:Blpop"
OURS = "benchmarks.peers.aiolock:Lock"
PATIENT = "benchmarks.peers.aiolock:Patient"


async def across_processes(**given: object) -> dict[str, object]:
    """The plain lock."""
    stage = Stage(**given)  # type: ignore[arg-type]
    found = Findings()
    _compare(stage, found, {"aiolock": OURS}, must=1.5, aim=1.0)
    return found.as_json()


async def other_primitives(**given: object) -> dict[str, object]:
    """The others; readers exclude nobody, so they have no hand-off."""
    stage = Stage(**given)  # type: ignore[arg-type]
    found = Findings()
    kinds = {label: f"{kind.__module__}:{kind.__name__}" for label, kind in offered().items() if kind.permits}
    _compare(stage, found, kinds)
    return found.as_json()


async def growing(**given: object) -> dict[str, object]:
    """Part of row G: with ever more waiters, shared out between the processes."""
    stage = Stage(**given)  # type: ignore[arg-type]
    points = []
    with crew(PROCESSES, stage.python, stage.loop) as workers:
        for number in stage.scale.growth:
            if number < 2 * PROCESSES:
                continue
            seen = contended(workers, PATIENT, stage.url, stage.scale.handoffs, number // PROCESSES)
            points.append((float(number), median(handoffs(seen)) * 1e6))
    found = Findings()
    judge(found, f"hand-off p50 between {PROCESSES} processes, n waiters", "waiters", points)
    return found.as_json()


def _compare(
    stage: Stage, found: Findings, adapters: dict[str, str], must: float | None = None, aim: float | None = None
) -> None:
    rounds = stage.scale.handoff_rounds
    times: dict[str, list[list[float]]] = {label: [] for label in ("bare BLPOP", *adapters)}
    with crew(PROCESSES, stage.python, stage.loop) as workers:
        for _ in range(rounds):
            for label, adapter in {"bare BLPOP": BARE, **adapters}.items():
                seen = contended(workers, adapter, stage.url, stage.scale.handoffs)
                times[label].append(handoffs(seen, load(adapter).permits))
    bare = [median(times) for times in times["bare BLPOP"]]
    prefix = "" if must else "{label}: "
    for label in adapters:
        halves = [median(some) for some in times[label] if some]
        whole = [value for some in times[label] for value in some]
        name = prefix.format(label=label)
        found.figures += [
            Figure.median(
                "D",
                f"{name}hand-off p50 against bare BLPOP",
                [a / b for a, b in zip(halves, bare, strict=False)],
                must=must,
                aim=aim,
                at_least=False,
                note=f"{len(whole)} hand-offs between processes",
            ),
            Figure.median("D", f"{name}hand-off p50", [half * 1e3 for half in halves], "ms"),
            Figure("D", f"{name}hand-off p99", percentile(whole, 0.99) * 1e3, "ms"),
        ]
        found.series.append(Series("handoff", label, _ms(whole)))
    if must:
        found.figures.append(Figure.median("D", "bare BLPOP p50", [half * 1e3 for half in bare], "ms"))
        found.series.append(
            Series("handoff", "bare BLPOP", _ms([value for some in times["bare BLPOP"] for value in some]))
        )


def _ms(times: Sequence[float]) -> list[tuple[float, float]]:
    return [(value * 1e3, share) for value, share in cdf(times)]


def contended(
    workers: Sequence[Worker], adapter: str, url: str, seconds: float, tasks: int = TASKS, **more: Any
) -> list[Visits]:
    """What each worker saw of one lock that all of them want."""
    name = f"handoff:{time.monotonic_ns()}"
    together(workers, "benchmarks.contention:warm", adapter=adapter, url=url)
    workers[0].call("benchmarks.contention:prepare", adapter=adapter, url=url, name=name)
    asked: dict[str, Any] = {"section": SECTION, **more}
    seen = together(
        workers, "benchmarks.contention:visits", adapter=adapter, url=url, name=name, tasks=tasks, seconds=seconds,
        start_at=time.monotonic() + SETTLE, **asked,
    )  # fmt: skip
    return [Visits(**each) for each in seen]
