"""The other primitives on a free name, beside the plain lock."""

from __future__ import annotations

from collections.abc import Sequence

from aiolock import LockManager

from ..figure import Figure, Findings
from ..peers.adapter import opened
from ..peers.aiolock import Fair, offered
from ..stage import Stage
from ..turns import Cost, Pairs, in_turns, lock_pairs

PLAIN = "benchmarks.peers.aiolock:Lock"
SURPRISE = 1.5
"""What costs more than this many plain locks needs an explanation."""
MUST, AIM = 1.1, 1.0
"""For the fair lock, which is the plain one with a strict order."""
CROWD = 200


async def uncontended(**given: object) -> dict[str, object]:
    """What a pair costs against a pair of the plain lock."""
    stage = Stage(**given)  # type: ignore[arg-type]
    scale = stage.scale
    pairs = scale.pairs // 2
    async with opened(PLAIN, stage.url) as library:
        contestants: dict[str, Pairs] = {"lock": lock_pairs(library, 1, pairs)}
        for label, kind in offered().items():
            other = kind()
            other.locks = library.locks  # type: ignore[attr-defined]
            contestants[label] = lock_pairs(other, 1, pairs, label.replace(" ", "-"))
        if hasattr(LockManager, "latch"):
            contestants["latch, two count_down()"] = _counts(library.locks, pairs)  # type: ignore[attr-defined]
        costs = await in_turns(contestants, pairs, scale.rounds)
        fair = Fair()
        fair.locks = library.locks  # type: ignore[attr-defined]
        crowds = {
            label: lock_pairs(other, CROWD, scale.crowd_pairs, f"{label}-crowd")
            for label, other in {"lock": library, "fair_lock": fair}.items()
        }
        crowd_costs = await in_turns(crowds, CROWD * scale.crowd_pairs, scale.rounds)
    what = "cost per pair against the plain lock"
    crowd = _against(crowd_costs["fair_lock"], crowd_costs["lock"])
    found = Findings(
        [Figure.median("P", f"fair_lock: {what}, {CROWD} tasks", crowd, must=MUST, aim=AIM, at_least=False)]
    )
    for label in contestants:
        if label == "lock":
            continue
        judged = label == "fair_lock"
        found.figures.append(
            Figure.median(
                "P", f"{label}: {what}", _against(costs[label], costs["lock"]), must=MUST if judged else None,
                aim=AIM if judged else None, at_least=False,
                note="" if judged else f"more than {SURPRISE} needs an explanation",
            )
        )  # fmt: skip
    return found.as_json()


def _against(theirs: Sequence[Cost], plain: Sequence[Cost]) -> list[float]:
    return [one.wall / other.wall for one, other in zip(theirs, plain, strict=True)]


def _counts(locks: LockManager, pairs: int) -> Pairs:
    """Two requests, as a pair has."""
    rounds = iter(range(1_000_000))

    async def run() -> None:
        latch = locks.latch(f"latch:{next(rounds)}", 2 * pairs)
        for _ in range(2 * pairs):
            await latch.count_down()

    return run
