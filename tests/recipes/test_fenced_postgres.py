"""Fenced transactions in a real PostgreSQL."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import asyncpg
import psycopg
import pytest
import sqlalchemy
from sqlalchemy.orm import Session

import aiolock.sync
from aiolock import LockLost, LockManager, LossReason, TransactionError, fenced
from aiolock.recipes.fenced import FENCES_TABLE
from aiolock.recipes.fenced_transaction import FencedTransaction
from tests.support import postgres

from .connections import over_alchemy, over_asyncpg, over_psycopg, say

TTL = 1.2
ENOUGH = 30.0


@pytest.fixture
def dsn() -> str:
    doc = "CREATE TABLE doc (id int PRIMARY KEY, text text NOT NULL)"
    return postgres.anew(doc, "INSERT INTO doc VALUES (1, '')", FENCES_TABLE)


def written() -> str:
    (found,) = postgres.owner().execute("SELECT text FROM doc").fetchone()
    return str(found)


@asynccontextmanager
async def over_pool(dsn: str) -> AsyncIterator[Any]:
    async with asyncpg.create_pool(dsn, min_size=1, max_size=1) as pool, pool.acquire() as connection:
        yield connection


Over = Callable[[str], AbstractAsyncContextManager[Any]]
WAYS = [over_asyncpg, over_pool, over_psycopg(), over_alchemy("postgresql+psycopg", True)]


async def add(connection: Any, letter: str) -> None:
    await say(connection, f"UPDATE doc SET text = text || '{letter}' WHERE id = 1")


@pytest.fixture
async def locks(redis_url: str) -> AsyncIterator[LockManager]:
    async with LockManager(redis_url) as manager:
        yield manager


@pytest.mark.parametrize("over", WAYS)
async def test_a_holder_commits_and_a_late_one_does_not(locks: LockManager, dsn: str, over: Over) -> None:
    """Kept by `RAISE`."""
    async with over(dsn) as connection, over_asyncpg(dsn) as link, locks.lock("doc") as lease:
        async with fenced(lease, connection) as given:
            await add(given, "a")
        await link.execute("UPDATE aiolock_fences SET fence = fence + 1")
        with pytest.raises(LockLost, match="a later holder has begun"):
            async with fenced(lease, connection):
                await add(connection, "x")
        await link.execute("UPDATE aiolock_fences SET fence = fence - 1")
        async with fenced(lease, connection):
            await add(connection, "b")
    assert written() == "ab"


def test_a_thread(dsn: str, redis_url: str) -> None:
    with aiolock.sync.LockManager(redis_url) as locks, psycopg.connect(dsn) as connection, locks.lock("doc") as lease:
        with aiolock.sync.fenced(lease, connection):
            connection.execute("UPDATE doc SET text = 'a'")
        postgres.owner().execute("UPDATE aiolock_fences SET fence = fence + 1")
        with pytest.raises(LockLost, match="a later holder"), aiolock.sync.fenced(lease, connection):
            connection.execute("UPDATE doc SET text = 'x'")
    assert written() == "a"


class Paused:
    """A holder that is paused in its transaction until its lock has gone to another, and then goes on.

    Args:
        locks: the manager.
        dsn: the database.
        check: what it does against that.
        first: it writes before the pause, too.
    """

    def __init__(self, locks: LockManager, dsn: str, check: str, first: str = "") -> None:
        self._locks, self._dsn, self._check, self._first = locks, dsn, check, first
        self.pausing, self.go_on = asyncio.Event(), asyncio.Event()

    async def run(self) -> None:
        lease = await self._locks.lock("doc", ttl=TTL, renew=False, cancel_on_loss=False).acquire()
        try:
            async with over_asyncpg(self._dsn) as link:
                begun = fenced(lease, link) if self._check == "last" else link.transaction()
                async with begun:
                    if self._check == "first":
                        await self._raise(link, lease.fence)
                    if self._first:
                        await add(link, self._first)
                    self.pausing.set()
                    await self.go_on.wait()
                    if self._check != "first":  # it would wait for the next one's row, which waits for its
                        await add(link, "A")
        finally:
            lease.release()

    async def _raise(self, link: Any, fence: int) -> None:
        values = "(lock, fence) VALUES ('aiolock:lock:{doc}', $1)"
        await link.execute(f"INSERT INTO aiolock_fences {values} ON CONFLICT (lock) DO UPDATE SET fence = $1", fence)


async def next_holder(locks: LockManager, dsn: str) -> None:
    async with over_asyncpg(dsn) as link, locks.lock("doc") as lease, fenced(lease, link):
        await add(link, "B")


async def test_without_a_check_a_paused_holder_writes_over_the_next_one(locks: LockManager, dsn: str) -> None:
    """Why `fenced` is there."""
    paused = Paused(locks, dsn, "none")
    one = asyncio.create_task(paused.run())
    await paused.pausing.wait()
    async with asyncio.timeout(ENOUGH):
        await next_holder(locks, dsn)
        paused.go_on.set()
        await one
    assert written() == "BA"


async def test_a_check_that_comes_first_keeps_the_next_one_waiting(locks: LockManager, dsn: str) -> None:
    """It has the row of the fence until it goes on. Why the check is the last statement."""
    paused = Paused(locks, dsn, "first")
    one = asyncio.create_task(paused.run())
    await paused.pausing.wait()
    other = asyncio.create_task(next_holder(locks, dsn))
    async with over_asyncpg(dsn) as link, asyncio.timeout(ENOUGH):
        while not await link.fetchval("SELECT count(*) FROM pg_locks WHERE NOT granted"):  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        assert not other.done()
        paused.go_on.set()
        await one
        await other
    assert written() == "B"


async def test_a_paused_holder_is_refused(locks: LockManager, dsn: str) -> None:
    """And the next one did not wait for it."""
    paused = Paused(locks, dsn, "last")
    one = asyncio.create_task(paused.run())
    await paused.pausing.wait()
    async with asyncio.timeout(ENOUGH):
        await next_holder(locks, dsn)
        paused.go_on.set()
        with pytest.raises((LockLost, asyncpg.PostgresError, asyncpg.InterfaceError)):
            await one
    assert written() == "B"


async def test_a_paused_holder_that_has_written_does_not_keep_the_next_one_waiting(
    locks: LockManager, dsn: str
) -> None:
    """The database ends its session once its lease is over. Kept by `LIMIT`."""
    paused = Paused(locks, dsn, "last", first="a")
    one = asyncio.create_task(paused.run())
    await paused.pausing.wait()
    async with asyncio.timeout(ENOUGH):
        await next_holder(locks, dsn)
    assert written() == "B"
    paused.go_on.set()
    with pytest.raises(LockLost, match="was lost") as lost:
        await one
    assert "the connection was lost, and its transaction with it" in lost.value.__notes__[0]


async def test_a_loss_is_told_although_the_session_is_gone(locks: LockManager, dsn: str) -> None:
    """Kept by telling()."""
    lease = await locks.lock("doc", ttl=TTL, renew=False, cancel_on_loss=False).acquire()
    async with over_asyncpg(dsn) as link, over_asyncpg(dsn) as other:

        async def outlast() -> None:
            await add(link, "a")
            async with asyncio.timeout(ENOUGH):
                await lease.wait_lost()
                of_link = "SELECT count(*) FROM pg_stat_activity WHERE pid = $1", link.get_server_pid()
                while await other.fetchval(*of_link):  # noqa: ASYNC110
                    await asyncio.sleep(0.01)

        with pytest.raises(LockLost) as lost:
            async with fenced(lease, link):
                await outlast()
        assert "the connection was lost, and its transaction with it" in lost.value.__notes__[0]
    lease.release()
    assert written() == ""


class HeldUp(FencedTransaction):
    """Stands still before or after its last statement, where no code of a user is: a delayed packet does that."""

    before, after = asyncio.Event(), asyncio.Event()  # each is set to go on
    stands: asyncio.Event

    async def _end(self) -> None:
        self.stands.set()
        await self.before.wait()
        await super()._end()
        self.stands.set()
        await self.after.wait()


@pytest.mark.parametrize("where", ["before", "after"])
async def test_no_update_is_lost(locks: LockManager, dsn: str, where: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A stale holder is held up around its last statement: it is refused, or the next one waits for its commit before
    it reads. Kept by the fence that is raised on entry.
    """
    HeldUp.before, HeldUp.after, HeldUp.stands = asyncio.Event(), asyncio.Event(), asyncio.Event()
    (HeldUp.after if where == "before" else HeldUp.before).set()
    going_on = HeldUp.before if where == "before" else HeldUp.after

    async def increment(lease: Any, link: Any, has_read: Callable[[], None] = lambda: None) -> None:
        async with fenced(lease, link):
            text = await link.fetchval("SELECT text FROM doc")
            has_read()
            await link.execute("UPDATE doc SET text = $1", text + "+")

    async with (
        stale_one(locks) as stale,
        over_asyncpg(dsn) as slow,
        over_asyncpg(dsn) as link,
        over_asyncpg(dsn) as other,
        asyncio.timeout(ENOUGH),
    ):
        with monkeypatch.context() as patched:
            patched.setattr(sys.modules["aiolock.recipes.fenced"], "FencedTransaction", HeldUp)
            late = asyncio.create_task(increment(stale, slow))
            await HeldUp.stands.wait()
            HeldUp.stands.clear()
            if where == "after":
                await HeldUp.stands.wait()
        await locks.lock("doc").force_release()
        await stale.wait_lost()
        stale._hold.reason = None  # it has not noticed
        async with locks.lock("doc") as lease:
            if where == "before":
                await increment(lease, link, going_on.set)
                with pytest.raises(LockLost, match="a later holder has begun, so this transaction is rolled back"):
                    await late
                assert written() == "+"
            else:
                await link.execute("SET default_transaction_isolation = 'serializable'")  # waiting is no conflict
                following = asyncio.create_task(increment(lease, link))
                while not await other.fetchval("SELECT count(*) FROM pg_locks WHERE NOT granted"):  # noqa: ASYNC110
                    await asyncio.sleep(0.01)
                going_on.set()
                await late
                await following
                assert written() == "++"


@asynccontextmanager
async def stale_one(locks: LockManager) -> AsyncIterator[Any]:
    """A lease of another task."""
    lease = await asyncio.create_task(locks.lock("doc").acquire())
    yield lease
    lease._hold.lose(LossReason.REVOKED)
    with pytest.raises(LockLost):
        await lease.release()


async def test_another_schema_at_the_end(locks: LockManager, dsn: str) -> None:
    """The end looks at the table of the beginning, though the other has the same row. Kept by `_where`."""
    other = FENCES_TABLE.replace("aiolock_fences", "tenant.aiolock_fences")
    for statement in ("DROP SCHEMA IF EXISTS tenant CASCADE", "CREATE SCHEMA tenant", other):
        postgres.owner().execute(statement)
    async with over_asyncpg(dsn) as connection, locks.lock("doc") as lease:
        with pytest.raises(TransactionError, match="search_path, USE"):  # noqa: PT012
            async with fenced(lease, connection):
                await add(connection, "x")
                await connection.execute("INSERT INTO tenant.aiolock_fences SELECT * FROM aiolock_fences")
                await connection.execute("SET LOCAL search_path TO tenant, public")
        async with fenced(lease, connection):
            await connection.execute("SET LOCAL search_path TO pg_catalog, public")  # where none is
            await add(connection, "a")
    assert written() == "a"
    postgres.owner().execute("DROP SCHEMA tenant CASCADE")


async def test_a_lease_of_thirty_days(locks: LockManager, dsn: str) -> None:
    """PostgreSQL takes no time of more than 24.8. Kept by LONGEST_MS."""
    async with (
        over_asyncpg(dsn) as connection,
        locks.lock("doc", ttl=30 * 86400) as lease,
        fenced(lease, connection),
    ):
        await add(connection, "a")
    assert written() == "a"


@pytest.mark.parametrize("isolation", ["REPEATABLE READ", "SERIALIZABLE"])
def test_a_listener_that_reads_when_it_begins(redis_url: str, dsn: str, isolation: str) -> None:
    """As one that says which tenant it is. Others may write between that and the fence. Kept by `_repeated`."""
    engine = sqlalchemy.create_engine(dsn.replace("postgresql:", "postgresql+psycopg:"), isolation_level=isolation)
    began: list[int] = []

    @sqlalchemy.event.listens_for(engine, "begin")
    def begun(link: sqlalchemy.Connection) -> None:
        link.exec_driver_sql("SELECT set_config('app.tenant', '7', true)")
        if not began:  # another commits now
            postgres.owner().execute("UPDATE aiolock_fences SET fence = 1")
        began.append(1)

    postgres.owner().execute("INSERT INTO aiolock_fences VALUES ('aiolock:lock:{doc}', 0)")
    with (
        aiolock.sync.LockManager(redis_url) as locks,
        locks.lock("doc") as lease,
        Session(engine) as session,
        aiolock.sync.fenced(lease, session),
    ):
        session.execute(sqlalchemy.text("UPDATE doc SET text = 'a'"))
    engine.dispose()
    assert len(began) == 3
    assert written() == "a"
