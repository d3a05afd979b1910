"""Row H: commands for each hand-off, with ever more processes that wait on one name."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence

from ..contention import SETTLE
from ..crew import Worker, crew, together
from ..figure import Figure, Findings, Series
from ..peers.aiolock import Lock
from ..server_stats import ServerStats
from ..stage import Stage
from .handoff import SECTION

KINDS = {"lock": "benchmarks.peers.aiolock:Lock", "fair_lock": "benchmarks.peers.aiolock:Fair"}
MARGIN = 0.3
"""Seconds after the start, and before the end, that are not counted."""
CONNECTING = 0.05
"""Seconds to connect for each process, beside the others."""


async def commands(**given: object) -> dict[str, object]:
    """One task in each process; the server's count between two looks, over the entries between them."""
    stage = Stage(**given)  # type: ignore[arg-type]
    scale = stage.scale
    points: dict[str, list[tuple[float, float]]] = {kind: [] for kind in KINDS}
    with crew(max(scale.processes), stage.python, stage.loop) as workers:
        for number in scale.processes:
            for kind, adapter in KINDS.items():
                cost = await _per_handoff(stage, workers[:number], adapter)
                points[kind].append((float(number), cost))
    found = Findings(series=[Series("commands per hand-off", kind, line) for kind, line in points.items()])
    for kind, line in points.items():
        growth = max(cost for _, cost in line) / line[0][1]
        told = ", ".join(f"{number:.0f}: {cost:.1f}" for number, cost in line)
        flat = {"must": 1.5, "at_least": False} if kind == "fair_lock" else {}
        found.figures.append(
            Figure(
                "H", f"{kind}: most commands a hand-off against {scale.processes[0]} processes", growth,
                note=f"commands a hand-off at n processes: {told}", **flat,  # type: ignore[arg-type]
            )
        )  # fmt: skip
    return found.as_json()


async def _per_handoff(stage: Stage, workers: Sequence[Worker], adapter: str) -> float:
    together(workers, "benchmarks.contention:warm", adapter=adapter, url=stage.url)
    start = time.monotonic() + SETTLE + CONNECTING * len(workers)
    seconds = stage.scale.window + 2 * MARGIN
    for worker in workers:
        worker.send(
            "benchmarks.contention:visits", adapter=adapter, url=stage.url, name=f"many:{start}", tasks=1,
            seconds=seconds, section=SECTION, start_at=start,
        )  # fmt: skip
    await asyncio.sleep(start + MARGIN - time.monotonic())
    async with ServerStats(stage.url, Lock.scripted) as stats:
        began = time.monotonic()
        await asyncio.sleep(stage.scale.window)
        sent, ended = await stats.commands(), time.monotonic()
    entries = [visit[1] for worker in workers for visit in worker.receive()["times"]]
    return sent / max(1, sum(began < entered < ended for entered in entries))
