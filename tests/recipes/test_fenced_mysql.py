"""fenced() in MariaDB and MySQL: what stays if a later holder has begun, or a block commits."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from itertools import count
from typing import Any

import pymysql
import pytest
import sqlalchemy
from sqlalchemy.ext import asyncio as alchemy
from sqlalchemy.orm import Session

from aiolock import ConfigurationError, LockLost, LockManager, TransactionError, fenced, sync
from aiolock.recipes.fenced_transaction import FENCES_TABLE_OF_MYSQL
from aiolock.testing import MemoryBackend
from tests.support import mysql

NUMBERS = count(1)
ISOLATIONS = ("READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE")


def over(session: bool, scheme: str = "mysql", **options: Any) -> Callable[[str], AbstractAsyncContextManager[Any]]:
    @asynccontextmanager
    async def connect(address: str) -> AsyncIterator[Any]:
        engine = alchemy.create_async_engine(f"{scheme}+asyncmy{address}", **options)
        async with alchemy.AsyncSession(engine) if session else engine.connect() as connection:
            yield connection
        await engine.dispose()

    return connect


WAYS = {
    "connection": over(False),
    "session": over(True),
    "mariadb": over(True, "mariadb"),
    **{name.lower(): over(False, isolation_level=name) for name in ISOLATIONS},
    "snapshot": over(False, connect_args={"init_command": "SET innodb_snapshot_isolation = ON"}),
}
Over = Callable[[str], AbstractAsyncContextManager[Any]]


@pytest.fixture
def address() -> Iterator[str]:
    """A database with a table, behind the scheme."""
    name = f"fenced_{os.getpid()}_{next(NUMBERS)}"
    with mysql.connect(mysql.port()) as link, link.cursor() as cursor:
        cursor.execute(f"CREATE DATABASE {name}")
        cursor.execute(f"CREATE TABLE {name}.doc(id int PRIMARY KEY) ENGINE = InnoDB")
        cursor.execute(FENCES_TABLE_OF_MYSQL.replace("aiolock_fences", f"{name}.aiolock_fences"))
    yield mysql.url(name).removeprefix("mysql")
    with mysql.connect(mysql.port()) as link, link.cursor() as cursor:
        cursor.execute(f"DROP DATABASE {name}")


def look(address: str, statement: str) -> list[Any]:
    with mysql.connect(mysql.port(), database=address.rpartition("/")[2]) as link, link.cursor() as cursor:
        cursor.execute(statement)
        return list(cursor.fetchall())


@pytest.fixture
async def locks() -> AsyncIterator[LockManager]:
    async with LockManager(MemoryBackend()) as manager:
        yield manager


async def say(connection: Any, statement: str) -> Any:
    return await connection.execute(sqlalchemy.text(statement))


@pytest.mark.parametrize("way", WAYS)
async def test_what_the_holder_writes_stays(locks: LockManager, address: str, way: str) -> None:
    async with locks.lock("doc") as lease, WAYS[way](address) as connection:
        for number in (1, 2):
            async with fenced(lease, connection):
                await say(connection, f"INSERT INTO doc VALUES({number})")
    assert look(address, "SELECT id FROM doc ORDER BY id") == [(1,), (2,)]
    assert look(address, "SELECT * FROM aiolock_fences") == [(b"aiolock:lock:{doc}", lease.fence)]


@pytest.mark.parametrize("way", WAYS)
async def test_a_later_holder_has_begun(locks: LockManager, address: str, way: str) -> None:
    """Also after the transaction has read what was there before. Kept by STORED_IN_MYSQL: FOR UPDATE, and CHANGED."""
    async with locks.lock("doc") as lease, WAYS[way](address) as connection:
        with pytest.raises(LockLost, match="rolled back"):  # noqa: PT012
            async with fenced(lease, connection):
                await say(connection, "SELECT * FROM doc")
                if way != "serializable":  # where it has locked what it has read
                    await say(connection, "SELECT * FROM aiolock_fences")
                await say(connection, "INSERT INTO doc VALUES(1)")
                await asyncio.to_thread(look, address, f"UPDATE aiolock_fences SET fence = {lease.fence + 1}")
        with pytest.raises(LockLost, match="did not"):
            async with fenced(lease, connection):
                raise AssertionError
    assert look(address, "SELECT * FROM doc") == []


@pytest.mark.parametrize("statement", ["COMMIT", "ROLLBACK", "CREATE TABLE other(id int)"])
async def test_a_block_that_ends_its_transaction(locks: LockManager, address: str, statement: str) -> None:
    """As MySQL does by itself before it makes a table. Kept by NO_SAVEPOINT."""
    async with locks.lock("doc") as lease, WAYS["session"](address) as connection:
        with pytest.raises(TransactionError, match="has ended its transaction itself"):  # noqa: PT012
            async with fenced(lease, connection):
                await say(connection, statement)
                await say(connection, "INSERT INTO doc VALUES(2)")
    assert look(address, "SELECT * FROM doc") == []


@pytest.mark.parametrize("session", [True, False])
async def test_a_connection_that_commits_each_statement(locks: LockManager, address: str, session: bool) -> None:
    """Kept by FencedTransaction._begin: a savepoint that is gone at once."""
    async with locks.lock("doc") as lease, over(session, isolation_level="AUTOCOMMIT")(address) as connection:
        with pytest.raises(ConfigurationError, match="AUTOCOMMIT"):
            async with fenced(lease, connection):
                raise AssertionError


async def test_a_table_that_is_missing(locks: LockManager, address: str) -> None:
    look(address, "DROP TABLE aiolock_fences")
    async with locks.lock("doc") as lease, WAYS["session"](address) as connection:
        with pytest.raises(sqlalchemy.exc.SQLAlchemyError) as caught:
            async with fenced(lease, connection):
                raise AssertionError
    assert FENCES_TABLE_OF_MYSQL in caught.value.__notes__[0]


def test_threads(address: str) -> None:
    engine = sqlalchemy.create_engine(f"mysql+pymysql{address}")
    with sync.LockManager(MemoryBackend()) as locks, locks.lock("doc") as lease, Session(engine) as session:
        with sync.fenced(lease, session):
            session.execute(sqlalchemy.text("INSERT INTO doc VALUES(1)"))
        with pytest.raises(LockLost), sync.fenced(lease, session):
            look(address, f"UPDATE aiolock_fences SET fence = {lease.fence + 1}")
    engine.dispose()
    assert look(address, "SELECT * FROM doc") == [(1,)]


@pytest.fixture
def django_connection(address: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
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
    where = {"HOST": "127.0.0.1", "PORT": str(mysql.port()), "USER": "root", "NAME": address.rpartition("/")[2]}
    connection = ConnectionHandler({"default": {"ENGINE": "django.db.backends.mysql", **where}})["default"]
    connections["default"] = connection
    yield connection
    connection.close()
    del connections["default"]


@pytest.mark.filterwarnings("ignore:memory")
def test_django(address: str, django_connection: Any) -> None:
    with sync.LockManager("memory://") as locks, locks.lock("doc") as lease:
        with sync.fenced(lease, django_connection), django_connection.cursor() as cursor:
            cursor.execute("INSERT INTO doc VALUES(1)")
        refused = pytest.raises(LockLost)
        with refused, sync.fenced(lease, django_connection), django_connection.cursor() as cursor:
            cursor.execute("INSERT INTO doc VALUES(2)")
            look(address, f"UPDATE aiolock_fences SET fence = {lease.fence + 1}")
    assert look(address, "SELECT * FROM doc") == [(1,)]
