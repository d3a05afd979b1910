"""Transactions that only the holder of a lock can commit, for threads."""

from __future__ import annotations

from contextlib import AbstractContextManager
from types import TracebackType
from typing import Any, Generic, TypeVar

from ..errors import ConfigurationError
from ..recipes.fenced import transaction_of
from ..recipes.transactions import finished, transactions
from .lease import Lease

C = TypeVar("C")


class FencedBlock(AbstractContextManager[C], Generic[C]):
    """What `fenced()` returns: you enter it once. Nothing in it ever waits on a loop, so it needs none."""

    def __init__(self, lease: Lease, connection: C) -> None:
        self._lease = lease
        self._connection = connection
        self._transaction = transaction_of(lease._core, connection, awaited=False)
        self._block = self._transaction.run()

    def __enter__(self) -> C:
        finished(self._block.__aenter__())
        return self._connection

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        return finished(self._block.__aexit__(kind, error, trace))

    def committed(self, connection: Any) -> bool | None:
        """Find out whether the block was committed, as the same method of `aiolock.FencedBlock` does.

        Args:
            connection: another one to the same database, without an open transaction.

        Returns:
            True or False if that is certain; None if it cannot be told.

        Raises:
            ConfigurationError: such a connection as `fenced()` cannot use either.
            CommitUnknown: this connection was lost, too.

            Whatever else your library raises goes on.

        Cost: a transaction of one statement for each name; none if COMMIT was answered, or was never written.
        """
        other = transactions(self._lease.name, connection, awaited=False, use="committed()")
        return finished(self._transaction.committed(other))


def fenced(lease: Lease, connection: C) -> FencedBlock[C]:
    """Return a transaction on your own connection that is committed only while no later holder has begun one.

    As `aiolock.fenced`, which says all of it.

    Args:
        lease: of a `lock()`, `fair_lock()` or `multi_lock()`, or of the `write` side of an `rw_lock()`.
        connection: without an open transaction: a psycopg `Connection`, a `Session` or `Connection` of SQLAlchemy,
            `django.db.connection`, or a sqlite3 connection; the database is PostgreSQL, SQLite or, with
            SQLAlchemy and Django, MariaDB or MySQL.

    Returns:
        A context manager that you enter once; it gives `connection`. Afterwards its `committed()` tells whether the
        block was committed.

    Raises:
        LockLost: on entering or leaving: the lease is lost, or a later holder has begun. Nothing of the block stays.
        NotOwned: the lease was released.
        ConfigurationError: a lease that has nothing to itself, or a connection that cannot have a transaction of its
            own: another library or database, an open transaction, AUTOCOMMIT, a pipeline of psycopg, a session that
            uses two databases.
        TransactionError: the database was locked, or the connection was lost before COMMIT; or your block has
            committed or rolled back itself.
        CommitUnknown: COMMIT got no answer, so it may have happened: ask `committed()`.

    Cost: as `aiolock.fenced`; seven round trips more in PostgreSQL, none on the server of the lock.

    Example:
        ```python
        with locks.lock("order:42") as lease:
            with aiolock.sync.fenced(lease, connection):
                connection.execute("UPDATE orders SET paid = true WHERE id = 42")
        ```
    """
    if not isinstance(lease, Lease):
        raise ConfigurationError("", f"fenced() needs the lease that `with lock as lease:` gives, not {lease!r}")
    return FencedBlock(lease, connection)
