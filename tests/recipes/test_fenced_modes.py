"""Every layer × driver × mode in which a connection can be: `fenced()` commits what another connection then sees, or it
refuses, and leaves nothing written and nothing locked. Never a commit that is none.
"""

from __future__ import annotations

import sqlite3
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import aiosqlite
import psycopg
import pytest
import sqlalchemy
from sqlalchemy.ext import asyncio as alchemy
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column

import aiolock.sync
from aiolock import AiolockError, ConfigurationError, LockManager, fenced
from aiolock.recipes.fences_table import FENCES_TABLE, FENCES_TABLE_OF_MYSQL
from aiolock.recipes.transactions import Alchemy
from aiolock.testing import MemoryBackend
from tests.databases.database import Database
from tests.databases.mysql.database import MySQLDatabase
from tests.databases.postgres.database import PostgresDatabase

from .connections import of_alchemy, say

INSERT = "INSERT INTO doc VALUES (1)"
JOINING = ("conditional_savepoint", "rollback_only", "control_fully", "create_savepoint")
AUTOCOMMIT = {"isolation_level": "AUTOCOMMIT"}
NEWER = pytest.mark.skipif(sys.version_info < (3, 12), reason="sqlite3 had no autocommit= before")


class Base(DeclarativeBase):
    pass


class Doc(Base):
    __tablename__ = "doc"
    id: Mapped[int] = mapped_column(primary_key=True)


class File:
    """A file of SQLite, as `Database` is one of a server."""

    scheme = "sqlite"

    def __init__(self, folder: Path) -> None:
        self.url = str(folder / "app.db")

    def run(self, sql: str) -> list[Any]:
        connection = sqlite3.connect(self.url, timeout=2, isolation_level=None)
        try:
            return connection.execute(sql).fetchall()
        finally:
            connection.close()

    def drop(self) -> None:
        pass


Place = Database | File
Connect = Callable[[str], AbstractContextManager[Any]]


class Mode(NamedTuple):
    """How a connection is set up.

    Attributes:
        name: for test ids.
        database: its scheme.
        connect: opens one to an address.
        refused: whether it must be.
        marks: of pytest.
    """

    name: str
    database: str
    connect: Connect
    refused: bool
    marks: tuple[Any, ...] = ()


def of_engine(driver: str, layer: str, **options: Any) -> Connect:
    """An engine's session or connection; or a session of its connection, which is in a transaction, or is not."""

    @contextmanager
    def connect(address: str) -> Iterator[Any]:
        engine = sqlalchemy.create_engine(of_alchemy(address, driver), **options)
        with engine.connect() as link:
            if layer == "connection":
                yield link
            elif layer == "session":
                link.close()
                with Session(engine) as session:
                    yield session
            elif layer == "idle":
                with Session(bind=link) as session:
                    yield session
            else:
                outer = link.begin()
                with Session(bind=link, join_transaction_mode=layer) as session:  # type: ignore[arg-type]
                    yield session
                if outer.is_active:
                    outer.rollback()
        engine.dispose()

    return connect


@contextmanager
def of_psycopg(address: str, autocommit: bool = False) -> Iterator[Any]:
    with psycopg.connect(address, autocommit=autocommit) as connection:
        yield connection


def of_sqlite3(**options: Any) -> Connect:
    @contextmanager
    def connect(address: str) -> Iterator[Any]:
        connection = sqlite3.connect(address, **options)
        yield connection
        connection.close()

    return connect


DRIVERS = {"postgresql": ("postgresql+psycopg",), "mysql": ("mysql+pymysql",), "sqlite": ("sqlite",)}
MODES = [
    mode
    for database, drivers in DRIVERS.items()
    for driver in drivers
    for mode in [
        Mode("session", database, of_engine(driver, "session"), False),
        Mode("connection", database, of_engine(driver, "connection"), False),
        Mode("session-of-idle-connection", database, of_engine(driver, "idle"), False),
        Mode("session-autocommit", database, of_engine(driver, "session", **AUTOCOMMIT), True),
        Mode("connection-autocommit", database, of_engine(driver, "connection", **AUTOCOMMIT), True),
        *(Mode(f"joined-{how}", database, of_engine(driver, how), True) for how in JOINING),
    ]
]
LITE = {
    "autocommit-true": {"autocommit": True},
    "autocommit-false": {"autocommit": False},
    "manual": {"isolation_level": None},
}
MODES += [
    Mode("psycopg", "postgresql", of_psycopg, False),
    Mode("psycopg-autocommit", "postgresql", lambda address: of_psycopg(address, True), False),
    Mode("mysql-driver-autocommit", "mysql", of_engine(
        "mysql+pymysql", "session", connect_args={"autocommit": True}), True),
    *(Mode(f"session-{name}", "sqlite", of_engine("sqlite", "session", connect_args=args), name != "autocommit-false",
        (NEWER,) if "autocommit" in args else ()) for name, args in LITE.items()),
    *(Mode(f"sqlite3-{name}", "sqlite", of_sqlite3(**args), name == "autocommit-false",
        (NEWER,) if "autocommit" in args else ()) for name, args in LITE.items()),
]  # fmt: skip


@pytest.fixture
def place(mode: Mode, tmp_path: Path) -> Iterator[Place]:
    made: Place = File(tmp_path) if mode.database == "sqlite" else (
        MySQLDatabase if mode.database == "mysql" else PostgresDatabase).new()  # fmt: skip
    made.run("CREATE TABLE doc (id int PRIMARY KEY)")
    made.run(FENCES_TABLE_OF_MYSQL if mode.database == "mysql" else FENCES_TABLE)
    yield made
    made.drop()


@pytest.fixture
def lease() -> Iterator[Any]:
    with aiolock.sync.LockManager("memory://") as locks, locks.lock("doc") as lease:
        yield lease


@pytest.mark.parametrize(
    "mode", [pytest.param(mode, id=f"{mode.database}-{mode.name}", marks=mode.marks) for mode in MODES]
)
@pytest.mark.filterwarnings("ignore:memory")
def test_what_another_connection_sees(mode: Mode, place: Place, lease: Any) -> None:
    """Kept by Alchemy.busy, and by FencedTransaction._begin, which asks the database."""
    error: AiolockError | None = None
    with mode.connect(place.url) as connection:
        try:
            with aiolock.sync.fenced(lease, connection):
                if isinstance(connection, Session | sqlalchemy.Connection):
                    connection.execute(sqlalchemy.text(INSERT))
                else:
                    connection.execute(INSERT)
        except AiolockError as caught:
            error = caught
        assert place.run("SELECT id FROM doc") == ([] if mode.refused else [(1,)])
        place.run("UPDATE aiolock_fences SET fence = fence")  # nobody has it locked
        place.run("INSERT INTO doc VALUES (2)")
    assert isinstance(error, ConfigurationError) is mode.refused


@pytest.mark.parametrize(
    "mode",
    [pytest.param(mode, id=mode.database) for mode in MODES if mode.name == f"joined-{JOINING[0]}"],
)
@pytest.mark.filterwarnings("ignore:memory")
def test_the_database_is_asked(mode: Mode, place: Place, lease: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the layer says: no first transaction outlives its COMMIT. Kept by FencedTransaction._begin."""
    monkeypatch.setattr(Alchemy, "busy", False)
    with mode.connect(place.url) as connection:
        with (
            pytest.raises(ConfigurationError, match="COMMIT ends no transaction of the database"),
            aiolock.sync.fenced(lease, connection),
        ):
            pytest.fail("it began")
        connection.rollback()
        if mode.database == "postgresql":
            connection.connection().rollback()
    assert place.run("SELECT id FROM doc") == []


@NEWER
@pytest.mark.parametrize("autocommit", [True, False])
async def test_sqlalchemy_over_aiosqlite(tmp_path: Path, autocommit: bool) -> None:
    """With True, its commit() does nothing, and there was no error. Kept by FencedTransaction._begin."""
    place = File(tmp_path)
    place.run(FENCES_TABLE)
    place.run("CREATE TABLE doc (id int PRIMARY KEY)")
    engine = alchemy.create_async_engine(
        f"sqlite+aiosqlite:///{place.url}", connect_args={"timeout": 2, "autocommit": autocommit}
    )
    async with (
        LockManager(MemoryBackend()) as locks,
        locks.lock("doc") as lease,
        alchemy.AsyncSession(engine) as session,
    ):
        if autocommit:
            with pytest.raises(ConfigurationError, match="COMMIT ends no transaction of the database"):
                async with fenced(lease, session):
                    pytest.fail("it began")
        else:
            async with fenced(lease, session):
                await say(session, INSERT)
        assert place.run("SELECT id FROM doc") == ([] if autocommit else [(1,)])
        place.run("INSERT INTO doc VALUES (2)")
    await engine.dispose()


@pytest.mark.filterwarnings("ignore:memory")
def test_a_session_that_uses_a_second_database(tmp_path: Path, lease: Any) -> None:
    """Its rows would not be in the transaction of the fence. Kept by `_one_connection`."""
    first, second = File(tmp_path), File(tmp_path / "second")
    (tmp_path / "second").mkdir()
    first.run(FENCES_TABLE)
    second.run("CREATE TABLE doc (id int PRIMARY KEY)")
    engines = [sqlalchemy.create_engine(of_alchemy(place.url, "sqlite")) for place in (first, second)]
    with Session(bind=engines[0], binds={Doc: engines[1]}) as session:
        with pytest.raises(ConfigurationError, match="a second one, by binds="), aiolock.sync.fenced(lease, session):  # noqa: PT012
            session.add(Doc(id=1))
            session.flush()
        with pytest.raises(ConfigurationError, match="a second one, by binds="), aiolock.sync.fenced(lease, session):
            session.add(Doc(id=1))  # flushed by the end of the block
        with aiolock.sync.fenced(lease, session), session.begin_nested():
            session.execute(sqlalchemy.text("CREATE TABLE made (id int)"))
    for engine in engines:
        engine.dispose()
    assert second.run("SELECT id FROM doc") == []
    assert first.run("SELECT count(*) FROM made") == [(0,)]


async def test_aiosqlite_in_each_mode(tmp_path: Path) -> None:
    place = File(tmp_path)
    place.run(FENCES_TABLE)
    place.run("CREATE TABLE doc (id int PRIMARY KEY)")
    modes: list[dict[str, Any]] = [{}, {"isolation_level": None}]
    if sys.version_info >= (3, 12):
        modes.append({"autocommit": True})
    async with LockManager(MemoryBackend()) as locks, locks.lock("doc") as lease:
        for number, options in enumerate(modes):
            async with aiosqlite.connect(place.url, **options) as connection, fenced(lease, connection):
                await connection.execute(f"INSERT INTO doc VALUES ({number})")
    assert len(place.run("SELECT id FROM doc")) == len(modes)
