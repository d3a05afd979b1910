"""Rows PS and MS: many pairs beside a transaction that stays open, for which the server keeps all old versions."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

from ..databases import Absent, Database, mariadb, postgres
from ..figure import Figure, Findings
from ..peers.adapter import opened
from ..stage import Stage
from ..turns import lock_pairs

OURS = "benchmarks.peers.aiolock:Patient"
NAMES = 32
PAIRS = 100_000
QUICK = 6_400
PARTS = 10


async def in_postgres(**given: object) -> dict[str, object]:
    """Versions stay in the table, and each reader passes those of its key; VACUUM takes them away afterwards."""
    stage = Stage(**given)  # type: ignore[arg-type]

    def figures(link: Any, note: str) -> list[Figure]:
        link.execute("SELECT pg_stat_force_next_flush()")
        size = "SELECT pg_table_size('aiolock.rows'), pg_indexes_size('aiolock.rows')"
        table, index = link.execute(size).fetchone()
        counted = "SELECT n_tup_hot_upd, n_tup_upd FROM pg_stat_user_tables WHERE relname = 'rows'"
        in_place, updated = link.execute(counted).fetchone()
        return [
            Figure("PS", f"table, {note}", table / 1e6, "MB"),
            Figure("PS", f"index, {note}", index / 1e6, "MB"),
            Figure("PS", f"updates in place (HOT) so far, {note}", 100 * in_place / max(1, updated), "%"),
        ]

    def link_to(url: str) -> Any:
        import psycopg

        return psycopg.connect(url, autocommit=True)

    begin = ("BEGIN ISOLATION LEVEL REPEATABLE READ", "SELECT count(*) FROM aiolock.rows")
    return await _beside("PS", postgres(), link_to, begin, ("VACUUM aiolock.rows",), figures, stage)


async def in_mysql(**given: object) -> dict[str, object]:
    """Versions stay in the undo log, and whoever reads the newest passes none of them."""
    stage = Stage(**given)  # type: ignore[arg-type]

    def figures(cursor: Any, note: str) -> list[Figure]:
        cursor.execute("SELECT count FROM information_schema.INNODB_METRICS WHERE name = 'trx_rseg_history_len'")
        ((kept,),) = cursor.fetchall()
        query = "SELECT DATA_LENGTH FROM information_schema.TABLES WHERE TABLE_NAME = 'aiolock_rows'"
        cursor.execute("ANALYZE TABLE aiolock_rows")
        cursor.execute(query)
        ((size,),) = cursor.fetchall()
        return [
            Figure("MS", f"table, {note}", size / 1e6, "MB"),
            Figure("MS", f"transactions whose old versions are kept, {note}", kept, ""),
        ]

    def link_to(url: str) -> Any:
        from aiolock.backends.mysql.address import address_of
        from tests.support.mysql import connect

        at = address_of(url)
        return connect(at.port, database=at.database).cursor()

    begin = (
        "SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ",
        "START TRANSACTION WITH CONSISTENT SNAPSHOT",
        "SELECT COUNT(*) FROM aiolock_rows",
    )
    return await _beside("MS", mariadb(), link_to, begin, (), figures, stage)


async def _beside(
    row: str,
    server: AbstractContextManager[Database],
    link_to: Callable[[str], Any],
    begin: tuple[str, ...],
    clean: tuple[str, ...],
    figures: Callable[[Any, str], list[Figure]],
    stage: Stage,
) -> dict[str, object]:
    found = Findings()
    pairs = QUICK if stage.quick else PAIRS
    try:
        with server as database:
            async with opened(OURS, database.url) as ours:
                run = lock_pairs(ours, NAMES, pairs // PARTS // NAMES, "snapshot")
                await run()
                old, looks = link_to(database.url), link_to(database.url)
                for statement in begin:
                    old.execute(statement)
                speeds = []
                for _ in range(PARTS):
                    began = time.perf_counter()
                    await run()
                    speeds.append(pairs / PARTS / (time.perf_counter() - began))
                note = f"after {pairs:,} pairs of {NAMES} names beside a snapshot"
                found.figures += [
                    Figure(row, "pairs/s of the first tenth beside a snapshot", speeds[0], "1/s", samples=speeds),
                    Figure(row, "pairs/s of the last tenth", speeds[-1], "1/s"),
                    *figures(looks, note),
                ]
                old.execute("ROLLBACK")
                for statement in clean:
                    looks.execute(statement)
                began = time.perf_counter()
                await run()
                found.figures += [
                    Figure(row, "pairs/s afterwards", pairs / PARTS / (time.perf_counter() - began), "1/s"),
                    *figures(looks, "afterwards"),
                ]
                old.close()
                looks.close()
    except Absent as error:
        found.figures.append(Figure(row, "beside an old snapshot", None, note=str(error)))
    return found.as_json()
