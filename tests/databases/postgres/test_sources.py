"""A pool or an engine of the user's says where the locks are. Its connections stay the user's."""

from __future__ import annotations

import asyncio
from typing import Any

import asyncpg
import pytest
import sqlalchemy
from sqlalchemy.ext import asyncio as alchemy

from aiolock import ConfigurationError, LockManager
from aiolock.backends.postgres.address import address_of

from .database import PostgresDatabase


def of_alchemy(url: str, driver: str) -> str:
    return url.replace("postgresql://", f"postgresql+{driver}://")


async def holds(database: PostgresDatabase, source: Any) -> set[str]:
    """Keep a lock there, and let another wait for it; return as whom the manager has connected."""
    async with LockManager(source) as locks, LockManager(database.url) as others:
        lease = await locks.lock("x").acquire()
        waiter = asyncio.create_task(others.lock("x").acquire())
        await asyncio.sleep(0.05)
        await lease.release()
        await (await asyncio.wait_for(waiter, 10)).release()
        query = "SELECT usename FROM pg_stat_activity WHERE datname = %s AND application_name = 'aiolock'"
        return {name for (name,) in database.run(query, database.name)}


@pytest.fixture
def role(database: PostgresDatabase) -> Any:
    """Another one than that of the URL."""
    name = f"own_{database.name}"
    database.run(f"CREATE ROLE {name} LOGIN SUPERUSER")
    yield name
    database.run(f"DROP OWNED BY {name} CASCADE")
    database.run(f"DROP ROLE {name}")


async def test_a_pool(database: PostgresDatabase, role: str) -> None:
    """All of its connections may be taken. Kept by _of_pool."""
    options: dict[str, Any] = {"server_settings": {"application_name": "shop", "search_path": "nowhere"}}
    async with asyncpg.create_pool(database.url, user=role, min_size=1, max_size=1, **options) as pool:
        async with pool.acquire():
            assert await holds(database, pool) == {"postgres", role}
        assert pool.get_size() == 1


async def test_a_pool_that_nobody_has_opened(database: PostgresDatabase) -> None:
    """Nor does the manager; and what changes in its settings counts for the next connection."""
    pool = asyncpg.create_pool("postgresql://nobody@127.0.0.1:1/nothing", command_timeout=0.000_001)
    locks = LockManager(pool)
    pool.set_connect_args(database.url, statement_cache_size=0)
    async with locks, locks.lock("x"):
        pass
    assert pool.get_size() == 0


async def test_a_pool_that_connects_itself(database: PostgresDatabase) -> None:
    async def connect(*_: object, **__: object) -> Any: ...

    with pytest.raises(ConfigurationError, match="a pool with connect= makes its connections itself"):
        LockManager(asyncpg.create_pool(database.url, connect=connect))


@pytest.mark.parametrize("driver", ["asyncpg", "psycopg"])
async def test_an_engine(database: PostgresDatabase, role: str, driver: str) -> None:
    """With what its events say, as those who hand out tokens. Kept by _of_engine."""
    engine = alchemy.create_async_engine(of_alchemy(database.url, driver), pool_size=1)

    @sqlalchemy.event.listens_for(engine.sync_engine, "do_connect")
    def ask(_dialect: Any, _record: Any, _words: Any, named: dict[str, Any]) -> None:
        named["user"] = role

    async with engine.connect():
        assert await holds(database, engine) == {"postgres", role}
    await engine.dispose()


async def test_settings_of_an_engine(database: PostgresDatabase) -> None:
    """What TLS it wants is not forgotten."""
    given = {"ssl": "require", "prepared_statement_cache_size": 0}
    engine = alchemy.create_async_engine(of_alchemy("postgresql://u:p@h:5433/db", "asyncpg"), connect_args=given)
    address = address_of(engine)
    assert address.name == "h:5433/db"
    wanted = {"host": "h", "port": 5433, "database": "db", "user": "u", "password": "p", "ssl": "require"}
    assert dict(address.settings()) == wanted


async def test_engines_that_cannot_tell(database: PostgresDatabase) -> None:
    """The error says what to give instead; nothing connects without what they were told."""

    async def creator() -> Any: ...

    url = of_alchemy(database.url, "asyncpg")
    own = alchemy.create_async_engine(url, async_creator=creator)
    tls = alchemy.create_async_engine(of_alchemy(database.url, "psycopg"), connect_args={"sslmode": "verify-full"})
    for engine, said in ((own, "makes its connections itself"), (tls, "with sslmode cannot tell how to connect")):
        with pytest.raises(ConfigurationError, match=said):
            await LockManager(engine).open()
    with pytest.raises(ConfigurationError, match="an engine of sqlite keeps no locks"):
        LockManager(alchemy.create_async_engine("sqlite+aiosqlite://"))
