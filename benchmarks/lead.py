"""How far aiolock is ahead of the other libraries of a run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .figure import Figure


def lead(peers: Sequence[dict[str, Any]]) -> Figure | None:
    """Its entries per second against those of the fastest other library, measured in turns; None if there was none."""
    leads = {peer["name"]: peer["handoff"]["lead"] for peer in peers if "lead" in peer.get("handoff", {})}
    if not leads:
        return None
    told = ", ".join(f"{name} {times:.2f}" for name, times in sorted(leads.items(), key=lambda each: each[1]))
    what = "entries/s of all against the fastest other library"
    return Figure("D", what, min(leads.values()), must=1.0, note=f"against each: {told}")
