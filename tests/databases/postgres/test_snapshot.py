"""A transaction that stays open keeps old versions of rows, but only those of its own database."""

from __future__ import annotations

import psycopg
import pytest

from aiolock import LockManager
from tests.support import postgres

from .database import PostgresDatabase

PAIRS = 400


@pytest.mark.parametrize("where", ["the same database", "another database"])
async def test_beside_a_snapshot(database: PostgresDatabase, where: str) -> None:
    """Locks in a database of their own stay as fast, whoever dumps the other ones. Kept by PostgreSQL."""
    async with LockManager(database.url) as locks:
        async with locks.lock("x"):
            pass
        url = database.url if where == "the same database" else postgres.dsn()
        with psycopg.connect(url) as old:
            old.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
            old.execute("SELECT 1")
            for _ in range(PAIRS):
                async with locks.lock("x"):
                    pass
            ((size,),) = database.run("SELECT pg_table_size('aiolock.rows')")
            kept = size > PAIRS * 2 * 100  # bytes that each version has at least
            assert kept is (where == "the same database")
