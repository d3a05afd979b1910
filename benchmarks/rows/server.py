"""Row S: commands that the server runs, those in scripts included."""

from __future__ import annotations

from ..figure import Figure, Findings
from ..peers.adapter import opened
from ..peers.aiolock import Lock, offered
from ..served import of_a_pair, of_an_acquisition
from ..server_stats import ServerStats
from ..stage import Stage
from .contended import TASKS

PAIRS = 200
EACH = 50
JUDGED = ("lock", "fair_lock")
CROWDED = {"lock": 9.0, "fair_lock": 15.0}


async def commands(**given: object) -> dict[str, object]:
    """For a pair on a free name, and for an acquisition among many tasks of one process."""
    stage = Stage(**given)  # type: ignore[arg-type]
    kinds: dict[str, type[Lock]] = {"lock": Lock, **offered()}
    found = Findings()
    for label, kind in kinds.items():
        async with opened(f"{kind.__module__}:{kind.__name__}", stage.url) as library, ServerStats(stage.url) as stats:
            must, aim = (10.0, 9.0) if label in JUDGED else (None, None)
            pair = await of_a_pair(library, stats, f"served:{label}", PAIRS)
            found.figures.append(
                Figure("S", f"{label}: commands on the server per pair, no waiters", pair, "", must, aim, False)
            )
            if label in CROWDED:
                crowd = await of_an_acquisition(library, stats, f"crowded:{label}", TASKS, EACH)
                what = f"{label}: commands on the server per acquisition, {TASKS} tasks of one process"
                found.figures.append(Figure("S", what, crowd, "", CROWDED[label], None, False))
    return found.as_json()
