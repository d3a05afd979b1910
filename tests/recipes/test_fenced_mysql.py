"""fenced() in MariaDB and MySQL: what stays if a later holder has begun, or a block commits."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pymysql
import pytest
import sqlalchemy
from sqlalchemy.orm import Session

from aiolock import ConfigurationError, LockLost, LockManager, TransactionError, fenced, sync
from aiolock.recipes.fences_table import FENCES_TABLE_OF_MYSQL
from aiolock.testing import MemoryBackend
from tests.databases.mysql.database import MySQLDatabase

from .connections import of_alchemy, over_alchemy, say

ISOLATIONS = ("READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE")
WAYS = {
    "connection": over_alchemy("mysql+asyncmy", False),
    "session": over_alchemy("mysql+asyncmy", True),
    "mariadb": over_alchemy("mariadb+asyncmy", True),
    **{name.lower(): over_alchemy("mysql+asyncmy", False, isolation_level=name) for name in ISOLATIONS},
    "snapshot": over_alchemy(
        "mysql+asyncmy", False, connect_args={"init_command": "SET innodb_snapshot_isolation = ON"}
    ),
}


@pytest.fixture
def database() -> Iterator[MySQLDatabase]:
    """One with a table, and that of fences."""
    made = MySQLDatabase.new()
    made.run("CREATE TABLE doc(id int PRIMARY KEY) ENGINE = InnoDB")
    made.run(FENCES_TABLE_OF_MYSQL)
    yield made
    made.drop()


@pytest.fixture
async def locks() -> AsyncIterator[LockManager]:
    async with LockManager(MemoryBackend()) as manager:
        yield manager


@pytest.mark.parametrize("way", WAYS)
async def test_what_the_holder_writes_stays(locks: LockManager, database: MySQLDatabase, way: str) -> None:
    async with locks.lock("doc") as lease, WAYS[way](database.url) as connection:
        for number in (1, 2):
            async with fenced(lease, connection):
                await say(connection, f"INSERT INTO doc VALUES({number})")
    assert database.run("SELECT id FROM doc ORDER BY id") == [(1,), (2,)]
    assert database.run("SELECT `lock`, fence FROM aiolock_fences") == [(b"aiolock:lock:{doc}", lease.fence)]


@pytest.mark.parametrize("way", WAYS)
async def test_a_later_holder_has_begun(locks: LockManager, database: MySQLDatabase, way: str) -> None:
    """Also after the transaction has read what was there before. Kept by STORED_IN_MYSQL: FOR UPDATE, and CHANGED."""
    async with locks.lock("doc") as lease, WAYS[way](database.url) as connection:
        with pytest.raises(LockLost, match="rolled back"):  # noqa: PT012
            async with fenced(lease, connection):
                await say(connection, "SELECT * FROM doc")
                if way != "serializable":  # where it has locked what it has read
                    await say(connection, "SELECT * FROM aiolock_fences")
                await say(connection, "INSERT INTO doc VALUES(1)")
                await asyncio.to_thread(database.run, f"UPDATE aiolock_fences SET fence = {lease.fence + 1}")
        with pytest.raises(LockLost, match="did not"):
            async with fenced(lease, connection):
                raise AssertionError
    assert database.run("SELECT * FROM doc") == []


@pytest.mark.parametrize("statement", ["COMMIT", "ROLLBACK", "CREATE TABLE other(id int)"])
async def test_a_block_that_ends_its_transaction(locks: LockManager, database: MySQLDatabase, statement: str) -> None:
    """As MySQL does by itself before it makes a table. Kept by NO_SAVEPOINT."""
    async with locks.lock("doc") as lease, WAYS["session"](database.url) as connection:
        with pytest.raises(TransactionError, match="has ended its transaction itself"):  # noqa: PT012
            async with fenced(lease, connection):
                await say(connection, statement)
                await say(connection, "INSERT INTO doc VALUES(2)")
    assert database.run("SELECT * FROM doc") == []


@pytest.mark.parametrize("session", [True, False])
async def test_a_connection_that_commits_each_statement(
    locks: LockManager, database: MySQLDatabase, session: bool
) -> None:
    """Kept by FencedTransaction._begin: a savepoint that is gone at once."""
    async with (
        locks.lock("doc") as lease,
        over_alchemy("mysql+asyncmy", session, isolation_level="AUTOCOMMIT")(database.url) as connection,
    ):
        with pytest.raises(ConfigurationError, match="AUTOCOMMIT"):
            async with fenced(lease, connection):
                raise AssertionError


async def test_a_table_that_is_missing(locks: LockManager, database: MySQLDatabase) -> None:
    database.run("DROP TABLE aiolock_fences")
    async with locks.lock("doc") as lease, WAYS["session"](database.url) as connection:
        with pytest.raises(sqlalchemy.exc.SQLAlchemyError) as caught:
            async with fenced(lease, connection):
                raise AssertionError
    assert FENCES_TABLE_OF_MYSQL in caught.value.__notes__[0]


async def test_another_database_at_the_end(locks: LockManager, database: MySQLDatabase) -> None:
    """The end looks at the table of the beginning, though the other has the same row. Kept by `_where`."""
    other = MySQLDatabase.new()
    other.run(FENCES_TABLE_OF_MYSQL)
    async with locks.lock("doc") as lease, WAYS["session"](database.url) as connection:
        with pytest.raises(TransactionError, match="search_path, USE"):  # noqa: PT012
            async with fenced(lease, connection):
                await say(connection, "INSERT INTO doc VALUES(1)")
                await asyncio.to_thread(
                    database.run, f"INSERT INTO {other.name}.aiolock_fences SELECT * FROM aiolock_fences"
                )
                await say(connection, f"USE {other.name}")
    other.drop()
    assert database.run("SELECT * FROM doc") == []


async def test_two_blocks_of_one_lease(locks: LockManager, database: MySQLDatabase) -> None:
    """The second finds a row that has changed since it began, and no later holder. Kept by `_leave`."""
    async with (
        locks.lock("doc") as lease,
        WAYS["snapshot"](database.url) as first,
        WAYS["connection"](database.url) as second,
    ):
        with pytest.raises(sqlalchemy.exc.SQLAlchemyError, match="1020"):  # noqa: PT012
            async with fenced(lease, first):
                await say(first, "SELECT * FROM doc")
                async with fenced(lease, second):
                    await say(second, "INSERT INTO doc VALUES(1)")
    assert database.run("SELECT * FROM doc") == [(1,)]


def test_threads(database: MySQLDatabase) -> None:
    engine = sqlalchemy.create_engine(of_alchemy(database.url, "mysql+pymysql"))
    with sync.LockManager(MemoryBackend()) as locks, locks.lock("doc") as lease, Session(engine) as session:
        with sync.fenced(lease, session):
            session.execute(sqlalchemy.text("INSERT INTO doc VALUES(1)"))
        with pytest.raises(LockLost), sync.fenced(lease, session):
            database.run(f"UPDATE aiolock_fences SET fence = {lease.fence + 1}")
    engine.dispose()
    assert database.run("SELECT * FROM doc") == [(1,)]


@pytest.fixture
def django_connection(database: MySQLDatabase, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Django's, over pymysql: it has the names of the driver that Django wants, and not its version."""
    monkeypatch.setattr(pymysql, "version_info", (2, 2, 7, "final", 0))
    monkeypatch.setitem(sys.modules, "MySQLdb", pymysql)
    monkeypatch.setitem(sys.modules, "MySQLdb._mysql", pymysql)
    import django
    from django.apps import apps
    from django.conf import settings
    from django.db import connections
    from django.db.utils import ConnectionHandler

    if not settings.configured:
        settings.configure()
    if not apps.ready:
        django.setup()
    host, port = database.where
    where = {"HOST": host, "PORT": str(port), "USER": "root", "NAME": database.name}
    connection = ConnectionHandler({"default": {"ENGINE": "django.db.backends.mysql", **where}})["default"]
    connections["default"] = connection
    yield connection
    connection.close()
    del connections["default"]


@pytest.mark.filterwarnings("ignore:memory")
def test_django(database: MySQLDatabase, django_connection: Any) -> None:
    with sync.LockManager("memory://") as locks, locks.lock("doc") as lease:
        with sync.fenced(lease, django_connection), django_connection.cursor() as cursor:
            cursor.execute("INSERT INTO doc VALUES(1)")
        refused = pytest.raises(LockLost)
        with refused, sync.fenced(lease, django_connection), django_connection.cursor() as cursor:
            cursor.execute("INSERT INTO doc VALUES(2)")
            database.run(f"UPDATE aiolock_fences SET fence = {lease.fence + 1}")
    assert database.run("SELECT * FROM doc") == [(1,)]
