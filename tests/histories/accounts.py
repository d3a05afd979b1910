"""What the locks of a round protect in a PostgreSQL: a number that only `fenced()` changes."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

import asyncpg
import psycopg

from aiolock import Lease, LockLost, TransactionError, fenced
from aiolock.recipes.fenced import FENCES_TABLE
from tests.support.postgres import OWNER

TABLES = (
    "CREATE TABLE account (total bigint NOT NULL)",
    "INSERT INTO account VALUES (0)",
    "CREATE TABLE entry (fence bigint NOT NULL, seen bigint NOT NULL)",
    FENCES_TABLE,
)
MISHAPS = (asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError, OSError, TransactionError)
"""Of a database whose sessions are ended."""


class Accounts:
    """One number.

    Args:
        dsn: of the database.
    """

    def __init__(self, dsn: str) -> None:
        self._dsn = dsn

    async def increase(self, lease: Lease, stay: float, wrote: Callable[[float, bool | None], None]) -> None:
        """Read the number, stay, and write it; tell whether that was accepted, or None if nobody can know."""
        since = time.monotonic()
        accepted: bool | None = None
        try:
            connection = await asyncpg.connect(self._dsn)
            try:
                async with fenced(lease, connection):
                    seen = await connection.fetchval("SELECT total FROM account")
                    await asyncio.sleep(stay)
                    await connection.execute("UPDATE account SET total = $1", seen + 1)
                    await connection.execute("INSERT INTO entry VALUES ($1, $2)", lease.fence, seen)
                accepted = True
            finally:
                await _ended(connection.close(timeout=2.0))
        except LockLost:
            if not lease.lost:  # else it has not asked the database: nothing is there
                accepted = False
            raise
        except MISHAPS:
            pass
        finally:
            wrote(since, accepted)

    def total(self) -> int:
        """The number."""
        return int(self._look("SELECT total FROM account")[0][0])

    def broken(self) -> list[str]:
        """What must not be: each writer has seen what the one before wrote."""
        entries = self._look("SELECT fence, seen FROM entry ORDER BY fence, seen")
        wrong = [
            f"fence {fence} saw {seen} after {at} writes" for at, (fence, seen) in enumerate(entries) if seen != at
        ]
        if self.total() != len(entries):
            wrong.append(f"the account says {self.total()}, and {len(entries)} entries stay")
        return [f"fenced: {text}" for text in wrong[:3]]

    def end_sessions(self) -> None:
        """As a restart of the database does."""
        self._look("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE backend_type = 'client backend' "
                   "AND datname = current_database() AND pid <> pg_backend_pid() "
                   f"AND application_name <> '{OWNER}'")  # fmt: skip

    def _look(self, sql: str) -> list[Any]:
        with psycopg.connect(self._dsn, autocommit=True) as link:
            return link.execute(sql).fetchall()


async def _ended(closing: Awaitable[None]) -> None:
    with suppress(*MISHAPS, TimeoutError):
        await closing
