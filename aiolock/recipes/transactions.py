"""Transactions of a user's own connection, whatever library made it. No such library is imported for that.

What a connection of threads answers is a value; what one of asyncio answers is awaited. One class serves both: with the
first it never waits, so `finished` can run it without a loop.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager, suppress
from typing import Any, Protocol, TypeVar

from ..errors import ConfigurationError

T = TypeVar("T")
Value = str | int | None
Connection = Any
"""A user's: see `fenced()` for the types."""
WRITING = "DELETE FROM aiolock_fences WHERE 0"
"""Takes SQLite's write lock: a transaction that takes it after it has read fails if another has written meanwhile."""


class Transactions(Protocol):
    """What a connection can do.

    Attributes:
        dialect: the database's, such as "postgresql" or "sqlite".
        busy: a transaction is open.
        gone: the connection is closed.
    """

    dialect: str

    @property
    def busy(self) -> bool: ...

    @property
    def gone(self) -> bool: ...

    def unfit(self) -> str | None:
        """What keeps an idle connection from having a transaction of its own, and the remedy; None if nothing does."""

    def begin(self) -> AbstractAsyncContextManager[object]:
        """A transaction: committed at the end of the block, or rolled back if that raises."""

    async def flush(self) -> None:
        """Write what the library has kept back."""

    async def execute(self, sql: str, *values: Value) -> tuple[Any, ...] | None:
        """Execute a statement with `{}` for each value; return its first row, if it has values and a row."""


class Asyncpg:
    """A connection of asyncpg, or of its pool."""

    dialect = "postgresql"

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    @property
    def busy(self) -> bool:
        return bool(self._connection.is_in_transaction())

    @property
    def gone(self) -> bool:
        return bool(self._connection.is_closed())

    def unfit(self) -> str | None:
        return None

    def begin(self) -> AbstractAsyncContextManager[object]:
        found: AbstractAsyncContextManager[object] = self._connection.transaction()
        return found

    async def flush(self) -> None:
        pass

    async def execute(self, sql: str, *values: Value) -> tuple[Any, ...] | None:
        if not values:  # not prepared, so it takes no place in the cache of statements
            await self._connection.execute(sql)
            return None
        sql = sql.format(*(f"${at}" for at in range(1, len(values) + 1)))
        row = await self._connection.fetchrow(sql, *values)
        return None if row is None else tuple(row)


class Psycopg:
    """A connection of psycopg."""

    dialect = "postgresql"

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    @property
    def busy(self) -> bool:
        return bool(self._connection.info.transaction_status)  # 0 is idle

    @property
    def gone(self) -> bool:
        return bool(self._connection.closed)

    def unfit(self) -> str | None:
        if self._connection.info.pipeline_status:  # 0 is off
            return "it is in pipeline mode, where errors come late: leave `pipeline()` before"
        return None

    def begin(self) -> AbstractAsyncContextManager[object]:
        return _entered(self._connection.transaction())

    async def flush(self) -> None:
        pass

    async def execute(self, sql: str, *values: Value) -> tuple[Any, ...] | None:
        psycopg: Any = sys.modules["psycopg"]
        # Not by the connection: its cursors may want other placeholders, and give other rows.
        of_asyncio = isinstance(self._connection, psycopg.AsyncConnection)
        kind: Any = psycopg.AsyncCursor if of_asyncio else psycopg.Cursor
        cursor = kind(self._connection, row_factory=psycopg.rows.tuple_row)
        await _settled(cursor.execute(sql.format(*("%s" for _ in values)), values or None))
        return _row(await _settled(cursor.fetchone())) if cursor.description else None


class Alchemy:
    """A session or a connection of SQLAlchemy, or of its asyncio extension."""

    def __init__(self, connection: Connection) -> None:
        # Scoped sessions stand for the one of a task or thread.
        self._connection = connection.registry() if hasattr(connection, "registry") else connection
        self.dialect: str = _dialect(self._connection)

    @property
    def busy(self) -> bool:
        bind: Any = self._connection.get_bind() if hasattr(self._connection, "get_bind") else None
        joined = hasattr(bind, "in_transaction") and bind.in_transaction()  # of somebody who would commit it later
        return bool(joined or self._connection.in_transaction())

    @property
    def gone(self) -> bool:
        return bool(getattr(self._connection, "invalidated", False))

    def unfit(self) -> str | None:
        return None

    @asynccontextmanager
    async def begin(self) -> AsyncIterator[None]:
        with _one_connection(self._connection):
            async with _entered(self._connection.begin()):
                if self.dialect == "sqlite":
                    await self._really_begin()
                yield

    async def _really_begin(self) -> None:
        """SQLAlchemy leaves it to sqlite3 to begin, which does so before some statements, and never without commits."""
        if hasattr(self._connection, "run_sync"):
            driver = await self._connection.run_sync(_driver)
        else:
            driver = _driver(self._connection)
        if driver.in_transaction:  # by a listener of the user
            await self.execute(WRITING)
        elif driver.isolation_level is None:
            raise Autocommitting
        else:
            await self.execute("BEGIN IMMEDIATE")

    async def flush(self) -> None:
        if hasattr(self._connection, "flush"):
            await _settled(self._connection.flush())

    async def execute(self, sql: str, *values: Value) -> tuple[Any, ...] | None:
        from sqlalchemy import text

        names = [f"v{at}" for at in range(len(values))]
        bound = text(sql.format(*(f":{name}" for name in names)))
        done = await _settled(self._connection.execute(bound, dict(zip(names, values, strict=True))))
        return _row(done.fetchone()) if done.returns_rows else None


class Django:
    """`django.db.connection`, or one of `django.db.connections`."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self.dialect: str = connection.vendor

    @property
    def busy(self) -> bool:
        return bool(self._connection.in_atomic_block)

    @property
    def gone(self) -> bool:
        return bool(getattr(self._connection.connection, "closed", False))

    def unfit(self) -> str | None:
        if self._connection.in_atomic_block:
            return (
                "it is in an atomic block, which commits later: leave it before; with ATOMIC_REQUESTS, decorate the "
                "view with transaction.non_atomic_requests; in tests, use TransactionTestCase"
            )
        if not self._connection.get_autocommit():
            return "Django would not commit at the end: leave AUTOCOMMIT on for this database"
        return None

    @asynccontextmanager
    async def begin(self) -> AsyncIterator[None]:
        from django.db import transaction

        with transaction.atomic(using=self._connection.alias, durable=True):
            if self.dialect == "sqlite":
                await self.execute(WRITING)
            yield

    async def flush(self) -> None:
        pass

    async def execute(self, sql: str, *values: Value) -> tuple[Any, ...] | None:
        with self._connection.cursor() as cursor:
            cursor.execute(sql.format(*("%s" for _ in values)), values or None)
            return _row(cursor.fetchone()) if cursor.description else None


class SQLite:
    """A connection of sqlite3, or of aiosqlite."""

    dialect = "sqlite"
    gone = False

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    @property
    def busy(self) -> bool:
        return bool(self._connection.in_transaction)

    def unfit(self) -> str | None:
        return None

    @asynccontextmanager
    async def begin(self) -> AsyncIterator[None]:
        try:
            await _settled(self._connection.execute("BEGIN IMMEDIATE"))
            yield
            await _settled(self._connection.execute("COMMIT"))
        except BaseException:
            # A statement that nobody waits for any more may come after all: only what comes behind it can tell.
            with suppress(Exception):
                await _settled(self._connection.execute("ROLLBACK"))
            raise

    async def flush(self) -> None:
        pass

    async def execute(self, sql: str, *values: Value) -> tuple[Any, ...] | None:
        cursor = await _settled(self._connection.execute(sql.format(*("?" for _ in values)), values))
        cursor.row_factory = None  # a user's rows may be anything
        return _row(await _settled(cursor.fetchone()))


class Autocommitting(Exception):
    """The connection commits each statement by itself."""


_KNOWN: dict[tuple[str, str], Callable[[Connection], Transactions]] = {
    ("asyncpg", "is_in_transaction"): Asyncpg,
    ("psycopg", "transaction"): Psycopg,
    ("sqlalchemy", "in_transaction"): Alchemy,
    ("sqlalchemy", "registry"): Alchemy,
    ("django", "in_atomic_block"): Django,
    ("sqlite3", "in_transaction"): SQLite,
    ("aiosqlite", "in_transaction"): SQLite,
}
"""By the library, and by what its connections have, but not its pools and engines."""


def transactions(name: str, connection: Connection, awaited: bool, use: str = "fenced()") -> Transactions:
    """What a connection can do.

    Args:
        name: the lock's, for errors.
        connection: the user's.
        awaited: whether it must be one that is used with `await`, or must not.
        use: what it is for, for errors.

    Raises:
        ConfigurationError: no connection of a known library, or one of the other sort.
    """
    for (library, attribute), known in _KNOWN.items():
        if library in _libraries(connection) and _has(connection, attribute):
            if _awaits(connection) is awaited:
                return known(connection)
            raise _unknown(name, connection, use, f"use aiolock.sync.{use}" if awaited else f"use aiolock.{use}")
    which = "aiosqlite, asyncpg, psycopg, sqlalchemy" if awaited else "django, psycopg, sqlalchemy, sqlite3"
    raise _unknown(name, connection, use, f"give one connection or session of {which}")


def finished(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run what waits for nothing on a loop; return what it returns."""
    try:
        coroutine.send(None)
    except StopIteration as stop:
        found: T = stop.value
        return found
    raise RuntimeError("a connection without await has waited")


def _unknown(name: str, connection: Connection, use: str, remedy: str) -> ConfigurationError:
    kind = f"{type(connection).__module__}.{type(connection).__qualname__}"
    return ConfigurationError(name, f"{use} of lock {name!r} cannot use a {kind}: {remedy}")


def _has(connection: Connection, attribute: str) -> bool:
    try:
        return hasattr(connection, attribute)
    except Exception:  # it has, but is not connected
        return True


def _libraries(connection: Connection) -> set[str]:
    """Whose classes it is made of."""
    return {cls.__module__.partition(".")[0] for cls in type(connection).__mro__}


def _awaits(connection: Connection) -> bool:
    """Whether it is used with `await`."""
    if _libraries(connection) & {"asyncpg", "aiosqlite"}:
        return True
    classes = type(connection).__mro__
    return any(cls.__name__.startswith("Async") or ".asyncio" in cls.__module__ for cls in classes)


def _dialect(connection: Connection) -> str:
    if not hasattr(connection, "get_bind"):
        return str(connection.dialect.name)
    try:
        return str(connection.get_bind().dialect.name)
    except Exception as error:  # SQLAlchemy's, which need not be imported for that
        text = f"this needs a session of one database: give it an engine or a connection, not only binds= ({error})"
        raise ConfigurationError("", text) from error


def _driver(connection: Connection) -> Any:
    """The connection of sqlite3 or aiosqlite that a session or a connection of SQLAlchemy uses."""
    own = connection.connection() if callable(connection.connection) else connection
    return own.connection.driver_connection


@contextmanager
def _one_connection(connection: Connection) -> Iterator[None]:
    """Refuse what a session would do on a second connection: its rows would not be in the transaction of the fence."""
    session = getattr(connection, "sync_session", connection)
    if not hasattr(session, "get_bind"):
        yield
        return
    from sqlalchemy import event

    first: dict[object, object] = {}  # by transaction

    def begun(_: object, transaction: Any, link: object) -> None:
        while transaction.parent is not None:
            transaction = transaction.parent
        if first.setdefault(transaction, link) is not link:
            text = "this needs a session of one database: this one has begun a transaction in a second one, by binds="
            raise ConfigurationError("", text)

    event.listen(session, "after_begin", begun)
    try:
        yield
    finally:
        event.remove(session, "after_begin", begun)


def _row(row: Any) -> tuple[Any, ...] | None:
    return None if row is None else tuple(row)


async def _settled(answer: Any) -> Any:
    return await answer if inspect.isawaitable(answer) else answer


@asynccontextmanager
async def _entered(block: Any) -> AsyncIterator[None]:
    """A context manager of either sort."""
    if hasattr(block, "__aenter__"):
        async with block:
            yield
    else:
        with block:
            yield
