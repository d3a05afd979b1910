"""Transactions that a later holder refuses, on each kind of connection: what stays, and what does not."""

from __future__ import annotations

import asyncio
import re
import sqlite3
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, AbstractContextManager, asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import aiosqlite
import pytest
import sqlalchemy
from sqlalchemy.ext import asyncio as alchemy
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column

import aiolock.sync
from aiolock import (
    ConfigurationError,
    LockLost,
    LockManager,
    LossReason,
    NotOwned,
    TransactionError,
    WaitTimeout,
    fenced,
)
from aiolock.recipes.fenced import FENCES_TABLE
from aiolock.testing import MemoryBackend

KEY = "aiolock:lock:{doc}"
TTL = 30.0


class Base(DeclarativeBase):
    pass


class Doc(Base):
    __tablename__ = "doc"
    id: Mapped[int] = mapped_column(primary_key=True)


@asynccontextmanager
async def over_aiosqlite(path: Path) -> AsyncIterator[Any]:
    async with aiosqlite.connect(path) as connection:
        yield connection


@asynccontextmanager
async def over_async_engine(path: Path) -> AsyncIterator[Any]:
    engine = alchemy.create_async_engine(f"sqlite+aiosqlite:///{path}")
    async with engine.connect() as connection:
        yield connection
    await engine.dispose()


@asynccontextmanager
async def over_async_session(path: Path) -> AsyncIterator[Any]:
    engine = alchemy.create_async_engine(f"sqlite+aiosqlite:///{path}")
    async with alchemy.AsyncSession(engine) as session:
        yield session
    await engine.dispose()


@contextmanager
def over_sqlite3(path: Path) -> Iterator[Any]:
    connection = sqlite3.connect(path, check_same_thread=False)
    yield connection
    connection.close()


@contextmanager
def over_engine(path: Path) -> Iterator[Any]:
    engine = sqlalchemy.create_engine(f"sqlite:///{path}")
    with engine.connect() as connection:
        yield connection
    engine.dispose()


@contextmanager
def over_session(path: Path) -> Iterator[Any]:
    engine = sqlalchemy.create_engine(f"sqlite:///{path}")
    with Session(engine) as session:
        yield session
    engine.dispose()


@contextmanager
def over_django(path: Path) -> Iterator[Any]:
    import django
    from django.apps import apps
    from django.conf import settings
    from django.db.backends.sqlite3.base import DatabaseWrapper
    from django.db.utils import ConnectionHandler

    if not settings.configured:
        settings.configure()
    if not apps.ready:
        django.setup()
    of_sqlite = {"ENGINE": "django.db.backends.sqlite3", "NAME": str(path)}
    connection = ConnectionHandler({"default": of_sqlite})["default"]
    assert isinstance(connection, DatabaseWrapper)
    from django.db import connections

    connections["default"] = connection
    yield connection
    connection.close()
    del connections["default"]


ASYNC = [over_aiosqlite, over_async_engine, over_async_session]
SYNC = [over_sqlite3, over_engine, over_session, over_django]
Over = Callable[[Path], AbstractAsyncContextManager[Any]]
SyncOver = Callable[[Path], AbstractContextManager[Any]]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    found = tmp_path / "app.db"
    look(found, FENCES_TABLE)
    look(found, "CREATE TABLE doc (id integer PRIMARY KEY)")
    return found


def look(path: Path, sql: str, *values: object) -> list[Any]:
    """Execute one statement in a connection of its own."""
    connection = sqlite3.connect(path, timeout=20)
    with connection:
        found = connection.execute(sql, values).fetchall()
    connection.close()
    return found


def fences(path: Path) -> dict[str, int]:
    return dict(look(path, "SELECT lock, fence FROM aiolock_fences"))


def docs(path: Path) -> list[int]:
    return [number for (number,) in look(path, "SELECT id FROM doc ORDER BY id")]


def later(path: Path, fence: int) -> None:
    """A later holder has committed."""
    look(path, "INSERT OR REPLACE INTO aiolock_fences (lock, fence) VALUES (?, ?)", KEY, fence)


async def write(connection: Any, number: int) -> None:
    sql = f"INSERT INTO doc VALUES ({number})"
    if isinstance(connection, alchemy.AsyncSession):
        connection.add(Doc(id=number))  # written when the session likes to
    else:
        await connection.execute(sqlalchemy.text(sql) if isinstance(connection, alchemy.AsyncConnection) else sql)


def write_now(connection: Any, number: int) -> None:
    sql = f"INSERT INTO doc VALUES ({number})"
    if isinstance(connection, Session):
        connection.add(Doc(id=number))
    elif hasattr(connection, "cursor") and hasattr(connection, "vendor"):
        with connection.cursor() as cursor:
            cursor.execute(sql)
    else:
        connection.execute(sqlalchemy.text(sql) if isinstance(connection, sqlalchemy.Connection) else sql)


async def fail(connection: Any) -> None:
    await write(connection, 1)
    raise ValueError("mine")


def fail_now(connection: Any) -> None:
    write_now(connection, 1)
    raise ValueError("mine")


async def outlast(connection: Any, backend: MemoryBackend) -> None:
    """Write for longer than the lease lasts."""
    await write(connection, 1)
    await backend.clock.advance(TTL - 1)


@pytest.fixture
def backend() -> MemoryBackend:
    return MemoryBackend()


@pytest.fixture
async def locks(backend: MemoryBackend) -> AsyncIterator[LockManager]:
    async with LockManager(backend, ttl=TTL) as manager:
        yield manager


@pytest.fixture
def threads() -> Iterator[aiolock.sync.LockManager]:
    with aiolock.sync.LockManager("memory://") as manager:
        yield manager


@pytest.mark.parametrize("over", ASYNC)
async def test_what_a_holder_writes_stays(locks: LockManager, path: Path, over: Over) -> None:
    """Several transactions of one holder, and of the next."""
    async with over(path) as connection:
        for number in (1, 3):
            async with locks.lock("doc") as lease:
                async with fenced(lease, connection) as given:
                    assert given is connection
                    await write(connection, number)
                async with fenced(lease, connection):
                    await write(connection, number + 1)
            assert fences(path) == {KEY: lease.fence}
    assert docs(path) == [1, 2, 3, 4]


@pytest.mark.parametrize("over", SYNC)
@pytest.mark.filterwarnings("ignore:memory")
def test_what_a_thread_writes_stays(threads: aiolock.sync.LockManager, path: Path, over: SyncOver) -> None:
    with over(path) as connection:
        for number in (1, 3):
            with threads.lock("doc") as lease:
                with aiolock.sync.fenced(lease, connection) as given:
                    assert given is connection
                    write_now(connection, number)
                with aiolock.sync.fenced(lease, connection):
                    write_now(connection, number + 1)
            assert fences(path) == {KEY: lease.fence}
    assert docs(path) == [1, 2, 3, 4]


@pytest.mark.parametrize("over", ASYNC)
async def test_a_late_holder_is_refused(locks: LockManager, path: Path, over: Over) -> None:
    """All of its transaction is rolled back, and the connection can be used again. Kept by `RAISE`, and `late`."""
    async with over(path) as connection, locks.lock("doc") as lease:
        later(path, lease.fence + 1)
        with pytest.raises(LockLost, match="a later holder has begun, so this") as lost:
            async with fenced(lease, connection):
                await write(connection, 1)
        assert lost.value.reason is LossReason.TAKEN_OVER
        assert docs(path) == []
        later(path, lease.fence - 1)
        async with fenced(lease, connection):
            await write(connection, 2)
    assert docs(path) == [2]


@pytest.mark.parametrize("over", SYNC)
@pytest.mark.filterwarnings("ignore:memory")
def test_a_late_thread_is_refused(threads: aiolock.sync.LockManager, path: Path, over: SyncOver) -> None:
    with over(path) as connection, threads.lock("doc") as lease:
        later(path, lease.fence + 1)
        with pytest.raises(LockLost, match="a later holder has begun"), aiolock.sync.fenced(lease, connection):
            write_now(connection, 1)
        assert docs(path) == []
        later(path, lease.fence - 1)
        with aiolock.sync.fenced(lease, connection):
            write_now(connection, 2)
    assert docs(path) == [2]


@pytest.mark.parametrize("over", ASYNC)
async def test_a_block_that_raises_is_rolled_back(locks: LockManager, path: Path, over: Over) -> None:
    async with over(path) as connection, locks.lock("doc") as lease:
        with pytest.raises(ValueError, match="mine"):
            async with fenced(lease, connection):
                await fail(connection)
        async with fenced(lease, connection):
            pass
    assert docs(path) == []


@pytest.mark.parametrize("over", SYNC)
@pytest.mark.filterwarnings("ignore:memory")
def test_a_block_of_a_thread_that_raises(threads: aiolock.sync.LockManager, path: Path, over: SyncOver) -> None:
    with over(path) as connection, threads.lock("doc") as lease:
        with pytest.raises(ValueError, match="mine"), aiolock.sync.fenced(lease, connection):
            fail_now(connection)
        with aiolock.sync.fenced(lease, connection):
            pass
    assert docs(path) == []


@pytest.mark.parametrize("over", ASYNC)
async def test_a_lost_lease_commits_nothing(locks: LockManager, backend: MemoryBackend, path: Path, over: Over) -> None:
    """Whether it is lost before, or in the block. Kept by `ensure`."""
    async with over(path) as connection:
        lease = await locks.lock("doc", renew=False, cancel_on_loss=False).acquire()
        with pytest.raises(LockLost):
            async with fenced(lease, connection):
                await outlast(connection, backend)
        with pytest.raises(LockLost):
            async with fenced(lease, connection):
                pytest.fail("it began")
        with pytest.raises(LockLost):
            await lease.release()
        with pytest.raises((NotOwned, LockLost)):
            async with fenced(lease, connection):
                pytest.fail("it began")
    assert docs(path) == []


@pytest.mark.parametrize("over", ASYNC)
async def test_cancelled_by_a_loss(locks: LockManager, backend: MemoryBackend, path: Path, over: Over) -> None:
    """The rollback is not cancelled: the connection can be used again. Kept by Lease.shielded."""
    inside = asyncio.Event()

    async def work(connection: Any) -> None:
        async with locks.lock("doc", renew=False) as lease, fenced(lease, connection):
            await write(connection, 1)
            inside.set()
            await asyncio.Event().wait()

    async with over(path) as connection:
        task = asyncio.create_task(work(connection))
        await inside.wait()
        await backend.clock.advance(TTL - 1)
        with pytest.raises(LockLost):
            await task
        await backend.clock.advance(TTL)
        async with locks.lock("doc") as lease, fenced(lease, connection):
            await write(connection, 2)
    assert docs(path) == [2]


@pytest.mark.parametrize("over", ASYNC)
async def test_in_a_transaction(locks: LockManager, path: Path, over: Over) -> None:
    """Kept by check_idle."""
    async with over(path) as connection, locks.lock("doc") as lease, fenced(lease, connection):
        await write(connection, 1)
        with pytest.raises(ConfigurationError, match=r"it is in (a transaction|an atomic block)"):
            async with fenced(lease, connection):
                pytest.fail("it began")
    assert docs(path) == [1]


@pytest.mark.parametrize("over", SYNC)
@pytest.mark.filterwarnings("ignore:memory")
def test_a_thread_in_a_transaction(threads: aiolock.sync.LockManager, path: Path, over: SyncOver) -> None:
    with over(path) as connection, threads.lock("doc") as lease, aiolock.sync.fenced(lease, connection):
        write_now(connection, 1)
        with (
            pytest.raises(ConfigurationError, match=r"it is in (a transaction|an atomic block)"),
            aiolock.sync.fenced(lease, connection),
        ):
            pytest.fail("it began")
    assert docs(path) == [1]


async def test_the_fence_is_written_first_and_last(locks: LockManager, path: Path) -> None:
    """And committed before the block begins. What a session kept back comes before. Kept by Alchemy.flush."""
    engine = alchemy.create_async_engine(f"sqlite+aiosqlite:///{path}")
    said: list[str] = []
    sqlalchemy.event.listen(engine.sync_engine, "before_cursor_execute", lambda *args: said.append(args[2]))
    sqlalchemy.event.listen(engine.sync_engine, "commit", lambda _: said.append("COMMIT"))
    async with (
        alchemy.AsyncSession(engine, autoflush=False) as session,
        locks.lock("doc") as lease,
        fenced(lease, session),
    ):
        session.add(Doc(id=1))
    await engine.dispose()
    found = "SELECT written, 0 FROM aiolock_fences"
    assert [re.split(r" [(W]", text)[0] for text in said] == [
        "BEGIN IMMEDIATE",
        "INSERT INTO aiolock_fences",
        found,
        "SAVEPOINT aiolock_fenced",
        "COMMIT",
        "BEGIN IMMEDIATE",
        "ROLLBACK TO SAVEPOINT aiolock_fenced",
        "SAVEPOINT aiolock_fenced",
        "INSERT INTO doc",
        "RELEASE SAVEPOINT aiolock_fenced",
        "UPDATE aiolock_fences SET written = ?",
        found,
        "COMMIT",
    ]


async def test_all_names_of_a_multi_lock(locks: LockManager, path: Path) -> None:
    """A late holder of one of them is refused; and of all of them, if one of them was taken by another."""
    async with over_aiosqlite(path) as connection:
        early = await locks.lock("b").acquire()
        await locks.lock("b").force_release()
        async with locks.multi_lock("a", "b") as both, fenced(both, connection):
            pass
        assert fences(path) == {f"aiolock:lock:{{{name}}}": both.fence for name in "ab"}
        early._hold.reason, early._hold.deadline = None, early._hold.deadline  # it has not noticed
        with pytest.raises(LockLost, match="later holder"):
            async with fenced(early, connection):
                await write(connection, 1)
        early._hold.lose(LossReason.REVOKED)
        with pytest.raises(LockLost):
            await early.release()
    assert docs(path) == []


async def test_kinds_have_fences_of_their_own(locks: LockManager, path: Path) -> None:
    """A read-write lock of that name excludes no lock."""
    async with over_aiosqlite(path) as connection:
        async with locks.rw_lock("doc").write as lease, fenced(lease, connection):
            pass
        async with locks.fair_lock("doc") as other, fenced(other, connection):
            pass
    assert fences(path) == {"aiolock:rw:{doc}": lease.fence, KEY: other.fence}


async def test_leases_that_have_nothing_to_themselves(locks: LockManager, path: Path) -> None:
    async with over_aiosqlite(path) as connection:
        for lock in (locks.semaphore("doc", 2), locks.rw_lock("doc").read):
            async with lock as lease:
                with pytest.raises(ConfigurationError, match="shares the lock, so its fence"):
                    fenced(lease, connection)


async def test_without_the_table(locks: LockManager, path: Path) -> None:
    look(path, "DROP TABLE aiolock_fences")
    async with over_aiosqlite(path) as connection, locks.lock("doc") as lease:
        with pytest.raises(sqlite3.OperationalError) as error:
            async with fenced(lease, connection):
                await write(connection, 1)
        assert FENCES_TABLE in error.value.__notes__[0]
    assert docs(path) == []


async def test_what_is_no_connection(locks: LockManager, path: Path) -> None:
    """The message says what to give."""
    engine = alchemy.create_async_engine(f"sqlite+aiosqlite:///{path}")
    async with locks.lock("doc") as lease:
        with over_sqlite3(path) as connection, pytest.raises(ConfigurationError, match=r"use aiolock.sync.fenced\(\)"):
            fenced(lease, connection)
        for thing in (engine, None, path):
            with pytest.raises(ConfigurationError, match="give one connection or session of aiosqlite, asyncpg"):
                fenced(lease, thing)
        with pytest.raises(ConfigurationError, match="needs the lease that `with"):
            aiolock.sync.fenced(lease, None)  # type: ignore[arg-type]
    await engine.dispose()


@pytest.mark.filterwarnings("ignore:memory")
def test_what_is_no_connection_of_a_thread(threads: aiolock.sync.LockManager, path: Path) -> None:
    awaited = aiosqlite.Connection(lambda: sqlite3.connect(path), 64)
    with threads.lock("doc") as lease:
        with pytest.raises(ConfigurationError, match=r"use aiolock.fenced\(\)"):
            aiolock.sync.fenced(lease, awaited).__enter__()
        with pytest.raises(ConfigurationError, match="give one connection or session of django, psycopg, sqlalchemy"):
            aiolock.sync.fenced(lease, path).__enter__()
        with pytest.raises(ConfigurationError, match="needs the lease that `async with"):
            fenced(lease, awaited)  # type: ignore[arg-type]


@pytest.mark.filterwarnings("ignore:memory")
def test_another_database(threads: aiolock.sync.LockManager) -> None:
    engine = sqlalchemy.create_engine("sqlite://")
    engine.dialect.name = "oracle"
    refused = pytest.raises(ConfigurationError, match="knows PostgreSQL, MySQL and SQLite, not oracle")
    with engine.connect() as connection, threads.lock("doc") as lease, refused:
        aiolock.sync.fenced(lease, connection).__enter__()
    engine.dispose()


async def test_the_lock_is_not_given_up_inside(locks: LockManager, path: Path) -> None:
    """A wait for a condition would let others in, and go on with a later fence. Kept by Level._check_may_leave."""
    lock = locks.lock("doc")
    async with over_aiosqlite(path) as connection, lock as lease:
        async with fenced(lease, connection):
            await write(connection, 1)
            with pytest.raises(ConfigurationError, match=r"what fenced\(\) has read must stay so"):
                await locks.condition(lock).wait(0.0)
            with pytest.raises(ConfigurationError, match=r"what fenced\(\) has read must stay so"):
                await lease.detach()
        with pytest.raises(WaitTimeout):
            await locks.condition(lock).wait(0.0)
    assert docs(path) == [1]


async def test_released_inside(locks: LockManager, path: Path) -> None:
    """Nothing of the block stays. Kept by `ensure` at its end."""
    async with over_aiosqlite(path) as connection:
        lease = await locks.lock("doc").acquire()
        with pytest.raises(NotOwned):  # noqa: PT012
            async with fenced(lease, connection):
                await write(connection, 1)
                await lease.release()
    assert docs(path) == []


async def test_the_fence_is_that_of_the_beginning(locks: LockManager, path: Path) -> None:
    """Whatever gives the lease a later one. Kept by `_fence`."""
    async with over_aiosqlite(path) as connection:
        lease = await locks.lock("doc").acquire()
        with pytest.raises(LockLost, match=f"fence {lease.fence}\\) was lost: a later holder has begun"):  # noqa: PT012
            async with fenced(lease, connection):
                await write(connection, 1)
                lease._hold.fence += 1  # as when it was given up and acquired again
                await connection.execute("UPDATE aiolock_fences SET fence = fence + 1")
        await lease.release()
    assert docs(path) == []


async def test_a_row_that_is_gone(locks: LockManager, path: Path) -> None:
    """It is not written anew: another table, or a purge of rows in use, is no later holder. Kept by `WRITE`."""
    async with over_aiosqlite(path) as connection, locks.lock("doc") as lease:
        with pytest.raises(TransactionError, match="does not find the row of aiolock_fences"):  # noqa: PT012
            async with fenced(lease, connection):
                await write(connection, 1)
                await connection.execute("DELETE FROM aiolock_fences")
        with pytest.raises(TransactionError, match="does not find the row of aiolock_fences"):  # noqa: PT012
            async with fenced(lease, connection):
                await write(connection, 1)
                await connection.execute(FENCES_TABLE.replace("TABLE IF NOT EXISTS", "TEMP TABLE"))
    assert docs(path) == []
