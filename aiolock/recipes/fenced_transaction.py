"""One transaction that is committed only if no later holder has begun one."""

from __future__ import annotations

import sys
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager

from ..clock import format_seconds
from ..core.lease import Lease
from ..errors import AiolockError, ConfigurationError, LockLost, LossReason, TransactionError, note
from .transactions import Autocommitting, Transactions

FENCES_TABLE = "CREATE TABLE IF NOT EXISTS aiolock_fences (lock varchar(2000) PRIMARY KEY, fence bigint NOT NULL)"
"""SQL for the table that `fenced()` needs, in PostgreSQL and in SQLite: put it into your migrations."""

FENCES_TABLE_OF_MYSQL = FENCES_TABLE.replace("lock varchar", "`lock` varbinary") + " ENGINE = InnoDB"
"""The same for MariaDB and MySQL."""

RAISE = (
    "INSERT INTO aiolock_fences (lock, fence) VALUES ({}, {}) "
    "ON CONFLICT (lock) DO UPDATE SET fence = excluded.fence WHERE aiolock_fences.fence <= excluded.fence"
)
STORED = "SELECT 1 FROM aiolock_fences WHERE lock = {} AND fence = {}"
RAISE_IN_MYSQL = (
    "INSERT INTO aiolock_fences (`lock`, fence) VALUES ({}, {}) "
    "ON DUPLICATE KEY UPDATE fence = GREATEST(fence, VALUES(fence))"
)
STORED_IN_MYSQL = "SELECT 1 FROM aiolock_fences WHERE `lock` = {} AND fence = {} FOR UPDATE"
"""FOR UPDATE: what is there now, and not what was there when the transaction first read."""
IDLE = "idle_in_transaction_session_timeout"
IDLE_MS = f"nullif(CAST(extract(epoch FROM CAST(current_setting('{IDLE}') AS interval)) * 1000 AS bigint), 0)"
"""Milliseconds that this session may be idle in a transaction; NULL for any time."""
LIMITED = (
    f"RETURNING fence, {IDLE_MS}, set_config('{IDLE}', CAST(least(CAST({{}} AS bigint), {IDLE_MS}) AS text), true)"
)

SAVEPOINT = "aiolock_fenced"

NO_TRANSACTION = "25P01"
NO_SAVEPOINT = ("3B001", "1305")
NO_TABLE = ("42P01", "1146")
NO_RIGHT = ("42501", "1142")
IDLE_ENDED = "25P03"
CHANGED = "1020"
"""Of MariaDB, with innodb_snapshot_isolation: another has written what the transaction would write."""
OF_MYSQL = ("asyncmy", "aiomysql", "pymysql", "MySQLdb")
"""Whose errors begin with the server's number."""


class FencedTransaction:
    """The two transactions of one block: the first raises the fence, the second is the block's.

    From the first one's commit on, no earlier holder commits: so what the block reads stays so. The second raises the
    fence again as its last statement: so it commits only if no later holder has come that far.

    Args:
        lease: the holder's.
        keys: what the table calls the lock's names, in the order in which they are written.
        own: what the user's connection can do.
    """

    def __init__(self, lease: Lease, keys: Sequence[str], own: Transactions) -> None:
        self._lease = lease
        self._keys = keys
        self._own = own
        self._of_postgres = own.dialect == "postgresql"
        self._of_mysql = own.dialect in ("mysql", "mariadb")
        self._allowed_ms: int | None = None  # to be idle, by the user's own setting
        self._limit_ms = 0
        self._begun = time.monotonic()
        self._refusal: AiolockError | None = None
        self._body_error: BaseException | None = None

    @asynccontextmanager
    async def run(self) -> AsyncIterator[None]:
        """Begin; then commit, or roll back."""
        self._lease.ensure()
        self._check_fit()
        try:
            with self._telling():
                async with self._own.begin():
                    await self._enter()
                self._lease.ensure()
                async with self._own.begin():
                    await self._begin()
                    try:
                        yield
                    except BaseException as error:
                        self._body_error = error
                        raise
                    await self._end()
        finally:
            self._refusal = self._body_error = None  # errors refer to frames, and so to this

    def _check_fit(self) -> None:
        name, own = self._lease.name, self._own
        if own.dialect != "sqlite" and not self._of_postgres and not self._of_mysql:
            raise ConfigurationError(
                name,
                f"fenced() of lock {name!r} knows PostgreSQL, MySQL and SQLite, not {own.dialect}: check lease.fence "
                "in your own statements (docs/how-to/protect-data.md#fences)",
            )
        unfit = own.unfit()
        if unfit is None and own.busy:
            unfit = "it is in a transaction already: commit that before, or give another connection"
        if unfit is not None:
            raise self._unusable(unfit)

    async def _enter(self) -> None:
        if self._of_postgres:  # that another holder commits meanwhile is no conflict
            await self._own.execute("SET TRANSACTION ISOLATION LEVEL READ COMMITTED")
        await self._raise_fences("a later holder has begun, so this block did not")

    async def _begin(self) -> None:
        self._begun = time.monotonic()
        if self._of_postgres:
            self._limit_ms = min(self._remaining_ms(), self._allowed_ms or sys.maxsize)
            await self._own.execute(f"SET LOCAL {IDLE} = {self._limit_ms}")
        try:
            await self._own.execute(f"SAVEPOINT {SAVEPOINT}")
            if self._of_mysql:  # without a transaction there it is no error, and gone at once
                await self._own.execute(f"ROLLBACK TO SAVEPOINT {SAVEPOINT}")
        except Exception as error:
            if code_of(error) in (NO_TRANSACTION, *NO_SAVEPOINT):
                raise Autocommitting from error
            raise

    async def _end(self) -> None:
        await self._own.flush()
        await self._check_open()
        self._lease.ensure()
        await self._raise_fences("a later holder has begun, so this transaction is rolled back")

    async def _check_open(self) -> None:
        """Raise if it is not the transaction in which the block began: no savepoint outlives its transaction."""
        over = not (self._own.gone or self._own.busy)
        try:
            if not over:
                await self._own.execute(f"RELEASE SAVEPOINT {SAVEPOINT}")
        except Exception as error:
            over = code_of(error) in (NO_TRANSACTION, *NO_SAVEPOINT) or "no such savepoint" in str(error)
            if not over:
                raise
        if over:
            raise self._refused(
                TransactionError(
                    self._lease.name,
                    f"the block of fenced() of lock {self._lease.name!r} has ended its transaction itself, by a commit "
                    "or a rollback: what it committed stays, and no fence was checked for that. Leave both to "
                    "fenced(); with sqlite3, `with connection:` and executescript() commit, too",
                )
            )

    async def _raise_fences(self, so: str) -> None:
        for key in self._keys:
            if not await self._raised(key):
                text = f"lock {self._lease.name!r} (fence {self._lease.fence}) was lost: {so}"
                raise self._refused(LockLost(self._lease.name, text, LossReason.TAKEN_OVER))

    async def _raised(self, key: str) -> bool:
        """Write the fence of one name; return False if a higher one is there."""
        fence = self._lease.fence
        if self._of_mysql:
            try:
                await self._own.execute(RAISE_IN_MYSQL, key, fence)
            except Exception as error:
                if code_of(error) == CHANGED:
                    return False
                raise
            return await self._own.execute(STORED_IN_MYSQL, key, fence) is not None
        if not self._of_postgres:  # RETURNING is younger than many a SQLite
            await self._own.execute(RAISE, key, fence)
            return await self._own.execute(STORED, key, fence) is not None  # a user's rows may be anything
        row = await self._own.execute(f"{RAISE} {LIMITED}", key, fence, self._remaining_ms())
        if row is None or row[0] != fence:
            return False
        self._allowed_ms = row[1]
        return True

    def _remaining_ms(self) -> int:
        """At least 1, as 0 would mean no limit."""
        return max(1, int(self._lease.remaining() * 1000))

    # Errors.

    def _refused(self, error: AiolockError) -> AiolockError:
        self._refusal = error
        return error

    def _unusable(self, why: str) -> ConfigurationError:
        name = self._lease.name
        return ConfigurationError(name, f"fenced() of lock {name!r} needs a transaction of its own: {why}")

    @contextmanager
    def _telling(self) -> Iterator[None]:
        """Say what the errors of a database mean here. Those of the user's block stay what they are."""
        try:
            yield
        except Autocommitting as error:
            why = "the connection commits each statement by itself (AUTOCOMMIT): give one that does not"
            raise self._unusable(why) from error
        except Exception as error:
            if error is self._refusal:
                raise
            if self._refusal is not None:
                note(self._refusal, f"the database has ended the transaction itself: {error!r}")
                raise self._refusal from None
            told = None if error is self._body_error or isinstance(error, AiolockError) else self._told(error)
            if told is not None:
                raise told from error
            self._advise(error)
            raise

    def _told(self, error: Exception) -> AiolockError | None:
        """The error to raise instead of the database's, if that says little."""
        name, code = self._lease.name, code_of(error)
        if code == IDLE_ENDED or self._own.gone or getattr(error, "connection_invalidated", False):  # by SQLAlchemy
            try:
                self._lease.ensure()
            except AiolockError as lost:
                note(lost, f"the database has ended the transaction itself: {error!r}")
                return lost
            if code == IDLE_ENDED or time.monotonic() - self._begun >= self._limit_ms / 1000:
                return TransactionError(
                    name,
                    f"the database has ended the transaction of fenced() of lock {name!r}: it may be idle for "
                    f"{format_seconds(self._limit_ms / 1000)} s, as long as the lease lasted when it began, so that a "
                    "frozen holder keeps nobody waiting. It is rolled back. Do what takes long before the "
                    "block, or raise the ttl",
                )
        if code.startswith("SQLITE_BUSY") or str(error).endswith("database is locked"):
            return TransactionError(
                name,
                f"fenced() of lock {name!r} got no access to the database: another transaction has kept it locked for "
                "longer than this connection waits. If a process is paused in one, end that process",
            )
        return None

    def _advise(self, error: Exception) -> None:
        code, text = code_of(error), str(error)
        if "aiolock_fences" not in text:
            return
        if code in NO_TABLE or "no such table" in text:
            note(error, f"fenced() needs a table: {FENCES_TABLE_OF_MYSQL if self._of_mysql else FENCES_TABLE}")
        elif code in NO_RIGHT:
            note(error, "fenced() needs the rights to SELECT, INSERT and UPDATE in the table aiolock_fences")


def code_of(error: BaseException | None) -> str:
    """What the database calls an error: the SQLSTATE, MySQL's number, SQLite's name; "" if the driver says nothing."""
    while error is not None:
        number = error.args[0] if error.args else None
        if isinstance(number, int) and type(error).__module__.partition(".")[0] in OF_MYSQL:
            return str(number)
        for attribute in ("sqlstate", "pgcode", "sqlite_errorname"):
            found = getattr(error, attribute, None)
            if found:
                return str(found)
        error = error.__cause__
    return ""
