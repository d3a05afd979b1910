"""The rest of row D: processes that differ in the number of their tasks or in their connection to the server."""

from __future__ import annotations

from collections.abc import Sequence
from urllib.parse import urlsplit

from ..contest import FAIR, OURS, PROCESSES, TASKS, Team, in_turns
from ..crew import Worker, crew
from ..figure import Figure, Findings
from ..slow_link import slow_link
from ..stage import Stage
from .handoff import even, measured, prefix

KINDS = {"lock": OURS, "fair_lock": FAIR}
CROWDS = (12, 2, 2, 2)
DELAY = 0.005
"""Seconds that one process's connection takes longer, each way."""


async def crowds_and_lines(**given: object) -> dict[str, object]:
    """Fewest and most entries of a task, and how long it waits."""
    stage = Stage(**given)  # type: ignore[arg-type]
    found = Findings()
    parts = urlsplit(stage.url)
    with (
        slow_link(parts.hostname or "127.0.0.1", parts.port or 6379, DELAY) as slow,
        crew(PROCESSES, stage.python, stage.loop) as workers,
    ):
        alike = [stage.url] * PROCESSES
        found.figures += _contest(stage, workers, "12+2+2+2 tasks", alike, CROWDS, 0.7)
        urls = [slow, *alike[1:]]
        found.figures += _contest(stage, workers, "one connection 5 ms slower each way", urls, [TASKS] * PROCESSES, 0.4)
    return found.as_json()


def _contest(
    stage: Stage, workers: Sequence[Worker], how: str, urls: Sequence[str], tasks: Sequence[int], must: float
) -> list[Figure]:
    teams = {label: Team(workers, adapter, urls, tasks) for label, adapter in KINDS.items()}
    seen = in_turns(teams, stage.scale.handoffs, stage.scale.handoff_rounds)
    found = []
    for label, crowds in seen.items():
        told = f"{prefix(label)}{how}, "
        found.append(even(crowds, told, {"evenness": (must, None)} if label == "lock" else {}))
        found += [figure for figure in measured(crowds, told) if "hand-off" not in figure.what]
    return found
