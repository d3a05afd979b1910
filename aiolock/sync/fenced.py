"""Transactions that only the holder of a lock can commit, for threads."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import TypeVar

from ..errors import ConfigurationError
from ..recipes.fenced import fenced_block
from .lease import Lease

C = TypeVar("C")


def fenced(lease: Lease, connection: C) -> AbstractContextManager[C]:
    """Return a transaction on your own connection that is committed only if no later holder has committed one.

    As `aiolock.fenced`, which says all of it.

    Args:
        lease: of a `lock()`, `fair_lock()` or `multi_lock()`, or of the `write` side of an `rw_lock()`.
        connection: without an open transaction: a psycopg `Connection`, a `Session` or `Connection` of SQLAlchemy,
            `django.db.connection`, or a sqlite3 connection; the database is PostgreSQL or SQLite.

    Returns:
        A context manager that you enter once; it gives `connection`.

    Raises:
        LockLost: on entering or leaving: the lease is lost, or a later holder has committed. It is rolled back.
        NotOwned: the lease was released.
        ConfigurationError: a lease that has nothing to itself, another kind of connection or database, or a transaction
            is open.

    Cost: one statement more, two in PostgreSQL; none on the server of the lock.

    Example:
        ```python
        with locks.lock("order:42") as lease:
            with aiolock.sync.fenced(lease, connection):
                connection.execute("UPDATE orders SET paid = true WHERE id = 42")
        ```
    """
    if not isinstance(lease, Lease):
        raise ConfigurationError("", f"fenced() needs the lease that `with lock as lease:` gives, not {lease!r}")
    return fenced_block(lease._core, connection)
