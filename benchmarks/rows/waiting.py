"""Row E: 200 waiters on a held lock."""

from __future__ import annotations

from ..figure import Figure, Findings
from ..idle import wait_idly
from ..stage import Stage

WAITERS = 200
OURS = "benchmarks.peers.aiolock:Lock"


async def idle(**given: object) -> dict[str, object]:
    """Commands, connections, CPU."""
    stage = Stage(**given)  # type: ignore[arg-type]
    seen = await wait_idly(stage.url, OURS, WAITERS, stage.scale.waiting)
    scaled = "" if seen.seconds >= 29.5 else f"scaled up from {seen.seconds:.0f} s: {seen.commands} commands"
    return Findings(
        [
            Figure("E", f"commands, {WAITERS} waiters for 30 s", seen.commands_in_30_s, "", 12, None, False, scaled),
            Figure("E", "connections", seen.connections, "", 1, None, False),
            Figure("E", "client CPU", seen.cpu * 100, "%", 1, None, False, "their arrival included"),
        ]
    ).as_json()
