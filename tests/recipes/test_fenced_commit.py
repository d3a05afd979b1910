"""`fenced()` whose COMMIT gets no answer: the error says so, and `committed()` finds out."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import asyncpg
import pytest
import sqlalchemy
from sqlalchemy.orm import Session

import aiolock.sync
from aiolock import CommitUnknown, ConfigurationError, LockLost, LockManager, TransactionError, fenced
from aiolock.recipes.fences_table import FENCES_TABLE, FENCES_TABLE_OF_MYSQL
from aiolock.testing import MemoryBackend
from tests.databases.database import Database
from tests.databases.mysql.database import MySQLDatabase
from tests.databases.postgres.database import PostgresDatabase
from tests.support.proxy import FaultProxy, Rule

from .connections import of_alchemy, over_aiosqlite, over_alchemy, over_asyncpg, over_psycopg, say

DOC = "CREATE TABLE doc (id int PRIMARY KEY)"
PG = [over_asyncpg, over_psycopg(), over_alchemy("postgresql+asyncpg", True), over_alchemy("postgresql+psycopg", False)]
MY = [over_alchemy("mysql+asyncmy", True), over_alchemy("mysql+asyncmy", False)]
NAMES = ["asyncpg", "psycopg", "session-asyncpg", "connection-psycopg", "session-asyncmy", "connection-asyncmy"]
Over = Callable[[str], AbstractAsyncContextManager[Any]]


class Place:
    """A database, and a way to it on which things get lost.

    Args:
        database: the database.
        over: connects to it.
        proxy: in front of it.
    """

    def __init__(self, database: Database, over: Over, proxy: FaultProxy) -> None:
        self.database, self._over, self.proxy = database, over, proxy

    def through(self) -> AbstractAsyncContextManager[Any]:
        address = self.database.behind(self.proxy.port)
        return self._over(address.replace("sslmode", "ssl") if self._over is PG[2] else address)

    def straight(self) -> AbstractAsyncContextManager[Any]:
        return self._over(self.database.url)

    def docs(self) -> list[int]:
        return [number for (number,) in self.database.run("SELECT id FROM doc ORDER BY id")]


def made(kind: type[Database], table: str) -> Database:
    database = kind.new()
    database.run(DOC)
    database.run(table)
    return database


@pytest.fixture(params=range(len(NAMES)), ids=NAMES)
async def place(request: pytest.FixtureRequest) -> AsyncIterator[Place]:
    of_mysql = request.param >= len(PG)
    kind, table = (MySQLDatabase, FENCES_TABLE_OF_MYSQL) if of_mysql else (PostgresDatabase, FENCES_TABLE)
    database = made(kind, table)
    async with FaultProxy(*database.where, framing=database.framing) as proxy:
        yield Place(database, (PG + MY)[request.param], proxy)
    database.drop()


@pytest.fixture
async def lease() -> AsyncIterator[Any]:
    async with LockManager(MemoryBackend()) as locks:  # whose time stands still
        lease = await locks.lock("doc").acquire()
        yield lease
        await lease.release()


@asynccontextmanager
async def lossy(place: Place, lease: Any, rule: Callable[[], Rule]) -> AsyncIterator[Any]:
    """A block whose COMMIT meets `rule`; gives its end, whose error says that it got no answer."""
    async with place.through() as connection:
        block = fenced(lease, connection)
        with pytest.raises(CommitUnknown, match=r"call committed\(\)") as error:  # noqa: PT012
            async with block:
                await say(connection, "INSERT INTO doc VALUES (1)")
                rule()
        assert error.value.name == "doc"
        assert error.value.__cause__ is not None
        yield block


def commit(frame: bytes) -> bool:
    return b"COMMIT" in frame.upper()


@pytest.mark.filterwarnings("ignore::ResourceWarning")  # drivers leave what the proxy has cut
async def test_done_and_the_answer_lost(place: Place, lease: Any) -> None:
    """Kept by `leaves_open`, and by what `leave` writes."""
    async with lossy(place, lease, lambda: place.proxy.cut(matching=commit)) as block, place.straight() as another:
        assert await block.committed(another) is True
        assert await block.committed(another) is True
    assert place.docs() == [1]


@pytest.mark.filterwarnings("ignore::ResourceWarning")
async def test_never_arrived(place: Place, lease: Any) -> None:
    """Kept by `_before`."""

    def lose() -> Rule:
        rule = place.proxy.hold("requests", matching=commit)
        task = asyncio.create_task(rule.hit())
        task.add_done_callback(lambda _: place.proxy.reset())
        return rule

    async with lossy(place, lease, lose) as block, place.straight() as another:
        assert await block.committed(another) is False
    assert place.docs() == []


@pytest.mark.filterwarnings("ignore::ResourceWarning")
async def test_still_on_its_way(place: Place, lease: Any) -> None:
    """`committed()` waits for the end of the transaction: it is not told that a row is not there which comes later.
    Kept by FOR UPDATE in `look`.
    """

    def delay() -> Rule:
        rule = place.proxy.hold("requests", matching=commit)
        task = asyncio.create_task(rule.hit())
        task.add_done_callback(lambda _: place.proxy.reset(upstream=False))
        return rule

    async with lossy(place, lease, delay) as block, place.straight() as another:
        asked = asyncio.create_task(block.committed(another))
        async with asyncio.timeout(30):
            while not await asyncio.to_thread(waiting, place.database):  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        assert not asked.done()
        place.proxy.heal()
        assert await asked is True
    assert place.docs() == [1]


def waiting(database: Database) -> bool:
    """Whether a transaction waits for another one."""
    of_postgres = "SELECT count(*) FROM pg_locks WHERE NOT granted"
    of_mysql = "SELECT count(*) FROM information_schema.processlist WHERE db = DATABASE() AND info LIKE '%FOR UPDATE'"
    return bool(database.run(of_mysql if database.scheme == "mysql" else of_postgres)[0][0])


@pytest.mark.filterwarnings("ignore::ResourceWarning")
async def test_others_were_here_since(place: Place, lease: Any) -> None:
    """A later block has written its own number: it cannot be told any more. One that has only begun has not."""
    async with lossy(place, lease, lambda: place.proxy.cut(matching=commit)) as block, place.straight() as another:
        with pytest.raises(ZeroDivisionError):
            async with fenced(lease, another):
                raise ZeroDivisionError
        async with place.straight() as third:
            assert await fenced_twin(block, third) is True
        async with fenced(lease, another):
            pass
        assert await block.committed(another) is None
        place.database.run("DELETE FROM aiolock_fences")
        assert await block.committed(another) is None


async def fenced_twin(block: Any, connection: Any) -> bool | None:
    """Ask once more."""
    found: bool | None = await block.committed(connection)
    return found


@pytest.mark.filterwarnings("ignore::ResourceWarning")
async def test_the_connection_is_lost_before(place: Place, lease: Any) -> None:
    """Then nothing stays, and it says so; nobody has to ask. Kept by `_told`."""
    async with place.through() as connection, place.straight() as another:
        block = fenced(lease, connection)
        with pytest.raises(TransactionError, match="lost before COMMIT, so nothing of the block stays"):  # noqa: PT012
            async with block:
                await say(connection, "INSERT INTO doc VALUES (1)")
                place.proxy.cut(matching=b"aiolock_fences")
        assert await block.committed(another) is False
        assert place.docs() == []


async def test_known_ends_need_no_look(place: Place, lease: Any) -> None:
    async with place.straight() as connection:
        good, bad = fenced(lease, connection), fenced(lease, connection)
        async with good:
            with pytest.raises(ConfigurationError, match="in a transaction already"):
                await lost(good).committed(connection)
        with pytest.raises(ZeroDivisionError):
            async with bad:
                raise ZeroDivisionError
        place.database.run("DROP TABLE aiolock_fences")
        assert (await good.committed(connection), await bad.committed(connection)) == (True, False)


def lost(block: Any) -> Any:
    """As if its COMMIT had got no answer."""
    block._transaction._committing = True
    return block


async def test_a_refusal_of_the_database_at_commit(lease: Any) -> None:
    """Nothing is unknown then: its own error goes on. Kept by `leaves_open`."""
    database = made(PostgresDatabase, FENCES_TABLE)
    database.run("ALTER TABLE doc ADD again int UNIQUE DEFERRABLE INITIALLY DEFERRED")
    for over in PG:
        async with over(database.url) as connection:
            with pytest.raises(Exception, match="duplicate key"):
                async with fenced(lease, connection):
                    await say(connection, "INSERT INTO doc VALUES (1, 1), (2, 1)")
    assert database.run("SELECT * FROM doc") == []
    database.drop()


@pytest.mark.filterwarnings("ignore:memory", "ignore::ResourceWarning")
async def test_threads() -> None:
    database = made(PostgresDatabase, FENCES_TABLE)

    async def cut(proxy: FaultProxy) -> None:
        proxy.cut(matching=commit)

    loop = asyncio.get_running_loop()

    def work(proxy: FaultProxy) -> bool | None:
        engine = sqlalchemy.create_engine(of_alchemy(database.behind(proxy.port), "postgresql+psycopg"))
        with aiolock.sync.LockManager("memory://") as locks, locks.lock("doc") as lease:
            with Session(engine) as session:
                block = aiolock.sync.fenced(lease, session)
                with pytest.raises(CommitUnknown), block:  # noqa: PT012
                    session.execute(sqlalchemy.text("INSERT INTO doc VALUES (1)"))
                    asyncio.run_coroutine_threadsafe(cut(proxy), loop).result()
            with Session(engine) as another:
                found = block.committed(another)
        engine.dispose()
        return found

    async with FaultProxy(*database.where, framing=database.framing) as proxy:
        assert await asyncio.to_thread(work, proxy) is True
    assert database.run("SELECT id FROM doc") == [(1,)]
    database.drop()


async def expire(rule: Rule, clock: Any) -> None:
    await rule.hit()
    await clock.advance(3.0)


async def test_a_commit_that_a_loss_cuts_off(lease: Any) -> None:
    """`LockLost` says that it is unknown, and `committed()` tells. Kept by FencedBlock, which outlives its error."""
    database = made(PostgresDatabase, FENCES_TABLE)
    async with (
        LockManager(MemoryBackend(), ttl=2.0) as locks,
        FaultProxy(*database.where, framing=database.framing) as proxy,
        over_asyncpg(database.url) as another,
    ):
        connection = await asyncpg.connect(database.behind(proxy.port))
        clock = locks._runtime.clock
        own = await locks.lock("doc", renew=False, cancel_on_loss=False).acquire()
        block = fenced(own, connection)
        with pytest.raises(LockLost, match="unknown"):  # noqa: PT012
            async with block:
                await say(connection, "INSERT INTO doc VALUES (1)")
                expiring = asyncio.create_task(expire(proxy.lose_reply(matching=commit), clock))
        await expiring
        assert await block.committed(another) is True
        connection.terminate()
        with pytest.raises(LockLost):
            await own.release()
    database.drop()


async def test_a_file(lease: Any, tmp_path: Path) -> None:
    async with over_aiosqlite()(str(tmp_path / "app.db")) as connection:
        await say(connection, FENCES_TABLE)
        block = fenced(lease, connection)
        async with block:
            pass
        assert await block.committed(connection) is True
        block._transaction._committed = None  # as if nobody had said
        assert await block.committed(connection) is True
        block._transaction._mark += 1
        assert await block.committed(connection) is None
