"""Row C: 20 tasks of one process, one name."""

from __future__ import annotations

import time
from collections.abc import Sequence

from ..contention import Visit, contend
from ..figure import Figure, Findings, percentile
from ..peers.adapter import Adapter, opened
from ..peers.aiolock import offered
from ..stage import Stage
from ..turns import TTL

TASKS = 20
OURS = "benchmarks.peers.aiolock:Lock"
SECTION = "section: `sleep(0)`"


async def one_name(**given: object) -> dict[str, object]:
    """Acquisitions per second against the pairs per second of one task alone, and the waits."""
    stage = Stage(**given)  # type: ignore[arg-type]
    speeds, waits, absolute = await _rounds(stage, OURS, stage.scale.rounds)
    return Findings(
        [
            Figure.median("C", f"acquisitions/s of {TASKS} tasks against one task alone", speeds, must=1.2, aim=1.3),
            Figure.median(
                "C",
                f"p99 wait against {TASKS} × the mean turn",
                waits,
                must=3,
                aim=1.5,
                at_least=False,
                note="a turn: from one entry to the next, body and hand-off",
            ),
            Figure.median("C", "acquisitions/s", absolute, "1/s", note=SECTION),
        ]
    ).as_json()


async def other_primitives(**given: object) -> dict[str, object]:
    """The same for the other primitives."""
    stage = Stage(**given)  # type: ignore[arg-type]
    found = Findings()
    for label, kind in offered().items():
        speeds, waits, absolute = await _rounds(
            stage, f"{kind.__module__}:{kind.__name__}", 1 if stage.quick else stage.scale.rounds
        )
        found.figures += [
            Figure.median("C", f"{label}: acquisitions/s of {TASKS} tasks against one task alone", speeds),
            Figure.median("C", f"{label}: p99 wait against {TASKS} × the mean turn", waits),
            Figure.median("C", f"{label}: acquisitions/s", absolute, "1/s", note=SECTION),
        ]
    return found.as_json()


async def _rounds(stage: Stage, adapter: str, rounds: int) -> tuple[list[float], list[float], list[float]]:
    scale = stage.scale
    speeds, waits, absolute = [], [], []
    for number in range(rounds + 1):
        async with opened(adapter, stage.url) as library:
            alone = await _alone(library, scale.contended / 2)
            seen = await contend(library, "contended", TASKS, scale.contended)
        turn = _turn(seen.times)
        if number:
            speeds.append(1 / turn / alone)
            waits.append(percentile([visit.wait for visit in seen.times], 0.99) / (TASKS * turn))
            absolute.append(1 / turn)
    return speeds, waits, absolute


def _turn(times: Sequence[Visit]) -> float:
    entries = [visit.entered for visit in times]
    return (max(entries) - min(entries)) / (len(entries) - 1)


async def _alone(library: Adapter, seconds: float) -> float:
    lock = library.lock("alone", TTL)
    pairs, began = 0, time.perf_counter()
    while (spent := time.perf_counter() - began) < seconds:
        async with lock:
            pairs += 1
    return pairs / spent
