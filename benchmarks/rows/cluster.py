"""Row L: a free lock on a Redis Cluster."""

from __future__ import annotations

from aiolock.testing.cluster import RedisCluster

from ..figure import Figure, Findings
from ..peers.adapter import opened
from ..peers.base import ClusterBase
from ..stage import Stage
from ..turns import base_pairs, in_turns, lock_pairs, ratios

OURS = "benchmarks.peers.aiolock:Clustered"
MASTERS = 3
NAMES = (1, 20, 200)
MUST = {200: 3.0}


async def pairs(**given: object) -> dict[str, object]:
    """So many tasks, each with a name of its own, on three masters."""
    stage = Stage(**given)  # type: ignore[arg-type]
    scale, found = stage.scale, Findings()
    with RedisCluster.start(MASTERS, replicas=0) as cluster:
        base = ClusterBase()
        await base.open(cluster.urls[0])
        async with opened(OURS, cluster.urls[0]) as ours:
            for names in NAMES:
                each = scale.pairs if names == 1 else scale.crowd_pairs * NAMES[-1] // names
                contestants = {"base": base_pairs(base, names, each), "ours": lock_pairs(ours, names, each)}
                costs = await in_turns(contestants, names * each, scale.rounds)
                speed = ratios(costs["base"], costs["ours"])
                found.figures += [
                    Figure.median("L", f"pairs/s against base, {names} names", speed, must=MUST.get(names)),
                    Figure.median(
                        "L", f"µs per pair, {names} names", [cost.wall * 1e6 for cost in costs["ours"]], "µs"
                    ),
                ]
        await base.close()
    return found.as_json()
