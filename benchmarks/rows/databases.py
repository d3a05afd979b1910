"""Rows PG and MY: locks in a database, beside the ways that it has by itself."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from statistics import median
from typing import Any

from ..contest import OURS, PROCESSES, Team, in_turns
from ..crew import crew
from ..crowd import Crowd
from ..databases import Absent, Database, mariadb, postgres
from ..figure import Figure, Findings, percentile
from ..peers.adapter import opened
from ..stage import Stage
from ..turns import in_turns as rounds_of
from ..turns import lock_pairs, ratios

NAMES = 32


async def in_postgres(**given: object) -> dict[str, object]:
    """Beside `pg_advisory_lock`, and beside a row as ShedLock's."""
    own = {"pg_advisory_lock": "in_postgres:Advisory", "ShedLock's row": "in_postgres:ShedLock"}
    return await _beside("PG", postgres(), own, Stage(**given))  # type: ignore[arg-type]


async def in_mysql(**given: object) -> dict[str, object]:
    """Beside `GET_LOCK`, and beside a row as ShedLock's."""
    own = {"GET_LOCK": "in_mysql:GetLock", "ShedLock's row": "in_mysql:ShedLock"}
    return await _beside("MY", mariadb(), own, Stage(**given))  # type: ignore[arg-type]


async def _beside(
    row: str, server: AbstractContextManager[Database], own: dict[str, str], stage: Stage
) -> dict[str, object]:
    found = Findings()
    ways = {label: f"benchmarks.peers.{spec}" for label, spec in own.items()}
    try:
        with server as database:
            for sync in (False, True):
                database.sync(sync)
                note = f"{database.what}, {'each commit on the disk' if sync else 'no commit waits for the disk'}"
                found.figures += await _alone(row, database.url, ways, stage, note)
            database.sync(False)
            found.figures += _contended(row, database, ways, stage)
    except Absent as error:
        found.figures.append(Figure(row, "locks in a database", None, note=str(error)))
    return found.as_json()


async def _alone(row: str, url: str, ways: dict[str, str], stage: Stage, note: str) -> list[Figure]:
    """One task with a free lock; and many, each with one of its own."""
    scale, found = stage.scale, []
    (raw, spec), *_ = ways.items()
    async with opened(OURS, url) as ours, opened(spec, url) as theirs:
        for names in (1, NAMES):
            each = scale.pairs if names == 1 else scale.pairs * 4 // names
            contestants = {
                "ours": lock_pairs(ours, names, each, f"ours{names}"),
                raw: lock_pairs(theirs, names, each, f"theirs{names}"),
            }
            before = _exchanges(ours)
            costs = await rounds_of(contestants, names * each, scale.rounds)
            asked = (_exchanges(ours) - before) / (names * each * (scale.rounds + 1))
            tasks = f"{names} names" if names > 1 else "one name"
            found += [
                Figure.median(row, f"pairs/s against {raw}, {tasks}", ratios(costs[raw], costs["ours"]), note=note),
                *(
                    Figure.median(
                        row, f"pairs/s, {tasks}: {label}", [1 / one.wall for one in costs[of]], "1/s", note=note
                    )
                    for label, of in (("aiolock", "ours"), (raw, raw))
                ),
                Figure.median(
                    row,
                    f"µs of client CPU per pair, {tasks}",
                    [one.cpu * 1e6 for one in costs["ours"]],
                    "µs",
                    note=note,
                ),
                Figure(row, f"exchanges per pair, {tasks}", asked, "", note=note),
            ]
    return found


def _exchanges(ours: Any) -> int:
    """How often the server was asked so far."""
    return int(ours.locks._runtime.backend._engine.exchanges)


def _contended(row: str, database: Database, ways: dict[str, str], stage: Stage) -> list[Figure]:
    """One name, and a task in each of some processes."""
    specs = {"aiolock": OURS, **ways}
    with crew(PROCESSES, stage.python, stage.loop) as workers:
        teams = {label: Team.even(workers, spec, database.url, tasks=1) for label, spec in specs.items()}
        seen = in_turns(teams, stage.scale.handoffs, stage.scale.handoff_rounds)
    note = f"{database.what}, {PROCESSES} processes, section 1 ms"
    found = []
    for label in ways:
        rates = [one.rate / two.rate for one, two in zip(seen["aiolock"], seen[label], strict=True)]
        found.append(Figure.median(row, f"entries/s across processes against {label}", rates, note=note))
    return found + [figure for label, crowds in seen.items() for figure in _seen(row, label, crowds, note)]


def _seen(row: str, label: str, crowds: Sequence[Crowd], note: str) -> list[Figure]:
    times = [median(crowd.handoffs) * 1e3 for crowd in crowds if crowd.handoffs]
    waits = [percentile(crowd.waits, 0.99) * 1e3 for crowd in crowds]
    overlaps = sum(crowd.overlaps for crowd in crowds)
    return [
        Figure.median(row, f"entries/s across processes: {label}", [one.rate for one in crowds], "1/s", note=note),
        *([Figure.median(row, f"hand-off p50: {label}", times, "ms", note=note)] if times else []),
        Figure.median(row, f"wait p99: {label}", waits, "ms", note=note),
        Figure.median(row, f"least against most: {label}", [one.evenness for one in crowds], note=note),
        *([Figure(row, f"two inside at once: {label}", overlaps, "", note=note)] if overlaps else []),
    ]
