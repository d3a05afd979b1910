"""Rows A, A′ and B: a free lock."""

from __future__ import annotations

from ..figure import Figure, Findings
from ..peers.adapter import opened
from ..peers.base import Base
from ..stage import Stage
from ..turns import base_pairs, in_turns, lock_pairs, ratios

OURS = "benchmarks.peers.aiolock:Lock"
TASKS = 200


async def one_task(**given: object) -> dict[str, object]:
    """A and A′: one task that acquires and releases, again and again."""
    stage = Stage(**given)  # type: ignore[arg-type]
    found = Findings()
    await _one_task(stage, found, "unpinned", must=1.54, aim=1.6)
    if stage.unpinnable:
        found.figures += [
            Figure("A", "pairs/s against base, pinned", None, must=1.33, aim=1.6, note=stage.unpinnable),
            Figure("A′", "client CPU per pair against base, pinned", None, must=0.57, aim=0.45, note=stage.unpinnable),
        ]
    else:
        with stage.pinned():
            await _one_task(stage, found, "pinned", must=1.33, aim=1.6)
    return found.as_json()


async def _one_task(stage: Stage, found: Findings, how: str, must: float, aim: float) -> None:
    scale = stage.scale
    base = Base()
    await base.open(stage.url)
    async with opened(OURS, stage.url) as ours:
        contestants = {"base": base_pairs(base, 1, scale.pairs), "ours": lock_pairs(ours, 1, scale.pairs)}
        costs = await in_turns(contestants, scale.pairs, scale.rounds)
    await base.close()
    speed = ratios(costs["base"], costs["ours"])
    found.figures += [
        Figure.median("A", f"pairs/s against base, {how}", speed, must=must, aim=aim),
        Figure.median("A", f"µs per pair, {how}", [cost.wall * 1e6 for cost in costs["ours"]], "µs"),
        Figure.median("A", f"µs per pair of base, {how}", [cost.wall * 1e6 for cost in costs["base"]], "µs"),
    ]
    if how == "pinned":
        cpu = [one.cpu / other.cpu for one, other in zip(costs["ours"], costs["base"], strict=True)]
        what = "client CPU per pair against base, pinned"
        found.figures += [
            Figure.median("A′", what, cpu, must=0.57, aim=0.45, at_least=False),
            Figure.median("A′", "µs of client CPU per pair", [cost.cpu * 1e6 for cost in costs["ours"]], "µs"),
        ]


async def many_tasks(**given: object) -> dict[str, object]:
    """B: 200 tasks, each with a name of its own."""
    stage = Stage(**given)  # type: ignore[arg-type]
    scale = stage.scale
    base = Base()
    await base.open(stage.url)
    async with opened(OURS, stage.url) as ours:
        contestants = {
            "base": base_pairs(base, TASKS, scale.crowd_pairs),
            "ours": lock_pairs(ours, TASKS, scale.crowd_pairs),
        }
        costs = await in_turns(contestants, TASKS * scale.crowd_pairs, scale.rounds)
    await base.close()
    speed = ratios(costs["base"], costs["ours"])
    return Findings(
        [
            Figure.median("B", f"pairs/s against base, {TASKS} tasks", speed, must=3.5, aim=5),
            Figure.median("B", "thousand pairs/s", [1e-3 / cost.wall for cost in costs["ours"]], "k/s"),
            Figure.median("B", "thousand pairs/s of base", [1e-3 / cost.wall for cost in costs["base"]], "k/s"),
        ]
    ).as_json()
