"""Every kind of connection that `fenced()` knows, each on its database, and how one speaks to it."""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

import aiosqlite
import asyncpg
import psycopg
import sqlalchemy
from sqlalchemy.ext import asyncio as alchemy
from sqlalchemy.orm import Session

from aiolock.recipes.transactions import _settled as settled
from tests.support import postgres

TABLES = ("CREATE TABLE doc (id int PRIMARY KEY)",)


class Way(NamedTuple):
    """A kind of connection.

    Attributes:
        name: for test ids.
        database: "postgresql" or "sqlite".
        connect: opens one to an address.
        autocommits: it has no transactions, so it is refused.
    """

    name: str
    database: str
    connect: Callable[[str], AbstractAsyncContextManager[Any]]
    autocommits: bool = False
    awaited: bool = True


@asynccontextmanager
async def over_asyncpg(address: str) -> AsyncIterator[Any]:
    connection = await asyncpg.connect(address)
    yield connection
    await connection.close(timeout=5)


def over_psycopg(**options: Any) -> Callable[[str], AbstractAsyncContextManager[Any]]:
    @asynccontextmanager
    async def connect(address: str) -> AsyncIterator[Any]:
        connection = await psycopg.AsyncConnection.connect(address, **options)
        yield connection
        await connection.close()

    return connect


def over_alchemy(driver: str, session: bool, **options: Any) -> Callable[[str], AbstractAsyncContextManager[Any]]:
    @asynccontextmanager
    async def connect(address: str) -> AsyncIterator[Any]:
        engine = alchemy.create_async_engine(of_alchemy(address, driver), **options)
        async with alchemy.AsyncSession(engine) if session else engine.connect() as connection:
            yield connection
        await engine.dispose()

    return connect


def over_threads_alchemy(
    driver: str, session: bool, begins: bool = False, **options: Any
) -> Callable[[str], AbstractAsyncContextManager[Any]]:
    @asynccontextmanager
    async def connect(address: str) -> AsyncIterator[Any]:
        engine = sqlalchemy.create_engine(of_alchemy(address, driver), **options)
        if begins:  # the recipe of SQLAlchemy's documentation
            sqlalchemy.event.listen(engine, "connect", lambda link, _: setattr(link, "isolation_level", None))
            sqlalchemy.event.listen(engine, "begin", lambda link: link.exec_driver_sql("BEGIN"))
        with Session(engine) if session else engine.connect() as connection:
            yield connection
        engine.dispose()

    return connect


def of_alchemy(address: str, driver: str) -> str:
    if driver.startswith("sqlite"):
        return f"{driver}:///{address}"
    return f"{driver}://{address.partition('://')[2]}"


@asynccontextmanager
async def over_threads_psycopg(address: str) -> AsyncIterator[Any]:
    with psycopg.connect(address) as connection:
        yield connection


def over_pg8000(**options: Any) -> Callable[[str], AbstractAsyncContextManager[Any]]:
    @asynccontextmanager
    async def connect(address: str) -> AsyncIterator[Any]:
        parsed = psycopg.conninfo.conninfo_to_dict(address)
        where = {"user": parsed["user"], "database": parsed["dbname"], "unix_sock": f"{parsed['host']}/.s.PGSQL.5432"}
        engine = sqlalchemy.create_engine("postgresql+pg8000://", connect_args=where, **options)
        with Session(engine) as connection:
            yield connection
        engine.dispose()

    return connect


def over_aiosqlite(**options: Any) -> Callable[[str], AbstractAsyncContextManager[Any]]:
    @asynccontextmanager
    async def connect(address: str) -> AsyncIterator[Any]:
        async with aiosqlite.connect(address, **options) as connection:
            yield connection

    return connect


def over_sqlite3(**options: Any) -> Callable[[str], AbstractAsyncContextManager[Any]]:
    @asynccontextmanager
    async def connect(address: str) -> AsyncIterator[Any]:
        connection = sqlite3.connect(address, **options)
        connection.row_factory = lambda _, row: {"row": row}
        yield connection
        connection.close()

    return connect


def over_django(database: str, **settings: Any) -> Callable[[str], AbstractAsyncContextManager[Any]]:
    @asynccontextmanager
    async def connect(address: str) -> AsyncIterator[Any]:
        import django
        from django.apps import apps
        from django.conf import settings as own
        from django.db.utils import ConnectionHandler

        if not own.configured:
            own.configure()
        if not apps.ready:
            django.setup()
        where = {"NAME": address}
        if database == "postgresql":
            parsed = psycopg.conninfo.conninfo_to_dict(address)
            where = {"NAME": parsed["dbname"], "HOST": parsed["host"], "USER": parsed["user"]}
        engine = {"ENGINE": f"django.db.backends.{database.replace('sqlite', 'sqlite3')}"}
        connection = ConnectionHandler({"default": engine | where | settings})["default"]
        from django.db import connections

        connections["default"] = connection
        yield connection
        connection.close()
        del connections["default"]

    return connect


PG, LITE = "postgresql", "sqlite"
AUTO = {"isolation_level": "AUTOCOMMIT"}
WAYS = [
    Way("asyncpg", PG, over_asyncpg),
    Way("psycopg", PG, over_psycopg()),
    Way("psycopg-autocommit", PG, over_psycopg(autocommit=True)),
    Way("psycopg-raw-dicts", PG, over_psycopg(
        cursor_factory=psycopg.AsyncRawCursor, row_factory=psycopg.rows.dict_row)),
    Way("session-asyncpg", PG, over_alchemy("postgresql+asyncpg", True)),
    Way("session-psycopg-repeatable", PG, over_alchemy(
        "postgresql+psycopg", True, isolation_level="REPEATABLE READ")),
    Way("connection-asyncpg-serializable", PG, over_alchemy(
        "postgresql+asyncpg", False, isolation_level="SERIALIZABLE")),
    Way("connection-psycopg", PG, over_alchemy("postgresql+psycopg", False)),
    Way("session-asyncpg-autocommit", PG, over_alchemy("postgresql+asyncpg", True, **AUTO), True),
    Way("connection-psycopg-autocommit", PG, over_alchemy("postgresql+psycopg", False, **AUTO), True),
    Way("aiosqlite", LITE, over_aiosqlite()),
    Way("aiosqlite-manual", LITE, over_aiosqlite(isolation_level=None)),
    Way("session-aiosqlite", LITE, over_alchemy("sqlite+aiosqlite", True)),
    Way("connection-aiosqlite", LITE, over_alchemy("sqlite+aiosqlite", False)),
    Way("session-aiosqlite-autocommit", LITE, over_alchemy("sqlite+aiosqlite", True, **AUTO), True),
    Way("threads-psycopg", PG, over_threads_psycopg, awaited=False),
    Way("threads-session-psycopg", PG, over_threads_alchemy("postgresql+psycopg", True), awaited=False),
    Way("threads-connection-psycopg-autocommit", PG, over_threads_alchemy(
        "postgresql+psycopg", False, **AUTO), True, False),
    Way("threads-session-pg8000", PG, over_pg8000(), awaited=False),
    Way("threads-session-pg8000-autocommit", PG, over_pg8000(**AUTO), True, False),
    Way("django-postgres", PG, over_django(PG), awaited=False),
    Way("django-postgres-no-autocommit", PG, over_django(PG, AUTOCOMMIT=False), True, False),
    Way("django-sqlite", LITE, over_django(LITE), awaited=False),
    Way("sqlite3-dicts", LITE, over_sqlite3(), awaited=False),
    Way("sqlite3-manual", LITE, over_sqlite3(isolation_level=None), awaited=False),
    Way("threads-session-sqlite", LITE, over_threads_alchemy("sqlite", True), awaited=False),
    Way("threads-connection-sqlite-begins", LITE, over_threads_alchemy("sqlite", False, begins=True), awaited=False),
    Way("threads-connection-sqlite-autocommit", LITE, over_threads_alchemy("sqlite", False, **AUTO), True, False),
]  # fmt: skip


class Database:
    """One database, seen from outside.

    Args:
        way: what kind.
        folder: for a file.
        statements: what it begins with.
    """

    def __init__(self, way: Way, folder: Path, *statements: str) -> None:
        self._of_postgres = way.database == "postgresql"
        self.address: str = postgres.anew(*statements) if self._of_postgres else str(folder / "app.db")
        if not self._of_postgres:
            for statement in statements:
                self.look(statement)

    def look(self, sql: str) -> list[Any]:
        """Execute a statement, committed; wait for no one who has it locked."""
        if self._of_postgres:
            cursor = postgres.owner().execute(sql)
            return cursor.fetchall() if cursor.description else []
        connection = sqlite3.connect(self.address, timeout=2, isolation_level=None)
        try:
            return connection.execute(sql).fetchall()
        finally:
            connection.close()

    def tables(self) -> set[str]:
        of_postgres = "SELECT tablename FROM pg_tables WHERE schemaname = 'public'"
        of_sqlite = "SELECT name FROM sqlite_master WHERE type = 'table'"
        return {name for (name,) in self.look(of_postgres if self._of_postgres else of_sqlite)}


async def say(connection: Any, sql: str) -> None:
    """Execute one statement of a user, as its library wants it."""
    if hasattr(connection, "vendor"):
        with connection.cursor() as cursor:
            cursor.execute(sql)
        return
    of_alchemy = any("sqlalchemy" in cls.__module__ for cls in type(connection).__mro__)
    await settled(connection.execute(sqlalchemy.text(sql) if of_alchemy else sql))


def nested(connection: Any) -> Any:
    """A block within a transaction, as its library offers it; None if it offers none."""
    if hasattr(connection, "vendor"):
        from django.db import transaction

        return transaction.atomic()
    for offered in ("begin_nested", "transaction"):
        if hasattr(connection, offered):
            return getattr(connection, offered)()
    return None
