"""What `fenced()` says of databases that refuse, end, or are locked."""

from __future__ import annotations

import asyncio
import sqlite3
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiosqlite
import asyncpg
import pytest
from sqlalchemy.ext import asyncio as alchemy

from aiolock import ConfigurationError, LockManager, TransactionError, fenced
from aiolock.recipes.fenced import FENCES_TABLE
from aiolock.testing import MemoryBackend
from tests.support import postgres

from .connections import over_alchemy, over_asyncpg, over_psycopg

IDLE = "SHOW idle_in_transaction_session_timeout"
WAYS = [
    over_asyncpg,
    over_psycopg(),
    over_alchemy("postgresql+asyncpg", True),
    over_alchemy("postgresql+psycopg", False),
]
ENOUGH = 30.0


@pytest.fixture
def dsn() -> str:
    return postgres.anew("CREATE TABLE doc (id int PRIMARY KEY)", FENCES_TABLE)


@pytest.fixture
async def lease() -> AsyncIterator[Any]:
    async with LockManager(MemoryBackend(), ttl=0.4) as locks:  # whose time stands still
        lease = await locks.lock("doc").acquire()
        yield lease
        await lease.release()


@pytest.mark.parametrize("over", WAYS)
async def test_a_healthy_holder_that_does_nothing_for_too_long(lease: Any, dsn: str, over: Any) -> None:
    """The error says why the session is gone. Kept by _told."""
    async with over(dsn) as connection, over_asyncpg(dsn) as other:

        async def idle() -> None:
            async with fenced(lease, connection), asyncio.timeout(ENOUGH):
                in_one = "SELECT count(*) FROM pg_stat_activity WHERE state LIKE 'idle in%'"
                while await other.fetchval(in_one):  # noqa: ASYNC110
                    await asyncio.sleep(0.01)

        with pytest.raises(TransactionError, match=r"it may be idle for 0\.35 s") as error:
            await idle()
        assert error.value.__cause__ is not None
        assert lease.reason is None


async def test_a_shorter_limit_of_the_user_stays(lease: Any, dsn: str) -> None:
    """Kept by `least` and `_allowed_ms`."""
    async with over_asyncpg(dsn) as connection:
        await connection.execute("SET idle_in_transaction_session_timeout = '200ms'")
        async with fenced(lease, connection):
            assert await connection.fetchval(IDLE) == "200ms"
        await connection.execute("SET idle_in_transaction_session_timeout = '1h'")
        async with fenced(lease, connection):
            assert await connection.fetchval(IDLE) == "350ms"
        assert await connection.fetchval(IDLE) == "1h"


async def test_without_the_rights(lease: Any, dsn: str) -> None:
    """The note says which, and does not speak of a table that is there."""
    link = postgres.owner()
    (role,) = link.execute("SELECT 'of_' || current_database()").fetchone()  # roles belong to the whole server
    link.execute(f"CREATE ROLE {role}")
    link.execute(f"GRANT USAGE ON SCHEMA public TO {role}")
    link.execute(f"GRANT SELECT ON aiolock_fences TO {role}")
    async with over_asyncpg(dsn) as connection:
        await connection.execute(f"SET ROLE {role}")
        with pytest.raises(asyncpg.InsufficientPrivilegeError) as error:
            async with fenced(lease, connection):
                pytest.fail("it began")
    assert error.value.__notes__ == [
        "aiolock: fenced() needs the rights to SELECT, INSERT and UPDATE in the table aiolock_fences"
    ]


async def test_without_the_table(lease: Any, dsn: str) -> None:
    """A missing table of the user is not ours."""
    async with over_asyncpg(dsn) as connection:
        with pytest.raises(asyncpg.UndefinedTableError) as error:
            async with fenced(lease, connection):
                await connection.execute("INSERT INTO nothing VALUES (1)")
        assert not hasattr(error.value, "__notes__")
        await connection.execute("DROP TABLE aiolock_fences")
        with pytest.raises(asyncpg.UndefinedTableError) as error:
            async with fenced(lease, connection):
                pytest.fail("it began")
        assert FENCES_TABLE in error.value.__notes__[0]


async def test_in_a_pipeline(lease: Any, dsn: str) -> None:
    """Kept by Psycopg.unfit. One that ends in the block is fine."""
    async with over_psycopg()(dsn) as connection:
        async with connection.pipeline():
            with pytest.raises(ConfigurationError, match="pipeline mode, where errors come late"):
                async with fenced(lease, connection):
                    pytest.fail("it began")
        async with fenced(lease, connection), connection.pipeline():
            await connection.execute("INSERT INTO doc VALUES (1)")
        assert await (await connection.execute("SELECT id FROM doc")).fetchall() == [(1,)]


async def test_sessions_of_sqlalchemy_that_stand_for_others(lease: Any, dsn: str) -> None:
    engine = alchemy.create_async_engine(dsn.replace("postgresql://", "postgresql+asyncpg://"))
    scoped = alchemy.async_scoped_session(alchemy.async_sessionmaker(engine), scopefunc=asyncio.current_task)
    async with fenced(lease, scoped) as given:
        assert given is scoped
    await scoped.remove()
    async with alchemy.AsyncSession(binds={object: engine}) as session:
        with pytest.raises(ConfigurationError, match="needs a session of one database"):
            fenced(lease, session)
    await engine.dispose()


async def test_a_database_that_stays_locked(lease: Any, tmp_path: Path) -> None:
    """A frozen holder of SQLite's write lock."""
    path = tmp_path / "app.db"
    frozen = sqlite3.connect(path, isolation_level=None)
    frozen.execute(FENCES_TABLE)
    frozen.execute("BEGIN IMMEDIATE")
    async with aiosqlite.connect(path, timeout=0.01) as connection:
        with pytest.raises(TransactionError, match="another transaction has kept it locked") as error:
            async with fenced(lease, connection):
                pytest.fail("it began")
        assert isinstance(error.value.__cause__, sqlite3.OperationalError)
        frozen.close()
        async with fenced(lease, connection):
            pass


@pytest.mark.skipif(sys.version_info < (3, 12), reason="sqlite3 had no autocommit= before")
async def test_a_connection_that_is_always_in_a_transaction(lease: Any, tmp_path: Path) -> None:
    """Kept by SQLite.busy."""
    async with aiosqlite.connect(tmp_path / "app.db", autocommit=False) as connection:
        with pytest.raises(ConfigurationError, match="autocommit=False"):
            async with fenced(lease, connection):
                pytest.fail("it began")
