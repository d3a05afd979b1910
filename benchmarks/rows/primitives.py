"""The other primitives on a free name, beside the plain lock."""

from __future__ import annotations

from aiolock import LockManager

from ..figure import Figure, Findings
from ..peers.adapter import opened
from ..peers.aiolock import offered
from ..stage import Stage
from ..turns import Pairs, in_turns, lock_pairs

PLAIN = "benchmarks.peers.aiolock:Lock"
SURPRISE = 1.5
"""What costs more than so many plain locks wants an explanation."""


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
    plain = costs["lock"]
    return Findings(
        [
            Figure.median(
                "P", f"{label}: cost of a pair against the plain lock",
                [one.wall / other.wall for one, other in zip(costs[label], plain, strict=True)],
                note=f"more than {SURPRISE} is to be explained",
            )
            for label in contestants if label != "lock"
        ]
    ).as_json()  # fmt: skip


def _counts(locks: LockManager, pairs: int) -> Pairs:
    """Two requests, as a pair has."""
    rounds = iter(range(1_000_000))

    async def run() -> None:
        latch = locks.latch(f"latch:{next(rounds)}", 2 * pairs)
        for _ in range(2 * pairs):
            await latch.count_down()

    return run
