"""Row F: 10,000 leases, renewed by one manager."""

from __future__ import annotations

from ..figure import Figure, Findings
from ..leases import PERIODS, hold
from ..stage import Stage

PERIOD = 10.0
"""Seconds between two renewals at a ttl of 30 s, which the row is about."""


async def held(**given: object) -> dict[str, object]:
    """None lost; commands and CPU per period."""
    stage = Stage(**given)  # type: ignore[arg-type]
    scale = stage.scale
    seen = await hold(stage.url, scale.leases, scale.ttl)
    told = f"{PERIODS} periods at ttl {scale.ttl:g} s"
    scaled = "" if scale.ttl == 3 * PERIOD else f"{told}, as a share of the {PERIOD:g} s a period has at ttl 30 s"
    return Findings(
        [
            Figure("F", f"leases lost of {scale.leases:,}", seen.lost, "", 0, None, False, told),
            Figure(
                "F", "commands per period", seen.commands, "", 40, None, False, f"the heartbeat's PING included; {told}"
            ),
            Figure("F", "client CPU", seen.cpu / PERIOD * 100, "% of a core", 5, 2, False, scaled),
        ]
    ).as_json()
