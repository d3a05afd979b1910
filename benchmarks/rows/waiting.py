"""Row E: 200 waiters on a held lock."""

from __future__ import annotations

from ..figure import Figure, Findings
from ..idle import wait_idly
from ..stage import Stage

WAITERS = 200
SHORT = 4.0
OURS = "benchmarks.peers.aiolock:Lock"
FAIR = "benchmarks.peers.aiolock:Fair"
SPAN = 5.0
"""Seconds that they wait for the fair lock."""


async def growing(**given: object) -> dict[str, object]:
    """Part of row G: commands of more and more waiters."""
    stage = Stage(**given)  # type: ignore[arg-type]
    seen = {number: await wait_idly(stage.url, OURS, number, SHORT) for number in stage.scale.growth}
    most = max(idle.commands for idle in seen.values())
    told = ", ".join(f"{number:,}: {idle.commands}" for number, idle in seen.items())
    what = f"commands of n waiters in {SHORT:g} s: most against n = 10"
    growth = most / max(1, seen[10].commands)
    return Findings([Figure("G", what, growth, "×", 1.5, None, False, f"commands at n: {told}")]).as_json()


async def idle(**given: object) -> dict[str, object]:
    """Commands, connections, CPU."""
    stage = Stage(**given)  # type: ignore[arg-type]
    seen = await wait_idly(stage.url, OURS, WAITERS, stage.scale.waiting)
    fair = await wait_idly(stage.url, FAIR, WAITERS, SPAN)
    what = f"fair_lock: commands on the server, {WAITERS} waiters for {SPAN:.0f} s"
    told = f"those in scripts included; {fair.executed_arriving:,} of them in the first second, as they arrive"
    scaled = "" if seen.seconds >= 29.5 else f"scaled up from {seen.seconds:.0f} s: {seen.commands} commands"
    return Findings(
        [
            Figure("E", f"commands, {WAITERS} waiters for 30 s", seen.commands_in_30_s, "", 40, None, False, scaled),
            Figure("E", "connections", seen.connections, "", 1, None, False),
            Figure("E", "client CPU", seen.cpu * 100, "%", 1, None, False, "their arrival included"),
            Figure("E", what, fair.executed, "", 2_000, None, False, told),
            Figure(
                "E", f"commands on the server, {WAITERS} waiters", seen.executed, "", note=f"of {seen.seconds:.0f} s"
            ),
        ]
    ).as_json()
