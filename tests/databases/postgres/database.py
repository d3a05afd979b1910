"""A database of PostgreSQL."""

from __future__ import annotations

from typing import Any, LiteralString, cast

import asyncpg
import psycopg

from aiolock.backends.postgres import PostgresEngine
from aiolock.backends.postgres.reader import DatabaseReader
from aiolock.backends.postgres.session import SCHEMA
from tests.support import postgres
from tests.support.database import DatabaseSide
from tests.support.pgwire import PostgresFramer

from ..database import NUMBERS, Database

GRANTS = "GRANT USAGE ON SCHEMA aiolock TO {0}; GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA aiolock TO {0}"
FAULTS = {
    "fails": "no_such()",
    "takes long": "pg_sleep(60)",
    "ends its session": "pg_terminate_backend(pg_backend_pid())",
}


class PostgresDatabase(Database):
    """See `Database`."""

    rows, key, locks = "aiolock.rows", "key", "aiolock.locks"
    careless = "fsync"
    holds_in = True
    queued = "SELECT count(*) FROM aiolock.rows, json_each(value) WHERE rows.key = %s"
    schema = SCHEMA
    sweep = "SELECT aiolock.sweep_1()"
    undo = "DROP SCHEMA aiolock CASCADE"
    idle = (
        "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND state LIKE 'idle in transaction%'"
    )
    nothing = "null"
    errors = psycopg.Error
    clock = "clock_timestamp()"
    stepped = "(SELECT hours * interval '1 hour' FROM public.stepped)"
    scheme, called = "postgresql", "PostgreSQL"
    engines, server, framing = PostgresEngine, postgres.OwnServer, PostgresFramer
    gone = asyncpg.ConnectionDoesNotExistError("connection was closed in the middle of operation")
    writes = b"hash"

    def __init__(self, url: str) -> None:
        super().__init__(url)
        self._users: list[str] = []

    @classmethod
    def new(cls) -> PostgresDatabase:
        name = f"own_{postgres.dsn().rpartition('test_')[2].partition('?')[0]}_{next(NUMBERS)}"
        made = cls(postgres.url(name))
        postgres.owner().execute(f"CREATE DATABASE {name}")
        return made

    @property
    def where(self) -> tuple[str, int]:
        return f"{self.url.rpartition('host=')[2]}/.s.PGSQL.5432", 5432

    def behind(self, port: int) -> str:
        return f"postgresql://postgres@127.0.0.1:{port}/{self.name}?sslmode=disable"

    def drop(self) -> None:
        postgres.owner().execute(f"DROP DATABASE {self.name} WITH (FORCE)")
        for name in self._users:
            postgres.owner().execute(f"DROP ROLE {name}")

    def connect(self, url: str = "") -> psycopg.Connection[Any]:
        return psycopg.connect(url or self.url, autocommit=True)

    def run(self, statement: str, *values: object, url: str = "") -> list[tuple[Any, ...]]:
        with self.connect(url) as link:
            cursor = link.execute(cast(LiteralString, statement), values or None)
            return cursor.fetchall() if cursor.description else []

    def equip(self, url: str = "", clock: str = "") -> None:
        self.run(SCHEMA.read_text(encoding="utf-8").replace(self.clock, clock or self.clock), url=url)

    def made(self) -> list[tuple[Any, ...]]:
        return self.run("SELECT nspname FROM pg_namespace WHERE nspname = 'aiolock'")

    def reader(self) -> DatabaseReader:
        return DatabaseReader(self.url)

    def side(self, *, empty: bool = True) -> DatabaseSide:
        return DatabaseSide(self.url, empty)

    def user(self, *, allowed: bool = True, sessions: int = 0) -> str:
        name = f"u_{self.name}_{next(NUMBERS)}"
        self._users.append(name)
        self.run(f"CREATE ROLE {name} LOGIN CONNECTION LIMIT {sessions or -1}")
        if allowed:
            self.run(GRANTS.format(name))
        return self.url.replace("postgres:@", f"{name}:@")

    def break_sweep(self, fault: str) -> None:
        self.run("DROP FUNCTION aiolock.sweep_1")
        does = f"RETURNS bigint LANGUAGE plpgsql AS 'BEGIN PERFORM {FAULTS[fault]}; RETURN 0; END'"
        self.run(f"CREATE FUNCTION aiolock.sweep_1() {does}")

    def ears(self) -> list[int]:
        query = (
            "SELECT DISTINCT pid FROM pg_locks WHERE locktype = 'advisory' AND granted "
            "AND database = (SELECT oid FROM pg_database WHERE datname = current_database())"
        )
        return [pid for (pid,) in self.run(query)]

    def turns(self) -> list[tuple[Any, ...]]:
        return self.run("SELECT tag, manager, until_us, crowd, firm FROM aiolock.turns")

    def end_turns(self) -> None:
        self.run("DELETE FROM aiolock.turns")

    def sessions(self) -> list[int]:
        query = "SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'aiolock'"
        return [pid for (pid,) in self.run(query)]

    def end(self, session: int) -> None:
        self.run(f"SELECT pg_terminate_backend({session})")
