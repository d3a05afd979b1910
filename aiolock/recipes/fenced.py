"""Transactions that only the holder of a lock can commit."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from types import TracebackType
from typing import Any, Generic, TypeVar

from ..core.lease import Lease
from ..errors import ConfigurationError
from ..primitives.kinds import FULL
from .fenced_transaction import FencedTransaction
from .fences_table import FENCES_TABLE as FENCES_TABLE
from .transactions import transactions

C = TypeVar("C")


class FencedBlock(AbstractAsyncContextManager[C], Generic[C]):
    """What `fenced()` returns: you enter it once."""

    def __init__(self, lease: Lease, connection: C) -> None:
        self._name = lease.name
        self._transaction = transaction_of(lease, connection, awaited=True)
        self._block = lease.shielded(_giving(self._transaction, connection))

    async def __aenter__(self) -> C:
        return await self._block.__aenter__()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        return await self._block.__aexit__(kind, error, trace)

    async def committed(self, connection: Any) -> bool | None:
        """Find out whether the block was committed: after `CommitUnknown`, or whatever else has cut off its COMMIT.

        If its transaction still runs, this waits for its end. You need not hold the lock.

        Args:
            connection: another one to the same database, without an open transaction.

        Returns:
            True or False if that is certain; both stay so. None if it cannot be told: another block of the same lease,
            or of a later holder, was committed since; the row is gone; or the block committed or rolled back by itself.

        Raises:
            ConfigurationError: such a connection as `fenced()` cannot use either.
            CommitUnknown: this connection was lost, too.

            Whatever else your library raises goes on.

        Cancellation: nothing changes. Cost: a transaction of one statement for each name; none if COMMIT was answered,
        or was never written.
        """
        other = transactions(self._name, connection, awaited=True, use="committed()")
        return await self._transaction.committed(other)


def fenced(lease: Lease, connection: C) -> FencedBlock[C]:
    """Return a transaction on your own connection that is committed only while no later holder has begun one.

    It writes the lease's fence into the table `aiolock_fences`, and commits that. From then on, no earlier holder can
    commit, so what your block reads stays so. Then it begins a transaction, runs your block, looks for that very fence
    in its last statement, and commits. If a higher fence is there, a later holder has begun: nothing of the block
    stays. So a holder that was frozen, or lost its lock without noticing, cannot overwrite what a later one has written
    or rely on what a later one changes. The lock may be kept anywhere: on Redis, or in a file.

    Inside, the lock cannot be given up and taken again: `condition.wait()` and `lease.detach()` are refused.

    In PostgreSQL the transaction is also ended if it stays idle for longer than the lease lasted when it began: a
    frozen holder does not keep others waiting for its rows.

    The table is yours to create; docs/how-to/protect-data.md has the statement, and so has the error if it is missing.

    Args:
        lease: of a `lock()`, `fair_lock()` or `multi_lock()`, or of the `write` side of an `rw_lock()`.
        connection: without an open transaction: an asyncpg connection, a psycopg `AsyncConnection`, an `AsyncSession`
            or `AsyncConnection` of SQLAlchemy, or an aiosqlite connection; the database is PostgreSQL, SQLite or, with
            SQLAlchemy, MariaDB or MySQL. For others see `aiolock.sync.fenced`.

    Returns:
        A context manager that you enter once; it gives `connection`. Afterwards its `committed()` tells whether the
        block was committed.

    Raises:
        LockLost: on entering or leaving: the lease is lost, or a later holder has begun. Nothing of the block stays,
            unless the message says that its clean-up was cancelled: then ask `committed()`.
        NotOwned: the lease was released.
        ConfigurationError: a lease that has nothing to itself, or a connection that cannot have a transaction of its
            own: another library or database, an open transaction, AUTOCOMMIT, a pipeline of psycopg, a session that
            uses two databases.
        TransactionError: the database was locked, or the connection was lost before COMMIT; or your block has
            committed or rolled back itself. The message says which, and what stays.
        CommitUnknown: COMMIT got no answer, so it may have happened: ask `committed()`.

        Whatever else your library raises goes on.

    Cancellation: the transaction is rolled back, even after a loss: see `lease.shielded()`. In COMMIT it comes too late
    for that: ask `committed()`. Cost: a transaction of one statement before your block, and a savepoint and two
    statements in its transaction; seven round trips more in PostgreSQL, none on the server of the lock.

    Example:
        ```python
        async with locks.lock("order:42") as lease:
            async with aiolock.fenced(lease, connection):
                await connection.execute("UPDATE orders SET paid = true WHERE id = 42")
        ```

    Source: the fencing tokens of "How to do distributed locking" (Kleppmann, 2016), checked where SkyPilot and others
    check an epoch: in the writing transaction itself.
    """
    if not isinstance(lease, Lease):
        raise ConfigurationError("", f"fenced() needs the lease that `async with lock as lease:` gives, not {lease!r}")
    return FencedBlock(lease, connection)


def transaction_of(lease: Lease, connection: object, awaited: bool) -> FencedTransaction:
    """The transaction of one block.

    Raises:
        ConfigurationError: a lease that has nothing to itself, or what is no connection.
    """
    return FencedTransaction(lease, keys_of(lease), transactions(lease.name, connection, awaited))


@asynccontextmanager
async def _giving(own: FencedTransaction, connection: C) -> AsyncIterator[C]:
    async with own.run():
        yield connection


def keys_of(lease: Lease) -> list[str]:
    """What the table calls the names of a lease, in the order in which they are written.

    Raises:
        ConfigurationError: others may be inside, too.
    """
    calls, keys = lease._calls, lease._gate.runtime.keys
    if calls.kind in ("lock", "multi"):
        return sorted(keys.of("lock", name).lock for name in calls.names)
    if calls.kind == "rw" and calls.weight >= FULL:
        return [keys.of("rw", calls.name).lock]
    raise ConfigurationError(
        lease.name,
        f"this lease of {lease.name!r} shares the lock, so its fence does not say who is late: fenced() needs "
        "one of a lock, a multi lock, or the write side of a read-write lock",
    )
