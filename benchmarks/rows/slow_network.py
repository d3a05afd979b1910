"""Row I: a link that takes 2 ms each way."""

from __future__ import annotations

import time
from statistics import median
from urllib.parse import urlsplit

from redis.asyncio import Redis

from ..contention import contend
from ..figure import Figure, Findings
from ..peers.adapter import opened
from ..peers.base import Base
from ..slow_link import slow_link
from ..stage import Stage
from ..turns import base_pairs, in_turns, lock_pairs, ratios
from .contended import TASKS

DELAY = 0.002
OURS = "benchmarks.peers.aiolock:Lock"


async def delayed(**given: object) -> dict[str, object]:
    """One task against the baseline; then 20 tasks on one name, in round trips per acquisition."""
    stage = Stage(**given)  # type: ignore[arg-type]
    scale = stage.scale
    parts = urlsplit(stage.url)
    pairs = max(20, scale.pairs // 20)
    base = Base()
    with slow_link(parts.hostname or "127.0.0.1", parts.port or 6379, DELAY) as url:
        await base.open(url)
        async with opened(OURS, url) as ours:
            contestants = {"base": base_pairs(base, 1, pairs), "ours": lock_pairs(ours, 1, pairs)}
            costs = await in_turns(contestants, pairs, scale.rounds)
            trips = []
            round_trip = await _round_trip(url, pairs)
            for _ in range(2 if stage.quick else scale.rounds):
                seen = await contend(ours, "slow", TASKS, max(1.0, scale.contended))
                entries = sorted(visit.entered for visit in seen.times)
                trips.append((entries[-1] - entries[0]) / (len(entries) - 1) / round_trip)
        await base.close()
    speed = ratios(costs["base"], costs["ours"])
    return Findings(
        [
            Figure.median("I", "pairs/s against base, 2 ms each way", speed, must=1),
            Figure.median(
                "I",
                f"round trips per acquisition, {TASKS} tasks, one name",
                trips,
                "RTT",
                1.2,
                None,
                False,
                f"a PING takes {round_trip * 1e3:.2f} ms",
            ),
        ]
    ).as_json()


async def _round_trip(url: str, number: int) -> float:
    async with Redis.from_url(url, socket_timeout=None, single_connection_client=True) as raw:
        times = []
        for _ in range(number):
            began = time.perf_counter()
            await raw.ping()
            times.append(time.perf_counter() - began)
    return median(times)
