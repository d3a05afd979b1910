"""Row H: requests for each hand-off between processes, with more and more processes waiting on one name."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence

from ..contention import SETTLE, Visits
from ..contest import FAIR, OURS, SECTION
from ..crew import Worker, crew, together
from ..crowd import Crowd
from ..figure import Figure, Findings, Series
from ..peers.aiolock import Lock
from ..server_stats import ServerStats
from ..stage import Stage

KINDS = {"lock": OURS, "fair_lock": FAIR}
MUSTS = {"lock": 1.1, "fair_lock": 1.5}
"""A flat line is 1; the rest allows for noise."""
COUNTED = {1: "requests per entry", 2: "requests per hand-off between processes"}
"""By the number of tasks in each process; with two, an entry may follow another of its own process."""
MARGIN = 0.3
"""Seconds after the start, and before the end, that are not counted."""
CONNECTING = 0.05
"""Seconds that each process gets to connect beside the others."""


async def commands(**given: object) -> dict[str, object]:
    """This many tasks in each process; the server's count between two looks, divided by the hand-offs in between."""
    stage = Stage(**given)  # type: ignore[arg-type]
    scale = stage.scale
    points: dict[tuple[str, int], list[tuple[float, float]]] = {}
    with crew(max(scale.processes), stage.python, stage.loop) as workers:
        for number in scale.processes:
            for tasks in (2,) if stage.quick else COUNTED:
                for kind, adapter in KINDS.items():
                    cost = await _per_handoff(stage, workers[:number], adapter, tasks)
                    points.setdefault((kind, tasks), []).append((float(number), cost))
    found = Findings()
    for (kind, tasks), line in points.items():
        label = kind if tasks == 1 else f"{kind}, {tasks} tasks each"
        growth = max(cost for _, cost in line[1:]) / line[0][1]
        told = ", ".join(f"{number:.0f}: {cost:.1f}" for number, cost in line)
        what = f"{label}: most requests per hand-off against {scale.processes[0]} processes"
        note = f"{COUNTED[tasks]} at n processes: {told}"
        found.series.append(Series("commands per hand-off", label, line))
        found.figures.append(Figure("H", what, growth, "×", MUSTS[kind], None, False, note))
    return found.as_json()


async def _per_handoff(stage: Stage, workers: Sequence[Worker], adapter: str, tasks: int) -> float:
    together(workers, "benchmarks.contention:warm", adapter=adapter, url=stage.url)
    start = time.monotonic() + SETTLE + CONNECTING * len(workers)
    seconds = stage.scale.window + 2 * MARGIN
    for worker in workers:
        worker.send(
            "benchmarks.contention:visits", adapter=adapter, url=stage.url, name=f"many:{start}", tasks=tasks,
            seconds=seconds, section=SECTION, start_at=start,
        )  # fmt: skip
    await asyncio.sleep(start + MARGIN - time.monotonic())
    async with ServerStats(stage.url, Lock.scripted) as stats:
        began = time.monotonic()
        await asyncio.sleep(stage.scale.window)
        sent, ended = await stats.commands(), time.monotonic()
    seen = Crowd([Visits.from_json(worker.receive()) for worker in workers])
    return sent / max(1, seen.moves(began, ended) if tasks > 1 else seen.entered(began, ended))
