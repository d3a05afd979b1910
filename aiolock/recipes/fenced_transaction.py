"""One transaction that is committed only if no later holder has begun one."""

from __future__ import annotations

import secrets
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from typing import Any, TypeVar

from ..clock import format_seconds
from ..core.lease import Lease
from ..errors import AiolockError, CommitUnknown, ConfigurationError, LockLost, LossReason, TransactionError, note
from .database_errors import CHANGED, CONFLICTS, IDLE_ENDED, NO_RIGHT, NO_TABLE, code_of, leaves_open, no_savepoint
from .fences_table import FENCES_TABLE, FENCES_TABLE_OF_MYSQL, IDLE, LONGEST_MS, STATEMENTS
from .transactions import Autocommitting, Transactions

T = TypeVar("T")
SAVEPOINT = "aiolock_fenced"
SAME = "SELECT set_config('" + IDLE + "', {}, true), txid_current_if_assigned() IS NOT DISTINCT FROM {}"
"""Limits how long this transaction may be idle, and tells whether it is still the one of that number."""


class FencedTransaction:
    """The two transactions of one block: the first raises the fence, the second is the block's.

    From the first one's commit on, no earlier holder commits: so what the block reads stays so. The second finds the
    fence unchanged by its last statement: so it commits only if no later holder has come that far. That statement also
    writes a number that no other block has, by which a lost answer to COMMIT is found out.

    Args:
        lease: the holder's. Its fence is the one that it has now: a later one would be another acquisition's.
        keys: what the table calls the lock's names, in the order in which they are written.
        own: what the user's connection can do.
    """

    def __init__(self, lease: Lease, keys: Sequence[str], own: Transactions) -> None:
        self._lease = lease
        self._fence = lease.fence
        self._keys = keys
        self._own = own
        self._of_postgres = own.dialect == "postgresql"
        self._of_mysql = own.dialect in ("mysql", "mariadb")
        self._mark = secrets.randbits(62)
        self._before: dict[str, object] = {}  # by key, what was written there when the block began
        self._where: dict[str, object] = {}  # and in which table
        self._entered_by = 0  # which transaction of PostgreSQL
        self._allowed_ms: int | None = None  # to be idle, by the user's own setting
        self._limit_ms = 0
        self._committed: bool | None = False  # None: nobody has said
        self._committing = False
        self._refusal: AiolockError | None = None
        self._body_error: BaseException | None = None

    @asynccontextmanager
    async def run(self) -> AsyncIterator[None]:
        """Begin; then commit, or roll back."""
        self._lease.ensure()
        self._check_fit(self._own)
        try:
            with self._telling(), self._lease._pinned():
                await self._repeated(self._own, self._enter)
                self._lease.ensure()
                async with self._own.begin():
                    await self._begin()
                    try:
                        yield
                    except BaseException as error:
                        self._body_error = error
                        raise
                    await self._end()
                    self._committing, self._committed = True, None
                self._committed = True
        finally:
            self._refusal = self._body_error = None  # errors refer to frames, and so to this

    async def committed(self, other: Transactions) -> bool | None:
        """Look whether the block was committed, if nobody has said.

        Args:
            other: what another connection of the user to the same database can do.
        """
        if not self._committing or self._committed:
            return self._committed
        with self._telling():
            self._check_fit(other)
            return await self._repeated(other, lambda: self._look(other))

    def _check_fit(self, own: Transactions) -> None:
        name = self._lease.name
        if own.dialect not in STATEMENTS:
            raise ConfigurationError(
                name,
                f"fenced() of lock {name!r} knows PostgreSQL, MySQL and SQLite, not {own.dialect}: check lease.fence "
                "in your own statements (docs/how-to/protect-data.md#fences)",
            )
        unfit = own.unfit()
        if unfit is None and own.busy:
            unfit = (
                "it is in a transaction already: commit that before, or give another connection; with "
                "sqlite3.connect(autocommit=False) it is in one at any time"
            )
        if unfit is not None:
            raise self._unusable(unfit)

    async def _repeated(self, own: Transactions, work: Callable[[], Awaitable[T]]) -> T:
        """Do it in a transaction, and again if another has committed meanwhile: that is no conflict here."""
        while True:
            try:
                async with own.begin():
                    return await work()
            except Exception as error:
                if code_of(error) not in CONFLICTS:
                    raise

    async def _enter(self) -> None:
        statements = STATEMENTS[self._own.dialect]
        for key in self._keys:
            values = (key, self._fence, secrets.randbits(62))
            row = await self._written(statements.enter, key, *values, *self._limit())
            if row is None:
                raise self._overtaken("a later holder has begun, so this block did not")
            self._before[key], self._where[key] = row[:2]
            if self._of_postgres:
                self._entered_by, self._allowed_ms = row[2:4]
        if not self._of_postgres:
            await self._own.execute(f"SAVEPOINT {SAVEPOINT}")

    async def _begin(self) -> None:
        """Make sure that the first transaction is over, and that this is one."""
        if self._of_postgres:
            self._limit_ms = min(*self._limit(), self._allowed_ms or sys.maxsize)
            row = await self._own.execute(SAME, str(self._limit_ms), self._entered_by)
            stays = row is None or row[1]
        else:
            stays = await self._stays()
        if stays:
            if not self._of_postgres:  # or nobody would end it
                with suppress(Exception):
                    await self._own.execute("ROLLBACK")
            raise self._unusable(
                "its COMMIT ends no transaction of the database: is it within another one, or is the driver set to "
                "autocommit? Give an idle connection in its usual mode"
            )
        try:
            await self._own.execute(f"SAVEPOINT {SAVEPOINT}")
        except Exception as error:
            if no_savepoint(error):
                raise Autocommitting from error
            raise
        if self._of_mysql and not await self._stays():  # without a transaction it is no error there, and gone at once
            raise Autocommitting

    async def _stays(self) -> bool:
        """Whether there is the savepoint: none outlives its transaction."""
        try:
            await self._own.execute(f"ROLLBACK TO SAVEPOINT {SAVEPOINT}")
        except Exception as error:
            if not no_savepoint(error):
                raise
            return False
        return True

    async def _end(self) -> None:
        await self._own.flush()
        await self._check_open()
        self._lease.ensure()
        for key in self._keys:
            row = await self._leave(key)
            if row is not None and row[:2] == (self._mark, self._where[key]):
                continue
            if await self._later(key):
                raise self._overtaken("a later holder has begun, so this transaction is rolled back")
            name = self._lease.name
            text = (
                f"fenced() of lock {name!r} does not find the row of aiolock_fences with which its block began, so the "
                "transaction is rolled back. Do not delete rows of current holders, and choose the schema or the "
                "database (search_path, USE) before the block"
            )
            raise self._refused(TransactionError(name, text))

    async def _leave(self, key: str) -> tuple[Any, ...] | None:
        leave = STATEMENTS[self._own.dialect].leave
        try:
            return await self._written(leave, key, self._mark, key, self._fence, *self._limit())
        except Exception as error:
            if code_of(error) != CHANGED:
                raise
            await self._own.execute("ROLLBACK")  # only another transaction sees what is there now
            if not await self._later(key):  # but another block of this lease
                raise
            return None

    async def _later(self, key: str) -> bool:
        """Whether a later holder has begun."""
        found = await self._own.execute(STATEMENTS[self._own.dialect].look, key)
        return found is not None and found[1] > self._fence

    async def _check_open(self) -> None:
        """Raise if it is not the transaction in which the block began: no savepoint outlives its transaction."""
        over = not (self._own.gone or self._own.busy)
        try:
            if not over:
                await self._own.execute(f"RELEASE SAVEPOINT {SAVEPOINT}")
        except Exception as error:
            over = no_savepoint(error)
            if not over:
                raise
        if over:
            self._committed = None
            raise self._refused(
                TransactionError(
                    self._lease.name,
                    f"the block of fenced() of lock {self._lease.name!r} has ended its transaction itself, by a commit "
                    "or a rollback: what it committed stays, and no fence was checked for that. Leave both to "
                    "fenced(); with sqlite3, `with connection:` and executescript() commit, too",
                )
            )

    async def _written(self, sql: str, key: str, *values: str | int) -> tuple[Any, ...] | None:
        """Write the row of one name; return it, or None if it has another fence."""
        found = STATEMENTS[self._own.dialect].found
        row = await self._own.execute(sql, *values)
        return await self._own.execute(found, key, self._fence) if found else row

    async def _look(self, other: Transactions) -> bool | None:
        answers = set()
        for key in self._keys:  # in one transaction: all or none
            row = await other.execute(STATEMENTS[other.dialect].look, key)
            written = None if row is None else row[0]
            answers.add(True if written == self._mark else False if row and written == self._before[key] else None)
        return True if True in answers else False if False in answers else None

    def _limit(self) -> tuple[int, ...]:
        """For how many milliseconds PostgreSQL may let it be idle: at least 1, as 0 would mean no limit."""
        return (min(max(1, int(self._lease.remaining() * 1000)), LONGEST_MS),) if self._of_postgres else ()

    # Errors.

    def _refused(self, error: AiolockError) -> AiolockError:
        self._refusal = error
        return error

    def _overtaken(self, so: str) -> AiolockError:
        text = f"lock {self._lease.name!r} (fence {self._fence}) was lost: {so}"
        return self._refused(LockLost(self._lease.name, text, LossReason.TAKEN_OVER))

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
                note(self._refusal, f"the connection was lost, and its transaction with it: {error!r}")
                raise self._refusal from None
            told = None if error is self._body_error or isinstance(error, AiolockError) else self._told(error)
            if told is not None:
                raise told from error
            self._advise(error)
            raise

    def _told(self, error: Exception) -> AiolockError | None:
        """The error to raise instead of the database's, if that says little. It says what is known: before COMMIT was
        written nothing stays; after it, it is unknown until asked.
        """
        name, code = self._lease.name, code_of(error)
        if self._committing and code != IDLE_ENDED:
            return self._unknown() if leaves_open(error) else None
        if code == IDLE_ENDED or self._own.gone or getattr(error, "connection_invalidated", False):  # by SQLAlchemy
            try:
                self._lease.ensure()
            except AiolockError as lost:
                note(lost, f"the connection was lost, and its transaction with it: {error!r}")
                return lost
            text = f"the connection of fenced() of lock {name!r} was lost before COMMIT, so nothing of the block stays"
            if self._limit_ms:
                text += (
                    f". In PostgreSQL it may be idle for {format_seconds(self._limit_ms / 1000)} s, as long as the "
                    "lease lasted when the block began, so that a frozen holder keeps nobody waiting: do what takes "
                    "long before the block, or raise the ttl"
                )
            return TransactionError(name, text)
        if code.startswith("SQLITE_BUSY") or str(error).endswith("database is locked"):
            return TransactionError(
                name,
                f"fenced() of lock {name!r} got no access to the database: another transaction has kept it locked for "
                "longer than this connection waits. If a process is paused in one, end that process",
            )
        return None

    def _unknown(self) -> CommitUnknown:
        name = self._lease.name
        return CommitUnknown(
            name,
            f"the COMMIT of fenced() of lock {name!r} got no answer, so its block may be committed, or not. Before you "
            "do it again, call committed() of what fenced() has returned, with another connection",
        )

    def _advise(self, error: Exception) -> None:
        code, text = code_of(error), str(error)
        if "aiolock_fences" not in text and "written" not in text:
            return
        if code in NO_TABLE or "no such table" in text or "no column named" in text:
            note(error, f"fenced() needs a table: {FENCES_TABLE_OF_MYSQL if self._of_mysql else FENCES_TABLE}")
        elif code in NO_RIGHT:
            note(error, "fenced() needs the rights to SELECT, INSERT and UPDATE in the table aiolock_fences")
