"""Transactions of a user's own connection, whatever library made it. No such library is imported for that."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, AbstractContextManager, asynccontextmanager, contextmanager
from typing import Any, Protocol

from ..errors import ConfigurationError

Value = str | int
Connection = Any
"""A user's: see `fenced()` for the types."""


class AsyncTransactions(Protocol):
    """What a connection of an asyncio library can do.

    Attributes:
        dialect: the database's, such as "postgresql" or "sqlite".
        busy: a transaction is open.
    """

    dialect: str

    @property
    def busy(self) -> bool: ...

    def begin(self) -> AbstractAsyncContextManager[object]:
        """A transaction: committed at the end of the block, or rolled back if that raises."""

    async def flush(self) -> None:
        """Write what the library has kept back."""

    async def execute(self, sql: str, *values: Value) -> int:
        """Execute a statement with `{}` for each value; return how many rows it changed."""


class Transactions(Protocol):
    """The same of a connection that is used without `await`."""

    dialect: str

    @property
    def busy(self) -> bool: ...

    def begin(self) -> AbstractContextManager[object]: ...

    def flush(self) -> None: ...

    def execute(self, sql: str, *values: Value) -> int: ...


class Asyncpg:
    """A connection of asyncpg, or of its pool."""

    dialect = "postgresql"

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    @property
    def busy(self) -> bool:
        return bool(self._connection.is_in_transaction())

    def begin(self) -> AbstractAsyncContextManager[object]:
        found: AbstractAsyncContextManager[object] = self._connection.transaction()
        return found

    async def flush(self) -> None:
        pass

    async def execute(self, sql: str, *values: Value) -> int:
        status = await self._connection.execute(sql.format(*(f"${at}" for at in range(1, len(values) + 1))), *values)
        return int(status.rpartition(" ")[2]) if status.startswith("INSERT") else 0


class AsyncPsycopg:
    """A connection of psycopg."""

    dialect = "postgresql"

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    @property
    def busy(self) -> bool:
        return bool(self._connection.info.transaction_status)  # 0 is idle

    def begin(self) -> AbstractAsyncContextManager[object]:
        found: AbstractAsyncContextManager[object] = self._connection.transaction()
        return found

    async def flush(self) -> None:
        pass

    async def execute(self, sql: str, *values: Value) -> int:
        cursor = await self._connection.execute(sql.format(*("%s" for _ in values)), values)
        return int(cursor.rowcount)


class Psycopg:
    """The same without `await`."""

    dialect = "postgresql"

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    @property
    def busy(self) -> bool:
        return bool(self._connection.info.transaction_status)

    def begin(self) -> AbstractContextManager[object]:
        found: AbstractContextManager[object] = self._connection.transaction()
        return found

    def flush(self) -> None:
        pass

    def execute(self, sql: str, *values: Value) -> int:
        return int(self._connection.execute(sql.format(*("%s" for _ in values)), values).rowcount)


class AsyncAlchemy:
    """A session or a connection of SQLAlchemy's asyncio extension."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self.dialect: str = _dialect(connection)

    @property
    def busy(self) -> bool:
        return bool(self._connection.in_transaction())

    def begin(self) -> AbstractAsyncContextManager[object]:
        found: AbstractAsyncContextManager[object] = self._connection.begin()
        return found

    async def flush(self) -> None:
        if hasattr(self._connection, "flush"):
            await self._connection.flush()

    async def execute(self, sql: str, *values: Value) -> int:
        done = await self._connection.execute(*_bound(sql, values))
        return int(done.rowcount)


class Alchemy:
    """A session or a connection of SQLAlchemy."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self.dialect: str = _dialect(connection)

    @property
    def busy(self) -> bool:
        return bool(self._connection.in_transaction())

    def begin(self) -> AbstractContextManager[object]:
        found: AbstractContextManager[object] = self._connection.begin()
        return found

    def flush(self) -> None:
        if hasattr(self._connection, "flush"):
            self._connection.flush()

    def execute(self, sql: str, *values: Value) -> int:
        return int(self._connection.execute(*_bound(sql, values)).rowcount)


class Django:
    """`django.db.connection`, or one of `django.db.connections`."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self.dialect: str = connection.vendor

    @property
    def busy(self) -> bool:
        return bool(self._connection.in_atomic_block)

    def begin(self) -> AbstractContextManager[object]:
        from django.db import transaction

        found: AbstractContextManager[object] = transaction.atomic(using=self._connection.alias, durable=True)
        return found

    def flush(self) -> None:
        pass

    def execute(self, sql: str, *values: Value) -> int:
        with self._connection.cursor() as cursor:
            cursor.execute(sql.format(*("%s" for _ in values)), values)
            return int(cursor.rowcount)


class SQLite:
    """A connection of sqlite3."""

    dialect = "sqlite"

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    @property
    def busy(self) -> bool:
        return bool(self._connection.in_transaction)

    @contextmanager
    def begin(self) -> Iterator[None]:
        self._connection.execute("BEGIN IMMEDIATE")
        try:
            yield
            self._connection.execute("COMMIT")
        finally:
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")

    def flush(self) -> None:
        pass

    def execute(self, sql: str, *values: Value) -> int:
        return int(self._connection.execute(sql.format(*("?" for _ in values)), values).rowcount)


class Aiosqlite:
    """A connection of aiosqlite."""

    dialect = "sqlite"

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    @property
    def busy(self) -> bool:
        return bool(self._connection.in_transaction)

    @asynccontextmanager
    async def begin(self) -> AsyncIterator[None]:
        await self._connection.execute("BEGIN IMMEDIATE")
        try:
            yield
            await self._connection.execute("COMMIT")
        finally:
            if self._connection.in_transaction:
                await self._connection.execute("ROLLBACK")

    async def flush(self) -> None:
        pass

    async def execute(self, sql: str, *values: Value) -> int:
        cursor = await self._connection.execute(sql.format(*("?" for _ in values)), values)
        return int(cursor.rowcount)


_ASYNC: dict[tuple[str, str], Callable[[Connection], AsyncTransactions]] = {
    ("asyncpg", "is_in_transaction"): Asyncpg,
    ("psycopg", "transaction"): AsyncPsycopg,
    ("sqlalchemy", "in_transaction"): AsyncAlchemy,
    ("aiosqlite", "in_transaction"): Aiosqlite,
}
_SYNC: dict[tuple[str, str], Callable[[Connection], Transactions]] = {
    ("psycopg", "transaction"): Psycopg,
    ("sqlalchemy", "in_transaction"): Alchemy,
    ("django", "in_atomic_block"): Django,
    ("sqlite3", "in_transaction"): SQLite,
}
"""By the library, and by what its connections have, but not its pools and engines."""


def async_transactions(name: str, connection: Connection) -> AsyncTransactions:
    """What a connection can do.

    Args:
        name: the lock's, for errors.
        connection: the user's.

    Raises:
        ConfigurationError: no connection of a known library.
    """
    if _awaits(connection):
        for (library, attribute), known in _ASYNC.items():
            if library in _libraries(connection) and _has(connection, attribute):
                return known(connection)
    other = _SYNC if not _awaits(connection) else {}
    raise _unknown(name, connection, _ASYNC, "aiolock.sync.fenced" if _found(connection, other) else "")


def transactions(name: str, connection: Connection) -> Transactions:
    """The same without `await`."""
    if not _awaits(connection):
        for (library, attribute), known in _SYNC.items():
            if library in _libraries(connection) and _has(connection, attribute):
                return known(connection)
    other = _ASYNC if _awaits(connection) else {}
    raise _unknown(name, connection, _SYNC, "aiolock.fenced" if _found(connection, other) else "")


def _found(connection: Connection, known: dict[tuple[str, str], Any]) -> bool:
    return any(library in _libraries(connection) and _has(connection, attribute) for library, attribute in known)


def _has(connection: Connection, attribute: str) -> bool:
    try:
        return hasattr(connection, attribute)
    except Exception:  # it has, but is not connected
        return True


def _unknown(name: str, connection: Connection, known: dict[tuple[str, str], Any], other: str) -> ConfigurationError:
    libraries = ", ".join(sorted({library for library, _ in known}))
    remedy = f"use {other}()" if other else f"give one connection or session of {libraries}"
    kind = f"{type(connection).__module__}.{type(connection).__qualname__}"
    return ConfigurationError(name, f"fenced() of lock {name!r} cannot use a {kind}: {remedy}")


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
    bind = connection.get_bind() if hasattr(connection, "get_bind") else connection
    return str(bind.dialect.name)


def _bound(sql: str, values: tuple[Value, ...]) -> tuple[Any, dict[str, Value]]:
    from sqlalchemy import text

    names = [f"v{at}" for at in range(len(values))]
    return text(sql.format(*(f":{name}" for name in names))), dict(zip(names, values, strict=True))
