"""`fenced()` on every kind of connection, whatever its block does, and whatever has become of its lease.

After `LockLost` nothing of the block is there. Without an error all of it is, and no later holder had begun before.
After any error but `TransactionError` nothing is there. And nothing stays locked.
"""

from __future__ import annotations

import asyncio
import gc
import types
from collections.abc import AsyncIterator, Callable, Coroutine, Generator, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

import aiolock.sync
from aiolock import AiolockError, ConfigurationError, LockLost, LockManager, TransactionError, fenced
from aiolock.recipes.fenced import FENCES_TABLE
from aiolock.recipes.transactions import _entered as entered
from aiolock.recipes.transactions import _settled as settled
from aiolock.recipes.transactions import finished
from aiolock.testing import MemoryBackend

from .connections import TABLES, WAYS, Database, Way, nested, say

KEY = "aiolock:lock:{doc}"
Body = Callable[[Any], Coroutine[Any, Any, None]]


class Mine(Exception):
    pass


async def plain(connection: Any) -> None:
    await say(connection, "INSERT INTO doc VALUES (1)")


async def savepoint(connection: Any) -> None:
    await say(connection, "SAVEPOINT mine")
    await say(connection, "INSERT INTO doc VALUES (1)")
    await say(connection, "RELEASE SAVEPOINT mine")


async def within(connection: Any) -> None:
    block = nested(connection)
    if block is None:
        await savepoint(connection)
        return
    async with entered(block):
        await say(connection, "INSERT INTO doc VALUES (1)")


async def ddl(connection: Any) -> None:
    await say(connection, "CREATE TABLE made (id int)")
    await say(connection, "INSERT INTO doc VALUES (1)")


async def raises(connection: Any) -> None:
    await say(connection, "INSERT INTO doc VALUES (1)")
    raise Mine


async def duplicates(connection: Any) -> None:
    await say(connection, "INSERT INTO doc VALUES (1)")
    await say(connection, "INSERT INTO doc VALUES (1)")


async def says_commit(connection: Any) -> None:
    await say(connection, "INSERT INTO doc VALUES (1)")
    await say(connection, "COMMIT")


async def commits_and_begins(connection: Any) -> None:
    await say(connection, "INSERT INTO doc VALUES (1)")
    await say(connection, "COMMIT")
    with suppress(Exception):  # a driver may have begun by itself
        await say(connection, "BEGIN")
    await say(connection, "INSERT INTO doc VALUES (2)")


async def commits(connection: Any) -> None:
    await say(connection, "INSERT INTO doc VALUES (1)")
    if hasattr(connection, "commit"):
        await settled(connection.commit())
    else:
        await say(connection, "COMMIT")


async def rolls_back(connection: Any) -> None:
    await say(connection, "INSERT INTO doc VALUES (1)")
    await say(connection, "ROLLBACK")


GOOD = [plain, savepoint, within, ddl]
BAD = [raises, duplicates]
MEDDLING = [says_commit, commits_and_begins, commits, rolls_back]


@pytest.fixture
def database(way: Way, tmp_path: Path) -> Database:
    return Database(way, tmp_path, FENCES_TABLE, *TABLES)


@pytest.fixture
async def locks() -> AsyncIterator[LockManager]:
    async with LockManager(MemoryBackend()) as manager:
        yield manager


@pytest.fixture
def threads() -> Iterator[aiolock.sync.LockManager]:
    with aiolock.sync.LockManager("memory://") as manager:
        yield manager


def later(database: Database, fence: int) -> None:
    """A later holder has begun."""
    database.look(f"DELETE FROM aiolock_fences WHERE lock = '{KEY}'")
    database.look(f"INSERT INTO aiolock_fences (lock, fence) VALUES ('{KEY}', {fence + 1})")


def overtaken(database: Database, fence: int, body: Body) -> Body:
    """The holder stands still at the end of its block, until a later one has begun."""

    async def stand_still(connection: Any) -> None:
        await body(connection)
        database.look(f"UPDATE aiolock_fences SET fence = {fence + 1}")

    return stand_still


class Run:
    """One block, and what came of it."""

    def __init__(self, database: Database, way: Way, held: Any) -> None:
        self.database, self.way, self._held = database, way, held
        self.error: Exception | None = None

    async def run(self, body: Body) -> None:
        if self.way.awaited:
            await self._run(body)
        else:  # where no loop runs, as Django demands
            await asyncio.to_thread(finished, self._run(body))

    async def _run(self, body: Body) -> None:
        async with self.way.connect(self.database.address) as connection:
            with suppress(Exception):  # a library may find its connection in an odd state
                try:
                    await self._block(connection, body)
                except Exception as error:
                    self.error = error
                    raise

    async def _block(self, connection: Any, body: Body) -> None:
        if self.way.awaited:
            async with fenced(self._held, connection):
                await body(connection)
        else:
            with aiolock.sync.fenced(self._held, connection):
                finished(body(connection))

    def written(self) -> bool:
        """Whether something of the block is there."""
        return bool(self.database.look("SELECT id FROM doc")) or "made" in self.database.tables()

    def check(self, body: Body, held: bool) -> None:
        said = f"{body.__name__}: {self.error!r}"
        if self.way.autocommits:
            assert isinstance(self.error, ConfigurationError if held else AiolockError), said
        elif held and body in GOOD:
            assert self.error is None, said
            assert self.written()
        elif body not in MEDDLING:
            assert self.error is not None, said
            assert held or body in BAD or isinstance(self.error, LockLost) or "serialize" in str(self.error), said
        else:
            assert self.error is not None, said
            assert not (self.written() and isinstance(self.error, LockLost)), said
            # Some libraries forbid it themselves, and then roll back.
            assert isinstance(self.error, TransactionError | LockLost) or not self.written(), said
            return
        assert (self.error is None) or not self.written(), said
        self.database.look("INSERT INTO doc VALUES (99)")  # nobody has it locked


@pytest.fixture
def held(way: Way, request: pytest.FixtureRequest) -> Iterator[Any]:
    """A lease of "doc": of asyncio, or of threads."""
    if way.awaited:
        yield request.getfixturevalue("lease")
    else:
        with request.getfixturevalue("threads").lock("doc") as lease:
            yield lease


@pytest.fixture
async def lease(locks: LockManager) -> AsyncIterator[Any]:
    lease = await locks.lock("doc").acquire()
    yield lease
    await lease.release()


@pytest.mark.parametrize(
    ("way", "body"),
    [
        pytest.param(way, body, id=f"{body.__name__}-{way.name}")
        for way in WAYS
        for body in ([plain] if way.autocommits else GOOD + BAD + MEDDLING)  # those never begin
    ],
)
@pytest.mark.filterwarnings("ignore:memory")
async def test_what_stays(way: Way, body: Body, database: Database, held: Any) -> None:
    """Of a holder; of one that comes late; and of one that is overtaken, which in SQLite nobody can do in the block."""
    holder = Run(database, way, held)
    await holder.run(body)
    holder.check(body, held=True)
    database.look("DELETE FROM doc")
    database.look("DROP TABLE IF EXISTS made")

    if way.database == "postgresql":
        frozen = Run(database, way, held)
        await frozen.run(overtaken(database, held.fence, body))
        frozen.check(body, held=False)
        database.look("DELETE FROM doc")
        database.look("DROP TABLE IF EXISTS made")

    later(database, held.fence)
    late = Run(database, way, held)
    await late.run(body)
    late.check(body, held=False)
    assert isinstance(late.error, LockLost | ConfigurationError)
    assert database.look("SELECT id FROM doc WHERE id <> 99") == []


class CancelledAt:
    """A coroutine that cancels its task at one of its suspensions."""

    def __init__(self, coroutine: Coroutine[Any, Any, None], at: int) -> None:
        self._coroutine, self._at = coroutine, at
        self.suspensions = 0

    @types.coroutine
    def run(self) -> Generator[Any, Any, None]:
        task = asyncio.current_task()
        assert task is not None
        thrown: BaseException | None = None
        while True:
            try:
                wanted = self._coroutine.send(None) if thrown is None else self._coroutine.throw(thrown)
            except StopIteration:
                return
            finally:
                thrown = None  # what it refers to, such as an open cursor, must end with it
            self.suspensions += 1
            if self.suspensions == self._at:
                task.cancel()
            try:
                yield wanted
            except BaseException as error:
                thrown = error


@pytest.mark.parametrize(
    "way",
    [
        pytest.param(way, id=way.name, marks=() if way.name in ("asyncpg", "aiosqlite") else pytest.mark.slow)
        for way in WAYS
        if way.awaited and not way.autocommits
    ],
)
async def test_cancelled_at_each_await(way: Way, database: Database, lease: Any) -> None:
    """All or nothing is there, nothing is locked, and it can be done again. Kept by `begin` and its rollback."""
    at = 0
    while True:
        at += 1
        async with way.connect(database.address) as connection:

            async def block(connection: Any = connection) -> None:
                async with fenced(lease, connection):
                    await say(connection, "INSERT INTO doc VALUES (1)")
                    await say(connection, "INSERT INTO doc VALUES (2)")

            plan = CancelledAt(block(), at)
            with suppress(asyncio.CancelledError):
                await asyncio.create_task(plan.run())  # type: ignore[arg-type]
            if not way.name.endswith("-aiosqlite"):  # there SQLAlchemy closes the connection, a little later
                check(database, at)
        gc.collect()  # or cursors of such a connection, in a circle of frames, keep its transaction
        check(database, at)
        if plan.suspensions < at:
            break
    assert at > 5


def check(database: Database, at: int) -> None:
    """Nothing is locked, and all or nothing is there."""
    assert database.look("SELECT count(*) FROM doc") in ([(0,)], [(2,)]), at
    database.look("DELETE FROM doc")
    database.look("UPDATE aiolock_fences SET fence = fence")
