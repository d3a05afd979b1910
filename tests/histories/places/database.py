"""One server for the locks, and a database that they protect."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any, ClassVar

from tests.databases import database
from tests.databases.mysql.database import MySQLDatabase
from tests.databases.postgres.database import PostgresDatabase
from tests.support.postgres import OWNER

from ..accounts import FENCES, TABLES, Ledger
from ..kinds import Kind
from .keeping import KeepingServer
from .server import OneServer


class Database(OneServer):
    """Holders of locks write to a PostgreSQL with `fenced()`, whatever happens to them, to the server or to it."""

    name = "database"
    kinds: ClassVar = OneServer.kinds | {"end_sessions": Kind(2.0)}
    uses = ("fenced", "lock")
    product: ClassVar[type[database.Database]] = PostgresDatabase
    ending: ClassVar = (
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE backend_type = 'client backend' AND "
        f"datname = current_database() AND pid <> pg_backend_pid() AND application_name <> '{OWNER}'"
    )

    def __init__(self, kept: KeepingServer) -> None:
        super().__init__(kept)
        self._database = self.product.new()
        for statement in (*TABLES, FENCES[self.product.scheme]):
            self._database.run(statement)
        self._ledger = Ledger(self._database.run)
        self.given: dict[str, Any] = self.given | {
            "accounts": [self.product.scheme, self._database.name, self._database.where]
        }

    def totals(self) -> dict[str, int]:
        return {"account": self._ledger.total()}

    def broken(self) -> list[str]:
        return self._ledger.broken()

    @asynccontextmanager
    async def end_sessions(self, number: int, seconds: float) -> AsyncIterator[None]:
        await asyncio.to_thread(self._end)
        yield

    def _end(self) -> None:
        """As a restart of the database does."""
        self._database.run(self.ending)


class DatabaseOfMySQL(Database):
    """The same with MariaDB or MySQL."""

    name = "database-mysql"
    product = MySQLDatabase

    def _end(self) -> None:
        others = "SELECT id FROM information_schema.processlist WHERE db = DATABASE() AND id <> CONNECTION_ID()"
        for (number,) in self._database.run(others):
            with suppress(self.product.errors):  # it has ended meanwhile
                self._database.run(f"KILL {number}")
