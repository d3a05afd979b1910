"""A lock for the length of a transaction excludes leases, and leases exclude it."""

from __future__ import annotations

import asyncio
import random
import re
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import asyncpg
import psycopg
import pytest
from sqlalchemy.ext import asyncio as alchemy

from aiolock import AcquireTimeout, BackendError, ConfigurationError, LockLost, LockManager, hold_in
from aiolock.backends.transactional.channels import hold_of

from ..database import exchanges
from .database import PostgresDatabase


@asynccontextmanager
async def over_asyncpg(url: str) -> AsyncIterator[Any]:
    connection = await asyncpg.connect(url)
    try:
        async with connection.transaction():
            yield connection
    finally:
        await connection.close(timeout=5)


@asynccontextmanager
async def over_psycopg(url: str) -> AsyncIterator[Any]:
    async with await psycopg.AsyncConnection.connect(url) as connection:
        yield connection  # it begins a transaction by itself


@asynccontextmanager
async def over_session(url: str) -> AsyncIterator[Any]:
    engine = alchemy.create_async_engine(url.replace("postgresql://", "postgresql+asyncpg://"))
    async with alchemy.AsyncSession(engine) as session, session.begin():
        yield session
    await engine.dispose()


@asynccontextmanager
async def over_connection(url: str) -> AsyncIterator[Any]:
    engine = alchemy.create_async_engine(url.replace("postgresql://", "postgresql+psycopg://"))
    async with engine.begin() as connection:
        yield connection
    await engine.dispose()


async def until(database: PostgresDatabase, query: str) -> None:
    """Return once it has a row."""
    async with asyncio.timeout(10):
        while not database.run(query):  # noqa: ASYNC110 - nothing tells
            await asyncio.sleep(0.005)


BLOCKED = """SELECT 1 FROM pg_locks l JOIN pg_stat_activity a USING (pid) WHERE NOT granted AND locktype = 'advisory'
  AND datname = current_database()"""
"""A transaction waits for another one."""
WAYS = [over_asyncpg, over_psycopg, over_session, over_connection]
Way = Callable[[str], AbstractAsyncContextManager[Any]]


@pytest.mark.parametrize("way", WAYS)
async def test_it_excludes_leases(database: PostgresDatabase, way: Way) -> None:
    """Until its end; and who looks sees it. Kept by Plan.decide: `held`."""
    async with LockManager(database.url) as locks:
        lock = locks.lock("x")
        async with way(database.url) as connection:
            await hold_in(connection, "x")
            await hold_in(connection, "x")  # it has it
            async with lock.try_acquire() as lease:
                assert lease is None
            assert await lock.is_locked()
            info = await lock.info()
            assert info is not None
            assert info.holder == "a transaction in the database"
            with pytest.raises(AcquireTimeout, match="held by a transaction in the database"):
                await lock.acquire(timeout=0.5)
            async with locks.lock("y").try_acquire() as lease:
                assert lease is not None
        async with lock.acquire(timeout=10):
            pass


@pytest.mark.parametrize("way", WAYS)
async def test_leases_exclude_it(database: PostgresDatabase, way: Way) -> None:
    """It waits for a release, and its transaction can go on if that does not come in time. Kept by left_1."""
    async with LockManager(database.url) as locks:
        lease = await locks.lock("x", metadata="\0").acquire()
        async with way(database.url) as connection:
            for timeout in (0, 0.05):
                with pytest.raises(AcquireTimeout, match=r"lock 'x' was not acquired.*held by a lease, for [12]\d\."):
                    await hold_in(connection, "x", timeout=timeout)
            waiter = asyncio.create_task(hold_in(connection, "x"))
            await asyncio.sleep(0.05)
            assert not waiter.done()
            await lease.release()
            await asyncio.wait_for(waiter, 10)
        async with locks.lock("x").acquire(timeout=10) as following:
            assert following.fence > lease.fence


@pytest.mark.parametrize("commit", [True, False])
async def test_those_who_wait_for_a_lease_go_on(database: PostgresDatabase, commit: bool) -> None:
    """In their order, after COMMIT or ROLLBACK, or once the session is gone. Kept by PAUSE_MS."""
    async with LockManager(database.url) as one, LockManager(database.url) as two:
        connection = await asyncpg.connect(database.url)
        transaction = connection.transaction()
        await transaction.start()
        await hold_in(connection, "x")
        order: list[str] = []

        async def enter(locks: LockManager, name: str) -> None:
            async with locks.lock("x").acquire(timeout=20):
                order.append(name)

        first = asyncio.create_task(enter(one, "one"))
        await database.until_waiting("x")
        second = asyncio.create_task(enter(two, "two"))
        await until(database, "SELECT 1 FROM aiolock.rows WHERE key LIKE '%:queue' AND value::text LIKE '%,%'")
        assert order == []
        if commit:
            await transaction.commit()
        else:
            connection.terminate()
        await asyncio.gather(first, second)
        assert order == ["one", "two"]
        if commit:
            await connection.close()


async def test_two_transactions(database: PostgresDatabase) -> None:
    """The second is told by the server itself when the first has ended: it does not look again and again."""
    async with LockManager(database.url), over_asyncpg(database.url) as one, over_psycopg(database.url) as two:
        await hold_in(one, "x")
        with pytest.raises(AcquireTimeout, match="another transaction has it"):
            await hold_in(two, "x", timeout=0.05)
        with pytest.raises(AcquireTimeout, match="another transaction has it"):
            await hold_in(two, "x", timeout=0)
        waiter = asyncio.create_task(hold_in(two, "x"))
        await until(database, BLOCKED)
        await one.execute("ROLLBACK")
        await asyncio.wait_for(waiter, 10)
        await one.execute("BEGIN")  # for its end


async def test_two_that_wait_for_each_other(database: PostgresDatabase) -> None:
    """PostgreSQL finds that, as with rows."""
    async with LockManager(database.url), over_asyncpg(database.url) as one:
        other = await asyncpg.connect(database.url)
        await other.execute("BEGIN")
        await hold_in(one, "x")
        await hold_in(other, "y")
        results = await asyncio.gather(hold_in(one, "y"), end_after(hold_in(other, "x"), other), return_exceptions=True)
        (failure,) = (one for one in results if one is not None)
        assert isinstance(failure, asyncpg.DeadlockDetectedError)
        assert re.fullmatch(
            r"hold_in\(\) waited for lock '.': take several names in the same order.*", *failure.__notes__
        )
        if results[0] is not None:
            await one.execute("ROLLBACK; BEGIN")


async def end_after(work: Any, connection: asyncpg.Connection[Any]) -> None:
    try:
        await work
    finally:
        await connection.close()


async def test_rolled_back_to_a_savepoint(database: PostgresDatabase) -> None:
    async with LockManager(database.url) as locks, over_asyncpg(database.url) as connection:
        await connection.execute("SAVEPOINT mine")
        await hold_in(connection, "x")
        await connection.execute("ROLLBACK TO SAVEPOINT mine")
        async with locks.lock("x").try_acquire() as lease:
            assert lease is not None


async def test_a_lease_that_has_expired(database: PostgresDatabase) -> None:
    """A transaction can take its name; then no late renewal brings it back. Kept by Plan.decide: `grants`."""
    async with LockManager(database.url, ttl=0.3, margin=0.05) as locks, over_asyncpg(database.url) as connection:
        lease = await locks.lock("x", renew=False, cancel_on_loss=False).acquire()
        await hold_in(connection, "x", timeout=10)
        assert lease.lost
        with pytest.raises(LockLost):
            await lease.renew()
    with pytest.raises(LockLost):
        await lease.release()


async def test_several_names_at_once(database: PostgresDatabase) -> None:
    """A multi lock waits for the name that a transaction has."""
    async with LockManager(database.url) as locks:
        async with over_asyncpg(database.url) as connection:
            await hold_in(connection, "b")
            async with locks.multi_lock("a", "b").try_acquire() as lease:
                assert lease is None
            waiter = asyncio.create_task(locks.multi_lock("a", "b").acquire())
            await database.until_waiting("b")
        await (await asyncio.wait_for(waiter, 10)).release()


async def test_force_does_not_take_it(database: PostgresDatabase) -> None:
    """Nobody but its session can end it. Kept by LoadedBesideTransactions: `_refuse`."""
    async with LockManager(database.url) as locks:
        async with over_asyncpg(database.url) as connection:
            await hold_in(connection, "x")
            waiter = asyncio.create_task(locks.lock("x").acquire())
            await database.until_waiting("x")
            with pytest.raises(BackendError, match="a transaction in the database has the lock until it ends"):
                await locks.lock("x").force_release()
            assert not waiter.done()
        await (await asyncio.wait_for(waiter, 10)).release()


async def test_without_a_transaction(database: PostgresDatabase) -> None:
    """It would be over at once."""
    async with LockManager(database.url):
        connection = await asyncpg.connect(database.url)
        with pytest.raises(ConfigurationError, match=r"hold_in\(\) of lock 'x' needs an open transaction: begin one"):
            await hold_in(connection, "x")
        await connection.close()
        engine = alchemy.create_async_engine(
            database.url.replace("postgresql://", "postgresql+asyncpg://"), isolation_level="AUTOCOMMIT"
        )
        async with engine.begin() as autocommitting:
            with pytest.raises(ConfigurationError, match="without AUTOCOMMIT"):
                await hold_in(autocommitting, "x")
        await engine.dispose()


@pytest.mark.parametrize("level", ["repeatable_read", "serializable"])
async def test_another_isolation_level(database: PostgresDatabase, level: Any) -> None:
    """Such a transaction sees the rows of its beginning: it could not tell who has the lock. Kept by hold_1."""
    async with LockManager(database.url):
        connection = await asyncpg.connect(database.url)
        async with connection.transaction(isolation=level):
            with pytest.raises(ConfigurationError, match="READ COMMITTED"):
                await hold_in(connection, "x")
            await connection.execute("SELECT 1")
        await connection.close()


async def test_not_there(database: PostgresDatabase) -> None:
    """Another database, or one without our functions: the error says what to do."""
    async with over_asyncpg(database.url) as connection:
        with pytest.raises(ConfigurationError, match=r"functions of aiolock .*schema\.sql"):
            await hold_in(connection, "x")
        await connection.execute("ROLLBACK; BEGIN")
    engine = alchemy.create_async_engine("sqlite+aiosqlite://")
    async with engine.begin() as connection:
        with pytest.raises(ConfigurationError, match="not in sqlite"):
            await hold_in(connection, "x")
    await engine.dispose()
    with pytest.raises(ConfigurationError, match=r"hold_in\(\) of lock 'x' cannot use a"):
        await hold_in(object(), "x")


async def test_a_damaged_state(database: PostgresDatabase) -> None:
    async with LockManager(database.url) as locks, over_asyncpg(database.url) as connection:
        await locks.lock("x").acquire()
        database.run("UPDATE aiolock.rows SET value = %s", '{"owner":"m:1","expires":"soon"}')
        with pytest.raises(BackendError, match="cannot be read"):
            await hold_in(connection, "x")
        database.run("DELETE FROM aiolock.rows")


async def test_a_counter(database: PostgresDatabase) -> None:
    """Leases of two managers and transactions count without a lock of the row: none is lost. Kept by hold_1, and
    Plan.decide.
    """
    database.run("CREATE TABLE counter AS SELECT 0 AS value")
    choose = random.Random(3)
    done = 0

    async def count(connection: Any) -> None:
        value = await connection.fetchval("SELECT value FROM counter")
        await asyncio.sleep(choose.uniform(0, 0.003))
        await connection.execute("UPDATE counter SET value = $1", value + 1)

    async def with_leases(locks: LockManager, connection: Any, times: int) -> None:
        nonlocal done
        for _ in range(times):
            async with locks.lock("x").acquire(timeout=60):
                await count(connection)
            done += 1
            await asyncio.sleep(choose.uniform(0, 0.01))

    async def with_transactions(connection: Any, times: int) -> None:
        nonlocal done
        for _ in range(times):
            async with connection.transaction():
                await hold_in(connection, "x", timeout=60)
                await count(connection)
            done += 1
            await asyncio.sleep(choose.uniform(0, 0.01))

    async with (
        LockManager(database.url) as one,
        LockManager(database.url) as two,
        asyncpg.create_pool(database.url, min_size=4, max_size=4) as pool,
    ):
        links = [await pool.acquire() for _ in range(4)]
        await asyncio.gather(
            with_leases(one, links[0], 40),
            with_leases(two, links[1], 40),
            with_transactions(links[2], 40),
            with_transactions(links[3], 40),
        )
        for link in links:
            await pool.release(link)
    assert database.run("SELECT value FROM counter") == [(160,)]
    assert done == 160


async def test_it_costs_others_nothing(database: PostgresDatabase) -> None:
    """A lock that only one manager uses takes an exchange for each request, as before."""
    async with LockManager(database.url) as locks:
        async with locks.lock("x"):
            pass
        before, stale = exchanges(locks)
        for _ in range(10):
            async with locks.lock("x"):
                pass
        after, late = exchanges(locks)
        assert after - before == 20
        assert late == stale


async def test_a_grant_that_is_faster(database: PostgresDatabase) -> None:
    """The lock was free, and somebody else was about to have it. Kept by hold_1: its second look."""
    key, later = "aiolock:lock:{x}", 2**53
    async with LockManager(database.url) as locks, over_asyncpg(database.url) as connection:
        with psycopg.connect(database.url) as granting:
            granting.execute("SELECT pg_advisory_xact_lock(%s)", (hold_of(key),))
            state = f'{{"owner":"m:1","expires":"{later}"}}'
            granting.execute("INSERT INTO aiolock.rows VALUES (%s, 'hash', %s, %s, 5)", (key, state, later * 1000))
            waiter = asyncio.create_task(hold_in(connection, "x", timeout=2))
            await until(database, BLOCKED)
        with pytest.raises(AcquireTimeout, match="held by a lease"):
            await waiter
        database.run("DELETE FROM aiolock.rows")
        async with locks.lock("x").try_acquire() as lease:  # it has kept nothing
            assert lease is not None
