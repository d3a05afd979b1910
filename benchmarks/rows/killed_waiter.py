"""Row K: the first in line is killed while it waits."""

from __future__ import annotations

import time

from ..contention import SETTLE, Visits
from ..contest import FAIR, OURS
from ..crew import Worker, crew
from ..figure import Figure, Findings
from ..stage import Stage

KINDS = {"lock": OURS, "fair_lock": FAIR}
HELD = 0.6
"""Seconds from the start to the holder's release."""
FIRST, SECOND, KILL = 0.1, 0.2, 0.35
"""Seconds after the start at which the first waiter asks, the second asks, and the first is killed."""
ONCE = 0.05
"""Seconds in which a task asks again: no task gets in soon enough to ask twice."""
LIMIT = 5.0


async def next_entry(**given: object) -> dict[str, object]:
    """Milliseconds from the holder's release to the entry of the second waiter."""
    stage = Stage(**given)  # type: ignore[arg-type]
    found = Findings()
    with crew(2, stage.python, stage.loop) as (holder, second):
        for label, adapter in KINDS.items():
            gaps = [_gap(stage, adapter, holder, second) * 1e3 for _ in range(stage.scale.kills)]
            what = f"{label}: from the release to the next entry, the first in line killed while it waited"
            found.figures.append(Figure.median("K", what, gaps, "ms", LIMIT, None, False))
    return found.as_json()


def _gap(stage: Stage, adapter: str, holder: Worker, second: Worker) -> float:
    with crew(1, stage.python, stage.loop) as (first,):
        for worker in (holder, first, second):
            worker.call("benchmarks.contention:warm", adapter=adapter, url=stage.url)
        start = time.monotonic() + SETTLE
        name = f"killed:{start}"
        for worker, after, section in (holder, 0.0, HELD), (first, FIRST, 0.0), (second, SECOND, 0.0):
            worker.send(
                "benchmarks.contention:visits", adapter=adapter, url=stage.url, name=name, tasks=1, seconds=ONCE,
                section=section, start_at=start + after,
            )  # fmt: skip
        time.sleep(max(0.0, start + KILL - time.monotonic()))
        first.close()
        held, waited = (Visits.from_json(worker.receive()) for worker in (holder, second))
    released = held.times[0].left
    return waited.times[0].entered - released if waited.times else sum(waited.waiting) - HELD + SECOND
