"""Transactions that only the holder of a lock can commit, for threads."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import TypeVar

from ..errors import ConfigurationError
from ..recipes.fenced import FencedBlock
from .lease import Lease

C = TypeVar("C")


def fenced(lease: Lease, connection: C) -> AbstractContextManager[C]:
    """Return a transaction on your own connection that is committed only while no later holder has begun one.

    As `aiolock.fenced`, which says all of it.

    Args:
        lease: of a `lock()`, `fair_lock()` or `multi_lock()`, or of the `write` side of an `rw_lock()`.
        connection: without an open transaction: a psycopg `Connection`, a `Session` or `Connection` of SQLAlchemy,
            `django.db.connection`, or a sqlite3 connection; the database is PostgreSQL, SQLite or, with
            SQLAlchemy and Django, MariaDB or MySQL.

    Returns:
        A context manager that you enter once; it gives `connection`.

    Raises:
        LockLost: on entering or leaving: the lease is lost, or a later holder has begun. Nothing of the block stays.
        NotOwned: the lease was released.
        ConfigurationError: a lease that has nothing to itself, or a connection that cannot have a transaction of its
            own: another library or database, an open transaction, AUTOCOMMIT, a pipeline of psycopg.
        TransactionError: the database was locked, or has ended the transaction; or your block has done so itself.

    Cost: as `aiolock.fenced`; eight round trips more in PostgreSQL, none on the server of the lock.

    Example:
        ```python
        with locks.lock("order:42") as lease:
            with aiolock.sync.fenced(lease, connection):
                connection.execute("UPDATE orders SET paid = true WHERE id = 42")
        ```
    """
    if not isinstance(lease, Lease):
        raise ConfigurationError("", f"fenced() needs the lease that `with lock as lease:` gives, not {lease!r}")
    return FencedBlock(lease._core, connection)
